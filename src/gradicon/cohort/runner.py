"""A cohort: many pairs, one after the other, none of which can stop the rest."""

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from gradicon.errors import GradiconError
from gradicon.files import written_whole
from gradicon.physical.lists import path_in, read_rows
from gradicon.registration.options import Options
from gradicon.registration.result.outputs import REPORT
from gradicon.registration.result.scores import Extras

COLUMNS = (
    "fixed",
    "moving",
    "fixed_labels",
    "moving_labels",
    "fixed_landmarks",
    "moving_landmarks",
    "fixed_mask",
    "moving_mask",
)


@dataclass(frozen=True)
class Row:
    """One pair of a list, its number from 1."""

    number: int
    fixed: Path
    moving: Path
    extras: Extras
    masks: tuple[Path | None, Path | None]

    @property
    def name(self) -> str:
        """The pair's folder."""
        return (
            f"{self.number:04d}_{self.moving.name.split('.')[0]}_to_{self.fixed.name.split('.')[0]}"
        )


@dataclass(frozen=True)
class Summary:
    """How many pairs are done, the means of what was measured (name, before, after), and the
    failures by name.
    """

    done: int
    means: list[tuple[str, str, str]]
    failures: dict[str, str]


def read_pairs(path: Path) -> list[Row]:
    """The rows of a CSV file of pairs; a missing column or a path that does not exist is named
    before anything runs.
    """
    rows = read_rows(path, COLUMNS[:2], known=COLUMNS[2:])
    return [_row(path, number, row) for number, row in enumerate(rows, 1)]


def run_batch(
    rows: Sequence[Row], out: Path, register: Callable[[Row, Path], None], *, again: bool = False
) -> Summary:
    """Register what is not done yet, and write `summary.csv` and `summary.json` after
    every pair.
    """
    out.mkdir(parents=True, exist_ok=True)
    failures: dict[str, str] = {}
    for row in rows:
        if again or not (out / row.name / REPORT).exists():
            try:
                register(row, out / row.name)
            except (ValueError, TypeError, OSError, RuntimeError, MemoryError) as error:
                failures[row.name] = " ".join(str(error).split()) or type(error).__name__
        _write_summary(rows, out, failures)
    reports = [_report(out / row.name) for row in rows if row.name not in failures]
    return Summary(len(reports), _means(reports), failures)


def check_same_options(rows: Sequence[Row], out: Path, options: Options) -> None:
    """Refuse to go on with pairs that were registered in another way: a summary of both would be of
    neither.
    """
    wanted = options.as_dict()
    for row in rows:
        if (out / row.name / REPORT).exists():
            before = _report(out / row.name)["options"]
            for name, value in wanted.items():
                if name != "device" and before.get(name) != value:
                    raise GradiconError(
                        f"{out / row.name} was registered with {name} {before.get(name)}, "
                        f"not {value}: "
                        "choose another folder, or say --again"
                    )


def _row(path: Path, number: int, row: Mapping[str, str]) -> Row:
    given = partial(path_in, path, number, row)
    fixed = given("fixed")
    moving = given("moving")
    if fixed is None or moving is None:
        raise GradiconError(f"{path}: row {number}: fixed and moving must both be given")
    extras = Extras(
        given("fixed_labels"),
        given("moving_labels"),
        given("fixed_landmarks"),
        given("moving_landmarks"),
    )
    return Row(number, fixed, moving, extras, (given("fixed_mask"), given("moving_mask")))


def _report(folder: Path) -> dict[str, Any]:
    return json.loads((folder / REPORT).read_text())


def _measures(report: Mapping[str, Any]) -> dict[str, tuple[float | None, float | None]]:
    """The measures of one pair: before, after."""
    dice = [list(report[f"dice_{when}"].values()) for when in ("before", "after")]
    errors = [report[f"landmark_error_{when}_mm"] for when in ("before", "after")]
    return {
        "dissimilarity": (report["similarity"]["before"], report["similarity"]["after"]),
        "mean Dice": (mean(dice[0]), mean(dice[1])) if dice[0] and dice[1] else (None, None),
        "landmark error [mm]": (mean(errors[0]), mean(errors[1])) if errors[0] else (None, None),
        "folds [%]": (None, report["folds_percent"]),
        "inverse consistency [mm]": (None, report["inverse_consistency_mm"]["mean_mm"]),
        "seconds": (None, report["seconds"]),
    }


def _means(reports: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, str]]:
    def told(values: list[float]) -> str:
        return (
            ""
            if not values
            else f"{mean(values):.4g} ± {stdev(values) if len(values) > 1 else 0:.2g}"
        )

    measured = [_measures(report) for report in reports]
    rows = [
        (name, *([m[name][i] for m in measured] for i in (0, 1)))
        for name in (measured[0] if measured else {})
    ]
    told_rows = [
        (
            name,
            told([v for v in before if v is not None]),
            told([v for v in after if v is not None]),
        )
        for name, before, after in rows
    ]
    return [row for row in told_rows if row[1] or row[2]]


def _write_summary(rows: Sequence[Row], out: Path, failures: Mapping[str, str]) -> None:
    pairs: list[dict[str, Any]] = []
    for row in rows:
        entry: dict[str, Any] = {
            "pair": row.name,
            "status": "failed" if row.name in failures else "waiting",
            "error": failures.get(row.name, ""),
        }
        if row.name not in failures and (out / row.name / REPORT).exists():
            measures = _measures(_report(out / row.name))
            entry |= {"status": "done"} | {
                f"{name}, {when}": value
                for name, pair in measures.items()
                for when, value in zip(("before", "after"), pair, strict=True)
                if value is not None
            }
        pairs.append(entry)
    header = list(dict.fromkeys(name for entry in pairs for name in entry))
    with (
        written_whole(out / "summary.csv") as part,
        part.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, header)
        writer.writeheader()
        writer.writerows(pairs)
    done = [_report(out / entry["pair"]) for entry in pairs if entry["status"] == "done"]
    means = {name: {"before": before, "after": after} for name, before, after in _means(done)}
    with written_whole(out / "summary.json") as part:
        part.write_text(
            json.dumps({"means": means, "failed": dict(failures), "pairs": pairs}, indent=2) + "\n"
        )
