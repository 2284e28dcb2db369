"""`gradicon prepare`, `gradicon synthesise`, `gradicon join` and `gradicon train`."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gradicon.cli.choices import DeviceChoice
from gradicon.cli.common import Overwrite, stderr, this_command
from gradicon.errors import MissingPackageError
from gradicon.training.join import join as join_data
from gradicon.training.prepare import lost_detail
from gradicon.training.prepare import prepare as prepare_data
from gradicon.training.recipe import read_recipe
from gradicon.training.runlog import Report
from gradicon.training.synthetic import store_synthetic

if TYPE_CHECKING:
    from gradicon.training.trainer import Outcome


def prepare(
    manifest: Annotated[
        Path, typer.Argument(help="A CSV file of images, or of pairs.", show_default=False)
    ],
    recipe: Annotated[
        Path,
        typer.Option(
            "-r", "--recipe", help="A recipe, of which [data] counts here.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("-o", "--out", help="The folder for the prepared data.", show_default=False),
    ],
    validation: Annotated[
        Path | None, typer.Option(help="A CSV file of pairs to validate on.")
    ] = None,
    overwrite: Overwrite = False,
) -> None:
    """Read scans once and store what training reads: one orientation, one grid, intensities in
    [0,1].

    Columns of a list of images: image, and where there are any labels, landmarks and mask. Of a
    list of pairs: fixed, moving, and fixed_labels, moving_labels and so on. Paths are relative to
    the file.

    Example: `gradicon prepare train.csv --recipe recipes/hippocampus.toml --validation
    val_pairs.csv -o data`
    """
    with _preparing() as show:
        found = prepare_data(
            manifest,
            read_recipe(recipe),
            out,
            validation=validation,
            overwrite=overwrite,
            on_image=show,
        )
    size = sum(file["bytes"] for file in found["files"].values()) / 1e6
    judged = (
        f", {len(found['validation_pairs'])} validation pairs" if found["validation_pairs"] else ""
    )
    typer.echo(f"{out}: {len(found['images'])} images{judged}, {size:.0f} MB")
    if told := lost_detail(found):
        typer.echo(
            f"warning: {told}: is shape in the order of LPS axes (z, y, x), and large enough?",
            err=True,
        )


def synthesise(
    recipe: Annotated[
        Path,
        typer.Option(
            "-r", "--recipe", help="A recipe, of which [data] counts here.", show_default=False
        ),
    ],
    count: Annotated[int, typer.Option(min=1, help="Pairs to train on.", show_default=False)],
    out: Annotated[
        Path,
        typer.Option("-o", "--out", help="The folder for the prepared data.", show_default=False),
    ],
    validation: Annotated[int, typer.Option(min=0, help="Pairs to validate on, besides.")] = 0,
    seed: Annotated[int, typer.Option(help="Another one gives other images.")] = 0,
) -> None:
    """Make images of no anatomy to train on: random smooth regions in random contrasts, warped at
    random.

    Example: `gradicon synthesise --recipe my.toml --count 200 -o synthetic`
    """
    config = read_recipe(recipe).data
    with _preparing() as show:
        store_synthetic(
            out,
            config,
            count,
            validation=validation,
            seed=seed,
            on_pair=lambda k, n: show(k, n, f"pair {k}"),
        )
    typer.echo(f"{out}: {count} pairs" + (f", {validation} validation pairs" if validation else ""))


def join(
    folders: Annotated[
        list[Path],
        typer.Argument(help="Folders that `gradicon prepare` wrote.", show_default=False),
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="The folder for all of them.", show_default=False)
    ],
    overwrite: Overwrite = False,
) -> None:
    """Make one folder of several, to train one network on all of them; its recipe says pairs =
    "joined".

    Pairs are of one folder, and each folder's turn comes equally often.

    Example: `gradicon join brain hippocampus cardiac -o all`
    """
    found = join_data(folders, out, overwrite=overwrite)
    typer.echo(f"{out}: {len(found['images'])} images in {len(found['groups'])} groups")


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
    """Train a model by a recipe, in two stages. Ctrl-C stops it with a checkpoint, and --resume
    goes on.

    Example: `gradicon train recipes/hippocampus.toml --data data -o run`

    Example: `gradicon train --resume run`
    """
    if (resume is None) == (recipe is None or data is None or out is None) or (
        resume is not None and (recipe or out or start)
    ):
        raise typer.BadParameter(
            "give RECIPE --data DATA -o RUN to start, or --resume RUN to go on"
        )
    try:  # here, because only training needs Lightning Fabric
        from gradicon.training import trainer
        from gradicon.training.processes import Machine, is_first_process
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"training needs {error.name}: pip install 'gradicon[training]'"
        ) from error
    machine = Machine(device, devices, nodes)
    command = this_command()
    with _training() as show:
        if recipe is not None and data is not None and out is not None:
            wanted = read_recipe(recipe)
            outcome = trainer.train(
                wanted,
                data,
                out,
                start=start,
                machine=machine,
                max_minutes=max_minutes,
                command=command,
                on_log=show,
            )
        else:
            run = resume or Path()
            outcome = trainer.resume(
                run,
                data=data,
                machine=machine,
                max_minutes=max_minutes,
                command=command,
                on_log=show,
            )
    if is_first_process():
        typer.echo(_told(outcome, resume or out or Path()))
    if outcome.stopped == "interrupted":
        raise typer.Exit(130)


def _told(outcome: "Outcome", run: Path) -> str:
    best = (
        ""
        if outcome.best is None
        else f", best validation score {outcome.best:.4f} (best.safetensors)"
    )
    if outcome.stopped:
        return (
            f"stopped at step {outcome.step} of {outcome.steps}{best}: go on with `gradicon "
            f"train --resume {run}`"
        )
    return (
        f"{run / 'model.safetensors'}: {outcome.steps} steps in {outcome.minutes:.1f} minutes{best}"
    )


@contextmanager
def _preparing() -> Generator[Callable[[int, int, str], None]]:
    columns = (
        TextColumn("preparing"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=stderr, disable=not stderr.is_terminal, transient=True
    ) as progress:
        task = progress.add_task("", total=None)
        yield lambda done, total, name: progress.update(
            task, completed=done, total=total, description=name
        )


@contextmanager
def _training() -> Generator[Callable[[Report], None]]:
    """A bar with steps per second, the time left, each part of the loss, and folds; without a
    terminal, a line each time.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[told]}"),
    )
    with Progress(
        *columns, console=stderr, disable=not stderr.is_terminal, speed_estimate_period=600
    ) as progress:
        task = progress.add_task("", total=None, told="")

        def show(report: Report) -> None:
            values = {
                name: value
                for name, value in report.values.items()
                if not name.startswith("validation_")
            }
            told = f"{report.steps_per_second:.3g}/s  " + "  ".join(
                f"{name} {value:.3g}" for name, value in values.items()
            )
            progress.update(
                task,
                completed=report.step,
                total=report.steps,
                description=f"Stage{report.stage}",
                told=told,
            )
            if not stderr.is_terminal:
                typer.echo(
                    f"Stage{report.stage} step {report.step} of {report.steps}  {told}", err=True
                )
            if judged := "  ".join(
                f"{n} {v:.4g}" for n, v in report.values.items() if n.startswith("validation_")
            ):
                progress.console.print(
                    f"step {report.step}: {judged}", highlight=False, soft_wrap=True
                )

        yield show
