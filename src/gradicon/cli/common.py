"""What the commands share: options, progress, and how an error looks."""

import shlex
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import gradicon
from gradicon.core.objective import Objective
from gradicon.errors import FileInTheWayError

stderr = Console(stderr=True)
stdout = Console()

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]
OutFolder = Annotated[
    Path, typer.Option("-o", "--out", help="The folder for the results.", show_default=False)
]


def refuse_existing(paths: list[Path], *, overwrite: bool) -> None:
    """Stop before anything is computed if it would replace something."""
    for path in paths:
        if path.exists() and not overwrite:
            raise FileInTheWayError(f"{path} exists: choose another place, or say --overwrite")


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of plain text: a unit in brackets, which rich would take for a style, is shown as it
    is.
    """
    made = Table(*map(escape, header), title=escape(title))
    for row in rows:
        made.add_row(*map(escape, row))
    return made


def this_command() -> str:
    """The command line as it was typed, for the record, with the version that ran it."""
    return f"{shlex.join(['gradicon', *sys.argv[1:]])} (version {gradicon.__version__})"


@contextmanager
def optimisation_progress(title: str) -> Generator[Callable[[int, int, Objective], None]]:
    """A bar with the loss and the time left; nothing at all where standard error is no terminal."""
    columns = (
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=stderr, disable=not stderr.is_terminal, transient=True
    ) as progress:
        task = progress.add_task("", total=None, loss=float("nan"))

        def show(step: int, total: int, result: Objective) -> None:
            progress.update(task, completed=step, total=total, loss=result.loss.item())

        yield show
