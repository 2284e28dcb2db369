"""How to register: the choices a person can make. The defaults need no tuning."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

import torch

from gradicon.core.similarity import SIMILARITIES, penalty_weight
from gradicon.devices import Device, choose_device
from gradicon.errors import GradiconError
from gradicon.models import Modality
from gradicon.models.zoo import find
from gradicon.registration.presets import PRESETS
from gradicon.registration.start import INITS, Init

MODALITIES = ("auto", "ct", "mr")
Goal = Literal["rigid", "affine", "deformable"]
GOALS: tuple[Goal, ...] = get_args(Goal)
Protocol = Literal["default", "paper"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
Precision = Literal["auto", "32", "bf16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
AUTO = "auto"
NONE = "none"


@dataclass(frozen=True)
class Options:
    """The choices.

    Args:
        to: what is looked for: "rigid" turns and shifts, "affine" stretches and shears as well,
            "deformable" goes on from there.
        fixed_modality, moving_modality: "ct" clips to a window of Hounsfield units, "mr" at the 1st
            and 99th percentile.
        init: how the fields of view are brought together first.
        model: whose network makes the first maps: a checkpoint file, or a model in the box by its
            name. "auto" takes the default one for 3-D images of one modality, and no model for
            others; "none" optimises fields from scratch.
        refine: iterations of instance optimization: of fields, at the finest resolution, and more
            at coarser ones; of a network, in all. Left out, it is 20 of fields and the paper's 50
            of a network; 0 takes a model's answer as it is, but for folds.
        refine_network: optimise the weights of a copy of the network, as published, instead of the
            fields.
        similarity: a name from `gradicon.core.similarity`.
        weight: of the GradICON penalty, the paper's lambda; left out, the one that goes with the
            similarity.
        mask_outside: set what lies outside a mask to zero, as the paper does, instead of leaving it
            out of the similarity only.
        seed: of the points where the penalty is measured.
        protocol: "paper" does what the paper did: a model sees both images as in its training,
            without an affine start; a copy of its weights is refined for the pair, unless `refine`
            is 0; and its map is written as it is, folds and all.
        precision: of a network that is refined on a GPU; "auto" is bfloat16, and by the paper's
            protocol full precision.
        device: where it is computed; "auto" takes a GPU where there is one.
    """

    to: Goal = "deformable"
    fixed_modality: Modality = "auto"
    moving_modality: Modality = "auto"
    init: Init = "auto"
    model: str = AUTO
    refine: int | None = None
    refine_network: bool = False
    similarity: str = "lncc"
    weight: float | None = None
    mask_outside: bool | None = None
    seed: int = 0
    protocol: Protocol = "default"
    precision: Precision = "auto"
    device: Device = "auto"

    def __post_init__(self) -> None:
        _check_choice("similarity", self.similarity, tuple(SIMILARITIES))
        _check_choice("initialisation", self.init, INITS)
        for modality in (self.fixed_modality, self.moving_modality):
            _check_choice("modality", modality, MODALITIES)
        _check_choice("goal", self.to, GOALS)
        _check_choice("protocol", self.protocol, PROTOCOLS)
        _check_choice("precision", self.precision, PRECISIONS)
        choose_device(self.device)
        if self.refine is not None and self.refine < 0:
            raise GradiconError(f"refine must not be negative, got {self.refine}")
        _refuse_contradictions(self)
        if self.model not in (AUTO, NONE):
            find(self.model)
        if not self.penalty_weight > 0:
            raise GradiconError(f"weight must be positive, got {self.weight}")

    @property
    def penalty_weight(self) -> float:
        """The paper's lambda, given or by default."""
        return penalty_weight(self.similarity) if self.weight is None else self.weight

    @property
    def refines_network(self) -> bool:
        """Whether a copy of a network's weights is optimised."""
        return self.refine_network or (self.protocol == "paper" and self.refine != 0)

    @property
    def refines_fields(self) -> bool:
        """Whether fields are optimised, rather than a network, or nothing."""
        return self.to == "deformable" and self.refine != 0 and not self.refines_network

    @property
    def in_half_precision(self) -> bool:
        """Whether a network is refined in bfloat16 where there is a GPU."""
        if self.precision == "auto":
            return self.protocol != "paper"
        return self.precision == "bf16"

    def as_dict(self) -> dict[str, Any]:
        """The choices for the record, with the weight and the iterations that are used."""
        usual = PRESETS.answer.steps if self.refines_network else PRESETS.fields.steps
        iterations = usual if self.refine is None else self.refine
        return asdict(self) | {"weight": self.penalty_weight, "refine": iterations}

    @property
    def torch_device(self) -> torch.device:
        """Where tensors go."""
        return choose_device(self.device)


Contradiction = tuple[bool, tuple[str, str, str]]
"""Whether it is there, the two choices, and why they cannot both be had."""


def _refuse_contradictions(options: Options) -> None:
    found = [*_contradictions_of_models(options), *_contradictions_of_goals(options)]
    if options.protocol == "paper":
        found += _contradictions_of_the_paper(options)
    for contradict, (one, other, why) in found:
        if contradict:
            raise GradiconError(f"{one} and {other} contradict each other: {why}")


def _contradictions_of_models(options: Options) -> list[Contradiction]:
    return [
        (
            options.refine == 0 and options.model == NONE and options.to == "deformable",
            ("--refine 0", "--model none", "without a model, refinement is all there is"),
        ),
        (
            options.refine_network and options.model == NONE,
            ("--refine-network", "--model none", "there is no network to refine"),
        ),
        (
            options.refine_network and options.refine == 0,
            ("--refine-network", "--refine 0", "a network is refined by that many steps"),
        ),
    ]


def _contradictions_of_goals(options: Options) -> list[Contradiction]:
    if options.to == "deformable":
        return []
    goal = f"--to {options.to}"
    named = options.model not in (AUTO, NONE)
    return [
        (options.refine_network, (goal, "--refine-network", "a network deforms")),
        (named, (goal, f"--model {options.model}", "a model deforms")),
        (options.init == "none", (goal, "--init none", "that start is not to be moved")),
    ]


def _contradictions_of_the_paper(options: Options) -> list[Contradiction]:
    protocol = "--protocol paper"
    as_trained = "a model sees images as in its training"
    return [
        (options.to != "deformable", (protocol, f"--to {options.to}", "its networks deform")),
        (options.init != "auto", (protocol, f"--init {options.init}", as_trained)),
        (options.model == NONE, (protocol, "--model none", "its maps are a network's")),
    ]


def _check_choice(what: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise GradiconError(f"unknown {what} {value!r}: expected one of {', '.join(allowed)}")
