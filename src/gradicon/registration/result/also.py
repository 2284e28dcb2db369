"""Other images of the moving scan, carried along by the same transform."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gradicon.errors import GradiconError
from gradicon.physical.images import Image, from_sitk, read_image, write_image
from gradicon.physical.transforms import resample
from gradicon.registration.register import Registration


@dataclass(frozen=True, eq=False)
class Companion:
    """One of them: the name of its file, the image, and whether it is a map of labels."""

    name: str
    image: Image
    is_labels: bool


def read_companions(paths: Sequence[Path], moving: Image) -> tuple[Companion, ...]:
    """Read them before anything slow begins; they lie in the moving scan's space, on any grid."""
    companions: list[Companion] = []
    for path in paths:
        image = read_image(path)
        if image.GetDimension() != moving.GetDimension():
            raise GradiconError(
                f"{path}: a {image.GetDimension()}-D image with a {moving.GetDimension()}-D pair"
            )
        name = f"{_stem(path)}.nii.gz"
        if name in [each.name for each in companions]:
            raise GradiconError(f"{path}: two images to warp are called {name}: rename one")
        companions.append(Companion(name, image, looks_like_labels(from_sitk(image).data)))
    return tuple(companions)


def looks_like_labels(data: Tensor) -> bool:
    """Whether an image (1, 1, *S) is a map of labels: whole numbers, mostly equal to a neighbour's.

    Where both of two neighbours are 0, they say nothing. An image has noise, and a map has not.
    """
    if data.is_floating_point():
        return False
    alike = 0
    counted = 0
    for axis in range(2, data.ndim):
        here = data.narrow(axis, 0, data.shape[axis] - 1)
        there = data.narrow(axis, 1, data.shape[axis] - 1)
        filled = (here != 0) | (there != 0)
        alike += int(torch.count_nonzero(filled & (here == there)))
        counted += int(torch.count_nonzero(filled))
    return 2 * alike > counted


def warp_companions(companions: Sequence[Companion], found: Registration, folder: Path) -> None:
    """Write each on fixed's grid, in its own pixel type, into a new folder."""
    folder.mkdir()
    for each in companions:
        interpolation = "label" if each.is_labels else "linear"
        darkest = 0.0 if each.is_labels else float(from_sitk(each.image).data.min())
        warped = resample(each.image, found.warped, found.transform, interpolation, darkest)
        write_image(warped, folder / each.name)


def _stem(path: Path) -> str:
    return path.name.split(".")[0]
