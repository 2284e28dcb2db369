"""Instance optimization of the displacement fields themselves: both directions at once, held
together by GradICON.

No network takes part, so a step costs a few interpolations. A field is u = u_start + B(p): p are
free parameters on a grid half as fine as the images, and B smooths them a little. From coarse to
fine, each level starts where the one before ended. Where images are large, u itself is kept on the
grid of the level before, which is as fine as p is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, cos, pi, prod

import torch
from torch import Tensor

from gradicon.core.jacobian import Side, jacobian_determinant
from gradicon.core.objective import Objective, dissimilarity_at, gradient_inconsistency
from gradicon.core.points import random_points
from gradicon.core.sampling import shrink, unit_grid, window
from gradicon.core.similarity import Similarity
from gradicon.core.transform import DisplacementField, Transform, identity
from gradicon.registration.solve.folds import without_folds
from gradicon.registration.solve.smoothing import along_axes, linear_matrix, smoothing_matrices

Shape = tuple[int, ...]


_FOLD_MARGIN = 0.05
_LEVELS = 3
_MOST_COARSE = 40_000
_KEPT_WHOLE = 600_000  # voxels of a level beyond which its maps are on the grid of the level before
_MANY_POINTS = 100_000  # of the penalty, beyond which there is one in a larger cell
# of intensities in [0,1]; voxels, about an image's content
EMPTY = 0.02
_MARGIN = 8


@dataclass(frozen=True)
class FieldSettings:
    """How the fields are optimised.

    Args:
        similarity: what is compared, at every level.
        steps: of each level, coarse to fine.
        weight: of the GradICON penalty, the paper's lambda.
        learning_rate: Adam's, in the shortest voxel length of the level at work; it falls along a
            cosine within each level.
        seed: of the points where the penalty is measured, and of the sides from which the barrier
            looks.
        barrier: the weight of what keeps determinants away from zero.
        cell: voxels along each axis to a point of the penalty.
        anchor: the weight of the mean squared distance from the start, in hundredths of the field
            of view.
    """

    similarity: Similarity
    steps: tuple[int, ...] = (60, 60, 60)
    weight: float = 1.5
    learning_rate: float = 0.2
    seed: int = 0
    barrier: float = 30.0
    cell: int = 3
    anchor: float = 0.0


def pyramid(shape: Shape, spacing: Sequence[float]) -> list[Shape]:
    """Grids over one field of view, coarse to fine, the last one being `shape`: three, or more if
    the first had many voxels.

    An axis is halved once its voxels are no longer than 1.5 times the shortest, so that thick
    slices wait until the plane has caught up, and never below 8 voxels.
    """
    shapes = [shape]
    sizes = list(shape)
    lengths = list(spacing)
    while len(shapes) < _LEVELS or prod(shapes[0]) > _MOST_COARSE:
        shortest = min(lengths)
        for axis, (n, length) in enumerate(zip(sizes, list(lengths), strict=True)):
            if length <= 1.5 * shortest and n >= 16:
                sizes[axis] = ceil(n / 2)
                lengths[axis] = length * 2
        if len(shapes) >= _LEVELS and tuple(sizes) == shapes[0]:
            break
        shapes.insert(0, tuple(sizes))
    return shapes


def optimise_fields(
    moving: Tensor,
    fixed: Tensor,
    start: tuple[Transform, Transform],
    shapes: Sequence[Shape],
    settings: FieldSettings,
    *,
    extent: Sequence[float],
    masks: tuple[Tensor | None, Tensor | None] = (None, None),
    on_step: Callable[[int, Objective], None] | None = None,
) -> tuple[DisplacementField, DisplacementField]:
    """phi_ab (moving o phi_ab ~ fixed) and phi_ba, from the pair of maps `start`, on the last of
    `shapes`; if that is large, on the one before.

    `extent` is the length of the grid along each axis, from the first to the last voxel: steps are
    as long along all axes, so that those across thick slices are a part of one. What still folds in
    the end is smoothed.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    still = identity(len(extent), dtype=moving.dtype, device=moving.device).materialise(shapes[0])
    added = [still, still]  # to the start: on a coarse grid, that would lose what is fine in it
    maps = (still, still)
    done = 0
    for shape, before, steps in zip(shapes, [shapes[0], *shapes[:-1]], settings.steps, strict=True):
        kept = before if prod(shape) > _KEPT_WHOLE else shape
        images = [shrink(image, shape) for image in (moving, fixed)]
        weights = [None if mask is None else shrink(mask, shape) for mask in masks]
        starts = [phi.materialise(kept).u.detach() for phi in start]
        bases = [first + phi.materialise(kept).u for first, phi in zip(starts, added, strict=True)]
        shortest = min(length / (n - 1) for length, n in zip(extent, shape, strict=True) if n > 1)
        unit = [
            shortest / length if n > 1 else 1.0 for length, n in zip(extent, shape, strict=True)
        ]
        maps = _optimise_level(
            images, weights, starts, bases, unit, steps, settings, generator, done, on_step
        )
        added = [DisplacementField(phi.u - first) for phi, first in zip(maps, starts, strict=True)]
        done += steps
    phi_ab, phi_ba = (without_folds(phi) for phi in maps)
    return phi_ab, phi_ba


def _optimise_level(
    images: list[Tensor],
    masks: list[Tensor | None],
    starts: list[Tensor],
    bases: list[Tensor],
    unit: Sequence[float],
    steps: int,
    settings: FieldSettings,
    generator: torch.Generator,
    done: int,
    on_step: Callable[[int, Objective], None] | None,
) -> tuple[DisplacementField, DisplacementField]:
    shape = tuple(images[0].shape[2:])
    coarse = [max(ceil(n / 2), 2) for n in shape]
    voxel = bases[0].new_tensor(unit).reshape(1, -1, *[1] * len(shape))
    free = [
        torch.zeros(
            1, len(shape), *coarse, dtype=voxel.dtype, device=voxel.device, requires_grad=True
        )
        for _ in bases
    ]
    matrices = smoothing_matrices(coarse, bases[0].shape[2:], like=voxel)
    optimizer = torch.optim.Adam(free, lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.51 + 0.49 * cos(pi * step / steps)
    )

    def fields() -> tuple[DisplacementField, DisplacementField]:
        ab, ba = (
            DisplacementField(base + along_axes(p, matrices) * voxel)
            for base, p in zip(bases, free, strict=True)
        )
        return ab, ba

    level = _Level.of(images, masks, starts)
    cell = settings.cell + (prod(shape) > _MANY_POINTS * settings.cell ** len(shape))
    for step in range(1, steps + 1):
        points = random_points(shape, generator, like=voxel, cell=cell)
        result = _objective(level, *fields(), points, _sides(len(shape), generator), settings)
        optimizer.zero_grad(set_to_none=True)
        result.loss.backward()
        optimizer.step()
        schedule.step()
        if on_step is not None:
            on_step(done + step, result)
    with torch.no_grad():
        return fields()


@dataclass(frozen=True, eq=False)
class _Level:
    """The images of a resolution, (moving, fixed), and the block of their voxels outside of which
    both are empty.

    `finer` are the matrices that read maps in the block, if they are on a coarser grid than the
    images.
    """

    images: list[Tensor]
    masks: list[Tensor | None]
    start: list[int]
    shape: list[int]
    grid: Tensor
    origins: list[Tensor]
    finer: list[Tensor] | None

    @classmethod
    def of(
        cls, images: list[Tensor], masks: list[Tensor | None], origins: list[Tensor]
    ) -> "_Level":
        (start, shape) = filled_block(images)
        whole = images[0].shape[2:]
        kept = origins[0].shape[2:]
        grid = window(unit_grid(whole, like=images[0]), start, shape)
        rows = [slice(first, first + n) for first, n in zip(start, shape, strict=True)]
        finer = [
            linear_matrix(few, n, images[0])[place]
            for few, n, place in zip(kept, whole, rows, strict=True)
        ]
        return cls(images, masks, start, shape, grid, origins, None if kept == whole else finer)

    @property
    def share(self) -> float:
        """Of all voxels: what the mean over the block counts in the mean over all."""
        return prod(self.shape) / self.images[0][0, 0].numel()

    def unlike(
        self, phi: DisplacementField, similarity: Similarity, *, back: bool = False
    ) -> Tensor:
        """How unlike moving o phi and fixed are in the block, or, on the way back, fixed o phi and
        moving.
        """
        (moving, fixed) = self.images[:: -1 if back else 1]
        (moving_mask, fixed_mask) = self.masks[:: -1 if back else 1]
        x = self.grid + (
            window(phi.u, self.start, self.shape)
            if self.finer is None
            else along_axes(phi.u, self.finer)
        )
        fixed_mask = None if fixed_mask is None else window(fixed_mask, self.start, self.shape)
        return dissimilarity_at(
            x, moving, window(fixed, self.start, self.shape), moving_mask, fixed_mask, similarity
        )


def filled_block(images: Sequence[Tensor]) -> tuple[list[int], list[int]]:
    """The first voxel, and how many along each axis, of the block that holds what is not empty in
    any image, and a margin.
    """
    filled = torch.stack([image > EMPTY for image in images]).flatten(0, 2).any(0)
    whole = list(filled.shape)
    if not filled.any():
        return [0] * len(whole), whole
    places = filled.nonzero()
    first = [max(int(n) - _MARGIN, 0) for n in places.amin(0)]
    return first, [
        min(int(n) + 1 + _MARGIN, m) - f
        for n, m, f in zip(places.amax(0), whole, first, strict=True)
    ]


def _objective(
    level: _Level,
    phi_ab: DisplacementField,
    phi_ba: DisplacementField,
    x: Tensor,
    sides: Sequence[Side],
    settings: FieldSettings,
) -> Objective:
    """The paper's loss, and a barrier felt only where a map is about to fold: free fields may fold
    between the penalty's points.
    """
    unlike = level.unlike(phi_ab, settings.similarity) + level.unlike(
        phi_ba, settings.similarity, back=True
    )
    penalty = gradient_inconsistency(phi_ab, phi_ba, x)
    shape = phi_ab.u.shape[2:]
    barrier = fold_barrier(phi_ab, shape, sides) + fold_barrier(phi_ba, shape, sides)
    loss = level.share * unlike + settings.weight * penalty + settings.barrier * barrier
    if settings.anchor:
        pairs = zip((phi_ab, phi_ba), level.origins, strict=True)
        loss = loss + settings.anchor * sum(
            (100 * (phi.u - origin)).square().sum(1).mean() for phi, origin in pairs
        )
    return Objective(loss, unlike, penalty, phi_ab, phi_ba)


def fold_barrier(
    phi: DisplacementField,
    shape: Sequence[int],
    differences: Sequence[Side],
    margin: float = _FOLD_MARGIN,
) -> Tensor:
    """The mean of max(0, margin - det grad phi), by a one-sided difference along each axis.

    Few voxels are below: only those are differentiated.
    """
    with torch.no_grad():
        determinant = jacobian_determinant(phi, shape, difference=differences)
    items, *low = (determinant < margin).nonzero(as_tuple=True)
    side = torch.tensor(
        [1 if name == "forward" else -1 for name in differences], device=determinant.device
    )
    voxel = torch.stack(low, -1) + (side < 0)
    neighbours = torch.stack([voxel, *(voxel + step for step in torch.diag(side))])
    here, *there = phi.on_grid(shape).movedim(1, -1)[
        (items.expand(len(shape) + 1, -1), *neighbours.unbind(-1))
    ]
    changes = zip(there, side, shape, strict=True)
    columns = [(neighbour - here) * toward * (n - 1) for neighbour, toward, n in changes]
    return (margin - torch.linalg.det(torch.stack(columns, -1))).sum() / determinant.numel()


def _sides(dimension: int, generator: torch.Generator) -> list[Side]:
    """Backward or forward along each axis, by lot: a map that folds by none of them is one to one
    between voxels, too.
    """
    return [
        "forward" if side else "backward"
        for side in torch.randint(2, (dimension,), generator=generator).tolist()
    ]
