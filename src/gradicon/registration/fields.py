"""Instance optimization of the displacement fields themselves: both directions at once, held together by GradICON.

No network takes part, so a step costs a few interpolations. A field is u = u_start + B(p): p are free parameters on a grid half as
fine as the images, and B smooths them like a cubic B-spline. From coarse to fine, each level starts where the one before ended.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, cos, pi

import torch
import torch.nn.functional as F
from torch import Tensor

from gradicon.core.jacobian import jacobian_determinant
from gradicon.core.objective import Objective, dissimilarity, gradient_inconsistency
from gradicon.core.sampling import box_mean, shrink
from gradicon.core.similarity import Similarity
from gradicon.core.transform import DisplacementField, Transform
from gradicon.registration.refine import random_points

Shape = tuple[int, ...]


_FOLD_MARGIN = 0.2


@dataclass(frozen=True)
class FieldSettings:
    """How the fields are optimised.

    Args:
        similarity: what is compared, at every level.
        steps: of each level, coarse to fine.
        weight: of the GradICON penalty, the paper's lambda.
        learning_rate: Adam's, in voxels of the level at work; it falls along a cosine within each level.
        seed: of the points where the penalty is measured.
        barrier: the weight of what keeps determinants away from zero.
    """

    similarity: Similarity
    steps: tuple[int, ...] = (60, 60, 60)
    weight: float = 1.5
    learning_rate: float = 0.2
    seed: int = 0
    barrier: float = 15.0


def pyramid(shape: Shape, spacing: Sequence[float], levels: int) -> list[Shape]:
    """Grids over one field of view, coarse to fine, the last one being `shape`.

    An axis is halved once its voxels are no longer than 1.5 times the shortest, so that thick slices wait until the plane
    has caught up, and never below 8 voxels.
    """
    shapes, sizes, lengths = [shape], list(shape), list(spacing)
    for _ in range(levels - 1):
        shortest = min(lengths)
        for axis, (n, length) in enumerate(zip(sizes, list(lengths), strict=True)):
            if length <= 1.5 * shortest and n >= 16:
                sizes[axis], lengths[axis] = ceil(n / 2), length * 2
        shapes.insert(0, tuple(sizes))
    return shapes


def optimise_fields(
    moving: Tensor,
    fixed: Tensor,
    start: tuple[Transform, Transform],
    shapes: Sequence[Shape],
    settings: FieldSettings,
    *,
    masks: tuple[Tensor | None, Tensor | None] = (None, None),
    on_step: Callable[[int, Objective], None] | None = None,
) -> tuple[DisplacementField, DisplacementField]:
    """phi_ab (moving o phi_ab ~ fixed) and phi_ba, on the last of `shapes`, from the pair of maps `start`."""
    generator = torch.Generator().manual_seed(settings.seed)
    phi_ab, phi_ba = (phi.materialise(shapes[-1]) for phi in start)
    done = 0
    for shape, steps in zip(shapes, settings.steps, strict=True):
        images = [shrink(image, shape) for image in (moving, fixed)]
        weights = [None if mask is None else shrink(mask, shape) for mask in masks]
        bases = [phi.materialise(shape).u.detach() for phi in (phi_ab, phi_ba)]
        phi_ab, phi_ba = _optimise_level(images, weights, bases, steps, settings, generator, done, on_step)
        done += steps
    return phi_ab, phi_ba


def _optimise_level(
    images: list[Tensor],
    masks: list[Tensor | None],
    bases: list[Tensor],
    steps: int,
    settings: FieldSettings,
    generator: torch.Generator,
    done: int,
    on_step: Callable[[int, Objective], None] | None,
) -> tuple[DisplacementField, DisplacementField]:
    shape = tuple(images[0].shape[2:])
    coarse = [max(ceil(n / 2), 2) for n in shape]
    voxel = torch.tensor([1 / max(n - 1, 1) for n in shape], dtype=bases[0].dtype, device=bases[0].device)
    voxel = voxel.reshape(1, -1, *[1] * len(shape))
    free = [torch.zeros(1, len(shape), *coarse, dtype=voxel.dtype, device=voxel.device, requires_grad=True) for _ in bases]
    matrices = spline_matrices(coarse, shape, like=voxel)
    optimizer = torch.optim.Adam(free, lr=settings.learning_rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.51 + 0.49 * cos(pi * step / steps))

    def fields() -> tuple[DisplacementField, DisplacementField]:
        ab, ba = (DisplacementField(base + splined(p, matrices) * voxel) for base, p in zip(bases, free, strict=True))
        return ab, ba

    for step in range(1, steps + 1):
        result = _objective(images, masks, *fields(), random_points(shape, generator, like=voxel), settings)
        optimizer.zero_grad(set_to_none=True)
        result.loss.backward()
        optimizer.step()
        schedule.step()
        if on_step is not None:
            on_step(done + step, result)
    with torch.no_grad():
        return fields()


def _objective(
    images: list[Tensor],
    masks: list[Tensor | None],
    phi_ab: DisplacementField,
    phi_ba: DisplacementField,
    x: Tensor,
    settings: FieldSettings,
) -> Objective:
    """The paper's loss, and a barrier felt only where a map is about to fold: free fields may fold between the penalty's points."""
    (moving, fixed), (moving_mask, fixed_mask) = images, masks
    unlike = dissimilarity(phi_ab, moving, fixed, moving_mask, fixed_mask, settings.similarity)
    unlike = unlike + dissimilarity(phi_ba, fixed, moving, fixed_mask, moving_mask, settings.similarity)
    penalty = gradient_inconsistency(phi_ab, phi_ba, x)
    shape = fixed.shape[2:]
    barrier = fold_barrier(phi_ab, shape) + fold_barrier(phi_ba, shape)
    return Objective(unlike + settings.weight * penalty + settings.barrier * barrier, unlike, penalty, phi_ab, phi_ba)


def fold_barrier(phi: DisplacementField, shape: Sequence[int], margin: float = _FOLD_MARGIN) -> Tensor:
    """The mean of max(0, margin - det grad phi), by backward differences. Few voxels are below: only those are differentiated."""
    with torch.no_grad():
        determinant = jacobian_determinant(phi, shape)
    items, *low = (determinant < margin).nonzero(as_tuple=True)
    voxel = torch.stack(low, -1) + 1
    neighbours = torch.stack([voxel, *(voxel - step for step in torch.eye(len(shape), dtype=torch.int64, device=voxel.device))])
    here, *behind = phi.on_grid(shape).movedim(1, -1)[(items.expand(len(shape) + 1, -1), *neighbours.unbind(-1))]
    columns = [(here - there) * (n - 1) for there, n in zip(behind, shape, strict=True)]
    return (margin - torch.linalg.det(torch.stack(columns, -1))).sum() / determinant.numel()


def spline_matrices(coarse: Sequence[int], shape: Sequence[int], like: Tensor) -> list[Tensor]:
    """B, a matrix (n, coarse n) for each axis: a cubic B-spline's smoothing, a box of 3 three times, then reading linearly."""
    matrices: list[Tensor] = []
    for few, many in zip(coarse, shape, strict=True):
        p = torch.eye(few, dtype=like.dtype, device=like.device)[None]
        for _ in range(3):
            p = box_mean(p, 0, 1)
        matrices.append(F.interpolate(p, many, mode="linear", align_corners=True)[0].mT.contiguous())
    return matrices


def splined(p: Tensor, matrices: Sequence[Tensor]) -> Tensor:
    """B(p), axis by axis."""
    for axis, matrix in enumerate(matrices):
        p = (matrix @ p.movedim(axis + 2, -2)).movedim(-2, axis + 2)
    return p
