"""`gradicon prepare`, `gradicon synthesise` and `gradicon join`: the images that training reads."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gradicon.cli.common import Overwrite, stderr
from gradicon.training.join import join as join_data
from gradicon.training.prepare import lost_detail
from gradicon.training.prepare import prepare as prepare_data
from gradicon.training.recipe import read_recipe
from gradicon.training.synthetic import store_synthetic


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
    with _preparation_progress() as show:
        described = prepare_data(
            manifest,
            read_recipe(recipe),
            out,
            validation=validation,
            overwrite=overwrite,
            on_image=show,
        )
    size = sum(file["bytes"] for file in described["files"].values()) / 1e6
    pairs = described["validation_pairs"]
    judged = f", {len(pairs)} validation pairs" if pairs else ""
    typer.echo(f"{out}: {len(described['images'])} images{judged}, {size:.0f} MB")
    if detail := lost_detail(described):
        typer.echo(
            f"warning: {detail}: is shape in the order of LPS axes (z, y, x), and large enough?",
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
    with _preparation_progress() as show:
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
    described = join_data(folders, out, overwrite=overwrite)
    typer.echo(f"{out}: {len(described['images'])} images in {len(described['groups'])} groups")


@contextmanager
def _preparation_progress() -> Generator[Callable[[int, int, str], None]]:
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
