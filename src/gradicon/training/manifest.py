"""Lists of images and of pairs, as CSV files. Paths are relative to the file."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gradicon.errors import GradiconError
from gradicon.physical.lists import path_in, read_rows

COLUMNS = ("labels", "landmarks", "mask")


@dataclass(frozen=True)
class Item:
    """One image, and what came with it."""

    image: Path
    labels: Path | None = None
    landmarks: Path | None = None
    mask: Path | None = None


def read_images(path: Path) -> list[Item]:
    """The rows of a list with a column `image`, and where there are any `labels`, `landmarks` and
    `mask`.
    """
    rows = read_rows(path, ["image"])
    if len(rows) < 2:
        raise GradiconError(f"{path}: one image only: pairs of images need at least two")
    return [_item(path, number, row, "image", "") for number, row in enumerate(rows, 1)]


def read_pairs(path: Path) -> list[tuple[Item, Item]]:
    """The (moving, fixed) rows of a list with columns `fixed` and `moving`, and where there are any
    `fixed_labels` and so on.
    """
    rows = read_rows(path, ["fixed", "moving"])
    pairs = [
        (_item(path, number, row, "moving", "moving_"), _item(path, number, row, "fixed", "fixed_"))
        for number, row in enumerate(rows, 1)
    ]
    for number, (moving, fixed) in enumerate(pairs, 1):
        if moving.image == fixed.image:
            raise GradiconError(
                f"{path}: row {number}: fixed and moving are one image, {fixed.image.name}"
            )
    return pairs


def _item(path: Path, number: int, row: Mapping[str, str], image: str, prefix: str) -> Item:
    found = {column: path_in(path, number, row, prefix + column) for column in COLUMNS}
    source = path_in(path, number, row, image)
    if source is None:
        raise GradiconError(f"{path}: row {number}: {image} is empty")
    return Item(source, found["labels"], found["landmarks"], found["mask"])
