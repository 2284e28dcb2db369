"""Fields averaged, and read between their voxels, along one axis after the other."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from gradicon.core.sampling import box_mean


def averaged(x: Tensor, radius: int) -> Tensor:
    """The mean over `radius` voxels to each side (B, C, *S); border voxels go on beyond it."""
    for axis in range(x.ndim - 2):
        x = box_mean(x, axis, radius)
    return x


def smoothing_matrices(coarse: Sequence[int], shape: Sequence[int], like: Tensor) -> list[Tensor]:
    """B, a matrix (n, coarse n) for each axis: the mean of three neighbours, read linearly between
    them.
    """
    matrices: list[Tensor] = []
    for few, many in zip(coarse, shape, strict=True):
        p = box_mean(torch.eye(few, dtype=like.dtype, device=like.device)[None], 0, 1)
        matrices.append(linear_matrix(few, many, like) @ p[0].mT)
    return matrices


def linear_matrix(few: int, many: int, like: Tensor) -> Tensor:
    """(many, few): `few` values, read linearly at `many` places from the first to the last."""
    voxels = torch.eye(few, dtype=like.dtype, device=like.device)[None]
    return F.interpolate(voxels, many, mode="linear", align_corners=True)[0].mT.contiguous()


def along_axes(p: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """A product with a matrix along each axis, B(p) with those of `smoothing_matrices`."""
    for axis, matrix in enumerate(matrices):
        p = (matrix @ p.movedim(axis + 2, -2)).movedim(-2, axis + 2)
    return p
