"""Where a registration starts: misses, distances and seconds, of the start in the package and of an
older one. Writes a JSON file and prints a table.

    git show e9f8152:src/gradicon/registration/start.py > old_start.py
    export OMP_NUM_THREADS=2 OMP_WAIT_POLICY=PASSIVE
    python benchmarks/start.py DATA --old old_start.py -o docs/results/start.json

DATA is a folder with the sets flair, ixi, brain, t1, hippocampus, cardiac and liver, each with its
list of validation pairs. A miss is a pair whose centre of labels comes to lie more than 10 mm from
the other's. The distance is the mean over all labels' centres, or landmarks, that both have; Dice
is of labels at the nearest voxel, under the start alone.
"""

import argparse
import importlib.util
import json
import platform
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from datetime import date
from itertools import chain
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np
import torch
from start_cases import Case, Places, Scan, flair, halves, others, read_scan, skull, turn, turned

from gradicon.core.metrics import dice
from gradicon.core.sampling import inside, sample
from gradicon.core.similarity import mutual_information, ncc
from gradicon.physical.lists import read_pairs
from gradicon.physical.preprocess import unit_map
from gradicon.physical.space import Matrix
from gradicon.physical.volume import Volume
from gradicon.registration.start import Start, align, find_start

FAR_MM = 10.0
Way = Callable[[Case], Start]


def ways(old: Path | None) -> dict[str, Way]:
    """The starts to be measured, by name."""
    chosen: dict[str, Way] = {}
    if old is not None:
        specification = importlib.util.spec_from_file_location("old_start", old)
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        sys.modules["old_start"] = module
        specification.loader.exec_module(module)
        chosen["old"] = lambda case: module.initialise(
            case.fixed.image,
            case.moving.image,
            "auto",
            ncc if case.one_kind else mutual_information,
        )
    chosen["start"] = lambda case: find_start(
        case.fixed.image, case.moving.image, "auto", one_kind=case.one_kind
    )
    for to in ("rigid", "affine"):
        chosen[to] = lambda case, to=to: align(
            case.fixed.image, case.moving.image, to, one_kind=case.one_kind
        )
    return chosen


def judge(case: Case, matrix: Matrix) -> dict[str, float]:
    """How far a map leaves the points of two scans from each other."""
    center, of_all = _distances(case, matrix, case.moving.places)
    result = {"center_mm": center, "mean_mm": of_all}
    if case.given is not None:
        result["center_mm_by_given_labels"] = _distances(case, matrix, case.given)[0]
    if case.fixed.labels is not None and case.moving.labels is not None:
        result["dice"] = _dice(case.fixed.labels, case.moving.labels, matrix)
    return result


def _distances(case: Case, matrix: Matrix, places: Places) -> tuple[float, float]:
    moved = {
        label: matrix[:-1, :-1] @ place + matrix[:-1, -1]
        for label, place in case.fixed.places.items()
    }
    shared = [label for label in moved if label in places]
    lengths = {label: float(np.linalg.norm(moved[label] - places[label])) for label in shared}
    named = [lengths[label] for label in shared if label != 0]
    return lengths[0], mean(named or [lengths[0]])


def _dice(fixed: Volume, moving: Volume, matrix: Matrix) -> float:
    x = unit_map(fixed.space, moving.space, matrix).on_grid(fixed.space.shape)
    carried = sample(moving.data.float(), x, mode="nearest") * inside(x)
    found = dice(fixed.data[0, 0].long(), carried[0, 0].long())
    return mean(found.values())


def run(cases: Iterator[Case], chosen: dict[str, Way]) -> list[dict[str, Any]]:
    """Every case, every way."""
    rows: list[dict[str, Any]] = []
    for case in cases:
        for name, way in chosen.items():
            begun = time.perf_counter()
            found = way(case)
            seconds = time.perf_counter() - begun
            row = {"group": case.group, "pair": case.name, "way": name, "seconds": seconds}
            row |= judge(case, found.matrix)
            row = {k: round(v, 4) if isinstance(v, float) else v for k, v in row.items()}
            rows.append({**row, "method": found.method, "note": found.note})
        print(".", end="", file=sys.stderr, flush=True)
    return rows


def known_turns(data: Path) -> list[dict[str, Any]]:
    """Heads against themselves, turned and with other greys: the map is known exactly."""
    rows: list[dict[str, Any]] = []
    for number, pair in enumerate(read_pairs(data / "ixi" / "val_pairs.csv")):
        fixed = read_scan(pair.fixed)
        degrees = (8, 25, 70, 120, 170)[number % 5]
        moving = turn(fixed, number % 3, degrees)
        other = Scan(Volume(_other_greys(moving.image.data), moving.image.space), moving.places)
        for greys, scan in (("the same greys", moving), ("other greys", other)):
            for to in ("rigid", "affine"):
                one_kind = greys == "the same greys"
                found = align(fixed.image, scan.image, to, one_kind=one_kind)
                case = Case(greys, pair.name, fixed, scan)
                error = _distances(case, found.matrix, scan.places)[1]
                linear = found.matrix[:-1, :-1]
                off = float(np.abs(linear.T @ linear - np.eye(3)).max())
                row = {"group": greys, "pair": pair.name, "way": to, "degrees": degrees}
                rows.append({**row, "mean_mm": round(error, 4), "not_rigid": off})
    return rows


def _other_greys(x: torch.Tensor) -> torch.Tensor:
    """Neither the same greys nor in the same order."""
    falling = torch.where(x < 0.5, 0.9 - 0.3 * (x - 0.15), 0.8 - (x - 0.5))
    return torch.where(x < 0.15, 1.5 * x, falling).clamp(0, 1)


def table(rows: list[dict[str, Any]], known: list[dict[str, Any]]) -> str:
    """A line for each group and way."""
    head = (
        "| pairs | number | way | misses | centre, median (worst), mm | labels, mean, mm | Dice | "
        "seconds, median (worst) |"
    )
    lines = [head, "|---|---:|---|---:|---:|---:|---:|---:|"]
    for group, way in dict.fromkeys((row["group"], row["way"]) for row in rows):
        these = [row for row in rows if (row["group"], row["way"]) == (group, way)]
        far = [row["center_mm"] for row in these]
        scores = [row["dice"] for row in these if "dice" in row]
        times = [row["seconds"] for row in these]
        lines.append(
            f"| {group} | {len(these)} | {way} | {sum(one > FAR_MM for one in far)} | "
            f"{median(far):.1f} ({max(far):.1f}) | {mean(row['mean_mm'] for row in these):.2f} | "
            f"{f'{mean(scores):.3f}' if scores else ''} | {median(times):.2f} ({max(times):.2f}) |"
        )
    lines += ["", "| known turn | way | mean error (worst), mm |", "|---|---|---:|"]
    for group, way in dict.fromkeys((row["group"], row["way"]) for row in known):
        off = [row["mean_mm"] for row in known if (row["group"], row["way"]) == (group, way)]
        lines.append(f"| {group} | {way} | {mean(off):.3f} ({max(off):.3f}) |")
    return "\n".join(lines)


def main() -> None:
    """Parse, measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0] if __doc__ else None)
    parser.add_argument("data", type=Path)
    parser.add_argument("--old", type=Path, help="a file with an older start")
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    groups = [group(options.data) for group in (flair, skull, halves, turned, others)]
    rows = run(chain(*groups), ways(options.old))
    known = known_turns(options.data)
    result = {
        "command": shlex.join(["python", "benchmarks/start.py", "DATA", *sys.argv[2:]]),
        "date": date.today().isoformat(),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "rows": rows,
        "known_turns": known,
    }
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(rows, known))


if __name__ == "__main__":
    main()
