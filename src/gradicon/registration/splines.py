"""Smooth fields of few parameters, as a product with a matrix along each axis."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gradicon.core.sampling import box_mean


def spline_matrices(coarse: Sequence[int], shape: Sequence[int], like: Tensor) -> list[Tensor]:
    """B, a matrix (n, coarse n) for each axis: a cubic B-spline's smoothing, a box of 3 three times, then reading linearly."""
    matrices: list[Tensor] = []
    for few, many in zip(coarse, shape, strict=True):
        p = torch.eye(few, dtype=like.dtype, device=like.device)[None]
        for _ in range(3):
            p = box_mean(p, 0, 1)
        matrices.append(linear_matrix(few, many, like) @ p[0].mT)
    return matrices


def linear_matrix(few: int, many: int, like: Tensor) -> Tensor:
    """(many, few): `few` values, read linearly at `many` places from the first to the last."""
    voxels = torch.eye(few, dtype=like.dtype, device=like.device)[None]
    return F.interpolate(voxels, many, mode="linear", align_corners=True)[0].mT.contiguous()


def along_axes(p: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """A product with a matrix along each axis: B(p), with those of `spline_matrices`."""
    for axis, matrix in enumerate(matrices):
        p = (matrix @ p.movedim(axis + 2, -2)).movedim(-2, axis + 2)
    return p
