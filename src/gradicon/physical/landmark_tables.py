"""Landmarks as tables: .csv, and the .fcsv of 3D Slicer."""

import csv
import io
from pathlib import Path
from reprlib import repr as short  # short, and safe for what is nested deeply

from gradicon.errors import GradiconError
from gradicon.physical.landmark_values import Frame, Named, Table, checked_frame, finite_number

_FCSV_COLUMNS = "id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID"
_FCSV_HEADER = (
    "# Markups fiducial file version = 5.0\n# CoordinateSystem = {frame}\n# columns = "
    + _FCSV_COLUMNS
    + "\n"
)


def read_csv(path: Path, text: str) -> Table:
    """The labels and points of a .csv, whose header names its columns."""
    return _parse_table(path, list(io.StringIO(text, newline="")))


def read_fcsv(path: Path, text: str) -> tuple[Frame, *Table]:
    """The frame, labels and points of a .fcsv. One that names no frame is RAS, as for Slicer."""
    lines = list(io.StringIO(text, newline=""))
    pairs = (line[1:].partition("=") for line in lines if line.startswith("#"))
    header = {key.strip().lower(): value.strip() for key, _, value in pairs}
    if "columns" not in header:
        raise GradiconError(f"{path}: expected the line '# columns = {_FCSV_COLUMNS}'")
    frame = checked_frame(header.get("coordinatesystem", "ras"), f"{path}: CoordinateSystem")
    table = [f"{header['columns']}\n", *("\n" if line.startswith("#") else line for line in lines)]
    return frame, *_parse_table(path, table, slicer=True)


def table_text(path: Path, frame: Frame, named: list[Named]) -> str:
    """The text of a .csv or .fcsv, whichever the path ends in."""
    for i, label, _ in named:
        if any(character in "\n\r" or "\ud800" <= character <= "\udfff" for character in label):
            raise GradiconError(
                f"{path}: point {i}: expected a label that is one line of text, got {short(label)}"
            )
    text = io.StringIO(newline="")
    slicer = path.name.lower().endswith(".fcsv")
    text.write(
        _FCSV_HEADER.format(frame=frame.upper())
        if slicer
        else ",".join(["label", *"xyz"[: len(named[0][2])]]) + "\n"
    )
    rows = [
        [i, *p, 0, 0, 0, 1, 1, 1, 0, label, "", ""] if slicer else [label, *p]
        for i, label, p in named
    ]
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _parse_table(path: Path, lines: list[str], *, slicer: bool = False) -> Table:
    reader = csv.reader(lines, strict=True)
    try:
        rows = [
            (reader.line_num - slicer, row) for row in reader if any(cell.strip() for cell in row)
        ]
    except csv.Error as error:
        raise GradiconError(
            f"{path}: line {reader.line_num - slicer}: expected comma-separated cells: {error}"
        ) from error
    names = [name.strip().lower() for name in rows.pop(0)[1]] if rows else []
    for name in ("x", "y", "z", "label"):
        if names.count(name) > 1 or (
            name in ("x", "y", "z" if slicer else "y") and name not in names
        ):
            raise GradiconError(
                f"{path}: expected one column {name} in the header, found {names.count(name)}"
            )
    for (
        line,
        row,
        # Slicer 5 adds two cells that its header does not name: the point's status and who made it
    ) in rows:
        if len(row) != len(names) and not (slicer and len(row) == len(names) + 2):
            raise GradiconError(
                f"{path}: line {line}: expected {len(names)} cells as in the header, got {len(row)}"
            )
        if len(row) > len(names) and row[-2] != "2":
            raise GradiconError(
                f"{path}: line {line}: expected a defined point, of status 2, got {short(row[-2])}"
            )
    axes = [(axis, names.index(axis)) for axis in "xyz" if axis in names]
    labels = [
        row[names.index("label")] if "label" in names else str(i)
        for i, (_, row) in enumerate(rows, 1)
    ]
    return labels, [
        [finite_number(row[column], f"{path}: line {line}: {axis}") for axis, column in axes]
        for line, row in rows
    ]
