"""How well two maps undo each other, and how to make them do it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradicon.core.sampling import inside, unit_grid
from gradicon.core.transform import DisplacementField, Transform
from gradicon.physical.space import Space
from gradicon.registration.presets import PRESETS, InversePreset, Presets
from gradicon.registration.solve.folds import folded, without_folds


@dataclass(frozen=True)
class InverseError:
    """How far points come back from where they started, there and back again, in mm.

    Of those that stay inside the image.
    """

    mean_mm: float
    p95_mm: float
    max_mm: float


def improve_inverse(
    phi: Transform, inverse: DisplacementField, presets: Presets = PRESETS
) -> DisplacementField:
    """phi's inverse at every voxel of the grid of `inverse`, found from there; for one pair.

    Between voxels the solution may fold where phi expands a voxel to many. There it is smoothed;
    `inverse` is returned if that has fewer folds all the same, or as few and is closer.
    """
    shape = inverse.u.shape[2:]
    x = unit_grid(shape, like=inverse.u)
    guess = (x + inverse.u).flatten(2)
    y = _solve(phi, x.flatten(2), guess, shape, presets.inverse)
    found = without_folds(DisplacementField(y.reshape(x.shape) - x), presets.repair)
    return min(
        found,
        inverse,
        key=lambda each: (float(folded(each).mean()), float((phi(x + each.u) - x).norm())),
    )


def _solve(
    phi: Transform, x: Tensor, y: Tensor, shape: Sequence[int], preset: InversePreset
) -> Tensor:
    """The y of phi(y) = x for points (1, D, N), from a guess.

    First y <- y - (phi(y) - x), then Newton's steps where that is slow. A step that does not help
    is taken back, and the next one from there is half as long.
    """
    voxel = y.new_tensor([1 / max(n - 1, 1) for n in shape])[None, :, None]
    off_left = phi(y) - x
    size = _size(off_left / voxel)
    left = torch.arange(x.shape[2], device=x.device)
    x_left = x
    y_left = y
    length = torch.ones_like(size)
    for iteration in range(preset.iterations):
        far = (size[0, 0] > preset.close).nonzero()[:, 0]  # the others are done
        if len(far) == 0:
            break
        left = left[far]
        x_left, y_left, off_left, length, size = (
            each[..., far] for each in (x_left, y_left, off_left, length, size)
        )
        step = off_left
        if iteration >= preset.plain:
            step = _newton_step(phi, y_left, off_left, voxel, preset)
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


def _newton_step(
    phi: Transform, y: Tensor, off: Tensor, voxel: Tensor, preset: InversePreset
) -> Tensor:
    """The solution of grad phi(y) step = off, a few voxels at most.

    In the least squares sense where that is nearly singular.
    """
    dimension = y.shape[1]
    sides = torch.diag(voxel.flatten() / 2)[..., None]
    columns = [(phi(y + side) - phi(y - side)) / side.sum() / 2 for side in sides]
    gradient = torch.stack(columns, -1)[0].movedim(1, 0)
    wanted = off[0].mT[..., None]
    damped = gradient.mT @ gradient + preset.damping * torch.eye(dimension).to(y)
    step = torch.linalg.solve(damped, gradient.mT @ wanted)[..., 0].mT[None]
    return step * (preset.longest / _size(step / voxel)).clamp_max(1)


def _size(x: Tensor) -> Tensor:
    return (x**2).sum(1, keepdim=True).sqrt()


def inverse_error(
    phi: Transform, inverse: Transform, space: Space, count: int = PRESETS.inverse.points
) -> InverseError:
    """The error of inverse(phi(x)) at the voxels of a grid, and at `count` points between them."""
    like = phi.on_grid([2] * len(space.shape))
    generator = torch.Generator().manual_seed(0)
    random = torch.rand(1, len(space.shape), count, generator=generator).to(like)
    x = torch.cat([unit_grid(space.shape, like=like).flatten(2), random], 2)
    there = phi(x)
    stays = inside(there)[0, 0] > 0
    if not stays.any():
        return InverseError(float("nan"), float("nan"), float("nan"))
    errors = _lengths_mm((inverse(there) - x)[0, :, stays], space).sort().values
    p95 = errors[95 * (len(errors) - 1) // 100]
    return InverseError(float(errors.mean()), float(p95), float(errors[-1]))


def _lengths_mm(u: Tensor, space: Space) -> Tensor:
    to_mm = torch.from_numpy(space.unit_to_mm[:-1, :-1]).to(u)
    return (to_mm @ u).norm(dim=0)
