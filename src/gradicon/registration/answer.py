"""What a network's answer is worth beside what likeness alone finds. `moving` and `fixed` are the
pair as the network saw it.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradicon.core.network import warp
from gradicon.core.similarity import lncc
from gradicon.core.transform import DisplacementField
from gradicon.registration.solve.fields import EMPTY
from gradicon.registration.solve.folds import without_folds

Maps = tuple[DisplacementField, DisplacementField]

# how an answer is held; the dissimilarity from which on it is not; LNCC's sigma
_ANCHOR = 0.1
_UNLIKE = 0.15
_NEAR = 2.0
# how it is held where the network's grid is so many times as fine as the images
_LEAST_ANCHOR = 0.02
_FINER = 1.6


def makes_it_worse(phi: DisplacementField, moving: Tensor, fixed: Tensor) -> bool:
    """Whether a network's answer makes images less alike, so that nothing may be built on it."""
    with torch.no_grad():
        return bool(lncc(warp(moving, phi), fixed) > lncc(moving, fixed))


def held(phi: DisplacementField, moving: Tensor, fixed: Tensor, shape: Sequence[int]) -> float:
    """How strongly refinement on a grid of `shape` is pulled back to a network's answer: the more
    alike it makes images, the more.

    Where they are nearly alike, a measure of likeness has little to say, and a network that was
    trained with labels knows better. Where the network's own grid is much finer than theirs, it has
    seen all their detail, and the least is a gentle pull.
    """
    with torch.no_grad():
        warped = warp(moving, phi)
        filled = ((warped > EMPTY) | (fixed > EMPTY)).float()
        unlike = float(lncc(warped, fixed, sigma=_NEAR, mask=filled))
    saw_all = all(_FINER * n <= seen for n, seen in zip(shape, fixed.shape[2:], strict=True))
    return max(_ANCHOR * (1 - unlike / _UNLIKE), _LEAST_ANCHOR if saw_all else 0.0)


def settled(maps: Maps) -> Maps:
    """An answer that is not refined, smoothed where it folds."""
    phi_ab, phi_ba = (without_folds(phi) for phi in maps)
    return phi_ab, phi_ba
