"""Two images in, a trustworthy transform out: the job that everything else here is for."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, prod, sqrt

import torch

from gradicon.core.network import RegistrationNetwork
from gradicon.core.objective import Objective, dissimilarity
from gradicon.core.similarity import SIMILARITIES, Similarity, lncc, mind_ssc, squared_lncc
from gradicon.core.transform import DisplacementField, identity
from gradicon.models.checkpoint import load
from gradicon.physical.images import Image, as_image, from_sitk
from gradicon.physical.space import Space
from gradicon.physical.transforms import ItkTransform, inverse_to_itk, resample, to_itk
from gradicon.registration.answer import Maps, held, makes_it_worse, settled
from gradicon.registration.options import AUTO, Options
from gradicon.registration.prepare import Prepared, Source, prepare
from gradicon.registration.solve.fields import FieldSettings, optimise_fields, pyramid
from gradicon.registration.solve.inverse import InverseError, improve_inverse, inverse_error
from gradicon.registration.solve.network import refine

OnStep = Callable[[int, int, Objective], None]
"""Called after every step of optimisation with its number, how many there will be, and its
objective.
"""

# LNCC's sigma where fields start from nothing, in voxels of the finest axis of the working grid
_WINDOW = 2.0
_EVERY = 2  # voxels from one of its windows to the next while fields are optimised
# and from a model's answer: in voxels of every axis of its grid, as in the paper's training
_TRAINED_WINDOW = 5.0
# of a resolution from which on there are fewer steps; how many times as many below
_MANY_VOXELS = 600_000
_MOST = 6.0
# voxels: MIND's patches and their distance; finer than in the reference, which does better on small
# structures
_PATCH = 1
# MIND's numbers are a tenth of LNCC's
_BARRIER = 30.0
_MIND_BARRIER = 3.0
# Adam's, in voxels
_RATE = 0.8
_TRAINED_RATE = 0.4
# voxels along each axis to a point of the penalty; the paper's is 2
_CELL = 3
_TRAINED_CELL = 2


@dataclass(frozen=True, eq=False)
class Registration:
    """What was found. `transform` takes points of fixed to points of moving, in LPS mm, and so
    resamples moving onto fixed.

    `phi` and `inverse_phi` are the deformations alone, on the unit cube of the working grid
    `pair.space`, without the affine start. What they are made of is half as fine as that, so of
    large grids only every second voxel is kept. `made` says in words how they were found.
    """

    warped: Image
    transform: ItkTransform
    inverse: ItkTransform
    phi: DisplacementField
    inverse_phi: DisplacementField
    pair: Prepared
    similarity: tuple[float, float]
    inverse_error: InverseError
    options: Options
    made: str
    seconds: float


def register(
    fixed: Source,
    moving: Source,
    options: Options | None = None,
    *,
    fixed_mask: Source | None = None,
    moving_mask: Source | None = None,
    on_step: OnStep | None = None,
) -> Registration:
    """Align `moving` to `fixed`: paths (a DICOM folder is one too), SimpleITK images or volumes, in
    2-D or 3-D.
    """
    began = time.perf_counter()
    options = options or Options()
    fixed_image = as_image(fixed)
    moving_image = as_image(moving)
    pair = prepare(fixed_image, moving_image, (fixed_mask, moving_mask), options)
    similarity = _similarity(pair, options)
    maps, made = _maps(pair.to(options.torch_device), similarity, options, on_step)
    phi, rough_inverse = (found.to("cpu") for found in maps)
    inverse_phi = improve_inverse(phi, rough_inverse)
    grid = pair.space.resized(phi.u.shape[2:])
    reached = Space(
        grid.shape, pair.start.matrix @ grid.index_to_mm
    )  # the grid of the maps, carried into moving's mm
    transform = to_itk(phi, grid, reached)
    return Registration(
        warped=resample(
            moving_image, fixed_image, transform, outside=float(from_sitk(moving_image).data.min())
        ),
        transform=transform,
        inverse=inverse_to_itk(inverse_phi, grid, reached),
        phi=phi,
        inverse_phi=inverse_phi,
        pair=pair,
        similarity=(
            _compare(
                pair, identity(len(pair.space.shape)).materialise(pair.space.shape), similarity
            ),
            _compare(pair, phi, similarity),
        ),
        inverse_error=inverse_error(phi, inverse_phi, pair.space),
        options=options,
        made=made,
        seconds=time.perf_counter() - began,
    )


def _maps(
    pair: Prepared, similarity: Similarity, options: Options, on_step: OnStep | None
) -> tuple[Maps, str]:
    """The deformation and its reverse: fields from scratch, or a network's answer, refined or not;
    and how they were found.
    """
    shape = pair.space.shape
    if pair.model is None:
        return _from_scratch(
            pair, similarity, options, on_step
        ), "no model was asked: the fields were optimised from scratch"
    network: RegistrationNetwork = load(pair.model).to(pair.fixed.device)
    answer = f"the answer of the model {pair.model.stem}"
    moving, fixed = pair.seen or (pair.moving, pair.fixed)
    if options.refine_network:
        report = _counted(on_step, options.refine)
        weight = options.penalty_weight
        seed = options.seed
        network = refine(
            network,
            moving,
            fixed,
            steps=options.refine,
            similarity=similarity,
            weight=weight,
            seed=seed,
            on_step=report,
        )
    with torch.no_grad():
        maps = (
            network(moving, fixed).materialise(fixed.shape[2:]),
            network(fixed, moving).materialise(fixed.shape[2:]),
        )
    if not options.refines_fields:
        how = (
            "on a copy of it refined for this pair"
            if options.refine_network
            else "as it is, not refined"
        )
        return settled(maps), f"{answer}, {how}"
    if options.model == AUTO and makes_it_worse(maps[0], moving, fixed):
        found = _from_scratch(pair, similarity, options, on_step)
        return (
            found,
            (
                f"the model {pair.model.stem} made the images less alike: the fields were "
                "optimised from scratch instead"
            ),
        )
    shapes = [shape]
    anchor = 0.0
    if pair.seen is not None:
        shapes = pyramid(shape, pair.space.spacing_mm)
        anchor = held(maps[0], moving, fixed, shape)
    return _fields(
        pair, maps, shapes, similarity, options, on_step, anchor=anchor
    ), f"{answer}, refined"


def _from_scratch(
    pair: Prepared, similarity: Similarity, options: Options, on_step: OnStep | None
) -> Maps:
    shape = pair.space.shape
    still = identity(len(shape), device=pair.fixed.device).materialise(shape)
    return _fields(
        pair, (still, still), pyramid(shape, pair.space.spacing_mm), similarity, options, on_step
    )


def _fields(
    pair: Prepared,
    start: Maps,
    shapes: list[tuple[int, ...]],
    similarity: Similarity,
    options: Options,
    on_step: OnStep | None,
    *,
    anchor: float = 0.0,
) -> Maps:
    """Optimise both fields from `start`. On a model's grid a voxel is a voxel, as in its training,
    however long it is.
    """
    trained = _on_model_grid(pair)
    space = pair.space
    steps = _steps(options.refine, shapes)
    settings = FieldSettings(
        partial(similarity, every=_EVERY)
        if options.similarity in ("lncc", "squared_lncc")
        else similarity,
        steps,
        options.penalty_weight,
        learning_rate=_TRAINED_RATE if trained else _RATE,
        seed=options.seed,
        barrier=_MIND_BARRIER if options.similarity == "mind_ssc" else _BARRIER,
        cell=_TRAINED_CELL if trained else _CELL,
        anchor=anchor,
    )
    lengths = [1.0] * len(space.shape) if trained else space.spacing_mm
    extent = [max(n - 1, 1) * length for n, length in zip(space.shape, lengths, strict=True)]
    masks = (pair.moving_weight, pair.fixed_weight)
    report = _counted(on_step, sum(steps))
    return optimise_fields(
        pair.moving, pair.fixed, start, shapes, settings, extent=extent, masks=masks, on_step=report
    )


def _steps(refine: int, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """How many at each resolution: fewer where voxels are many, since what is left to do there is
    small, and dear.

    Where there is such a one, the coarser ones are cheap beside it and get more: large motion is
    found there or nowhere.
    """
    most = _MOST if prod(shapes[-1]) > _MANY_VOXELS else 1.0
    return tuple(ceil(refine * min(most, sqrt(_MANY_VOXELS / prod(shape)))) for shape in shapes)


def _on_model_grid(pair: Prepared) -> bool:
    return pair.model is not None and pair.seen is None


def _similarity(pair: Prepared, options: Options) -> Similarity:
    """The measure by name. But for a model's grid, its window is as wide in mm along every axis:
    thick slices do not blur.
    """
    measure = SIMILARITIES[options.similarity]
    if measure is mind_ssc:
        return partial(mind_ssc, radius=_PATCH, dilation=_PATCH)
    if measure not in (lncc, squared_lncc):
        return measure
    if _on_model_grid(pair):
        return partial(measure, sigma=_TRAINED_WINDOW)
    shortest = min(pair.space.spacing_mm)
    return partial(
        measure,
        sigma=tuple(max(_WINDOW * shortest / length, 0.5) for length in pair.space.spacing_mm),
    )


def _compare(pair: Prepared, phi: DisplacementField, similarity: Similarity) -> float:
    with torch.no_grad():
        return float(
            dissimilarity(
                phi, pair.moving, pair.fixed, pair.moving_weight, pair.fixed_weight, similarity
            )
        )


def _counted(on_step: OnStep | None, total: int) -> Callable[[int, Objective], None] | None:
    return None if on_step is None else lambda step, result: on_step(step, total, result)
