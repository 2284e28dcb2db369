"""The command line: parses, calls, prints. No logic."""

import hashlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

import gradicon
from gradicon.core.objective import Objective
from gradicon.models import from_icon, read_header, read_icon, save
from gradicon.registration.demo import STEPS, DemoResult, run_demo

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False, rich_markup_mode="markdown")
stderr, stdout = Console(stderr=True), Console()

Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")]


@app.callback(invoke_without_command=True)
def about(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:  # noqa: FBT002
    """Medical image registration by gradient inverse consistency."""
    if version:
        typer.echo(f"gradicon {gradicon.__version__}")
        raise typer.Exit


@app.command()
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="The folder for demo.png and demo.json.")] = Path("demo"),
    steps: Annotated[int, typer.Option(min=1, help="Optimisation steps.")] = STEPS,
    overwrite: Overwrite = False,  # noqa: FBT002
) -> None:
    """Register the bundled pair of hippocampus MR scans: Dice before and after, folds, and a picture.

    Example: `gradicon demo -o demo`
    """
    targets = [out / "demo.png", out / "demo.json"]
    _refuse_existing(targets, overwrite=overwrite)
    out.mkdir(parents=True, exist_ok=True)
    columns = (
        TextColumn("optimising"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]:.3f}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=stderr, disable=not stderr.is_terminal) as progress:
        task = progress.add_task("", total=steps, loss=float("nan"))

        def show(step: int, result: Objective) -> None:
            progress.update(task, completed=step, loss=result.loss.item())

        result = run_demo(out, steps=steps, on_step=show)
    stdout.print(_demo_table(result))
    typer.echo(f"folds {result.folds_percent:.3g} %, {result.seconds:.0f} s; see {targets[0]}")


@app.command("import-weights")
def import_weights(
    file: Annotated[
        Path, typer.Argument(help="A .trch file of the reference implementation (ICON, uniGradICON).", show_default=False)
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="The checkpoint to write.", show_default=False)],
    overwrite: Overwrite = False,  # noqa: FBT002
) -> None:
    """Turn weights of the reference implementation into a checkpoint that loads anywhere, without pickle.

    Example: `gradicon import-weights Step_2_final.trch -o unigradicon.safetensors`
    """
    _refuse_existing([out], overwrite=overwrite)
    model = from_icon(read_icon(file))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    save(model, out, provenance={"imported from": file.name, "sha256 of that file": digest, "gradicon": gradicon.__version__})
    count = sum(parameter.numel() for parameter in model.parameters())
    typer.echo(f"{out}: Stage{model.config.stage}, {model.config.dimension}-D, {count:,} parameters")


@app.command()
def inspect(file: Annotated[Path, typer.Argument(help="A checkpoint.", show_default=False)]) -> None:
    """Print what a checkpoint says of itself, as JSON: configuration, hash and where it comes from.

    Example: `gradicon inspect model.safetensors`
    """
    header = read_header(file)
    typer.echo(
        json.dumps({"config": header.config.to_dict(), "sha256": header.sha256, "provenance": dict(header.provenance)}, indent=2)
    )


def main() -> None:
    """Run the command line; an error is one line on stderr and exit code 1 (2 for wrong usage, 130 for Ctrl-C)."""
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.strerror else str(error)
        typer.echo(f"gradicon: {' '.join(reason.split())}", err=True)
        sys.exit(1)


def _refuse_existing(paths: list[Path], *, overwrite: bool) -> None:
    for path in paths:
        if path.exists() and not overwrite:
            raise FileExistsError(f"{path} exists: choose another place, or say --overwrite")


def _demo_table(result: DemoResult) -> Table:
    table = Table("hippocampus", "Dice before", "Dice after")
    for label, name in ((1, "anterior"), (2, "posterior")):
        table.add_row(name, f"{result.dice_before[label]:.3f}", f"{result.dice_after[label]:.3f}")
    return table
