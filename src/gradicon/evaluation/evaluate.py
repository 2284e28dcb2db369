"""The same `register` as users run, on a list of pairs, and everything that can be said of the
result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import isfinite
from pathlib import Path
from statistics import mean
from typing import Any, ClassVar, final

import numpy as np

from gradicon.cohort.key import How
from gradicon.cohort.record import RECORD, Record
from gradicon.cohort.work import Work, extras_of
from gradicon.core.jacobian import folded_percentage_of, sd_log_of
from gradicon.evaluation.memory import peak_memory
from gradicon.evaluation.named_labels import Names, only
from gradicon.evaluation.surfaces import hd95
from gradicon.evaluation.table import write_table
from gradicon.physical.images import from_sitk, read_image
from gradicon.physical.lists import Pair
from gradicon.physical.transforms import jacobian_image
from gradicon.registration.register import OnStep, Registration, register
from gradicon.registration.result.scores import Carried, Scores, read_extras, score

Measures = dict[str, Any]
"""What is known of one pair; a measure that does not apply is not there."""

PAIRS = "pairs"


@final
@dataclass(frozen=True)
class Evaluation(Work):
    """Register and judge every pair. The measures are kept in OUT/pairs, and tables of all in OUT.

    Args:
        about: what is said of this run in the table, by name.
        names: of the labels that count in the table; None for all, by value. Records have them all.
    """

    about: Mapping[str, str] = field(default_factory=dict[str, str])
    names: Names | None = None

    kind: ClassVar[str] = "evaluation 2"

    def folder(self, pair: Pair) -> Path:
        """OUT/pairs has one for each pair."""
        return self.out / PAIRS / pair.name

    def has_results(self, folder: Path) -> bool:
        """The record is all there is."""
        return (folder / RECORD).exists()

    def do(self, pair: Pair, on_step: OnStep | None) -> Measures:
        """The measures of a pair. Memory is that of the registration alone."""
        fixed = read_image(pair.fixed.image)
        moving = read_image(pair.moving.image)
        carried = read_extras(extras_of(pair), fixed, moving)
        with peak_memory(self.options.torch_device) as peak_gb:
            found = register(
                fixed,
                moving,
                self.options,
                fixed_mask=pair.fixed.mask,
                moving_mask=pair.moving.mask,
                on_step=on_step,
            )
            memory = round(peak_gb(), 3)
        return _finite({**judge(found, carried), "peak_memory_gb": memory})

    def summarise(self, records: Sequence[Record], how: How) -> None:
        """Write table.csv, table.json and table.md."""
        self.out.mkdir(parents=True, exist_ok=True)
        write_table(self.out, table_rows(records, self.names), {**self.about, "how": asdict(how)})


def table_rows(records: Sequence[Record], names: Names | None = None) -> list[Measures]:
    """The records as a table has them: measures by name beside the pair and its status.

    With `names`, these labels alone count.
    """
    return [
        {"pair": record.pair, "status": record.status}
        | ({"error": record.error} if record.error else {})
        | (dict(record.result) if names is None else only(record.result, names))
        for record in records
    ]


def judge(found: Registration, carried: Carried) -> Measures:
    """Every measure of one registration that applies to it."""
    scores = score(carried, found.transform, found.warped)
    return (
        _judge_labels(carried, scores)
        | _judge_landmarks(carried, scores)
        | {
            "dissimilarity": found.similarity[1],
            "dissimilarity_before": found.similarity[0],
            "folds_percent": folded_percentage_of(found.determinant).item(),
            "itk_folds_percent": _itk_folds_percent(found),
            "sd_log_jacobian": sd_log_of(found.determinant).item(),
            **_judge_answer(found),
            "inverse_consistency_mm": found.inverse_error.mean_mm,
            "seconds": round(found.seconds, 3),
        }
    )


def _judge_answer(found: Registration) -> Measures:
    """The network's own map, before it was refined as a field or smoothed where it folds."""
    raw = found.answer_determinant
    if raw is None:
        return {}
    return {
        "network_folds_percent": folded_percentage_of(raw).item(),
        "network_sd_log_jacobian": sd_log_of(raw).item(),
    }


def _itk_folds_percent(found: Registration) -> float:
    """By central differences at every voxel of the fixed image, the outermost too: what anyone
    finds who asks ITK.
    """
    return float(
        100 * (from_sitk(jacobian_image(found.transform, found.warped)).data <= 0).double().mean()
    )


def _finite(measures: Measures) -> Measures:
    """Without numbers that are none: JSON has no word for them."""
    return {
        name: value
        for name, value in measures.items()
        if not isinstance(value, float) or isfinite(value)
    }


def _judge_labels(carried: Carried, scores: Scores) -> Measures:
    """Overlap and distance of labels; nothing if there is nothing but background in both."""
    fixed_labels = carried.fixed_labels
    warped_labels = scores.warped_labels
    if fixed_labels is None or warped_labels is None:
        return {}
    if not scores.dice_before or not scores.dice_after:
        return {}
    warped = from_sitk(warped_labels).data[0, 0].numpy()
    fixed = from_sitk(fixed_labels)
    distances = hd95(warped, fixed.data[0, 0].numpy(), fixed.space.spacing_mm)
    far = {str(label): value for label, value in distances.items()}
    measures: Measures = {
        "dice": {str(label): value for label, value in scores.dice_after.items()},
        "dice_before": {str(label): value for label, value in scores.dice_before.items()},
        "mean_dice": mean(scores.dice_after.values()),
        "mean_dice_before": mean(scores.dice_before.values()),
        "hd95_mm": far,
        "lost_labels": len(scores.dice_after) - len(far),
    }
    return measures | ({"mean_hd95_mm": mean(far.values())} if far else {})


def _judge_landmarks(carried: Carried, scores: Scores) -> Measures:
    errors = scores.landmarks_after_mm
    if not errors or carried.fixed_landmarks is None:
        return {}
    groups: dict[str, list[float]] = {}
    for label, error in zip(carried.fixed_landmarks.labels, errors, strict=True):
        groups.setdefault(label, []).append(error)
    found: Measures = {
        "landmark_errors_mm": list(errors),
        "mean_landmark_error_mm": mean(errors),
        "sd_landmark_error_mm": float(np.std(errors, ddof=1)) if len(errors) > 1 else 0.0,
        "mean_landmark_error_before_mm": mean(scores.landmarks_before_mm),
    }
    several = 1 < len(groups) < len(errors)  # names that all differ name points, not groups
    return found | (
        {"landmark_error_by_group_mm": {name: mean(values) for name, values in groups.items()}}
        if several
        else {}
    )
