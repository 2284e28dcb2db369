"""Where a map folds, seen from any side of a voxel, and how to smooth it there."""

from collections.abc import Sequence
from itertools import product
from typing import get_args

import torch
from torch import Tensor

from gradicon.core.jacobian import Side, jacobian_determinant
from gradicon.core.transform import DisplacementField
from gradicon.registration.presets import PRESETS
from gradicon.registration.solve.smoothing import averaged


def folded(phi: DisplacementField) -> Tensor:
    """(B, 1, *S): 1 at voxels on some side of which the linearly interpolated map folds, else 0.

    Where there are none, there are none by central differences either: their determinant is the
    mean over all sides.
    """
    shape = phi.u.shape[2:]
    found = torch.zeros_like(phi.u[:, :1], dtype=torch.bool)
    for sides in product(get_args(Side), repeat=len(shape)):
        there = [slice(1, None) if side == "backward" else slice(None, -1) for side in sides]
        found[(slice(None), 0, *there)] |= jacobian_determinant(phi, shape, difference=sides) <= 0
    return found.to(phi.u)


def smoothed_where(phi: DisplacementField, folds: Tensor, radius: int) -> DisplacementField:
    """The map, averaged over `radius` voxels to each side where `folds` is 1, and fading out."""
    near = (averaged(folds, radius + 1) > 0).to(phi.u)
    return DisplacementField(torch.lerp(phi.u, averaged(phi.u, radius), averaged(near, radius)))


def without_folds(
    phi: DisplacementField, radii: Sequence[int] = PRESETS.repair
) -> DisplacementField:
    """The map, smoothed where it folds until it does not, or as far as that goes.

    `radii` are the voxels over which it is averaged there, one after the other.
    """
    for radius in radii:
        folds = folded(phi)
        if not folds.any():
            break
        phi = smoothed_where(phi, folds, radius)
    return phi
