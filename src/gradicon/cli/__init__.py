"""The command line: parses, calls, prints. No logic."""

import sys
from io import TextIOWrapper
from typing import Annotated

import torch
import typer

import gradicon
from gradicon.cli.apply import convert, jacobian, points, warp
from gradicon.cli.batch import batch
from gradicon.cli.demo import demo
from gradicon.cli.evaluate import evaluate
from gradicon.cli.experiment import experiment
from gradicon.cli.models import models
from gradicon.cli.register import register
from gradicon.cli.train import join, prepare, synthesise, train
from gradicon.cli.weights import import_weights, inspect

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="markdown",
)


@app.callback(invoke_without_command=True)
def about(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Medical image registration by gradient inverse consistency."""
    if version:
        typer.echo(f"gradicon {gradicon.__version__}")
        raise typer.Exit


for command in (
    register,
    warp,
    points,
    jacobian,
    convert,
    batch,
    prepare,
    synthesise,
    join,
    train,
    evaluate,
    experiment,
    demo,
    models,
    import_weights,
    inspect,
):
    app.command(command.__name__.replace("_", "-"))(command)


def main() -> None:
    """Run the command line; an error is one line on stderr and exit code 1 (2 for wrong usage, 130
    for Ctrl-C).
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(
                errors="replace"
            )  # a terminal that cannot show a character must not end the work
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError, MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not _out_of_memory(error):
            raise
        typer.echo(f"gradicon: {' '.join(_reason(error).split())}", err=True)
        sys.exit(1)


def _reason(error: Exception) -> str:
    if _out_of_memory(error):
        return "out of memory: take a smaller image, or a machine with more memory"
    return (
        f"{error.filename}: {error.strerror}"
        if isinstance(error, OSError) and error.filename
        else str(error)
    )


def _out_of_memory(error: Exception) -> bool:
    """Torch has an exception of its own for this on a GPU, and only a message on a CPU."""
    return isinstance(
        error, MemoryError | torch.OutOfMemoryError
    ) or "can't allocate memory" in str(error)
