"""`gradicon batch`: a cohort of pairs."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from gradicon.cli.choices import registers
from gradicon.cli.common import OutFolder, optimisation_progress, stdout, table, this_command
from gradicon.cohort.runner import Row, check_same_options, read_pairs, run_batch
from gradicon.errors import GradiconError
from gradicon.registration.files import register_files
from gradicon.registration.options import Options


@registers
def batch(
    choose: Callable[[], Options],
    pairs: Annotated[
        Path,
        typer.Argument(
            help="A CSV file of pairs: columns fixed, moving and more, below.", show_default=False
        ),
    ],
    out: OutFolder,
    again: Annotated[
        bool, typer.Option("--again", help="Register pairs that are done already, too.")
    ] = False,
) -> None:
    """Register every pair of a list: one folder each, a summary.csv and summary.json. Run it again,
    and it goes on where it was.

    Columns: fixed, moving, and where there are any fixed_labels, moving_labels, fixed_landmarks,
    moving_landmarks, fixed_mask and moving_mask; paths are relative to the file. A pair that fails
    is listed, and the others go on.

    Example: `gradicon batch pairs.csv -o results`
    """
    options = choose()
    rows = read_pairs(pairs)
    if not again:
        check_same_options(rows, out, options)

    def register(row: Row, folder: Path) -> None:
        with optimisation_progress(f"{row.number} of {len(rows)}") as show:
            register_files(
                row.fixed,
                row.moving,
                folder,
                options,
                row.extras,
                row.masks,
                command=this_command(),
                on_step=show,
            )

    summary = run_batch(rows, out, register, again=again)
    title = f"{summary.done} pairs registered, {len(summary.failures)} failed"
    stdout.print(table(title, ["measure", "before", "after"], summary.means))
    if summary.failures:
        raise GradiconError(
            f"{len(summary.failures)} of {len(rows)} pairs failed: see {out / 'summary.csv'}"
        )
