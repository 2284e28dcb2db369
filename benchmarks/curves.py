"""The same training twice, plain and as `gradicon train` runs it on a GPU: do both reach the same
loss? Prints JSON.

    python benchmarks/curves.py RECIPE.toml --data DATA > curves.json
    python benchmarks/curves.py --draw curves.json -o curves.png

Both begin with the same weights and see the same pairs in the same order. Plain is torch's own
operations in float32, one by one; fast is fused kernels, bfloat16 features and a captured graph. A
logged loss is that of one step, so both curves follow how difficult the pairs are.
"""

import argparse
import json
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import torch

from gradicon.core.acceleration import plain
from gradicon.training.config import Recipe
from gradicon.training.processes import Machine
from gradicon.training.recipe import read_recipe
from gradicon.training.runlog import Report
from gradicon.training.trainer import train

_SMOOTH = 10  # logged losses averaged for the drawn curve


def curve(recipe: Recipe, data: Path, device: str, *, fast: bool) -> dict[str, Any]:
    """One run: step, loss, and what validation says, of the steps that were logged."""
    rows: list[dict[str, float]] = []

    def note(report: Report) -> None:
        rows.append(
            {"step": report.step, "stage": report.stage}
            | {name: round(value, 6) for name, value in report.values.items()}
        )

    how = replace(recipe.training, precision="bf16-mixed" if fast else "32")
    with tempfile.TemporaryDirectory() as folder, nullcontext() if fast else plain():
        outcome = train(
            replace(recipe, training=how),
            data,
            Path(folder) / "run",
            machine=Machine(device),
            on_log=note,
        )
    print(
        f"{'fast' if fast else 'plain'}: {outcome.minutes:.1f} minutes, {rows[-1]}",
        file=sys.stderr,
        flush=True,
    )
    return {"path": "fast" if fast else "plain", "minutes": round(outcome.minutes, 2), "rows": rows}


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of both runs: the mean loss over the last quarter of each stage, and the last validation."""
    found: dict[str, Any] = {}
    for run in runs:
        told: dict[str, float] = {}
        for stage in (1, 2):
            losses = [row["loss"] for row in run["rows"] if row["stage"] == stage]
            last = losses[-max(len(losses) // 4, 1) :]
            told[f"stage{stage}_mean_loss_of_last_quarter"] = round(
                sum(last) / max(len(last), 1), 4
            )
        told |= {
            name: value for name, value in run["rows"][-1].items() if name.startswith("validation")
        }
        found[run["path"]] = told
    return found


def draw(result: dict[str, Any], path: Path) -> None:
    """Both curves, averaged over neighbouring logged steps, in one picture."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 3.6), layout="constrained")
    axes = figure.subplots()
    for run, style in zip(result["runs"], ("-", "--"), strict=True):
        losses = torch.tensor([row["loss"] for row in run["rows"]])
        steps = torch.tensor([float(row["step"]) for row in run["rows"]])
        smooth = losses.unfold(0, _SMOOTH, 1).mean(1)
        axes.plot(steps[_SMOOTH - 1 :], smooth, style, label=run["path"], linewidth=1.4)
    axes.set(
        xlabel="step",
        ylabel=f"loss, mean of {_SMOOTH} logged steps",
        title=f"one training, two ways, {result['device']}",
    )
    axes.legend()
    figure.savefig(path, dpi=130)


def main() -> None:
    """Parse, train twice, print; or draw what was printed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("recipe", type=Path, nargs="?")
    parser.add_argument("--data", type=Path, help="the folder that `gradicon prepare` wrote")
    parser.add_argument(
        "--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu"
    )
    parser.add_argument("--draw", type=Path, metavar="JSON", help="draw a result instead")
    parser.add_argument("-o", "--out", type=Path, help="the picture")
    given = parser.parse_args()
    if given.draw is not None and given.out is not None:
        draw(json.loads(given.draw.read_text(encoding="utf-8")), given.out)
        return
    if given.recipe is None or given.data is None:
        parser.error("give RECIPE --data DATA, or --draw JSON -o PNG")
    recipe = read_recipe(given.recipe)
    runs = [curve(recipe, given.data, given.device, fast=fast) for fast in (False, True)]
    name = torch.cuda.get_device_name() if given.device == "cuda" else "CPU"
    result = {
        "command": f"python benchmarks/curves.py {' '.join(sys.argv[1:])}",
        "date": date.today().isoformat(),
        "device": name,
        "torch": torch.__version__,
        "recipe": recipe.text,
        "summary": summary(runs),
        "runs": runs,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
