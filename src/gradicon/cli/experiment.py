"""`gradicon experiment`: the paper's studies."""

import tempfile
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gradicon.cli.choices import DeviceChoice
from gradicon.cli.common import OutFolder, stderr, this_command
from gradicon.errors import GradiconError
from gradicon.experiments.study import Name, Setting


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
    try:  # here, because only studies and training need Lightning Fabric
        from gradicon.experiments.run import run_study, show_study
    except ImportError as error:
        raise GradiconError(
            f"{error.name} is not installed: pip install 'gradicon[training]'"
        ) from error
    if show is not None:
        for path in show_study(show, out):
            typer.echo(path)
        return
    if name is None:
        raise typer.BadParameter("give the NAME of a study, or --show JSON")
    on_gpu = device != "cpu" and torch.cuda.is_available()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with (
        Progress(
            *columns, console=stderr, disable=not stderr.is_terminal, transient=True
        ) as progress,
        tempfile.TemporaryDirectory() as work,
    ):
        task = progress.add_task(name, total=1.0)

        def tell(what: str, part: float) -> None:
            progress.update(task, description=what, completed=part)

        setting = Setting(
            Path(work), quick, torch.device("cuda" if on_gpu else "cpu"), data, jobs, tell
        )
        typer.echo(run_study(name, setting, out, command=this_command()))
