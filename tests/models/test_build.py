import pytest
import torch

from gradicon.models import ModelConfig, build
from maps import blobs


def parameters(config: ModelConfig) -> int:
    return sum(parameter.numel() for parameter in build(config).parameters())


def test_the_papers_networks_have_the_papers_parameter_counts():
    assert parameters(ModelConfig(stage=1, dimension=3)) == 53_010_687
    assert parameters(ModelConfig(stage=2, dimension=3)) == 70_680_916
    assert parameters(ModelConfig(stage=1, resolutions=1)) == 17_670_229
    assert parameters(ModelConfig(composition="icon")) == 53_010_687
    assert parameters(ModelConfig(composition="icon", stage=1)) == 2 * 17_670_229
    assert parameters(ModelConfig(stage=1, resolutions=1, backbone="voxelmorph")) == 327_331


def test_a_model_of_a_few_megabytes():
    config = ModelConfig(
        stage=1, down_channels=(8, 16, 32, 32, 64), up_channels=(8, 16, 32, 32, 64)
    )
    assert parameters(config) * 4 < 12_000_000
    assert build(config)(blobs((33, 40, 35), 1), blobs((33, 40, 35), 2)).on_grid(
        (5, 5, 5)
    ).shape == (1, 3, 5, 5, 5)


def test_a_config_survives_the_trip_through_plain_values():
    config = ModelConfig(
        dimension=2,
        stage=1,
        resolutions=2,
        image_channels=3,
        down_channels=(4, 8),
        up_channels=(4, 8),
    )
    assert ModelConfig.from_dict(config.to_dict()) == config
    assert ModelConfig.from_dict({}) == ModelConfig()
    icon = ModelConfig(composition="icon", stage=1)
    assert ModelConfig.from_dict(icon.to_dict()) == icon != ModelConfig(stage=1)
    assert ModelConfig().to_dict()["down_channels"] == [16, 32, 64, 256, 512]


def test_a_config_of_before_there_was_icon_means_what_it_meant():
    before = {
        "dimension": 2,
        "stage": 1,
        "resolutions": 2,
        "image_channels": 1,
        "backbone": "unet",
        "down_channels": [4, 8],
        "up_channels": [4, 8],
    }
    names = set(build(ModelConfig.from_dict(before)).net.state_dict())
    assert {name.partition("dense.")[0] for name in names} == {"first.net.", "second."}


def test_networks_have_titles():
    titles = [
        ModelConfig(composition=composition, stage=stage).title
        for composition in ("gradicon", "icon")
        for stage in (1, 2)
    ]
    assert titles == ["Stage1", "Stage2", "ICON at half resolution", "ICON"]


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"stages": 1}, "unknown name 'stages' in a model configuration"),
        ({"backbone": "resnet"}, "unknown backbone 'resnet': expected one of unet, voxelmorph"),
        ({"composition": "ICON"}, "unknown composition 'ICON': expected one of gradicon, icon"),
        ({"composition": ["icon"]}, r"unknown composition \['icon'\]"),
        ({"composition": "icon", "resolutions": 2}, "leave out resolutions, got 2"),
        ({"dimension": 4}, "dimension must be a whole number from 2 to 3, got 4"),
        ({"stage": 3}, "stage must be a whole number from 1 to 2, got 3"),
        ({"stage": "2"}, "stage must be a whole number from 1 to 2, got '2'"),
        ({"repeats": 0}, "repeats must be a whole number from 1 to 16, got 0"),
        ({"resolutions": 0}, "resolutions must be a whole number from 1 to 8"),
        ({"image_channels": 1.5}, "image_channels must be a whole number"),
        ({"down_channels": [16, "x"], "up_channels": [16, 16]}, "positive whole numbers"),
        ({"down_channels": [16, 32]}, "2 down and 5 up"),
        ({"down_channels": 16}, "down_channels must be a list of whole numbers, got 16"),
    ],
)
def test_bad_config(values: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message) as error:
        build(ModelConfig.from_dict(values))
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("unhooked")
def test_images_that_the_model_was_not_built_for():
    model = build(ModelConfig(dimension=2, stage=1, down_channels=(4, 8), up_channels=(4, 8)))
    with pytest.raises(ValueError, match=r"images of 1 channel\(s\), got 3"):
        model(torch.zeros(1, 3, 20, 20), torch.zeros(1, 3, 20, 20))
    with pytest.raises(
        ValueError, match=r"this model is 2-D, got images of shape \(1, 1, 9, 9, 9\)"
    ):
        model(torch.zeros(1, 1, 9, 9, 9), torch.zeros(1, 1, 9, 9, 9))
