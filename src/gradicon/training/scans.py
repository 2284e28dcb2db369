"""One scan, as the network will see it: orientation, intensities, mask, and the recipe's grid."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gradicon.core.sampling import box_mean, sample
from gradicon.core.transform import Affine
from gradicon.errors import GradiconError
from gradicon.physical.images import Image, from_sitk, read_image, same_grid
from gradicon.physical.intensity import ct_window, looks_like_ct, mr_quantile
from gradicon.physical.landmarks import read_landmarks
from gradicon.physical.lists import Item
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
    """Read an image and what came with it, and bring all of it to one grid."""
    image = read_image(item.image)
    if image.GetDimension() != len(config.shape):
        raise GradiconError(
            f"{item.image}: a {image.GetDimension()}-D image, but the recipe's shape is "
            f"{len(config.shape)}-D"
        )
    volume, modality = _scaled(item, from_sitk(image).canonical(), config)
    if item.mask is not None:
        volume = Volume(volume.data * _mask(item.mask, image).data, volume.space)
    space = _grid(volume.space, config)
    labels = None
    if item.labels is not None:
        dense = _dense(_labels(item.labels, image), values)
        labels = (
            _read_at(dense.data.double(), dense.space, space, mode="nearest")
            .numpy()
            .astype(np.uint16)
        )
    return Scan(
        image=_read_at(_smoothed(volume, space).double(), volume.space, space)
        .numpy()
        .astype(np.float16),
        labels=labels,
        landmarks=None if item.landmarks is None else _landmarks(item.landmarks, space),
        space=space,
        own_spacing_mm=volume.space.spacing_mm,
        modality=modality,
    )


def label_values(paths: Sequence[Path]) -> list[int]:
    """Every value that a set of label maps holds, 0 first: a label's place in this list is what is
    stored. Empty without labels.
    """
    found = {int(value) for path in paths for value in _whole(read_image(path), path).data.unique()}
    return [0, *sorted(found - {0})] if paths else []


def _grid(space: Space, config: DataConfig) -> Space:
    return (
        space.resized(config.shape)
        if config.crop == "fit"
        else space.centered(config.shape, config.spacing_mm)
    )


def _smoothed(volume: Volume, grid: Space) -> Tensor:
    """Averaged over about one voxel of a coarser grid, so that reading it there aliases nothing."""
    data = volume.data
    for axis, (coarse, fine) in enumerate(
        zip(grid.spacing_mm, volume.space.spacing_mm, strict=True)
    ):
        data = box_mean(data, axis, round(coarse / fine / 2) if coarse > fine else 0)
    return data


def _read_at(data: Tensor, space: Space, grid: Space, *, mode: str = "linear") -> Tensor:
    """The values at the voxels of another grid, zero where there is nothing to read: (*grid)."""
    unit = torch.from_numpy(np.linalg.inv(space.unit_to_mm) @ grid.unit_to_mm)[None]
    x = Affine(unit[:, :-1, :-1], unit[:, :-1, -1]).on_grid(grid.shape)
    x = x.clamp(0, 1).where(
        (x > -1e-6) & (x < 1 + 1e-6), x
    )  # the faces are inside, whatever was rounded
    return sample(data, x, mode="nearest" if mode == "nearest" else "bilinear", padding="zeros")[
        0, 0
    ]


def _scaled(item: Item, volume: Volume, config: DataConfig) -> tuple[Volume, str]:
    kind = (
        config.modality if config.modality != "auto" else ("ct" if looks_like_ct(volume) else "mr")
    )
    try:
        return (ct_window(volume) if kind == "ct" else mr_quantile(volume)), kind
    except ValueError as error:
        raise GradiconError(f"{item.image}: {error}") from error


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
