"""Each number of `registration/presets.py`, made smaller and larger: what comes of it.

    python benchmarks/presets.py DATA -o presets.json
    python benchmarks/presets.py DATA -o presets.json fields.rate measure.window

DATA holds the sets `hippocampus`, `cardiac` and `ixi`, each with its list of training images or
pairs; no validation pair is used. Every number is changed alone, to half and to twice its value
unless something else is more sensible, and all pairs are registered anew, two at a time with a
thread each. What was measured is kept, and the same command goes on where it was. Prints a table:
Dice of each set, less that of the presets as they are, folds in per cent by ITK's count, and
seconds of the processor, which do not depend on what else runs, as a ratio.
"""

import argparse
import csv
import json
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields, is_dataclass, replace
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from gradicon.core.metrics import dice
from gradicon.files import written_whole
from gradicon.physical.images import from_sitk, read_image
from gradicon.physical.transforms import jacobian_image, resample
from gradicon.registration.options import Options
from gradicon.registration.presets import ALGORITHM, PRESETS, Presets
from gradicon.registration.register import register

Files = tuple[Path, Path, Path, Path]  # fixed, moving, and their labels
_COUNTS = {"hippocampus": 8, "cardiac": 3, "ixi": 3}  # pairs of each set
_GROUPS = ("grid", "measure", "fields", "answer")
_BESIDES: dict[str, list[Any]] = {
    "grid.most_voxels": [300_000],  # none of these scans has so many
    "measure.narrowest": [0.25],
    "measure.every": [1],
    "measure.patch": [],  # of MIND
    "fields.more": [1, 2],
    "fields.cell": [2, 4],
    "fields.barrier": [10.0],
    "fields.margin": [0.025],
    "fields.empty": [0.0],
    "fields.around": [4],
    "answer.held": [500.0],
    "answer.unlike": [0.3],
    "answer.least": [100.0],
    "answer.finer": [3.2],
    "answer.steps": [],  # where a network is refined
    "answer.learning_rate": [],
    "answer.repeats": [2, 3],
}


def training_pairs(data: Path) -> dict[str, list[Files]]:
    """Neighbours in the list of a set of people, or the pairs of one person."""
    pairs: dict[str, list[Files]] = {}
    for name, count in _COUNTS.items():
        folder = data / name
        if (folder / "train_pairs.csv").exists():
            rows = _read_rows(folder / "train_pairs.csv")
            columns = ("fixed", "moving", "fixed_labels", "moving_labels")
            found = [[folder / row[column] for column in columns] for row in rows]
        else:
            rows = _read_rows(folder / "train.csv")
            found = [
                [folder / row[column] for column in ("image", "labels") for row in (a, b)]
                for a, b in pairwise(rows)
            ]
        step = max(len(found) // count, 1)
        pairs[name] = [(f[0], f[1], f[2], f[3]) for f in found[::step][:count]]
    return pairs


def variants(names: Sequence[str]) -> dict[str, Presets]:
    """The presets as they are, and with one number changed, by what was changed."""
    found = {"as they are": PRESETS}
    for group in _GROUPS:
        section = getattr(PRESETS, group)
        assert is_dataclass(section)
        for field in fields(section):
            name = f"{group}.{field.name}"
            if names and name not in names:
                continue
            value = getattr(section, field.name)
            others = _BESIDES.get(name, [type(value)(value / 2), type(value)(value * 2)])
            for other in others:
                changed: Any = replace(section, **{field.name: other})  # type: ignore[type-var]
                found[f"{name} = {other}"] = replace(PRESETS, **{group: changed})
    return found


def measure(pairs: Mapping[str, Sequence[Files]], presets: Presets) -> dict[str, Any]:
    """Mean Dice of each set, folds by ITK, and the processor's seconds of all registrations."""
    jobs = [(name, files) for name, each in pairs.items() for files in each]
    with ProcessPoolExecutor(2, get_context("spawn")) as workers:
        found = list(workers.map(partial(_register, presets=presets), [f for _, f in jobs]))
    scores = {
        name: mean(done[0] for (owner, _), done in zip(jobs, found, strict=True) if owner == name)
        for name in pairs
    }
    folds = max(done[1] for done in found)
    seconds = sum(done[2] for done in found)
    rounded = {name: round(score, 4) for name, score in scores.items()}
    return {**rounded, "folds": folds, "seconds": round(seconds, 1)}


def _register(files: Files, presets: Presets) -> tuple[float, float, float]:
    """Mean Dice, folds in per cent, and seconds of one pair."""
    torch.set_num_threads(1)
    fixed, moving, fixed_labels, moving_labels = files
    began = time.process_time()
    done = register(fixed, moving, Options(device="cpu"), presets=presets)
    seconds = time.process_time() - began
    target = read_image(fixed_labels)
    warped = resample(read_image(moving_labels), target, done.transform, "label")
    overlap = mean(dice(from_sitk(warped).data, from_sitk(target).data).values())
    determinant = from_sitk(jacobian_image(done.transform, done.warped)).data
    return overlap, 100 * float((determinant <= 0).double().mean()), seconds


def show(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The table, as Markdown."""
    base = rows["as they are"]
    sets = list(_COUNTS)
    lines = [f"| what | {' | '.join(sets)} | folds, most | time |", "|---" * (len(sets) + 3) + "|"]
    for name, row in rows.items():
        plain = name == "as they are"
        scores = [f"{row[s]:.3f}" if plain else f"{row[s] - base[s]:+.3f}" for s in sets]
        ratio = row["seconds"] / base["seconds"]
        lines.append(f"| {name} | {' | '.join(scores)} | {row['folds']:.5f} % | {ratio:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is not measured yet, and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("names", nargs="*", metavar="GROUP.NAME")
    parser.add_argument("-o", "--out", type=Path, required=True)
    given = parser.parse_args()
    pairs = training_pairs(given.data)
    rows: dict[str, dict[str, Any]] = {}
    if given.out.exists():
        kept = json.loads(given.out.read_text(encoding="utf-8"))
        rows = kept["rows"] if kept["algorithm"] == ALGORITHM else {}
    for name, presets in variants(given.names).items():
        if name not in rows:
            rows[name] = measure(pairs, presets)
            print(name, rows[name], file=sys.stderr, flush=True)
            command = "python benchmarks/presets.py DATA -o presets.json"
            content = {"command": command, "algorithm": ALGORITHM, "pairs": _COUNTS, "rows": rows}
            with written_whole(given.out) as part:
                part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(show(rows))


def _read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
