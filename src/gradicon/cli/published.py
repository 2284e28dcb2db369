"""`gradicon convert-dirlab` and `gradicon convert-list`: the paper's data sets, as published."""

from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from gradicon.cli.common import OutFolder, Overwrite, refuse_existing, stderr, stdout, table
from gradicon.errors import GradiconError, MissingFileError, UsageError
from gradicon.physical.published.convert import PAIRS, Converted, convert_cases
from gradicon.physical.published.dirlab import SETS, Case, Set
from gradicon.physical.published.path_lists import (
    Listed,
    Reading,
    mirrored,
    read_path_list,
    shape_of_first,
    with_copies,
    write_list,
    write_mirrored,
)
from gradicon.physical.published.raw import Values


def convert_dirlab(
    folder: Annotated[
        Path, typer.Argument(help="Where the archives were unpacked.", show_default=False)
    ],
    out: OutFolder,
    which: Annotated[Set, typer.Option("--set", help="COPDgene or the 4DCT set.")] = "copd",
    cases: Annotated[
        str, typer.Option(help="Their numbers, such as 1,2,5.", show_default="all ten")
    ] = "",
    masks: Annotated[
        Path | None,
        typer.Option(help="A folder of lung masks, each called as the image that is written."),
    ] = None,
    values: Annotated[
        Values, typer.Option(help="What the stored numbers are; auto looks at them.")
    ] = "auto",
    overwrite: Overwrite = False,
) -> None:
    """Turn DirLab's files into what `gradicon evaluate` reads: images, landmarks and pairs.csv.

    Inhale is fixed and exhale is moving, as in the paper. The table that is printed has the
    landmarks' error before registration beside the published one: they agree if all was read
    rightly.

    Example: `gradicon convert-dirlab downloads -o dirlab`
    """
    refuse_existing([out], overwrite=overwrite)
    chosen = _chosen(SETS[which], cases)
    with _progress() as progress:
        task = progress.add_task("", total=len(chosen))
        done = convert_cases(
            folder,
            out,
            chosen,
            values=values,
            masks=masks,
            on_case=lambda number, _, name: progress.update(
                task, completed=number - 1, description=name
            ),
        )
    header = ["case", "voxels", "stored as", "error before [mm]", "published [mm]"]
    stdout.print(table(str(out / PAIRS), header, [*map(_row, done), *_mean_row(done)]))
    for found in done:
        if found.differs:
            typer.echo(
                f"warning: {found.case.name}: {found.error_mm:.2f} mm before registration, but "
                f"{found.case.error_mm:.2f} mm are published: are these the published landmarks?",
                err=True,
            )


def convert_list(
    source: Annotated[Path, typer.Argument(help="A published list.", show_default=False)],
    root: Annotated[
        Path, typer.Option(help="The folder below which its files are.", show_default=False)
    ],
    out: Annotated[
        Path, typer.Option("-o", "--out", help="The CSV file to write.", show_default=False)
    ],
    images: Annotated[
        bool, typer.Option("--images", help="List each image once, though pairs are listed.")
    ] = False,
    replace: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Replace a text in listed names; may be repeated."),
    ] = None,
    template: Annotated[
        str, typer.Option(help="A path below ROOT, with {} for what is listed.")
    ] = "{}",
    label_template: Annotated[str, typer.Option(help="The same for label maps.")] = "",
    mirror: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Exchange left and right of files with this text in their names: copies are "
            "written to the folder `mirrored` beside OUT.",
        ),
    ] = "",
    skip_missing: Annotated[
        bool, typer.Option("--skip-missing", help="Leave rows out whose files are not there.")
    ] = False,
    overwrite: Overwrite = False,
) -> None:
    """Turn a published list of paths into a list that `gradicon prepare` and `evaluate` read.

    A line of SOURCE names an image, or a pair (moving, fixed), or a pair and its label maps.

    Example: `gradicon convert-list test/pair_path_list.txt --root OAI -o test.csv`
    """
    refuse_existing([out], overwrite=overwrite)
    if not out.parent.is_dir():
        raise MissingFileError(f"{out}: the folder {out.parent} does not exist")
    reading = Reading(
        root=root,
        replace=tuple(map(_old_and_new, replace or [])),
        template=template,
        label_template=label_template,
        images=images,
    )
    listed = read_path_list(source, reading)
    if listed.note and not (skip_missing and listed.rows):
        raise GradiconError(f"{source}: {listed.note}")
    if mirror:
        listed = _mirror(listed, mirror, out.parent / "mirrored")
    write_list(out, listed)
    if listed.note:
        typer.echo(f"warning: {source}: {listed.note}", err=True)
    shape = " x ".join(map(str, shape_of_first(listed)))
    columns = ", ".join(listed.columns)
    typer.echo(f"{out}: {len(listed.rows)} rows of {columns}")
    typer.echo(f"the first image has {shape} voxels (z, y, x)")


def _chosen(cases: Sequence[Case], numbers: str) -> list[Case]:
    words = [word.strip() for word in numbers.split(",")] if numbers else []
    known = {str(number): case for number, case in enumerate(cases, 1)}
    for word in words:
        if word not in known:
            raise UsageError(f"--cases: expected numbers from 1 to {len(cases)}, got {word!r}")
    return [known[word] for word in dict.fromkeys(words)] or list(cases)


def _row(found: Converted) -> list[str]:
    size = " x ".join(map(str, found.case.size))
    stored = "HU" if found.values == "hu" else "HU + 1024"
    return [
        found.case.name,
        size,
        stored,
        f"{found.error_mm:.2f}",
        f"{found.case.error_mm:.2f}",
    ]


def _mean_row(found: Sequence[Converted]) -> list[list[str]]:
    means = (mean(one.error_mm for one in found), mean(one.case.error_mm for one in found))
    return [["mean", "", "", *(f"{value:.2f}" for value in means)]]


def _old_and_new(text: str) -> tuple[str, str]:
    old, equals, new = text.partition("=")
    if not old or not equals:
        raise UsageError(f"--replace: expected OLD=NEW, got {text!r}")
    return old, new


def _mirror(listed: Listed, text: str, folder: Path) -> Listed:
    copies = mirrored(listed, text, folder)
    folder.mkdir(exist_ok=True)
    with _progress() as progress:
        for path, copy in progress.track(copies.items()):
            write_mirrored(path, copy)
    return with_copies(listed, copies)


def _progress() -> Progress:
    columns = (TextColumn("converting"), BarColumn(), MofNCompleteColumn())
    return Progress(
        *columns,
        TextColumn("{task.description}"),
        console=stderr,
        disable=not stderr.is_terminal,
        transient=True,
    )
