"""From two scans, a model and a person's choices to a plan: every decision, taken once."""

from itertools import pairwise

from gradicon.core.similarity import WINDOW, penalty_weight
from gradicon.errors import GradiconError
from gradicon.models import Checkpoint, Preprocessing, open_checkpoint
from gradicon.models.zoo import DEFAULT, find
from gradicon.physical.preprocess import Kind, place_grid
from gradicon.physical.space import Space
from gradicon.registration.grids import pyramid, working_space
from gradicon.registration.options import AUTO, NONE, Options
from gradicon.registration.plan import FieldPlan, Level, Measure, Plan, Way
from gradicon.registration.presets import PRESETS, Presets

_WINDOWED = ("lncc", "squared_lncc")
_OF_ONE_KIND = ("lncc", "squared_lncc", "ncc", "mse")  # the same tissue is as bright in both


def choose_model(options: Options, dimension: int, *, one_kind: bool) -> Checkpoint | None:
    """The model to ask for a pair. `one_kind` is whether its images are of one modality."""
    if options.model == NONE or options.to != "deformable":
        return None
    if options.model != AUTO:
        return open_checkpoint(find(options.model))
    if dimension == 3 and one_kind and options.similarity in _OF_ONE_KIND:
        return open_checkpoint(find(DEFAULT))
    if not options.refines_fields:
        what = "2-D images" if dimension == 2 else "images of different kinds"
        raise GradiconError(
            f"no model in the box is for {what}: give one with --model, or leave --refine as it is"
        )
    return None


def make_plan(
    fixed: Space,
    kinds: tuple[Kind, Kind],
    options: Options,
    *,
    presets: Presets = PRESETS,
) -> Plan:
    """Decide everything.

    Args:
        fixed: where the fixed image lies, in canonical orientation.
        kinds: "ct" or "mr": what fixed and moving look like.
        options: what the person chose.
        presets: the numbers behind it.
    """
    given = _given_kinds(options, kinds)
    model = choose_model(options, len(fixed.shape), one_kind=given[0] == given[1])
    prepared = None if model is None else model.header.preprocessing
    placed = None if prepared is None else place_grid(prepared, fixed)
    augmented = prepared is not None and prepared.augmented  # it takes images out of place
    sees_all = prepared is not None and prepared.crop == "fit" and augmented
    seen = placed if sees_all and options.refines_fields else None
    space = placed if placed and not seen else working_space(fixed, presets.grid.most_voxels)
    of_the_paper = options.protocol == "paper"
    if of_the_paper and model is not None and placed is None:
        raise GradiconError(
            f"{model.path}: --protocol paper shows a network images as in its training, but this "
            "file does not say how they were prepared: see gradicon import-weights --recipe"
        )
    as_trained = placed is not None and options.init == "auto" and (of_the_paper or not augmented)
    fields = None
    if options.refines_fields:
        fields = _plan_fields(space, placed, options, presets)
    return Plan(
        way=_way(model, options),
        model=model,
        start="model" if as_trained else options.init,
        kinds=_kinds(options, kinds, prepared),
        mask_outside=_mask_outside(options, prepared),
        space=space,
        seen=seen,
        beyond="zero" if space is placed else "border",
        measure=_plan_measure(space, options, presets, as_trained=model is not None and not fields),
        fields=fields,
        may_drop_answer=model is not None and fields is not None and options.model == AUTO,
        repeats=_repeats(model, options, presets),
        network_steps=_network_steps(options, presets),
        half_precision=options.in_half_precision,
        repairs=not of_the_paper,
        weight=options.penalty_weight,
        seed=options.seed,
        presets=presets,
    )


def _repeats(model: Checkpoint | None, options: Options, presets: Presets) -> int:
    """As often as in its training, or more where its answer is all that is wanted of it."""
    if model is None:
        return 0
    trained = model.header.config.repeats
    if options.refines_network or options.protocol == "paper":
        return trained
    return max(trained, presets.answer.repeats)


def _network_steps(options: Options, presets: Presets) -> int:
    if not options.refines_network:
        return 0
    return presets.answer.steps if options.refine is None else options.refine


def _given_kinds(options: Options, looks: tuple[Kind, Kind]) -> tuple[Kind, Kind]:
    """What was said of each image, or what it looks like."""
    fixed, moving = looks
    if options.fixed_modality != "auto":
        fixed = options.fixed_modality
    if options.moving_modality != "auto":
        moving = options.moving_modality
    return fixed, moving


def _kinds(
    options: Options, looks: tuple[Kind, Kind], prepared: Preprocessing | None
) -> tuple[Kind, Kind]:
    """What was said, else what the model was trained on, else what the images look like."""
    if prepared is not None and prepared.modality != "auto":
        looks = (prepared.modality, prepared.modality)
    return _given_kinds(options, looks)


def _mask_outside(options: Options, prepared: Preprocessing | None) -> bool:
    """What was said, else as in the model's training, else as the paper does."""
    if options.mask_outside is not None:
        return options.mask_outside
    return prepared is None or prepared.mask_outside


def _way(model: Checkpoint | None, options: Options) -> Way:
    if options.to != "deformable":
        return options.to
    if model is None:
        return "from scratch"
    if options.refines_network:
        return "answer and network"
    return "answer and fields" if options.refines_fields else "answer alone"


def _plan_measure(space: Space, options: Options, presets: Presets, *, as_trained: bool) -> Measure:
    """Windows are as wide in mm along every axis, or the paper's where a network does all."""
    preset = presets.measure
    sigma: tuple[float, ...] = ()
    if options.similarity in _WINDOWED:
        shortest = min(space.spacing_mm)
        sigma = tuple(
            WINDOW if as_trained else max(preset.window * shortest / length, preset.narrowest)
            for length in space.spacing_mm
        )
    return Measure(options.similarity, sigma, preset.every, preset.patch)


def _plan_fields(space: Space, seen: Space | None, options: Options, presets: Presets) -> FieldPlan:
    """Every resolution; `seen` is the grid on which a network saw the pair, if one did."""
    preset = presets.fields
    shapes = pyramid(space.shape, space.spacing_mm, presets.grid.coarsest)
    finest = preset.steps if options.refine is None else options.refine
    detail = (0,) * len(space.shape) if seen is None else seen.shape
    levels: list[Level] = []
    for number, (knots, shape) in enumerate(pairwise(shapes)):
        kept = tuple(max(k, min(n, d)) for k, n, d in zip(knots, shape, detail, strict=True))
        steps = finest * preset.more ** (len(shapes) - 2 - number)
        levels.append(Level(shape, knots, kept, steps, preset.cell))
    return FieldPlan(
        levels=tuple(levels),
        lengths=space.spacing_mm,
        rate=preset.rate,
        weight=options.penalty_weight,
        barrier=preset.barrier * penalty_weight(options.similarity),
    )
