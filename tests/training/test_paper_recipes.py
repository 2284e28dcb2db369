"""The paper's recipes say what the paper says; and what is fabricated in the published formats goes
through them to a trained network.
"""

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from gradicon.models import load
from gradicon.physical.published.convert import convert_cases
from gradicon.physical.published.path_lists import Reading, read_path_list, write_list
from gradicon.training.config import DataConfig, LossConfig, TrainingConfig
from gradicon.training.dataset import Dataset
from gradicon.training.prepare import prepare
from gradicon.training.processes import Machine
from gradicon.training.recipe import parse_recipe, read_recipe
from gradicon.training.trainer import train
from maps import blobs
from physical.published_files import small_case, write_case

PAPER = Path(__file__).parents[2] / "recipes/paper"
DATA = {
    "oai": DataConfig(
        shape=(192, 192, 80),
        modality="mr",
        percentiles=(1.0, 99.0),
        order="scale, mask, resample",
        pairs="inter",
    ),
    "hcp": DataConfig(shape=(130, 155, 130), modality="mr", pairs="inter"),
    "copdgene": DataConfig(
        shape=(175, 175, 175),
        crop="center",
        spacing_mm=(2.0, 2.0, 2.0),
        modality="ct",
        window=(-1000.0, 0.0),
        order="resample, scale, mask",
        pairs="intra",
    ),
}
SMALL = """
[model]
resolutions = 2
down_channels = [4, 8]
up_channels = [4, 8]
[training]
stage1_steps = 1
stage2_steps = 1
log_every = 1
"""


@pytest.mark.parametrize("name", DATA)
def test_each_says_what_the_paper_says_and_nothing_else(name: str):
    recipe = read_recipe(PAPER / f"{name}.toml")
    assert recipe.data == DATA[name]
    assert recipe.loss == LossConfig()
    assert recipe.training == TrainingConfig()
    assert recipe.augments == (name == "copdgene")  # whose pairs are of one person
    assert recipe.text.count('\n# precision = "bf16-mixed"') == 1
    switched = parse_recipe(recipe.text.replace("\n# precision", "\nprecision"))
    assert switched.training == replace(recipe.training, precision="bf16-mixed")


def test_the_defaults_are_the_one_protocol():
    """Sec. 4.2, number by number."""
    recipe = read_recipe(PAPER / "hcp.toml")
    assert (recipe.loss.similarity, recipe.loss.sigma) == ("lncc", 5.0)
    assert (recipe.loss.regularizer, recipe.loss.penalty_weight) == ("gradicon", 1.5)
    assert recipe.loss.label_weight == recipe.loss.landmark_weight == 0
    assert (recipe.training.learning_rate, recipe.training.schedule) == (5e-5, "constant")
    assert (recipe.training.stage1_steps, recipe.training.stage2_steps) == (50_000, 50_000)
    assert recipe.training.precision == "32"
    assert recipe.model.stage == 2
    assert read_recipe(PAPER / "copdgene.toml").training.augment_noise == 0.05
    assert read_recipe(PAPER / "copdgene.toml").training.flips


def small(name: str, shape: tuple[int, ...], **changes: object) -> str:
    """A recipe of the paper, but for a small grid, a tiny network and two steps."""
    config = replace(DATA[name], shape=shape, **changes)  # type: ignore[arg-type]
    lines = [
        f"{field.name} = {_toml(vars(config)[field.name])}"
        for field in fields(config)
        if vars(config)[field.name] != ()
    ]
    augment = "augment = true\n" if name == "copdgene" else ""
    return "[data]\n" + "\n".join(lines) + SMALL + augment


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, value))}]"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"'


def trained(data: Path, text: str, folder: Path) -> None:
    """Two steps, and a network that gives a finite map."""
    recipe = parse_recipe(text)
    train(recipe, data, folder / "run", machine=Machine("cpu"))
    network = load(folder / "run/model.safetensors")
    image = network_input(data)
    assert network(image, image).on_grid(recipe.data.shape).isfinite().all()


def network_input(data: Path) -> torch.Tensor:
    return torch.from_numpy(np.asarray(Dataset.open(data).images[:1], np.float32))[None]


def test_lungs_from_published_files_to_a_network(tmp_path: Path):
    """Converted twice: the masks are made of the images that the first time wrote."""
    for number in (1, 2):
        write_case(tmp_path / "downloads", number, offset=1024)
    cases = [small_case(1), small_case(2)]
    convert_cases(tmp_path / "downloads", tmp_path / "dirlab", cases)
    (tmp_path / "masks").mkdir()
    for path in (tmp_path / "dirlab/images").iterdir():
        lungs = sitk.ReadImage(str(path)) < -700
        sitk.WriteImage(lungs, str(tmp_path / "masks" / path.name))
    convert_cases(tmp_path / "downloads", tmp_path / "dirlab", cases, masks=tmp_path / "masks")
    text = small("copdgene", (20, 16, 16))
    described = prepare(
        tmp_path / "dirlab/pairs.csv",
        parse_recipe(text),
        tmp_path / "data",
        validation=tmp_path / "dirlab/pairs.csv",
    )
    assert [image["name"] for image in described["images"]] == [
        f"images/copd{number}_{phase}BHCT.nii.gz" for number in (1, 2) for phase in "ei"
    ]
    assert described["train_pairs"] == [[0, 1], [2, 3]]  # moving, fixed: exhale to inhale
    assert {image["landmarks"] for image in described["images"]} == {300}
    assert {image["modality"] for image in described["images"]} == {"ct"}
    images = np.asarray(Dataset.open(tmp_path / "data").images, np.float32)
    assert 0.1 < images[:, 8:12, 7:9, 7:9].mean() < 0.25  # lung of about -850 HU
    assert images[:, :, 0].max() == 0
    trained(tmp_path / "data", text, tmp_path)


def test_knees_from_a_published_list_to_a_network(tmp_path: Path):
    folder = tmp_path / "OAI"
    folder.mkdir()
    names = [f"900000{i}_20040927_SAG_3D_DESS_LEFT_01661025060{i}" for i in range(4)]
    for i, name in enumerate(names):
        values = (1000 * blobs((20, 24, 24), seed=i)[0, 0]).numpy()
        sagittal = sitk.GetImageFromArray(values.astype(np.int16))  # the first axis counts slices
        sagittal.SetDirection([0, 0, 1, 1, 0, 0, 0, -1, 0])
        sagittal.SetSpacing([0.36, 0.36, 0.7])
        sitk.WriteImage(sagittal, str(folder / f"{name}_image.nii.gz"))
        labels = sitk.GetImageFromArray((values > 600).astype(np.uint8))
        labels.CopyInformation(sagittal)
        sitk.WriteImage(labels, str(folder / f"{name}_label_all.nii.gz"))
    listed = "".join(
        "     ".join(
            f"/playpen/Data/{names[i]}_{kind}.nii.gz"
            for kind in ("image", "label_all")
            for i in pair
        )
        + "\n"
        for pair in ((0, 1), (2, 3))
    )
    (tmp_path / "pair_path_list.txt").write_text(listed)
    for out, images in (("train.csv", True), ("test.csv", False)):
        reading = Reading(root=folder, images=images)
        write_list(tmp_path / out, read_path_list(tmp_path / "pair_path_list.txt", reading))
    text = small("oai", (12, 12, 10))
    described = prepare(
        tmp_path / "train.csv",
        parse_recipe(text),
        tmp_path / "data",
        validation=tmp_path / "test.csv",
    )
    assert described["train"] == [0, 1, 2, 3]
    trained(tmp_path / "data", text, tmp_path)
