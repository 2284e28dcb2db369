"""`gradicon models`: what is in the box."""

from pathlib import Path
from typing import Annotated

import typer

from gradicon.cli.common import stdout, table
from gradicon.models.zoo import Card, card, names


def models(
    name: Annotated[
        str | None, typer.Argument(help="The model whose card to show.", show_default=False)
    ] = None,
) -> None:
    """List the models in the box, or show the card of one: its data and their terms, its training,
    its scores, its limits.

    Example: `gradicon models`

    Example: `gradicon models default`
    """
    if name is not None:
        typer.echo(_describe_card(card(name)))
        return
    rows = [
        [each.name, each.summary, each.terms, f"{_megabytes(each.path):.0f} MB"]
        for each in map(card, names())
    ]
    stdout.print(table("", ["name", "what it is", "terms", "file"], rows))
    typer.echo(
        "`gradicon models NAME` shows a card; `gradicon register --model NAME` uses a "
        "model. Without --model it is the first."
    )


def _megabytes(path: Path) -> float:
    return path.stat().st_size / 1e6


def _describe_card(shown: Card) -> str:
    header = shown.header
    config = header.config
    lines = [
        f"{shown.name}: {shown.summary}",
        f"terms: {shown.terms}",
        f"file: {shown.path.name}, {_megabytes(shown.path):.1f} MB, sha256 {header.sha256}",
        (
            f"network: {config.title}, channels {list(config.down_channels)} down, "
            f"{list(config.up_channels)} up"
        ),
        f"trained: {shown.date}, {shown.minutes:g} minutes on {shown.hardware}, by",
        *(f"  {command}" for command in shown.commands),
        "data:",
        *(f"  {each.name}: {each.what} ({each.terms})" for each in shown.data),
        "scores, by itself / refined:",
        *(f"  {each.set}, {each.measure}: {each.alone} / {each.refined}" for each in shown.scores),
        "what it is not good at:",
        *(f"  {limit}" for limit in shown.limits),
    ]
    return "\n".join(lines)
