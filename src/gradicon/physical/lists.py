"""Lists of images and of pairs, as CSV: one header, one row each, paths relative to the list."""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gradicon.errors import GradiconError, MissingFileError

_EXTRAS = ("labels", "landmarks", "mask")
_SIDES = ("fixed", "moving")


@dataclass(frozen=True)
class Item:
    """One image, and what came with it."""

    image: Path
    labels: Path | None = None
    landmarks: Path | None = None
    mask: Path | None = None


@dataclass(frozen=True)
class Pair:
    """Two images of a list. `number` is that of their row, from 1."""

    number: int
    fixed: Item
    moving: Item

    @property
    def name(self) -> str:
        """A name for the pair that no other row of its list has, fit for a folder."""
        moving, fixed = (item.image.name.split(".")[0] for item in (self.moving, self.fixed))
        return f"{self.number:04d}_{moving}_to_{fixed}"

    @property
    def files(self) -> dict[str, Path]:
        """Every file or folder that was given, by the name of its column."""
        given: dict[str, Path] = {}
        for side, item in zip(_SIDES, (self.fixed, self.moving), strict=True):
            given[side] = item.image
            for extra, path in zip(_EXTRAS, (item.labels, item.landmarks, item.mask), strict=True):
                if path is not None:
                    given[f"{side}_{extra}"] = path
        return given


def read_images(path: Path) -> list[Item]:
    """The rows of a list of images: a column `image`, and where there are any `labels`,
    `landmarks` and `mask`.
    """
    rows = _read_rows(path, ["image"], known=_EXTRAS)
    if len(rows) < 2:
        raise GradiconError(f"{path}: one image only: pairs of images need at least two")
    return [_item(path, number, row, "image", "") for number, row in enumerate(rows, 1)]


def read_pairs(path: Path) -> list[Pair]:
    """The rows of a list of pairs: columns `fixed` and `moving`, and where there are any
    `fixed_labels`, `moving_labels` and so on.

    A missing column or a file that does not exist is named before anything runs.
    """
    known = [f"{side}_{extra}" for extra in _EXTRAS for side in _SIDES]
    rows = _read_rows(path, _SIDES, known=known)
    return [
        Pair(number, *(_item(path, number, row, side, f"{side}_") for side in _SIDES))
        for number, row in enumerate(rows, 1)
    ]


def _read_rows(
    path: Path, required: Sequence[str], *, known: Sequence[str]
) -> list[dict[str, str]]:
    """The rows by column.

    A list that is missing, empty, no CSV, or without a required column is refused by name; then
    `known` are named, too: the columns that it may also have.
    """
    if not path.is_file():
        raise MissingFileError(f"{path}: no such list")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file, restkey="surplus", restval="", strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise GradiconError(f"{path}: not a CSV file: {error}") from error
    if not rows:
        raise GradiconError(
            f"{path}: empty: expected a header with {', '.join(required)}, then one row each"
        )
    for column in required:
        if column not in rows[0]:
            raise GradiconError(
                f"{path}: the column {column!r} is missing: found {', '.join(rows[0])}; "
                f"it may also have {', '.join(known)}"
            )
    for number, row in enumerate(rows, 1):
        if "surplus" in row:
            raise GradiconError(f"{path}: row {number} has more cells than the header")
    return rows


def _item(path: Path, number: int, row: Mapping[str, str], image: str, prefix: str) -> Item:
    source = _path_in(path, number, row, image)
    if source is None:
        needed = ": fixed and moving must both be given" if image in _SIDES else ""
        raise GradiconError(f"{path}: row {number}: {image} is empty{needed}")
    return Item(source, *(_path_in(path, number, row, prefix + extra) for extra in _EXTRAS))


def _path_in(path: Path, number: int, row: Mapping[str, str], column: str) -> Path | None:
    """The file that a cell names, None if the cell is empty or the column is not there.

    A file that does not exist is refused.
    """
    text = row.get(column, "").strip()
    if not text:
        return None
    named = path.parent / text
    if not named.exists():
        raise MissingFileError(f"{path}: row {number}: {column} {named} does not exist")
    return named
