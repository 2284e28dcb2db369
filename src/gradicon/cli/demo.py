"""`gradicon demo`."""

from pathlib import Path
from typing import Annotated

import typer

from gradicon.cli.choices import Refine
from gradicon.cli.common import (
    Overwrite,
    optimisation_progress,
    refuse_existing,
    stdout,
    table,
    this_command,
)
from gradicon.registration.demo import NUMBERS, PICTURE, run_demo
from gradicon.registration.options import Options
from gradicon.registration.result.outputs import REPORT, check_writable


def demo(
    out: Annotated[
        Path,
        typer.Option("-o", "--out", help="The folder for the results, demo.png and demo.json."),
    ] = Path("demo"),
    refine: Refine = None,
    overwrite: Overwrite = False,
) -> None:
    """Register the bundled pair of hippocampus MR scans with the model in the box: Dice before and
    after, folds, and a picture.

    Example: `gradicon demo -o demo`
    """
    refuse_existing([out / name for name in (PICTURE, NUMBERS, REPORT)], overwrite=overwrite)
    check_writable(out)
    with optimisation_progress("registering") as show:
        result = run_demo(out, Options(refine=refine), command=this_command(), on_step=show)
    parts = (1, "anterior"), (2, "posterior")
    rows = [
        [name, f"{result.dice_before[label]:.3f}", f"{result.dice_after[label]:.3f}"]
        for label, name in parts
    ]
    stdout.print(table("", ["hippocampus", "Dice before", "Dice after"], rows))
    typer.echo(
        f"{result.made}; folds {result.folds_percent:.3g} %, {result.seconds:.0f} s; see "
        f"{out / PICTURE} and {out / 'report.html'}"
    )
