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
        typer.echo(_told(card(name)))
        return
    rows = [
        [each.name, each.summary, each.terms, f"{_size(each.path):.0f} MB"]
        for each in map(card, names())
    ]
    stdout.print(table("", ["name", "what it is", "terms", "file"], rows))
    typer.echo(
        "`gradicon models NAME` shows a card; `gradicon register --model NAME` uses a "
        "model. Without --model it is the first."
    )


def _size(path: Path) -> float:
    return path.stat().st_size / 1e6


def _told(found: Card) -> str:
    header = found.header
    config = header.config
    lines = [
        f"{found.name}: {found.summary}",
        f"terms: {found.terms}",
        f"file: {found.path.name}, {_size(found.path):.1f} MB, sha256 {header.sha256}",
        (
            f"network: Stage{config.stage}, channels {list(config.down_channels)} down, "
            f"{list(config.up_channels)} up"
        ),
        f"trained: {found.date}, {found.minutes:g} minutes on {found.hardware}, by",
        *(f"  {command}" for command in found.commands),
        "data:",
        *(f"  {each.name}: {each.what} ({each.terms})" for each in found.data),
        "scores, by itself / refined:",
        *(f"  {each.set}, {each.measure}: {each.alone} / {each.refined}" for each in found.scores),
        "what it is not good at:",
        *(f"  {limit}" for limit in found.limits),
    ]
    return "\n".join(lines)
