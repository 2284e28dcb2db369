"""Two images in, a trustworthy transform out: the job that everything else here is for."""

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gradicon.core.jacobian import jacobian_determinant
from gradicon.core.objective import dissimilarity
from gradicon.core.transform import DisplacementField, identity
from gradicon.physical.images import Image, from_sitk
from gradicon.physical.space import Space
from gradicon.physical.transforms import (
    ItkTransform,
    affine_to_itk,
    inverse_to_itk,
    resample,
    to_itk,
)
from gradicon.registration.decide import make_plan
from gradicon.registration.options import Options
from gradicon.registration.pair import Pair, Scan, Source, lay_out, read_pair
from gradicon.registration.plan import Plan
from gradicon.registration.presets import PRESETS, Presets
from gradicon.registration.solve.inverse import InverseError, improve_inverse, inverse_error
from gradicon.registration.solve.maps import OnStep, Solution, solve


@dataclass(frozen=True, eq=False)
class Registration:
    """What was found.

    Args:
        warped: moving, resampled onto fixed.
        transform: takes points of fixed to points of moving, in LPS mm, and so resamples moving
            onto fixed.
        inverse: the other way.
        phi, inverse_phi: the deformations alone, on the unit cube of the working grid
            `pair.space`, without the affine start. What they are made of is half as fine as that,
            so of large grids only every second voxel is kept.
        pair: both images on the working grid.
        plan: what was decided beforehand.
        similarity: how unlike the images are on the working grid, before and after.
        inverse_error: how well the two transforms undo each other.
        options: what the person chose.
        made: how the maps were found, in words.
        answer: the network's own map, on the grid on which it saw the pair, before it was refined
            as a field or smoothed where it folds; None if no network was asked.
        seconds: of all of it.
    """

    warped: Image
    transform: ItkTransform
    inverse: ItkTransform
    phi: DisplacementField
    inverse_phi: DisplacementField
    pair: Pair
    plan: Plan
    similarity: tuple[float, float]
    inverse_error: InverseError
    options: Options
    made: str
    answer: DisplacementField | None
    seconds: float

    @cached_property
    def determinant(self) -> Tensor:
        """(1, *S): of phi's Jacobian on the working grid, by backward differences."""
        return jacobian_determinant(self.phi, self.pair.space.shape)

    @cached_property
    def answer_determinant(self) -> Tensor | None:
        """The same of the network's own map, on the grid on which it saw the pair."""
        if self.answer is None:
            return None
        return jacobian_determinant(self.answer, self.answer.u.shape[2:])


def register(
    fixed: Source,
    moving: Source,
    options: Options | None = None,
    *,
    fixed_mask: Source | None = None,
    moving_mask: Source | None = None,
    presets: Presets = PRESETS,
    on_step: OnStep | None = None,
) -> Registration:
    """Align `moving` to `fixed`, in 2-D or 3-D.

    Args:
        fixed, moving: paths (a DICOM folder is one too), SimpleITK images or volumes.
        options: what a person may choose; the defaults need no tuning.
        fixed_mask, moving_mask: where each image counts.
        presets: the numbers behind what is done; others than the default are for measurements.
        on_step: called after every step of optimisation.
    """
    began = time.perf_counter()
    options = options or Options()
    scans = read_pair(fixed, moving, (fixed_mask, moving_mask))
    looks = (scans[0].look, scans[1].look)
    plan = make_plan(scans[0].volume.space, looks, options, presets=presets)
    pair = lay_out(*scans, plan)
    solution = solve(pair.to(options.torch_device), plan, on_step)
    return _hand_over(scans, pair, plan, options, solution, began)


def _hand_over(
    scans: tuple[Scan, Scan],
    pair: Pair,
    plan: Plan,
    options: Options,
    solution: Solution,
    began: float,
) -> Registration:
    """The maps in millimetres, their inverse, and the moving image resampled."""
    fixed, moving = scans
    phi, rough_inverse = (each.to("cpu") for each in solution.maps)
    inverse_phi = improve_inverse(phi, rough_inverse, plan.presets) if plan.deforms else phi
    transform, inverse = _to_mm(phi, inverse_phi, pair, plan)
    darkest = float(from_sitk(moving.image).data.min())
    still = identity(len(pair.space.shape)).materialise(pair.space.shape)
    return Registration(
        warped=resample(moving.image, fixed.image, transform, outside=darkest),
        transform=transform,
        inverse=inverse,
        phi=phi,
        inverse_phi=inverse_phi,
        pair=pair,
        plan=plan,
        similarity=(_compare(pair, still, plan), _compare(pair, phi, plan)),
        inverse_error=inverse_error(phi, inverse_phi, pair.space, plan.presets.inverse.points),
        options=options,
        made=solution.made,
        answer=None if solution.answer is None else solution.answer.to("cpu"),
        seconds=time.perf_counter() - began,
    )


def _to_mm(
    phi: DisplacementField, inverse_phi: DisplacementField, pair: Pair, plan: Plan
) -> tuple[ItkTransform, ItkTransform]:
    """Both maps with the affine start, in millimetres; without a deformation, the start alone."""
    if not plan.deforms:
        matrix = pair.start.matrix
        return affine_to_itk(matrix), affine_to_itk(np.linalg.inv(matrix).astype(np.float64))
    grid = pair.space.resized(phi.u.shape[2:])
    reached = Space(grid.shape, pair.start.matrix @ grid.index_to_mm)  # in moving's mm
    return to_itk(phi, grid, reached), inverse_to_itk(inverse_phi, grid, reached)


def _compare(pair: Pair, phi: DisplacementField, plan: Plan) -> float:
    """How unlike fixed and moving o phi are, on the working grid."""
    masks = (pair.moving_weight, pair.fixed_weight)
    with torch.no_grad():
        return float(dissimilarity(phi, pair.moving, pair.fixed, *masks, plan.measure.function()))
