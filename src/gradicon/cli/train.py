"""`gradicon train`."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gradicon.cli.choices import DeviceChoice
from gradicon.cli.common import stderr, this_command
from gradicon.training.command import TrainingRequest, progress_line, train_as_asked
from gradicon.training.runlog import Report


def train(
    recipe: Annotated[
        Path | None, typer.Argument(help="A recipe (TOML).", show_default=False)
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The folder that `gradicon prepare` wrote.")
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The folder for the run.")] = None,
    start: Annotated[
        Path | None, typer.Option(help="A trained model to start from.", metavar="MODEL")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with this run.", metavar="RUN")] = None,
    device: DeviceChoice = "auto",
    devices: Annotated[
        int, typer.Option(min=1, help="GPUs, or processes on a CPU, of this machine.")
    ] = 1,
    nodes: Annotated[int, typer.Option(min=1, help="Machines, under Slurm or torchrun.")] = 1,
    max_minutes: Annotated[
        float | None, typer.Option(min=0, help="Stop after so long, with a checkpoint.")
    ] = None,
) -> None:
    """Train a model by a recipe, in two stages.

    Ctrl-C stops it with a checkpoint, and --resume goes on.

    Example: `gradicon train recipes/hippocampus.toml --data data -o run`

    Example: `gradicon train --resume run`
    """
    request = TrainingRequest(recipe, data, out, start, resume, device, devices, nodes, max_minutes)
    closing: list[str] = []
    with _training_progress() as show:
        code = train_as_asked(
            request,
            program="gradicon train",
            command=this_command(),
            on_log=show,
            say=closing.append,
        )
    for line in closing:  # below the bar, which is complete now
        typer.echo(line)
    raise typer.Exit(code)


@contextmanager
def _training_progress() -> Generator[Callable[[Report], None]]:
    """A bar with steps per second, the time left, each part of the loss, and folds; without a
    terminal, a line each time.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[values]}"),
    )
    with Progress(
        *columns, console=stderr, disable=not stderr.is_terminal, speed_estimate_period=600
    ) as progress:
        task = progress.add_task("", total=None, values="")

        def show(report: Report) -> None:
            if not stderr.is_terminal:
                typer.echo(progress_line(report), err=True)
                return
            judged = _values_line(report, validation=True)
            progress.update(
                task,
                completed=report.step,
                total=report.steps,
                description=f"Stage{report.stage}",
                values=f"{report.steps_per_second:.3g}/s  {_values_line(report, validation=False)}",
            )
            if judged:
                line = f"step {report.step}: {judged}"
                progress.console.print(line, highlight=False, soft_wrap=True)

        yield show


def _values_line(report: Report, *, validation: bool) -> str:
    return "  ".join(
        f"{name} {value:.3g}"
        for name, value in report.values.items()
        if name.startswith("validation_") == validation
    )
