"""What a registration will do: a frozen value, made before anything slow begins.

`decide.make_plan` makes it. What runs afterwards decides nothing: it reads the plan.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from gradicon.core.similarity import SIMILARITIES, Similarity, lncc, mind_ssc, squared_lncc
from gradicon.models import Checkpoint
from gradicon.physical.preprocess import Kind
from gradicon.physical.space import Space
from gradicon.registration.presets import Presets
from gradicon.registration.start import Init

Way = Literal[
    "rigid",
    "affine",
    "from scratch",
    "answer alone",
    "answer and fields",
    "answer and network",
]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Measure:
    """How images are compared: a similarity by name, and its window.

    Args:
        name: of `gradicon.core.similarity`.
        sigma: of LNCC's windows, in voxels along each axis; empty for measures without.
        every: voxels from one window to the next while fields are optimised.
        patch: of MIND, its patches and their distance in voxels.
    """

    name: str
    sigma: tuple[float, ...]
    every: int
    patch: int

    def function(self, *, thinned: bool = False) -> Similarity:
        """(warped, fixed, *, mask=None) -> a number. `thinned` has a window at every few voxels."""
        measure = SIMILARITIES[self.name]
        if measure is mind_ssc:
            return partial(mind_ssc, radius=self.patch, dilation=self.patch)
        if measure not in (lncc, squared_lncc):
            return measure
        return partial(measure, sigma=self.sigma, every=self.every if thinned else 1)


@dataclass(frozen=True)
class Level:
    """One resolution of the optimisation of fields.

    Args:
        shape: of the images there.
        knots: of the grid of free parameters, which is half as fine: the level before's.
        kept: of the grid that the maps are kept on: as fine as the knots or as what the network
            saw, but no finer than the images.
        steps: of Adam.
        cell: voxels along each axis to a point of the penalty.
    """

    shape: Shape
    knots: Shape
    kept: Shape
    steps: int
    cell: int


@dataclass(frozen=True)
class FieldPlan:
    """How displacement fields are optimised.

    Args:
        levels: coarse to fine.
        lengths: of a voxel of the finest grid along each axis: steps are as long along all of them.
        rate: Adam's at the start of each level, in its shortest voxel length.
        weight: of the GradICON penalty, the paper's lambda.
        barrier: of what keeps determinants away from zero.
    """

    levels: tuple[Level, ...]
    lengths: tuple[float, ...]
    rate: float
    weight: float
    barrier: float

    @property
    def steps(self) -> int:
        """Of all levels."""
        return sum(level.steps for level in self.levels)

    def from_nothing(self) -> "FieldPlan":
        """The same without a network's answer, whose detail maps need not keep."""
        return replace(
            self, levels=tuple(replace(level, kept=level.knots) for level in self.levels)
        )


@dataclass(frozen=True)
class Plan:
    """All that is decided about a registration before it is run.

    Args:
        way: which of the ways through it.
        model: the network to ask, if one is: its file, opened.
        start: how the fields of view are brought together; "model" is as in its training.
        kinds: "ct" or "mr", of fixed and moving.
        mask_outside: whether what lies outside a mask is set to zero.
        space: the working grid, over the fixed image.
        seen: the grid on which the network sees the pair, where that is another one.
        beyond: what is read beyond an image's border: its last voxel, or zero as in training.
        measure: how images are compared.
        fields: how fields are optimised, from the answer or from nothing; None if they are not.
        may_drop_answer: whether fields are optimised from nothing if the answer makes the images
            less alike.
        repeats: how often the last network is asked, each time of the image warped by then; 0
            without a network.
        network_steps: by which a copy of the network is refined.
        half_precision: whether that is done in bfloat16 where there is a GPU.
        repairs: whether maps are smoothed where they fold.
        weight: of the GradICON penalty.
        seed: of what is random.
        presets: every number that was not chosen by a person.
    """

    way: Way
    model: Checkpoint | None
    start: Init | Literal["model"]
    kinds: tuple[Kind, Kind]
    mask_outside: bool
    space: Space
    seen: Space | None
    beyond: Literal["border", "zero"]
    measure: Measure
    fields: FieldPlan | None
    may_drop_answer: bool
    repeats: int
    network_steps: int
    half_precision: bool
    repairs: bool
    weight: float
    seed: int
    presets: Presets

    @property
    def deforms(self) -> bool:
        """Whether more is looked for than a rigid or affine map."""
        return self.way not in ("rigid", "affine")

    def as_dict(self) -> dict[str, Any]:
        """Plain values for a report: what was decided, without the presets behind it."""
        return {
            "way": self.way,
            "model": None if self.model is None else self.model.name,
            "start": self.start,
            "modalities": {"fixed": self.kinds[0], "moving": self.kinds[1]},
            "outside_masks": "zero" if self.mask_outside else "not compared",
            "working_grid": _describe_space(self.space),
            "network_sees": None if self.seen is None else _describe_space(self.seen),
            "similarity": {"name": self.measure.name, "sigma_voxels": list(self.measure.sigma)},
            "penalty_weight": self.weight,
            "fields": None if self.fields is None else _describe_fields(self.fields),
            "if_the_answer_makes_it_worse": "fields from nothing" if self.may_drop_answer else None,
            "last_network_asked_times": self.repeats,
            "network_steps": self.network_steps,
            "network_precision_on_a_gpu": "bfloat16" if self.half_precision else "float32",
            "smoothed_where_maps_fold": self.repairs,
        }


def _describe_space(space: Space) -> dict[str, Any]:
    return {"shape": list(space.shape), "spacing_mm": list(space.spacing_mm)}


def _describe_fields(fields: FieldPlan) -> dict[str, Any]:
    return {
        "levels": [
            {
                "shape": list(level.shape),
                "free_parameters_on": list(level.knots),
                "maps_kept_on": list(level.kept),
                "steps": level.steps,
                "voxels_per_penalty_point": level.cell,
            }
            for level in fields.levels
        ],
        "rate_voxels": fields.rate,
        "barrier": fields.barrier,
    }
