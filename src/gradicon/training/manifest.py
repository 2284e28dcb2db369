"""Lists of images and of pairs, as CSV files. Paths are relative to the file."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

COLUMNS = ("labels", "landmarks", "mask")


@dataclass(frozen=True)
class Item:
    """One image, and what came with it."""

    image: Path
    labels: Path | None = None
    landmarks: Path | None = None
    mask: Path | None = None


def read_images(path: Path) -> list[Item]:
    """The rows of a list with a column `image`, and where there are any `labels`, `landmarks` and `mask`."""
    rows = _rows(path, ["image"])
    if len(rows) < 2:
        raise ValueError(f"{path}: one image only: pairs of images need at least two")
    return [_item(path, number, row, "image", "") for number, row in enumerate(rows, 1)]


def read_pairs(path: Path) -> list[tuple[Item, Item]]:
    """The (moving, fixed) rows of a list with columns `fixed` and `moving`, and where there are any `fixed_labels` and so on."""
    rows = _rows(path, ["fixed", "moving"])
    pairs = [
        (_item(path, number, row, "moving", "moving_"), _item(path, number, row, "fixed", "fixed_"))
        for number, row in enumerate(rows, 1)
    ]
    for number, (moving, fixed) in enumerate(pairs, 1):
        if moving.image == fixed.image:
            raise ValueError(f"{path}: row {number}: fixed and moving are one image, {fixed.image.name}")
    return pairs


def _rows(path: Path, required: list[str]) -> list[dict[str, str]]:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such list")
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file, restkey="surplus", restval="", strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: not a CSV file: {error}") from error
    if not rows:
        raise ValueError(f"{path}: empty: expected a header with {', '.join(required)}, then one row each")
    for column in required:
        if column not in rows[0]:
            raise ValueError(f"{path}: the column {column!r} is missing: found {', '.join(rows[0])}")
    for number, row in enumerate(rows, 1):
        if "surplus" in row:
            raise ValueError(f"{path}: row {number} has more cells than the header")
    return rows


def _item(path: Path, number: int, row: Mapping[str, str], image: str, prefix: str) -> Item:
    found = {column: _given(path, number, row, prefix + column) for column in COLUMNS}
    source = _given(path, number, row, image)
    if source is None:
        raise ValueError(f"{path}: row {number}: {image} is empty")
    return Item(source, found["labels"], found["landmarks"], found["mask"])


def _given(path: Path, number: int, row: Mapping[str, str], column: str) -> Path | None:
    text = row.get(column, "").strip()
    if not text:
        return None
    found = path.parent / text
    if not found.exists():
        raise FileNotFoundError(f"{path}: row {number}: {column} {found} does not exist")
    return found
