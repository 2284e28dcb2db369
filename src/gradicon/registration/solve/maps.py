"""The deformation and its reverse, found as a plan says: by a network, by optimisation, or both."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from gradicon.core.network import warp
from gradicon.core.objective import Objective
from gradicon.core.similarity import lncc
from gradicon.core.transform import DisplacementField, identity
from gradicon.registration.pair import Pair
from gradicon.registration.plan import FieldPlan, Plan
from gradicon.registration.presets import Presets
from gradicon.registration.solve.fields import Images, optimise_fields
from gradicon.registration.solve.folds import without_folds
from gradicon.registration.solve.network import refine

Maps = tuple[DisplacementField, DisplacementField]
"""phi_ab, with moving o phi_ab ~ fixed, and phi_ba."""

OnStep = Callable[[int, int, Objective], None]
"""Called after every step with its number, how many there will be, and its objective."""


@dataclass(frozen=True, eq=False)
class Solution:
    """What was found.

    Args:
        maps: both directions.
        made: how, in words.
        answer: the network's own map of the first direction, before anything was refined as fields
            or smoothed where it folds; None if no network was asked.
    """

    maps: Maps
    made: str
    answer: DisplacementField | None = None


def solve(pair: Pair, plan: Plan, on_step: OnStep | None = None) -> Solution:
    """Both maps, found as the plan says."""
    if not plan.deforms:
        made = f"nothing was deformed: the {plan.way} map of the start is the answer"
        return Solution(_still(pair), made)
    if plan.model is None:
        made = "no model was asked: the fields were optimised from scratch"
        assert plan.fields is not None
        return Solution(_optimise(pair, plan, plan.fields, _still(pair), 0.0, on_step), made)
    seen = Images(*(pair.seen or (pair.moving, pair.fixed)))
    maps = _ask_network(seen, plan, on_step)
    answer = f"the answer of the model {plan.model.name}"
    if plan.fields is None:
        how = "as it is, not refined"
        if plan.network_steps:
            how = "on a copy of it refined for this pair"
        return Solution(_mend(maps, plan), f"{answer}, {how}", maps[0])
    if plan.may_drop_answer and _makes_it_worse(maps[0], seen):
        made = (
            f"the model {plan.model.name} made the images less alike: "
            "the fields were optimised from scratch instead"
        )
        fields = plan.fields.from_nothing()
        found = _optimise(pair, plan, fields, _still(pair), 0.0, on_step)
        return Solution(found, made, maps[0])
    pull = hold(maps[0], seen, pair.space.shape, plan.presets)
    found = _optimise(pair, plan, plan.fields, maps, pull, on_step)
    return Solution(found, f"{answer}, refined", maps[0])


def _ask_network(seen: Images, plan: Plan, on_step: OnStep | None) -> Maps:
    """The network's answer for both directions, or that of a copy refined for this pair."""
    assert plan.model is not None
    network = plan.model.load(repeats=plan.repeats).to(seen.fixed.device)
    if plan.network_steps:
        network = refine(
            network,
            seen.moving,
            seen.fixed,
            steps=plan.network_steps,
            similarity=plan.measure.function(),
            weight=plan.weight,
            learning_rate=plan.presets.answer.learning_rate,
            half_precision=plan.half_precision,
            seed=plan.seed,
            on_step=_count(on_step, plan.network_steps),
        )
    shape = seen.fixed.shape[2:]
    with torch.no_grad():
        there = network(seen.moving, seen.fixed).materialise(shape)
        back = network(seen.fixed, seen.moving).materialise(shape)
    return there, back


def _still(pair: Pair) -> Maps:
    """Maps that move nothing."""
    shape = pair.space.shape
    still = identity(len(shape), device=pair.fixed.device).materialise(shape)
    return still, still


def _optimise(
    pair: Pair, plan: Plan, fields: FieldPlan, start: Maps, pull: float, on_step: OnStep | None
) -> Maps:
    images = Images(pair.moving, pair.fixed, pair.moving_weight, pair.fixed_weight)
    return optimise_fields(
        images,
        start,
        fields,
        plan.measure.function(thinned=True),
        plan.presets,
        pull=pull,
        seed=plan.seed,
        on_step=_count(on_step, fields.steps),
    )


def hold(phi: DisplacementField, seen: Images, shape: tuple[int, ...], presets: Presets) -> float:
    """How strongly refinement is pulled back to a network's answer: the more alike it makes images.

    Where they are nearly alike, a measure of likeness has little to say, and a network that was
    trained with labels knows better. Where the network's own grid is much finer than the images, it
    has seen all their detail, and the least is a gentle pull.

    Args:
        phi: the answer.
        seen: the pair as the network saw it.
        shape: of the grid on which fields are refined.
        presets: the numbers of it.
    """
    answer = presets.answer
    empty = presets.fields.empty
    with torch.no_grad():
        warped = warp(seen.moving, phi)
        filled = ((warped > empty) | (seen.fixed > empty)).float()
        unlike = float(lncc(warped, seen.fixed, sigma=presets.measure.window, mask=filled))
    saw_all = all(
        answer.finer * n <= seen_n for n, seen_n in zip(shape, seen.fixed.shape[2:], strict=True)
    )
    return max(answer.held * (1 - unlike / answer.unlike), answer.least if saw_all else 0.0)


def _makes_it_worse(phi: DisplacementField, seen: Images) -> bool:
    """Whether an answer makes images less alike, so that nothing may be built on it.

    Compared in the windows of the paper, as in the network's training.
    """
    with torch.no_grad():
        return bool(lncc(warp(seen.moving, phi), seen.fixed) > lncc(seen.moving, seen.fixed))


def _mend(maps: Maps, plan: Plan) -> Maps:
    """An answer that is not refined, smoothed where it folds if that is wanted."""
    if not plan.repairs:
        return maps
    there, back = maps
    return without_folds(there, plan.presets.repair), without_folds(back, plan.presets.repair)


def _count(on_step: OnStep | None, total: int) -> Callable[[int, Objective], None] | None:
    return None if on_step is None else lambda step, result: on_step(step, total, result)
