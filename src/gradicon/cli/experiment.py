"""`gradicon experiment`: the paper's studies."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gradicon.cli.choices import DeviceChoice
from gradicon.cli.common import OutFolder, stderr, this_command
from gradicon.experiments.command import StudyRequest, study_as_asked
from gradicon.experiments.study import Name


def experiment(
    out: OutFolder,
    name: Annotated[Name | None, typer.Argument(help="Which study.", show_default=False)] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A size that a CPU finishes in minutes.")
    ] = False,
    data: Annotated[
        Path | None, typer.Option(help="The folder of real data sets, for studies that need one.")
    ] = None,
    device: DeviceChoice = "auto",
    jobs: Annotated[int, typer.Option(min=1, help="Trainings at a time, on one GPU.")] = 1,
    show: Annotated[
        Path | None,
        typer.Option(metavar="JSON", help="Write the table and figure of a result; run nothing."),
    ] = None,
) -> None:
    """Run one of the paper's studies: OUT/NAME.json with all numbers, NAME.md with the table,
    NAME.png with the figure.

    Example: `gradicon experiment regularizers --quick -o results`

    Example: `gradicon experiment --show results/regularizers.json -o results`
    """
    request = StudyRequest(name, out, quick, data, device, jobs, show)
    with _study_progress(name or "") as tell:
        paths = study_as_asked(request, command=this_command(), tell=tell)
    for path in paths:
        typer.echo(path)


@contextmanager
def _study_progress(name: str) -> Generator[Callable[[str, float], None]]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(
        *columns, console=stderr, disable=not stderr.is_terminal, transient=True
    ) as progress:
        task = progress.add_task(name, total=1.0)
        yield lambda what, part: progress.update(task, description=what, completed=part)
