"""Splits published as lists of paths on another machine, as lists of files on this one.

One line each: one path (an image), two (a pair), or four (a pair, then its label maps), with blanks
between. So are the lists of OAI and HCP in the repository of the paper's authors.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from gradicon.errors import GradiconError, MissingFileError
from gradicon.files import written_whole
from gradicon.physical.images import read_volume, to_sitk, write_image
from gradicon.physical.volume import Volume

_COLUMNS = {
    1: ("image",),
    2: ("moving", "fixed"),
    4: ("moving", "fixed", "moving_labels", "fixed_labels"),
}
"""By the number of paths in a line. The authors warp the first image of a pair to the second."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the words of a list become files.

    Args:
        root: the folder below which they are; the longest end of a listed path counts that is
            there.
        replace: texts in listed paths, and what stands for them.
        template: a path below root with {} for a listed word, such as the number of a subject.
        label_template: the same for the label map of each image.
        images: each image of the list once, though it lists pairs; label maps are left out.
    """

    root: Path
    replace: tuple[tuple[str, str], ...] = ()
    template: str = "{}"
    label_template: str = ""
    images: bool = False

    def __post_init__(self) -> None:
        if not self.root.is_dir():
            raise MissingFileError(f"{self.root}: no such folder")
        for text in (self.template, self.label_template):
            if text and "{}" not in text:
                raise GradiconError(f"a template needs {{}} for what is listed, got {text!r}")

    def path_of(self, word: str, template: str) -> str:
        """What a word of the list stands for, as text."""
        for old, new in self.replace:
            word = word.replace(old, new)
        return template.replace("{}", word)


@dataclass(frozen=True)
class Listed:
    """A list with its files found.

    Args:
        columns: their names.
        rows: those of which every file is there.
        named: how many files the list names.
        missing: the names of those that are not there.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Path, ...], ...]
    named: int
    missing: tuple[str, ...]

    @property
    def note(self) -> str:
        """How many files are not there, and the first of them; empty if all are there."""
        if not self.missing:
            return ""
        return (
            f"{len(self.missing)} of {self.named} named files are not there, "
            f"the first: {self.missing[0]}"
        )


def read_path_list(source: Path, reading: Reading) -> Listed:
    """Find the files that a published list names.

    Rows with a file that is not there are left out, and told.
    """
    columns, rows = _named(source, reading)
    found = {name: _find(name, reading.root) for row in rows for name in row}
    _check_distinct(source, found)
    there = tuple(tuple(path for name in row if (path := found[name]) is not None) for row in rows)
    return Listed(
        columns,
        tuple(row for row in there if len(row) == len(columns)),
        len(found),
        tuple(name for name, path in found.items() if path is None),
    )


def write_list(out: Path, listed: Listed) -> None:
    """Write it as a CSV file, with paths relative to that file where they lie below it."""
    folder = out.resolve().parent
    with written_whole(out) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(listed.columns)
        writer.writerows([_seen_from(folder, path) for path in row] for row in listed.rows)


def shape_of_first(listed: Listed) -> tuple[int, ...]:
    """How many voxels the first image has, (z, y, x) as a recipe's shape counts them."""
    return read_volume(listed.rows[0][0]).canonical().space.shape


def mirrored(listed: Listed, text: str, folder: Path) -> dict[Path, Path]:
    """Each file whose name has `text` in it, and where its mirrored copy belongs."""
    files = dict.fromkeys(path for row in listed.rows for path in row if text in path.name)
    if not files:
        raise GradiconError(f"no file of the list has {text} in its name: there is none to mirror")
    copies = {path: folder.resolve() / path.name for path in files}
    if len(set(copies.values())) < len(copies):
        raise GradiconError(
            f"several files to mirror have one name, such as {next(iter(files)).name}"
        )
    return copies


def write_mirrored(path: Path, copy: Path) -> None:
    """Write an image or a label map with left and right exchanged, where it was."""
    volume = read_volume(path).canonical()
    write_image(to_sitk(Volume(volume.data.flip(-1), volume.space)), copy)


def with_copies(listed: Listed, copies: Mapping[Path, Path]) -> Listed:
    """The list with copies in the place of files."""
    rows = tuple(tuple(copies.get(path, path) for path in row) for row in listed.rows)
    return replace(listed, rows=rows)


def _named(source: Path, reading: Reading) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The columns, and the paths of each row as text."""
    words = _words(source)
    columns = _COLUMNS[len(words[0])]
    if reading.images:
        once = dict.fromkeys(word for row in words for word in row[:2])
        words = [(word,) for word in once]
        columns = _COLUMNS[1]
    images = [name for name in columns if not name.endswith("_labels")]
    rows = [tuple(reading.path_of(word, reading.template) for word in row) for row in words]
    if reading.label_template and len(columns) == len(images):
        labels = ["labels" if name == "image" else f"{name}_labels" for name in images]
        columns = (*columns, *labels)
        rows = [
            (*row, *(reading.path_of(word, reading.label_template) for word in listed))
            for row, listed in zip(rows, words, strict=True)
        ]
    return columns, rows


def _words(source: Path) -> list[tuple[str, ...]]:
    if not source.is_file():
        raise MissingFileError(f"{source}: no such list")
    try:
        lines = source.read_bytes().decode().splitlines()
    except UnicodeDecodeError as error:
        raise GradiconError(f"{source}: byte {error.start}: expected text") from error
    rows = [(number, tuple(line.split())) for number, line in enumerate(lines, 1) if line.strip()]
    if not rows:
        raise GradiconError(f"{source}: empty: expected one, two or four paths in each line")
    for number, row in rows:
        if len(row) not in _COLUMNS or len(row) != len(rows[0][1]):
            raise GradiconError(
                f"{source}: line {number}: expected one, two or four paths, as many in each line, "
                f"got {len(row)}"
            )
    return [row for _, row in rows]


def _find(name: str, root: Path) -> Path | None:
    """The file at the longest end of a path that lies below a folder."""
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", "..")]
    ends = (root.joinpath(*parts[start:]) for start in range(len(parts)))
    return next((path.resolve() for path in ends if path.is_file()), None)


def _check_distinct(source: Path, found: dict[str, Path | None]) -> None:
    """Refuse a folder in which two listed paths come out at one file."""
    taken: dict[Path, str] = {}
    for name, path in found.items():
        if path is not None and (other := taken.setdefault(path, name)) != name:
            raise GradiconError(
                f"{source}: {other} and {name} would both be {path}: choose a folder further up"
            )


def _seen_from(folder: Path, path: Path) -> str:
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()
