"""Small scans on the disk, and recipes for them."""

import csv
from pathlib import Path

import numpy as np
import SimpleITK as sitk
import torch

from gradicon.training.config import Recipe
from gradicon.training.prepare import prepare
from gradicon.training.recipe import parse_recipe
from maps import blobs

RECIPE = """
[data]
shape = [24, 16]
[model]
resolutions = 2
down_channels = [4, 8]
up_channels = [4, 8]
[loss]
sigma = 2
[training]
learning_rate = 0.005
stage1_steps = 4
stage2_steps = 3
log_every = 1
checkpoint_every = 3
validate_every = 3
image_every = 5
batch_size = 2
augment = true
"""


def write_image(path: Path, data: np.ndarray, *, spacing: float = 1.5) -> Path:
    image = sitk.GetImageFromArray(data)
    image.SetSpacing([spacing] * data.ndim)
    image.SetOrigin([7.0 * (i + 1) for i in range(data.ndim)])
    sitk.WriteImage(image, str(path))
    return path


def write_csv(path: Path, header: list[str], rows: list[list[str]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def scans(folder: Path, count: int = 4, shape: tuple[int, ...] = (24, 16)) -> Path:
    """Images i0.nii.gz.. with labels l0.nii.gz.. and landmarks p0.csv.., and a list of them."""
    for i in range(count):
        image = blobs(shape, seed=i)[0, 0]
        write_image(folder / f"i{i}.nii.gz", (1000 * image).numpy().astype(np.float32))
        labels = np.where(image > 0.6, 40, np.where(image < 0.3, 7, 0)).astype(np.int16)
        write_image(folder / f"l{i}.nii.gz", labels)
        points = [
            [f"{k}", *(f"{7.0 * (a + 1) + 1.5 * (3 + k + (a + i) % 2)}" for a in range(len(shape)))]
            for k in range(3)
        ]
        write_csv(folder / f"p{i}.csv", ["label", *"xyz"[: len(shape)]], points)
    rows = [[f"i{i}.nii.gz", f"l{i}.nii.gz", f"p{i}.csv"] for i in range(count)]
    header = [
        "fixed",
        "moving",
        "fixed_labels",
        "moving_labels",
        "fixed_landmarks",
        "moving_landmarks",
    ]
    pair = ["i0.nii.gz", "i1.nii.gz", "l0.nii.gz", "l1.nii.gz", "p0.csv", "p1.csv"]
    write_csv(folder / "pairs.csv", header, [pair])
    return write_csv(folder / "images.csv", ["image", "labels", "landmarks"], rows)


def recipe_of(*changes: tuple[str, str]) -> Recipe:
    """The small recipe, with lines replaced."""
    text = RECIPE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_recipe(text)


def prepared(folder: Path, recipe: Recipe | None = None, *, count: int = 4) -> Path:
    """A folder of small prepared images with one validation pair."""
    folder.mkdir(exist_ok=True)
    manifest = scans(folder, count)
    prepare(manifest, recipe or recipe_of(), folder / "data", validation=folder / "pairs.csv")
    return folder / "data"


def weights(path: Path) -> dict[str, torch.Tensor]:
    from gradicon.models import load

    return dict(load(path).state_dict())
