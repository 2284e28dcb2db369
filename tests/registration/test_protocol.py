"""The paper's own way: the network's map as it is, on the grid of its training, and what it says of
folds.
"""

from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from gradicon.core.jacobian import fold_percentage
from gradicon.errors import GradiconError
from gradicon.evaluation.evaluate import judge
from gradicon.models import ModelConfig, Preprocessing, build, load, save
from gradicon.physical.images import from_sitk
from gradicon.physical.preprocess import Scaling, Source, View, place_grid
from gradicon.registration.files import plan_files
from gradicon.registration.options import Options
from gradicon.registration.register import register
from gradicon.registration.result.measures import measure
from gradicon.registration.result.scores import Extras, read_extras, score
from registration.pairs import sample_image

SHAPE = (20, 24, 22)


@pytest.fixture(scope="module")
def folding(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose maps fold, trained on images out of place by what its file says."""
    torch.manual_seed(0)
    wild = build(ModelConfig(stage=1, resolutions=1, down_channels=(4, 8), up_channels=(4, 8)))
    for name, parameter in wild.named_parameters():
        if "last" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    path = tmp_path_factory.mktemp("model") / "wild.safetensors"
    save(wild, path, preprocessing=Preprocessing(shape=SHAPE, augmented=True))
    return path


def test_the_map_is_the_networks_on_the_grid_of_its_training_folds_and_all(folding: Path):
    fixed = sample_image("fixed")
    moving = sample_image("moving")
    options = Options(model=str(folding), protocol="paper", refine=0, device="cpu")
    found = register(fixed, moving, options)
    seen: list[torch.Tensor] = []
    for image in (moving, fixed):
        volume = from_sitk(image).canonical()
        header = Preprocessing(shape=SHAPE, augmented=True)
        grid = place_grid(header, volume.space)
        seen.append(Source(volume, None, Scaling.of("mr", header)).read(View(volume.space, grid)))
    with torch.no_grad():
        own = load(folding)(*seen).materialise(SHAPE)
    torch.testing.assert_close(found.phi.u, own.u)
    assert fold_percentage(own, SHAPE).item() > 0
    # the corner of one image lies on the corner of the other: nothing was moved beforehand
    corners = [
        image.TransformContinuousIndexToPhysicalPoint([0.0] * 3) for image in (fixed, moving)
    ]
    linear = found.pair.start.matrix
    np.testing.assert_allclose(linear[:3, :3] @ corners[0] + linear[:3, 3], corners[1], atol=0.6)


def test_folds_are_told_of_the_networks_map_and_of_what_is_written(folding: Path):
    fixed = sample_image("fixed")
    moving = sample_image("moving")
    carried = read_extras(Extras(), fixed, moving)
    for protocol in ("default", "paper"):
        options = Options(
            model=str(folding), protocol=protocol, refine=0, init="auto", device="cpu"
        )
        found = register(fixed, moving, options)
        told = measure(found, score(carried, found.transform, found.warped))
        judged = judge(found, carried)
        assert told["network_folds"].after == judged["network_folds_percent"] > 0
        assert told["network_sd_log_jacobian"].after == judged["network_sd_log_jacobian"] > 0
        assert "network's grid" in told["network_folds"].where
        assert "written" in told["folds"].where
        if protocol == "paper":
            assert told["folds"].after == told["network_folds"].after
        else:
            assert told["folds"].after == judged["folds_percent"] == 0
    scratch = register(fixed, moving, Options(model="none", refine=1, device="cpu"))
    assert "network_folds" not in measure(
        scratch, score(carried, scratch.transform, scratch.warped)
    )
    assert "network_folds_percent" not in judge(scratch, carried)


def test_it_is_a_plan_like_any_other(folding: Path, tmp_path: Path):
    path = tmp_path / "image.nii.gz"
    sitk.WriteImage(sample_image("fixed"), str(path))
    plan = plan_files(path, path, Options(model=str(folding), protocol="paper"))
    assert plan.way == "answer and network"
    assert plan.start == "model"
    assert plan.network_steps == 50
    assert plan.space.shape == SHAPE
    assert plan.measure.sigma == (5.0, 5.0, 5.0)
    assert not plan.repairs
    assert not plan.half_precision
    halved = Options(model=str(folding), protocol="paper", refine=7, precision="bf16")
    assert plan_files(path, path, halved).half_precision
    assert plan_files(path, path, halved).network_steps == 7
    usual = plan_files(path, path, Options(model=str(folding), refine_network=True))
    assert usual.repairs
    assert usual.half_precision
    assert usual.start == "auto"


def test_a_model_that_does_not_say_how_images_were_prepared_is_refused(tmp_path: Path):
    model = tmp_path / "bare.safetensors"
    save(build(ModelConfig(stage=1, resolutions=1, down_channels=(4,), up_channels=(4,))), model)
    image = sample_image("fixed")
    with pytest.raises(GradiconError, match=r"bare.safetensors: --protocol paper .* does not say"):
        register(image, image, Options(model=str(model), protocol="paper"))


@pytest.mark.parametrize(
    ("choices", "other"),
    [
        ({"to": "rigid"}, "--to rigid"),
        ({"init": "affine"}, "--init affine"),
        ({"model": "none"}, "--model none"),
    ],
)
def test_what_the_paper_does_not_do_contradicts_it(choices: dict[str, str], other: str):
    with pytest.raises(GradiconError, match=f"--protocol paper and {other} contradict each other"):
        Options(protocol="paper", **choices)  # type: ignore[arg-type]
