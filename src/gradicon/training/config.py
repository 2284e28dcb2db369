"""What a training run is made of: sections of frozen values.

What the paper prints for all of its data sets (Sec. 4.2) is the default. Not the paper's: one pair
per step, since it prints no number; the window of CT, which it chooses by the anatomy (-1000 to 0
for lungs); scaling and masking before resampling, where it does them after; the points of the
penalty, which are spread evenly (`points = "uniform"` is the paper's).
"""

from dataclasses import dataclass, fields
from math import cos, isfinite, pi
from typing import Literal, final

from gradicon.core.similarity import SIMILARITIES, penalty_weight
from gradicon.errors import GradiconError
from gradicon.models import ModelConfig, Preparation, Preprocessing

Pairing = Literal["inter", "intra", "joined"]
Regularizer = Literal["gradicon", "icon", "diffusion", "bending"]
Precision = Literal["32", "bf16-mixed"]
Schedule = Literal["constant", "cosine"]
Points = Literal["spread", "uniform"]


@final
@dataclass(frozen=True, kw_only=True)
class DataConfig(Preparation):
    """How scans become what the network sees, and which of them make pairs.

    Args:
        pairs: "inter", any two images of a list; "intra", the pairs of a list, in either order;
            "joined", both, of several folders of prepared images (`gradicon join`).
    """

    pairs: Pairing = "inter"


@final
@dataclass(frozen=True, kw_only=True)
class LossConfig:
    """What is minimised: similarity both ways, plus `weight` times the regularizer, plus what
    labels and landmarks say.

    Args:
        similarity: a name from `gradicon.core.similarity`.
        sigma: of LNCC's windows, in voxels; a list where it differs by axis, as for thick slices.
        regularizer: "gradicon", the paper's; "icon", "diffusion" and "bending" for comparison.
        weight: the paper's lambda. Left out: 1.5, but 0.2 with mse and 0.02 with mind_ssc, whose
            numbers are smaller. GradICON and ICON are means over components, as in the authors'
            code: 1/D of the norms as printed. ICON is the sum of both directions, as there, where
            the paper prints one.
        points: where the penalty is measured: "spread" is one point at random in each cell of 2^D
            voxels; "uniform", as many anywhere, is the paper's.
        label_weight: of 1 - soft Dice of warped labels, the mean of both directions.
        labels_at_once: of the labels that both images of a pair have, how many are compared in a
            step; by lot, if there are more. One float per voxel and label is kept.
        landmark_weight: of the mean squared distance, in voxels of the grid, of landmarks from
            where they belong, both directions.
    """

    similarity: str = "lncc"
    sigma: float | tuple[float, ...] = 5.0
    regularizer: Regularizer = "gradicon"
    weight: float | None = None
    points: Points = "spread"
    label_weight: float = 0.0
    labels_at_once: int = 16
    landmark_weight: float = 0.0

    def __post_init__(self) -> None:
        if self.similarity not in SIMILARITIES:
            raise GradiconError(
                f"similarity must be one of {', '.join(SIMILARITIES)}, got {self.similarity!r}"
            )
        for sigma in self.sigma if isinstance(self.sigma, tuple) else (self.sigma,):
            _check_positive("sigma", sigma)
        for name, value in (("weight", self.penalty_weight), ("label_weight", self.label_weight)):
            _check_positive(name, value, zero=True)
        _check_positive("landmark_weight", self.landmark_weight, zero=True)
        _check_positive("labels_at_once", self.labels_at_once)

    @property
    def penalty_weight(self) -> float:
        """The paper's lambda, given or by default."""
        return penalty_weight(self.similarity) if self.weight is None else self.weight


@final
@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How long, how fast, and how often one looks.

    Args:
        batch_size: pairs per step, over all processes together.
        learning_rate: Adam's.
        schedule: "constant", the paper's, or "cosine": within each stage the learning rate falls to
            zero along half a cosine.
        stage1_steps, stage2_steps: of each stage; a stage of 0 steps is left out, but not both.
        seed: of the first weights and of all that is random: step k draws the same whatever came
            before it.
        precision: "32", or "bf16-mixed": on a GPU, convolutions in bfloat16, coordinates and losses
            in float32.
        augment: the affine augmentation of the paper's appendix. Left out, it is done where pairs
            are of one person ("intra"), as in the paper. augment_noise is its gamma; flips, whether
            axes are reversed.
        augment_warp: with `augment`, images are bent too, each by its own smooth warp of this
            standard deviation, a part of the field of view; augment_contrast: and get a gamma and a
            shading of their own, about 1 by factors of exp(+-this).
        checkpoint_every, log_every, image_every, validate_every: in steps.
    """

    batch_size: int = 1
    learning_rate: float = 5e-5
    schedule: Schedule = "constant"
    stage1_steps: int = 50_000
    stage2_steps: int = 50_000
    seed: int = 0
    precision: Precision = "32"
    augment: bool | None = None
    augment_noise: float = 0.05
    flips: bool = True
    augment_warp: float = 0.0
    augment_contrast: float = 0.0
    checkpoint_every: int = 1000
    log_every: int = 50
    image_every: int = 1000
    validate_every: int = 1000

    def __post_init__(self) -> None:
        for name in (
            "batch_size",
            "checkpoint_every",
            "log_every",
            "image_every",
            "validate_every",
        ):
            if vars(self)[name] < 1:
                raise GradiconError(f"{name} must be at least 1, got {vars(self)[name]}")
        for name in ("stage1_steps", "stage2_steps", "seed"):
            if vars(self)[name] < 0:
                raise GradiconError(f"{name} must not be negative, got {vars(self)[name]}")
        if self.steps == 0:
            raise GradiconError(
                "stage1_steps and stage2_steps are both 0: there is nothing to train"
            )
        _check_positive("learning_rate", self.learning_rate)
        for name in ("augment_noise", "augment_warp", "augment_contrast"):
            _check_positive(name, vars(self)[name], zero=True)

    @property
    def steps(self) -> int:
        """Of both stages together."""
        return self.stage1_steps + self.stage2_steps

    def learning_rate_of(self, step: int) -> float:
        """The learning rate of a step, counted from 1: a function of the step alone, so that a run
        can be resumed.

        >>> steps = {"stage1_steps": 100, "stage2_steps": 50}
        >>> how = TrainingConfig(learning_rate=1.0, schedule="cosine", **steps)
        >>> [round(how.learning_rate_of(step), 2) for step in (1, 51, 100, 101, 126)]
        [1.0, 0.5, 0.0, 1.0, 0.5]
        """
        if self.schedule == "constant":
            return self.learning_rate
        done, of = (
            (step - 1, self.stage1_steps)
            if step <= self.stage1_steps
            else (step - 1 - self.stage1_steps, self.stage2_steps)
        )
        return self.learning_rate * (1 + cos(pi * done / of)) / 2


@final
@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A whole recipe.

    `model.stage` is the stage that training ends with; `text` is the file it was read from, word
    for word.
    """

    data: DataConfig
    model: ModelConfig
    loss: LossConfig
    training: TrainingConfig
    text: str = ""

    @property
    def augments(self) -> bool:
        """Whether images are moved at random: as the recipe says, else as the pairs want it."""
        if self.training.augment is None:
            return self.data.pairs == "intra"
        return self.training.augment

    @property
    def preprocessing(self) -> Preprocessing:
        """What a checkpoint says of the images of its training."""
        names = [field.name for field in fields(Preparation)]
        values = {name: vars(self.data)[name] for name in names}
        return Preprocessing(**values, augmented=self.augments)

    def __post_init__(self) -> None:
        if self.model.dimension != len(self.data.shape):
            raise GradiconError(
                f"[model] dimension is {self.model.dimension}, but [data] shape has "
                f"{len(self.data.shape)} numbers"
            )
        if isinstance(self.loss.sigma, tuple) and len(self.loss.sigma) != self.model.dimension:
            raise GradiconError(
                f"[loss] sigma has {len(self.loss.sigma)} numbers, but [data] shape has "
                f"{len(self.data.shape)}"
            )
        if self.model.image_channels != 1:
            raise GradiconError(
                "[model] image_channels must be 1: prepared images have one channel, got "
                f"{self.model.image_channels}"
            )


def _check_positive(name: str, value: float, *, zero: bool = False) -> None:
    if not isfinite(value) or value < 0 or (value == 0 and not zero):
        raise GradiconError(f"{name} must be {'zero or more' if zero else 'positive'}, got {value}")
