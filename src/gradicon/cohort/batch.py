"""Every pair of a cohort registered into a folder of its own, and a summary of all."""

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any, ClassVar, final

from gradicon.cohort.key import How
from gradicon.cohort.record import Record
from gradicon.cohort.work import Work, extras_of
from gradicon.files import written_whole
from gradicon.physical.lists import Pair
from gradicon.registration.files import register_files
from gradicon.registration.register import OnStep
from gradicon.registration.result.outputs import REPORT, Outcome

CSV = "summary.csv"
JSON = "summary.json"

_WHEN = ("before", "after")
_NAMES = {
    "dissimilarity": "dissimilarity",
    "mean_dice": "mean Dice",
    "mean_landmark_error": "landmark error [mm]",
    "folds": "folds [%]",
    "sd_log_jacobian": "SD log Jacobian",
    "network_folds": "folds of the network's map [%]",
    "network_sd_log_jacobian": "SD log Jacobian of the network's map",
    "inverse_error_mean": "inverse error [mm]",
}


@final
@dataclass(frozen=True)
class Batch(Work):
    """As `gradicon register` does it, for every pair.

    Args:
        command: the command line, for the reports.
    """

    command: str = ""

    kind: ClassVar[str] = "batch 3"

    def folder(self, pair: Pair) -> Path:
        return self.out / pair.name

    def has_results(self, folder: Path) -> bool:
        return (folder / REPORT).exists()

    def do(self, pair: Pair, on_step: OnStep | None) -> dict[str, Any]:
        outcome = register_files(
            pair.fixed.image,
            pair.moving.image,
            self.folder(pair),
            self.options,
            extras_of(pair),
            (pair.fixed.mask, pair.moving.mask),
            command=self.command,
            on_step=on_step,
        )
        return _measures(outcome)

    def summarise(self, records: Sequence[Record], how: How) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        entries = [_entry(record) for record in records]
        with (
            written_whole(self.out / CSV) as part,
            part.open("w", newline="", encoding="utf-8") as file,
        ):
            writer = csv.DictWriter(file, list(dict.fromkeys(name for e in entries for name in e)))
            writer.writeheader()
            writer.writerows(entries)
        summary = {
            "how": asdict(how),
            "means": {
                name: {"before": before, "after": after} for name, before, after in means(records)
            },
            "failed": {
                record.pair: record.error for record in records if record.status == "failed"
            },
            "pairs": entries,
        }
        with written_whole(self.out / JSON) as part:
            part.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


def means(records: Iterable[Record]) -> list[tuple[str, str, str]]:
    """Each measure over the pairs that have it: its name, and mean and standard deviation before
    and after, as text; empty where there is none.
    """
    measured = [record.result for record in records if record.status == "done"]
    names = dict.fromkeys(name for result in measured for name in result)
    rows: list[tuple[str, str, str]] = []
    for name in names:
        before, after = (
            _spread(result.get(name, {}).get(when) for result in measured) for when in _WHEN
        )
        if before or after:
            rows.append((name, before, after))
    return rows


def _measures(outcome: Outcome) -> dict[str, Any]:
    """The measures of one pair, before and after, by the names that a summary has."""
    found = {name: outcome.measures[key] for key, name in _NAMES.items() if key in outcome.measures}
    rows = {name: (measure.before, measure.after) for name, measure in found.items()}
    rows["seconds"] = (None, round(outcome.found.seconds, 2))
    return {
        name: {when: value for when, value in zip(_WHEN, values, strict=True) if value is not None}
        for name, values in rows.items()
    }


def _entry(record: Record) -> dict[str, Any]:
    """A pair's row in the summary."""
    return {"pair": record.pair, "status": record.status, "error": record.error} | {
        f"{name}, {when}": value
        for name, values in record.result.items()
        for when, value in values.items()
    }


def _spread(values: Iterable[float | None]) -> str:
    there = [value for value in values if value is not None]
    if not there:
        return ""
    return f"{mean(there):.4g} ± {stdev(there) if len(there) > 1 else 0:.2g}"
