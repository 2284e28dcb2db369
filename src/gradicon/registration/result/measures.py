"""Every number of a registration, with what it measures, where, and which way is better."""

from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any, Literal

from torch import Tensor

from gradicon.core.jacobian import folded_percentage_of, jacobian_determinant, sd_log_of
from gradicon.registration.register import Registration
from gradicon.registration.result.scores import Scores

Better = Literal["lower", "higher", "0 is best"]


@dataclass(frozen=True)
class Measure:
    """One number, or two of the same kind: before registration and after it.

    Args:
        name: short, for people.
        what: it measures, in a sentence.
        where: it was measured.
        better: which way is better.
        unit: of the numbers; empty if they have none.
        form: how they are written, as Python's format has it.
        before, after: the numbers; None where there is none.
    """

    name: str
    what: str
    where: str
    better: Better
    unit: str
    form: str
    before: float | None
    after: float

    def as_dict(self) -> dict[str, Any]:
        """Plain values, without how it is written."""
        return {name: value for name, value in asdict(self).items() if name != "form"}

    def write(self, value: float | None) -> str:
        """A number of this kind, with its unit."""
        if value is None:
            return ""
        return f"{value:{self.form}}{' ' if self.unit else ''}{self.unit}"

    def as_row(self) -> tuple[str, str, str]:
        """The name, before and after, as text."""
        return self.name, self.write(self.before), self.write(self.after)


def measure(found: Registration, scores: Scores) -> dict[str, Measure]:
    """All measures that apply, by a key that stays the same."""
    return {
        "dissimilarity": _dissimilarity(found),
        **_scores(scores),
        **_regularity(found),
        **_inverse(found),
    }


def _dissimilarity(found: Registration) -> Measure:
    measure = found.plan.measure
    windows = ""
    if measure.sigma:
        windows = f" in windows of {' x '.join(f'{s:.3g}' for s in measure.sigma)} voxels"
    return Measure(
        name=f"dissimilarity, {measure.name}",
        what=f"how unlike fixed and moving are by {measure.name}{windows}; "
        "before: after the affine start alone",
        where="working grid",
        better="lower",
        unit="",
        form=".4f",
        before=found.similarity[0],
        after=found.similarity[1],
    )


def _scores(scores: Scores) -> dict[str, Measure]:
    measures: dict[str, Measure] = {}
    if scores.dice_after:
        measures["mean_dice"] = Measure(
            name="mean Dice",
            what="overlap of the labels that were given, the mean over them; "
            "before: as the scans lie by their headers",
            where="fixed image's grid",
            better="higher",
            unit="",
            form=".3f",
            before=mean(scores.dice_before.values()),
            after=mean(scores.dice_after.values()),
        )
    if scores.landmarks_after_mm:
        measures["mean_landmark_error"] = Measure(
            name="mean landmark error",
            what="from where each landmark of fixed is carried to its counterpart in moving; "
            "before: as the scans lie by their headers",
            where="the landmarks given",
            better="lower",
            unit="mm",
            form=".2f",
            before=mean(scores.landmarks_before_mm),
            after=mean(scores.landmarks_after_mm),
        )
    return measures


def _regularity(found: Registration) -> dict[str, Measure]:
    """Of the transform that is written, of its inverse, and of the network's own map."""
    written = "working grid, of the written deformation without the affine start"
    back = jacobian_determinant(found.inverse_phi, found.pair.space.shape)
    measures = {
        "folds": _folds("folded voxels", found.determinant, written),
        "inverse_folds": _folds("folded voxels of the inverse", back, written),
        "sd_log_jacobian": _roughness("SD of log Jacobian", found.determinant, written),
    }
    raw = found.answer_determinant
    if raw is not None:
        own = "network's grid, of its map before it was refined as a field or smoothed"
        measures |= {
            "network_folds": _folds("folded voxels of the network's map", raw, own),
            "network_sd_log_jacobian": _roughness(
                "SD of log Jacobian of the network's map", raw, own
            ),
        }
    return measures


def _folds(name: str, determinant: Tensor, where: str) -> Measure:
    return Measure(
        name=name,
        what="voxels where the deformation's Jacobian determinant, by backward differences, "
        "is not positive",
        where=where,
        better="0 is best",
        unit="%",
        form=".4g",
        before=None,
        after=folded_percentage_of(determinant).item(),
    )


def _roughness(name: str, determinant: Tensor, where: str) -> Measure:
    return Measure(
        name=name,
        what="how much the deformation changes volume from place to place: the standard "
        "deviation of the logarithm of its Jacobian determinant",
        where=where,
        better="lower",
        unit="",
        form=".3f",
        before=None,
        after=sd_log_of(determinant).item(),
    )


def _inverse(found: Registration) -> dict[str, Measure]:
    error = found.inverse_error
    values = {"mean": error.mean_mm, "95th percentile": error.p95_mm, "largest": error.max_mm}
    keys = ("inverse_error_mean", "inverse_error_p95", "inverse_error_largest")
    return {
        key: Measure(
            name=f"inverse error, {which}",
            what="how far a point comes back from where it started, through the transform and "
            f"its inverse: the {which}",
            where="voxels of the working grid and points between them that stay inside",
            better="lower",
            unit="mm",
            form=".3f",
            before=None,
            after=value,
        )
        for key, (which, value) in zip(keys, values.items(), strict=True)
    }
