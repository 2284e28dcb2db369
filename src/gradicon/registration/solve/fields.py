"""Instance optimization of the displacement fields themselves: both directions at once, held
together by GradICON.

No network takes part, so a step costs a few interpolations. A field is u = u_start + B(p): p are
free parameters on a grid half as fine as the images, and B smooths them a little. From coarse to
fine, each level starts where the one before ended. Maps are kept on that grid, too, or on one as
fine as the detail of u_start.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.optim.lr_scheduler import CosineAnnealingLR

from gradicon.core.jacobian import Side
from gradicon.core.objective import Objective, gradient_inconsistency
from gradicon.core.points import random_points
from gradicon.core.similarity import Similarity
from gradicon.core.transform import DisplacementField, Transform, identity
from gradicon.registration.plan import FieldPlan, Level
from gradicon.registration.presets import PRESETS, Presets
from gradicon.registration.solve.barrier import draw_sides, fold_barrier
from gradicon.registration.solve.folds import without_folds
from gradicon.registration.solve.resolution import Images, Resolution
from gradicon.registration.solve.smoothing import along_axes, smoothing_matrices

Maps = tuple[DisplacementField, DisplacementField]
Report = Callable[[int, Objective], None]


def optimise_fields(
    images: Images,
    start: tuple[Transform, Transform],
    plan: FieldPlan,
    similarity: Similarity,
    presets: Presets = PRESETS,
    *,
    pull: float = 0.0,
    seed: int = 0,
    on_step: Report | None = None,
) -> Maps:
    """phi_ab (moving o phi_ab ~ fixed) and phi_ba, on the last level's grid, smoothed where they
    still fold.

    Args:
        images: the pair on the finest grid, and where each image counts.
        start: the maps to begin with.
        plan: the levels, coarse to fine, and how each is optimised.
        similarity: what is compared.
        presets: the numbers behind it.
        pull: the weight of the mean squared distance from the start, in the unit cube.
        seed: of the points of the penalty, and of the sides from which the barrier looks.
        on_step: called after each step with its number, counted over all levels.
    """
    run = _Run(plan, similarity, presets, pull, torch.Generator().manual_seed(seed), on_step)
    still = identity(len(plan.lengths), dtype=images.fixed.dtype, device=images.fixed.device)
    maps = (still.materialise(plan.levels[0].shape),) * 2
    added: Sequence[DisplacementField] = maps  # to the start, which has detail that maps may lack
    for level in plan.levels:
        origins = [phi.materialise(level.kept).u.detach() for phi in start]
        bases = [o + phi.materialise(level.kept).u for o, phi in zip(origins, added, strict=True)]
        maps = run.optimise(images.resized(level.shape), level, origins, bases)
        added = [DisplacementField(phi.u - o) for phi, o in zip(maps, origins, strict=True)]
    there, back = maps
    return without_folds(there, presets.repair), without_folds(back, presets.repair)


class _Run:
    """What stays the same from level to level, and what goes on: random numbers and the count."""

    def __init__(
        self,
        plan: FieldPlan,
        similarity: Similarity,
        presets: Presets,
        pull: float,
        generator: torch.Generator,
        on_step: Report | None,
    ) -> None:
        self.plan = plan
        self.similarity = similarity
        self.presets = presets
        self.pull = pull
        self.generator = generator
        self.on_step = on_step
        self.done = 0

    def optimise(
        self, images: Images, level: Level, origins: list[Tensor], bases: list[Tensor]
    ) -> Maps:
        """Adam on the free parameters of one level."""
        voxel = self._voxel(level.shape, like=bases[0])
        free = [voxel.new_zeros(1, len(level.knots), *level.knots).requires_grad_() for _ in bases]
        matrices = smoothing_matrices(level.knots, level.kept, like=voxel)
        optimizer = torch.optim.Adam(free, lr=self.plan.rate)
        schedule = CosineAnnealingLR(optimizer, level.steps)

        def maps() -> Maps:
            there, back = (
                DisplacementField(base + along_axes(p, matrices) * voxel)
                for base, p in zip(bases, free, strict=True)
            )
            return there, back

        resolution = Resolution.of(images, origins, self.presets.fields)
        for _ in range(level.steps):
            points = random_points(level.shape, self.generator, like=voxel, cell=level.cell)
            sides = draw_sides(len(level.shape), self.generator)
            result = self._objective(resolution, maps(), points, sides, origins)
            optimizer.zero_grad(set_to_none=True)
            result.loss.backward()
            optimizer.step()
            schedule.step()
            self.done += 1
            if self.on_step is not None:
                self.on_step(self.done, result)
        with torch.no_grad():
            return maps()

    def _voxel(self, shape: Sequence[int], like: Tensor) -> Tensor:
        """A step of one voxel of the shortest axis, in unit-cube coordinates, as (1, D, 1, ..)."""
        finest = self.plan.levels[-1].shape
        extent = [
            max(n - 1, 1) * length for n, length in zip(finest, self.plan.lengths, strict=True)
        ]
        steps = [e / (n - 1) if n > 1 else float("inf") for e, n in zip(extent, shape, strict=True)]
        shortest = min(steps)
        unit = [shortest / e if n > 1 else 1.0 for e, n in zip(extent, shape, strict=True)]
        return like.new_tensor(unit).reshape(1, -1, *[1] * len(shape))

    def _objective(
        self,
        resolution: Resolution,
        maps: Maps,
        points: Tensor,
        sides: Sequence[Side],
        origins: list[Tensor],
    ) -> Objective:
        """The paper's loss, and a barrier felt only where a map is about to fold.

        Free fields may fold between the penalty's points, which a network's answer does not.
        """
        there, back = maps
        unlike = resolution.unlike(there, self.similarity)
        unlike = unlike + resolution.unlike(back, self.similarity, back=True)
        penalty = gradient_inconsistency(there, back, points)
        shape = there.u.shape[2:]
        margin = self.presets.fields.margin
        barrier = fold_barrier(there, shape, sides, margin)
        barrier = barrier + fold_barrier(back, shape, sides, margin)
        loss = resolution.share * unlike + self.plan.weight * penalty + self.plan.barrier * barrier
        if self.pull:
            moved = [phi.u - o for phi, o in zip(maps, origins, strict=True)]
            loss = loss + self.pull * sum(u.square().sum(1).mean() for u in moved)
        return Objective(loss, unlike, penalty, there, back)
