"""The images that training reads: `gradicon prepare`, `synthesise`, `deform` and `join`."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gradicon.cli.common import Overwrite, stderr
from gradicon.errors import UsageError
from gradicon.training.deformed import store_deformed
from gradicon.training.elastic import DRIVE, EACH, Deformation
from gradicon.training.join import join as join_data
from gradicon.training.prepare import lost_detail
from gradicon.training.prepare import prepare as prepare_data
from gradicon.training.recipe import read_recipe
from gradicon.training.synthetic import store_synthetic
from gradicon.training.triangles import COUNT, store_shapes

Kind = Literal["anatomy-free", "triangles"]
RecipeFile = Annotated[
    Path,
    typer.Option(
        "-r", "--recipe", help="A recipe, of which [data] counts here.", show_default=False
    ),
]
DataFolder = Annotated[
    Path, typer.Option("-o", "--out", help="The folder for the prepared data.", show_default=False)
]
ValidationCount = Annotated[int, typer.Option(min=0, help="Pairs to validate on, besides.")]
Seed = Annotated[int, typer.Option(min=0, help="Another one gives other images.")]


def prepare(
    manifest: Annotated[
        Path, typer.Argument(help="A CSV file of images, or of pairs.", show_default=False)
    ],
    recipe: RecipeFile,
    out: DataFolder,
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
    recipe: RecipeFile,
    out: DataFolder,
    kind: Annotated[
        Kind, typer.Option(help="Pairs of no anatomy, or the paper's triangles and circles.")
    ] = "anatomy-free",
    count: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Pairs to train on; of triangles and circles, images.",
            show_default=f"{COUNT} triangles and circles",
        ),
    ] = None,
    validation: ValidationCount = 0,
    seed: Seed = 0,
) -> None:
    """Make images to train on without any scans: of no anatomy, random smooth regions in random
    contrasts, warped at random; or hollow triangles and circles, of which any two make a pair.

    Example: `gradicon synthesise --recipe my.toml --count 200 -o synthetic`

    Example: `gradicon synthesise --kind triangles -r recipes/paper/triangles.toml -o triangles`
    """
    config = read_recipe(recipe).data
    if kind == "triangles":
        made = COUNT if count is None else count
        store_shapes(out, config, made, validation=validation, seed=seed)
        typer.echo(_made(out, f"{made} images", validation))
        return
    if count is None:
        raise UsageError("say with --count how many pairs to make")
    with _preparation_progress() as show:
        store_synthetic(
            out,
            config,
            count,
            validation=validation,
            seed=seed,
            on_pair=lambda k, n: show(k, n, f"pair {k}"),
        )
    typer.echo(_made(out, f"{count} pairs", validation))


def deform(
    images: Annotated[
        Path, typer.Argument(help="A folder of images of one size.", show_default=False)
    ],
    recipe: RecipeFile,
    out: DataFolder,
    each: Annotated[int, typer.Option(min=1, help="Pairs of each image.")] = EACH,
    points: Annotated[
        list[int] | None,
        typer.Option(
            help="Control points along each axis; once for each deformation, one after the other.",
            show_default=" ".join(f"{how.points}" for how in DRIVE),
        ),
    ] = None,
    sigma: Annotated[
        list[float] | None,
        typer.Option(
            help="Of their displacements, in pixels of the recipe's shape; as often as --points.",
            show_default=" ".join(f"{how.sigma:g}" for how in DRIVE),
        ),
    ] = None,
    validation: ValidationCount = 0,
    seed: Seed = 0,
) -> None:
    """Make pairs of images and random elastic deformations of them, as the paper does with DRIVE.

    Control points move at random, with cubic B-splines between them.

    Example: `gradicon deform 1st_manual -r recipes/paper/drive.toml -o drive`
    """
    if len(points or []) != len(sigma or []):
        raise UsageError("give --sigma as often as --points, one for each deformation")
    how = [Deformation(*each) for each in zip(points or [], sigma or [], strict=True)] or DRIVE
    with _preparation_progress() as show:
        described = store_deformed(
            images,
            read_recipe(recipe).data,
            out,
            each=each,
            validation=validation,
            deformations=how,
            seed=seed,
            on_pair=lambda k, n: show(k, n, f"pair {k}"),
        )
    typer.echo(_made(out, f"{len(described['train_pairs'])} pairs", validation))


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


def _made(out: Path, what: str, validation: int) -> str:
    return f"{out}: {what}" + (f", {validation} validation pairs" if validation else "")


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
