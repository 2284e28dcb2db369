"""The command line: parses, calls, prints. No logic."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from inspect import cleandoc
from typing import Annotated

import typer

import gradicon
from gradicon.ending import set_debug
from gradicon.threads import bound_threads

_FILES = {
    "register": "register",
    "warp": "apply",
    "points": "apply",
    "jacobian": "apply",
    "convert": "apply",
    "convert_dirlab": "published",
    "convert_list": "published",
    "batch": "batch",
    "prepare": "prepare",
    "synthesise": "prepare",
    "deform": "prepare",
    "join": "prepare",
    "train": "train",
    "evaluate": "evaluate",
    "experiment": "experiment",
    "demo": "demo",
    "models": "models",
    "import_weights": "weights",
    "inspect": "weights",
}
"""Each command, and the file of this folder that has it as a function of the same name."""


def run() -> None:
    """Run the command that `sys.argv` names.

    Only its file is imported: most import torch, which takes a second.
    """
    named = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
        rich_markup_mode="markdown",
    )
    app.callback(invoke_without_command=True)(_begin)
    for command, file in _FILES.items():
        name = command.replace("_", "-")
        if name == named:
            app.command(name)(_imported(command, file))
        else:
            app.command(name, help=_help(command, file))(_only_listed)
    app()


def _begin(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of a mistake. Also: GRADICON_DEBUG=1."),
    ] = False,
) -> None:
    """Medical image registration by gradient inverse consistency."""
    if debug:
        set_debug()
    if version:
        typer.echo(f"gradicon {gradicon.__version__}")
        raise typer.Exit


def _imported(command: str, file: str) -> Callable[..., None]:
    function: Callable[..., None] = getattr(import_module(f"gradicon.cli.{file}"), command)
    if "torch" in sys.modules:
        bound_threads()
    return function


def _help(command: str, file: str) -> str:
    """The docstring of a command, out of its file's text: nothing is imported."""
    spec = find_spec(f"gradicon.cli.{file}")
    source = None if spec is None else spec.loader.get_source(spec.name)  # type: ignore[union-attr]
    for node in ast.parse(source or "").body:
        if isinstance(node, ast.FunctionDef) and node.name == command:
            return cleandoc(ast.get_docstring(node) or "")
    return ""


def _only_listed() -> None:
    """Stands for a command that is not the one to run."""
