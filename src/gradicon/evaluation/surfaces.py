"""Distances between the surfaces of labels, in millimetres."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from gradicon.errors import GradiconError

Mask = NDArray[np.bool_]


def hd95(a: NDArray[Any], b: NDArray[Any], spacing_mm: Sequence[float]) -> dict[int, float]:
    """The 95th percentile Hausdorff distance of every label but 0 that both maps have.

    From each surface voxel of one label (a voxel with a neighbour of another kind, or on the border
    of the image) to the nearest surface voxel in the other map; the 95th percentile of these
    distances, the larger one of both directions.
    """
    if a.shape != b.shape:
        raise GradiconError(
            f"label maps to compare must have one shape, got {a.shape} and {b.shape}"
        )
    labels = np.intersect1d(np.unique(a), np.unique(b))
    return {
        int(label): _hausdorff(a == label, b == label, spacing_mm) for label in labels if label != 0
    }


def _hausdorff(a: Mask, b: Mask, spacing_mm: Sequence[float], percent: float = 95) -> float:
    box = _box(a | b)
    a = _surface(a[box])
    b = _surface(b[box])
    there = _distances_mm(a, b, spacing_mm)
    back = _distances_mm(b, a, spacing_mm)
    return max(float(np.percentile(there, percent)), float(np.percentile(back, percent)))


def _box(mask: Mask) -> tuple[slice, ...]:
    """The smallest box around a mask, and one voxel more where the image has it."""
    found: list[tuple[slice, ...]] = ndimage.find_objects(mask.astype(np.uint8))
    return tuple(slice(max(side.start - 1, 0), side.stop + 1) for side in found[0])


def _surface(mask: Mask) -> Mask:
    inner = np.asarray(ndimage.binary_erosion(mask), dtype=np.bool_)
    return mask & ~inner


def _distances_mm(surface: Mask, other: Mask, spacing_mm: Sequence[float]) -> NDArray[np.float64]:
    """From every voxel of a surface to the other surface."""
    away = np.asarray(ndimage.distance_transform_edt(~other, sampling=spacing_mm), dtype=np.float64)
    return away[surface]
