"""`gradicon batch`: a cohort of pairs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from gradicon.cli.choices import registers
from gradicon.cli.common import OutFolder, optimisation_progress, stdout, table, this_command
from gradicon.cohort.batch import CSV, Batch, means
from gradicon.cohort.runner import Stock, run, take_stock
from gradicon.cohort.work import Progress
from gradicon.errors import GradiconError
from gradicon.physical.lists import Pair, read_pairs
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
    """Register every pair of a list: one folder each, a summary.csv and summary.json.

    Run it again, and it goes on where it was; pairs whose files, model or algorithm changed are
    done anew.

    Columns: fixed, moving, and where there are any fixed_labels, moving_labels, fixed_landmarks,
    moving_landmarks, fixed_mask and moving_mask; paths are relative to the file. A pair that fails
    is listed, and the others go on.

    Example: `gradicon batch pairs.csv -o results`
    """
    options = choose()
    listed = read_pairs(pairs)
    stock = take_stock(Batch(options, out, this_command()), listed, again=again)
    print_note(stock)
    records = run(stock, cohort_progress(listed))
    failed = sum(record.status == "failed" for record in records)
    title = f"{len(records) - failed} pairs registered, {failed} failed"
    stdout.print(table(title, ["measure", "before", "after"], means(records)))
    if failed:
        raise GradiconError(f"{failed} of {len(records)} pairs failed: see {out / CSV}")


def cohort_progress(pairs: Sequence[Pair]) -> Progress:
    """A bar for each pair, with its place in the cohort."""
    return lambda pair: optimisation_progress(f"{pair.number} of {len(pairs)}, {pair.name}")


def print_note(stock: Stock) -> None:
    """Say in one line what is done anew, and why; nothing where nothing is."""
    if stock.note:
        stdout.print(stock.note, highlight=False, soft_wrap=True)
