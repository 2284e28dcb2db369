"""`gradicon demo`."""

from pathlib import Path
from typing import Annotated

import typer

from gradicon.cli.common import Overwrite, optimisation_progress, refuse_existing, stdout, table
from gradicon.registration.demo import STEPS, run_demo


def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for demo.png and demo.json.")] = Path("demo"),
    steps: Annotated[int, typer.Option(min=1, help="Optimisation steps.")] = STEPS,
    overwrite: Overwrite = False,
) -> None:
    """Register the bundled pair of hippocampus MR scans: Dice before and after, folds, and a picture.

    Example: `gradicon demo -o demo`
    """
    targets = [out / "demo.png", out / "demo.json"]
    refuse_existing(targets, overwrite=overwrite)
    out.mkdir(parents=True, exist_ok=True)
    with optimisation_progress("optimising") as show:
        result = run_demo(out, steps=steps, on_step=lambda step, found: show(step, steps, found))
    parts = (1, "anterior"), (2, "posterior")
    rows = [[name, f"{result.dice_before[label]:.3f}", f"{result.dice_after[label]:.3f}"] for label, name in parts]
    stdout.print(table("", ["hippocampus", "Dice before", "Dice after"], rows))
    typer.echo(f"folds {result.folds_percent:.3g} %, {result.seconds:.0f} s; see {targets[0]}")
