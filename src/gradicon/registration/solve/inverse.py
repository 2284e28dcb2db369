"""How well two maps undo each other, and how to make them do it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradicon.core.sampling import inside, unit_grid
from gradicon.core.transform import DisplacementField, Transform
from gradicon.physical.space import Space
from gradicon.registration.solve.folds import folded, without_folds

_CLOSE = 0.01  # voxels: an inverse that is off by less is left alone
# in all, and of them without derivatives
_ITERATIONS = 25
_PLAIN = 5
# of Newton's equations; of a step, in voxels
_DAMPING = 1e-3
_LONGEST = 5.0


@dataclass(frozen=True)
class InverseError:
    """How far points come back from where they started, in mm, there and back again; of those that
    stay inside the image.
    """

    mean_mm: float
    p95_mm: float
    max_mm: float


def improve_inverse(phi: Transform, inverse: DisplacementField) -> DisplacementField:
    """phi's inverse at every voxel of the grid of `inverse`, found from there; for one pair.

    Between voxels the solution may fold where phi expands a voxel to many. There it is smoothed;
    `inverse` is returned if that has fewer folds all the same, or as few and is closer.
    """
    shape = inverse.u.shape[2:]
    x = unit_grid(shape, like=inverse.u)
    found = DisplacementField(
        _solve(phi, x.flatten(2), (x + inverse.u).flatten(2), shape).reshape(x.shape) - x
    )
    found = without_folds(found)
    return min(
        found,
        inverse,
        key=lambda each: (float(folded(each).mean()), float((phi(x + each.u) - x).norm())),
    )


def _solve(phi: Transform, x: Tensor, y: Tensor, shape: Sequence[int]) -> Tensor:
    """The y of phi(y) = x for points (1, D, N), from a guess: first y <- y - (phi(y) - x), then
    Newton's steps where that is slow.

    A step that does not help is taken back, and the next one from there is half as long.
    """
    voxel = y.new_tensor([1 / max(n - 1, 1) for n in shape])[None, :, None]
    off_left = phi(y) - x
    size = _size(off_left / voxel)
    left = torch.arange(x.shape[2], device=x.device)
    x_left = x
    y_left = y
    length = torch.ones_like(size)
    for iteration in range(_ITERATIONS):
        far = (size[0, 0] > _CLOSE).nonzero()[:, 0]  # the others are done
        if len(far) == 0:
            break
        left = left[far]
        x_left, y_left, off_left, length, size = (
            each[..., far] for each in (x_left, y_left, off_left, length, size)
        )
        step = off_left if iteration < _PLAIN else _newton_step(phi, y_left, off_left, voxel)
        tried = y_left - length * step
        off_tried = phi(tried) - x_left
        size_tried = _size(off_tried / voxel)
        helps = size_tried < size
        y_left = torch.where(helps, tried, y_left)
        off_left = torch.where(helps, off_tried, off_left)
        size = torch.where(helps, size_tried, size)
        length = torch.where(helps, (2 * length).clamp_max(1), length / 2)
        y[..., left] = y_left
    return y


def _newton_step(phi: Transform, y: Tensor, off: Tensor, voxel: Tensor) -> Tensor:
    """The solution of grad phi(y) step = off, in the least squares sense where that is nearly
    singular; a few voxels at most.
    """
    dimension = y.shape[1]
    sides = torch.diag(voxel.flatten() / 2)[..., None]
    columns = [(phi(y + side) - phi(y - side)) / side.sum() / 2 for side in sides]
    gradient = torch.stack(columns, -1)[0].movedim(1, 0)
    wanted = off[0].mT[..., None]
    damped = gradient.mT @ gradient + _DAMPING * torch.eye(dimension).to(y)
    step = torch.linalg.solve(damped, gradient.mT @ wanted)[..., 0].mT[None]
    return step * (_LONGEST / _size(step / voxel)).clamp_max(1)


def _size(x: Tensor) -> Tensor:
    return (x**2).sum(1, keepdim=True).sqrt()


def inverse_error(
    phi: Transform, inverse: Transform, space: Space, count: int = 200_000
) -> InverseError:
    """The error of inverse(phi(x)) at the voxels of a grid, and at `count` random points between
    them.
    """
    like = phi.on_grid([2] * len(space.shape))
    random = torch.rand(1, len(space.shape), count, generator=torch.Generator().manual_seed(0)).to(
        like
    )
    x = torch.cat([unit_grid(space.shape, like=like).flatten(2), random], 2)
    there = phi(x)
    stays = inside(there)[0, 0] > 0
    if not stays.any():
        return InverseError(float("nan"), float("nan"), float("nan"))
    errors = _lengths_mm((inverse(there) - x)[0, :, stays], space).sort().values
    return InverseError(
        float(errors.mean()), float(errors[int(0.95 * (len(errors) - 1))]), float(errors[-1])
    )


def _lengths_mm(u: Tensor, space: Space) -> Tensor:
    to_mm = torch.from_numpy(space.unit_to_mm[:-1, :-1]).to(u)
    return (to_mm @ u).norm(dim=0)
