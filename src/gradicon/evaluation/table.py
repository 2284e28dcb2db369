"""The records of an evaluation as a table: for people, for spreadsheets, and for programs."""

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from gradicon.core.metrics import lowest_mean
from gradicon.errors import GradiconError, MissingFileError
from gradicon.files import written_whole

FORMAT = "gradicon-evaluation-1"
CSV = "table.csv"
JSON = "table.json"
MARKDOWN = "table.md"


@dataclass(frozen=True)
class Measure:
    """A number that a pair has: its name in the records, for people, how it is written, and whether
    more is better.
    """

    key: str
    title: str
    form: str = ".3f"
    higher: bool = False


MEASURES = (
    Measure("mean_dice", "Dice", higher=True),
    Measure("mean_hd95_mm", "HD95 [mm]", ".2f"),
    Measure("mean_landmark_error_mm", "landmark error [mm]", ".2f"),
    Measure("dissimilarity", "dissimilarity"),
    Measure("folds_percent", "folds [%]", ".4f"),
    Measure("itk_folds_percent", "folds by ITK [%]", ".4f"),
    Measure("sd_log_jacobian", "SD log Jacobian"),
    Measure("network_folds_percent", "folds of the network's map [%]", ".4f"),
    Measure("network_sd_log_jacobian", "SD log Jacobian of the network's map"),
    Measure("inverse_consistency_mm", "inverse consistency [mm]"),
    Measure("seconds", "seconds", ".1f"),
    Measure("peak_memory_gb", "peak memory [GB]", ".2f"),
)
_BEFORE = {
    "mean_dice": "mean_dice_before",
    "mean_landmark_error_mm": "mean_landmark_error_before_mm",
    "dissimilarity": "dissimilarity_before",
}


def summarise(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Mean and standard deviation of every measure over the pairs that have it; lowest Dice; labels
    and landmark groups apart.
    """
    found: dict[str, Any] = {}
    for measure in MEASURES:
        if values := _values(records, measure.key):
            found[measure.key] = _spread(values)
            if before := _values(records, _BEFORE.get(measure.key, "")):
                found[measure.key]["before"] = mean(before)
    if overlaps := [
        float(value) for record in records for value in record.get("dice", {}).values()
    ]:
        found["dice_lowest_30_percent"] = lowest_mean(overlaps)
        found["lost_labels"] = sum(int(record.get("lost_labels", 0)) for record in records)
    for name in ("dice", "hd95_mm", "landmark_error_by_group_mm"):
        if parts := _by_part(records, name):
            found[f"{name}_each"] = parts
    return found


def write_table(
    out: Path, records: Sequence[Mapping[str, Any]], provenance: Mapping[str, Any]
) -> dict[str, Any]:
    """Write OUT/table.csv, table.json and table.md. Returns what the JSON says.

    A record's status is "done", "failed" or "waiting"; pairs that wait are counted, too, so that a
    table of half the work does not pass for the whole.
    """
    failed = {
        str(record["pair"]): str(record["error"])
        for record in records
        if record["status"] == "failed"
    }
    waiting = sum(record["status"] == "waiting" for record in records)
    counts = {"pairs": len(records), "failed_pairs": len(failed), "waiting_pairs": waiting}
    result = {
        "format": FORMAT,
        **provenance,
        **counts,
        "failed": failed,
        "summary": summarise(records),
        "records": list(records),
    }
    with written_whole(out / CSV) as part, part.open("w", newline="", encoding="utf-8") as file:
        columns = ["pair", "status", "error", *_columns()]
        writer = csv.DictWriter(file, columns, extrasaction="ignore", restval="")
        writer.writeheader()
        writer.writerows(records)
    with written_whole(out / MARKDOWN) as part:
        part.write_text(markdown(result), encoding="utf-8")
    with written_whole(out / JSON) as part:
        part.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return result


def read_table(path: Path) -> dict[str, Any]:
    """What an evaluation's table.json says."""
    if not path.is_file():
        raise MissingFileError(f"{path}: no such table")
    try:
        result = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise GradiconError(f"{path}: not a table.json of `gradicon evaluate`") from error
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        raise GradiconError(f"{path}: not a table.json of `gradicon evaluate`")
    return result


def rows(summary: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Name, before, and mean +- sd after, ready to be shown."""
    told: list[tuple[str, str, str]] = []
    for measure in MEASURES:
        if measure.key in summary:
            numbers = summary[measure.key]
            before = f"{numbers['before']:{measure.form}}" if "before" in numbers else ""
            told.append(
                (
                    measure.title,
                    before,
                    f"{numbers['mean']:{measure.form}} ± {numbers['sd']:{measure.form}}",
                )
            )
            if measure.key == "mean_dice":
                told.append(
                    (
                        "lowest 30 % of Dice, over labels and pairs",
                        "",
                        f"{summary['dice_lowest_30_percent']:.3f}",
                    )
                )
    groups = summary.get("landmark_error_by_group_mm_each", {})
    return [
        *told,
        *(
            (f"landmark error, {name} [mm]", "", f"{n['mean']:.2f} ± {n['sd']:.2f}")
            for name, n in groups.items()
        ),
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """The summary, then every pair."""
    summary = result["summary"]
    lines = [
        f"# {title_of(result)}",
        "",
        f"`{result.get('command', '')}`",
        "",
    ]
    lines += [
        "| measure | before | mean ± sd |",
        "|---|---|---|",
        *(f"| {' | '.join(row)} |" for row in rows(summary)),
        "",
    ]
    shown = [measure for measure in MEASURES if measure.key in summary]
    lines += [
        f"| pair | {' | '.join(measure.title for measure in shown)} |",
        "|---" * (len(shown) + 1) + "|",
    ]
    for record in result["records"]:
        cells = [f"{record[m.key]:{m.form}}" if m.key in record else "" for m in shown]
        if record["status"] != "done":
            said = f"failed: {record['error']}" if record["status"] == "failed" else "waiting"
            cells = [said, *[""] * (len(shown) - 1)]
        lines.append(f"| {record['pair']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def title_of(result: Mapping[str, Any]) -> str:
    """How many pairs there are, and how many of them are not in the summary."""
    waiting = result.get("waiting_pairs", 0)
    still = f", {waiting} waiting" if waiting else ""
    return f"{result['pairs']} pairs, {result['failed_pairs']} failed{still}"


def _columns() -> list[str]:
    return [
        name
        for m in MEASURES
        for name in ((_BEFORE[m.key], m.key) if m.key in _BEFORE else (m.key,))
    ]


def _values(records: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [float(record[key]) for record in records if record.get(key) is not None]


def _spread(values: Sequence[float]) -> dict[str, float]:
    return {
        "mean": mean(values),
        "sd": stdev(values) if len(values) > 1 else 0.0,
        "pairs": len(values),
    }


def _by_part(records: Sequence[Mapping[str, Any]], name: str) -> dict[str, dict[str, float]]:
    parts = dict.fromkeys(part for record in records for part in record.get(name, {}))
    return {
        part: _spread([float(r[name][part]) for r in records if part in r.get(name, {})])
        for part in parts
    }
