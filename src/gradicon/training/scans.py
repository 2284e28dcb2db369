"""One scan, as the network will see it: orientation, intensities, mask, and the recipe's grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gradicon.errors import GradiconError, MissingFileError
from gradicon.physical.images import EXTENSIONS, Image, from_sitk, read_image, same_grid
from gradicon.physical.landmarks import read_landmarks
from gradicon.physical.lists import Item
from gradicon.physical.preprocess import Scaling, Source, View, look_at, place_grid
from gradicon.physical.space import Matrix, Space
from gradicon.physical.volume import Volume
from gradicon.training.config import DataConfig


@dataclass(frozen=True, eq=False)
class Scan:
    """An image in [0,1] on the recipe's grid, its labels as indices into the list of values, its
    landmarks on the unit cube.
    """

    image: NDArray[np.float16]
    labels: NDArray[np.uint16] | None
    landmarks: Matrix | None
    space: Space
    own_spacing_mm: tuple[float, ...]
    modality: str


def read_scan(item: Item, config: DataConfig, values: Sequence[int]) -> Scan:
    """Read an image and what came with it, and bring all of it to one grid.

    `values` are the labels that there may be; a label's place in this list is what is stored.
    """
    image = read_image(item.image)
    if image.GetDimension() != len(config.shape):
        raise GradiconError(
            f"{item.image}: a {image.GetDimension()}-D image, but the recipe's shape is "
            f"{len(config.shape)}-D"
        )
    volume = from_sitk(image).canonical()
    mask = None if item.mask is None else _mask(item.mask, image)
    grid = place_grid(config, volume.space)
    view = View(volume.space, grid)
    kind = look_at(volume) if config.modality == "auto" else config.modality
    try:
        data = Source(volume, mask, Scaling.of(kind, config)).read(view)
    except GradiconError as error:
        raise GradiconError(f"{item.image}: {error}") from error
    labels = None
    if item.labels is not None:
        dense = _dense(_labels(item.labels, image), values)
        labels = view.read_labels(dense.data)[0, 0].numpy().astype(np.uint16)
    return Scan(
        image=data[0, 0].numpy().astype(np.float16),
        labels=labels,
        landmarks=None if item.landmarks is None else _landmarks(item.landmarks, grid),
        space=grid,
        own_spacing_mm=volume.space.spacing_mm,
        modality=kind,
    )


def read_folder(folder: Path, config: DataConfig) -> dict[str, NDArray[np.float16]]:
    """The images of a folder, which are of one size, on the recipe's grid, by the file's name.

    One of another size would be stretched in another way, and is more likely something else.
    """
    files = _images_in(folder)
    sizes = {path: read_image(path).GetSize()[::-1] for path in files}
    for path, size in sizes.items():
        if size != sizes[files[0]]:
            raise GradiconError(
                f"{path}: has {_times(size)} voxels, but {files[0].name} has "
                f"{_times(sizes[files[0]])}: the images of a folder must be of one size"
            )
    return {path.name: read_scan(Item(path), config, []).image for path in files}


def label_values(paths: Sequence[Path]) -> list[int]:
    """Every value that a set of label maps holds, 0 first: a label's place in this list is what is
    stored. Empty without labels.
    """
    found = {int(value) for path in paths for value in _whole(read_image(path), path).data.unique()}
    return [0, *sorted(found - {0})] if paths else []


def _mask(path: Path, image: Image) -> Volume:
    mask = _on_grid_of(read_image(path), image, path)
    if not (mask.data > 0).any():
        raise GradiconError(f"{path}: the mask is empty")
    return Volume((mask.data > 0).float(), mask.space)


def _labels(path: Path, image: Image) -> Volume:
    labels = read_image(path)
    _whole(labels, path)
    return _on_grid_of(labels, image, path)


def _on_grid_of(extra: Image, image: Image, path: Path) -> Volume:
    if not same_grid(extra, image):
        sizes = f"{extra.GetSize()} against {image.GetSize()} voxels, or elsewhere in space"
        raise GradiconError(f"{path}: lies on another grid than its image: {sizes}")
    return from_sitk(extra).canonical()


def _whole(labels: Image, path: Path) -> Volume:
    volume = from_sitk(labels)
    if volume.data.is_floating_point() and not bool((volume.data == volume.data.round()).all()):
        raise GradiconError(f"{path}: labels must be whole numbers")
    return volume


def _dense(labels: Volume, values: Sequence[int]) -> Volume:
    place = {value: i for i, value in enumerate(values)}
    found, where = labels.data.unique(return_inverse=True)
    return Volume(torch.tensor([place[int(value)] for value in found])[where], labels.space)


def _landmarks(path: Path, space: Space) -> Matrix:
    points = read_landmarks(path).points_mm
    if points.shape[1] != len(space.shape):
        raise GradiconError(
            f"{path}: {points.shape[1]}-D landmarks for a {len(space.shape)}-D image"
        )
    return space.to_unit(points)


def _images_in(folder: Path) -> list[Path]:
    """By name. Other files and hidden ones are left alone."""
    if not folder.is_dir():
        raise MissingFileError(f"{folder}: no such folder")
    files = [path for path in sorted(folder.iterdir()) if path.name.lower().endswith(EXTENSIONS)]
    if not (shown := [path for path in files if not path.name.startswith(".")]):
        raise MissingFileError(
            f"{folder}: no images here: expected files ending in one of {', '.join(EXTENSIONS)}"
        )
    return shown


def _times(size: tuple[int, ...]) -> str:
    return " x ".join(map(str, size))
