"""How well two maps undo each other, and a way to make them do it better."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gradicon.core.jacobian import fold_percentage
from gradicon.core.sampling import inside, unit_grid
from gradicon.core.transform import DisplacementField, Transform
from gradicon.physical.space import Space


@dataclass(frozen=True)
class InverseError:
    """How far points come back from where they started, in mm, there and back again; of those that stay inside the image."""

    mean_mm: float
    p95_mm: float
    max_mm: float


def improve_inverse(phi: Transform, inverse: DisplacementField, iterations: int = 10) -> DisplacementField:
    """`inverse`, brought closer to phi's inverse by the iteration y <- y - (phi(y) - x), for as long as it folds nowhere new."""
    shape = inverse.u.shape[2:]
    x = unit_grid(shape, like=inverse.u)
    folds, error = fold_percentage(inverse, shape), (phi(x + inverse.u) - x).norm()
    for _ in range(iterations):
        y = x + inverse.u
        better = DisplacementField(inverse.u - (phi(y) - x))
        remaining = (phi(x + better.u) - x).norm()
        if remaining >= error or bool((fold_percentage(better, shape) > folds).any()):
            break
        inverse, error = better, remaining
    return inverse


def inverse_error(phi: Transform, inverse: Transform, space: Space, count: int = 200_000) -> InverseError:
    """The error of inverse(phi(x)) at the voxels of a grid, and at `count` random points between them."""
    like = phi.on_grid(space.shape)
    random = torch.rand(1, len(space.shape), count, generator=torch.Generator().manual_seed(0)).to(like)
    x = torch.cat([unit_grid(space.shape, like=like).flatten(2), random], 2)
    there = phi(x)
    stays = inside(there)[0, 0] > 0
    if not stays.any():
        return InverseError(float("nan"), float("nan"), float("nan"))
    errors = _lengths_mm((inverse(there) - x)[0, :, stays], space).sort().values
    return InverseError(float(errors.mean()), float(errors[int(0.95 * (len(errors) - 1))]), float(errors[-1]))


def _lengths_mm(u: Tensor, space: Space) -> Tensor:
    to_mm = torch.from_numpy(space.unit_to_mm[:-1, :-1]).to(u)
    return (to_mm @ u).norm(dim=0)
