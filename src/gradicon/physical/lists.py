"""Lists of files, as CSV: one header, one row each, paths relative to the list."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from gradicon.errors import GradiconError, MissingFileError


def read_rows(
    path: Path, required: Sequence[str], *, known: Sequence[str] = ()
) -> list[dict[str, str]]:
    """The rows by column. A list that is missing, empty, no CSV, or without a required column is
    refused by name.

    Args:
        path: the list.
        required: columns that must be there.
        known: further columns to name when a required one is missing.
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
            more = f"; it may also have {', '.join(known)}" if known else ""
            raise GradiconError(
                f"{path}: the column {column!r} is missing: found {', '.join(rows[0])}{more}"
            )
    for number, row in enumerate(rows, 1):
        if "surplus" in row:
            raise GradiconError(f"{path}: row {number} has more cells than the header")
    return rows


def path_in(path: Path, number: int, row: Mapping[str, str], column: str) -> Path | None:
    """The file that a cell names, None if the cell is empty or the column is not there. A file that
    does not exist is refused.
    """
    text = row.get(column, "").strip()
    if not text:
        return None
    found = path.parent / text
    if not found.exists():
        raise MissingFileError(f"{path}: row {number}: {column} {found} does not exist")
    return found
