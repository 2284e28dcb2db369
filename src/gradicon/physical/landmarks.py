"""Landmark files in and out: tables (.csv) and the fiducials of 3D Slicer (.fcsv, .mrk.json). In
memory, points are LPS mm.
"""

import csv
import io
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as short  # short, and safe for what is nested deeply
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from gradicon.errors import GradiconError, MissingFileError
from gradicon.files import written_whole

Frame = Literal["lps", "ras"]
Table = tuple[list[str], list[list[float]]]  # labels, and points in the frame of the file
Named = tuple[int, str, list[float]]  # number (from one), label and point
_FRAMES: dict[str, Frame] = {
    "lps": "lps",
    "ras": "ras",
    "1": "lps",
    "0": "ras",
}  # the numbers are Slicer's
_FCSV_COLUMNS = "id,x,y,z,ow,ox,oy,oz,vis,sel,lock,label,desc,associatedNodeID"
_FCSV_HEADER = (
    "# Markups fiducial file version = 5.0\n# CoordinateSystem = {frame}\n# columns = "
    + _FCSV_COLUMNS
    + "\n"
)
_SCHEMA = "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/markups-schema-v1.0.3.json#"


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Named points in physical space.

    Args:
        labels: a name for each point; they need not differ.
        points_mm: the points (N, D) in LPS mm, D = 2 or 3.
    """

    labels: tuple[str, ...]
    points_mm: NDArray[np.float64]

    def __post_init__(self) -> None:
        shape = self.points_mm.shape
        count = len(self.labels)
        if len(shape) != 2 or shape[0] == 0 or shape[0] != count or shape[1] not in (2, 3):
            raise GradiconError(
                f"{count} labels need points_mm of shape ({count}, 2 or 3) and at least "
                f"one point, got {shape}"
            )
        if not np.isfinite(self.points_mm).all():
            raise GradiconError(
                "points_mm must be finite, got "
                f"{self.points_mm[~np.isfinite(self.points_mm).all(1)].tolist()}"
            )


def read_landmarks(path: str | Path, *, frame: Frame = "lps") -> Landmarks:
    """The landmarks of a .csv, .fcsv or .mrk.json file.

    Args:
        path: a .csv has a header with the columns x, y and, if wanted, z and label. Of a .mrk.json,
            the first markup is read.
        frame: the frame of a .csv. The other formats state their own, which wins; a .fcsv that does
            not is RAS, as for Slicer.
    """
    path = Path(path)
    frame = _frame(frame, "frame")
    suffix = _suffix(path)
    text = _text(path)
    if suffix == ".csv":
        labels, points = _table(path, list(io.StringIO(text, newline="")))
    else:
        frame, labels, points = (
            _from_fcsv(path, text) if suffix == ".fcsv" else _from_json(path, text, frame)
        )
    if not points:
        raise GradiconError(f"{path}: expected at least one point, found none")
    return Landmarks(tuple(labels), _between_lps_and(frame, np.array(points, dtype=np.float64)))


def write_landmarks(path: str | Path, landmarks: Landmarks, *, frame: Frame = "lps") -> None:
    """Write landmarks to a .csv, .fcsv or .mrk.json file, with all their digits: all of it or
    nothing.

    Args:
        path: where to. Slicer's own formats, .fcsv and .mrk.json, hold 3-D points only.
        frame: the frame of the values in the file. A .csv cannot say which it is: whoever reads it
            must know.
    """
    path = Path(path)
    frame = _frame(frame, "frame")
    suffix = _suffix(path)
    points = _between_lps_and(frame, landmarks.points_mm).tolist()
    if suffix != ".csv" and len(points[0]) != 3:
        raise GradiconError(f"{path}: {suffix} holds 3-D points, got 2-D ones: write a .csv")
    named = list(zip(range(1, len(points) + 1), landmarks.labels, points, strict=True))
    text = _to_json(frame, named) if suffix == ".mrk.json" else _to_table(path, frame, named)
    with written_whole(path) as part:
        part.write_bytes(text.encode())


def _between_lps_and(frame: Frame, points: NDArray[np.float64]) -> NDArray[np.float64]:
    return (
        points if frame == "lps" else points * np.array([-1.0, -1.0, 1.0])[: points.shape[1]]
    )  # its own inverse


def _frame(value: object, where: str) -> Frame:
    if not isinstance(value, str) or value.lower() not in _FRAMES:
        raise GradiconError(f"{where}: expected LPS or RAS, got {short(value)}")
    return _FRAMES[value.lower()]


def _suffix(path: Path) -> str:
    for suffix in (".csv", ".fcsv", ".mrk.json"):
        if path.name.lower().endswith(suffix):
            return suffix
    raise GradiconError(f"{path}: expected a landmark file that ends in .csv, .fcsv or .mrk.json")


def _text(path: Path) -> str:
    if not path.is_file():
        raise MissingFileError(f"{path}: no such landmark file")
    try:
        return path.read_bytes().decode("utf-8-sig")  # spreadsheets put a byte order mark first
    except UnicodeDecodeError as error:
        raise GradiconError(f"{path}: byte {error.start}: expected text in UTF-8") from error


def _from_fcsv(path: Path, text: str) -> tuple[Frame, *Table]:
    lines = list(io.StringIO(text, newline=""))
    pairs = (line[1:].partition("=") for line in lines if line.startswith("#"))
    header = {key.strip().lower(): value.strip() for key, _, value in pairs}
    if "columns" not in header:
        raise GradiconError(f"{path}: expected the line '# columns = {_FCSV_COLUMNS}'")
    frame = _frame(header.get("coordinatesystem", "ras"), f"{path}: CoordinateSystem")
    table = [f"{header['columns']}\n", *("\n" if line.startswith("#") else line for line in lines)]
    return frame, *_table(path, table, slicer=True)


def _table(path: Path, lines: list[str], *, slicer: bool = False) -> Table:
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
        [_number(row[column], f"{path}: line {line}: {axis}") for axis, column in axes]
        for line, row in rows
    ]


def _number(value: str | float, where: str) -> float:
    with suppress(ValueError):
        if np.isfinite(number := float(str(value).replace("_", "?"))):  # Python reads 1_0 as ten
            return number
    raise GradiconError(f"{where}: expected a finite number, got {short(value)}")


def _from_json(path: Path, text: str, frame: Frame) -> tuple[Frame, *Table]:
    try:
        markups = _member(
            json.loads(text, parse_int=float), "markups"
        )  # an integer can be too long for Python, a float cannot
    except (ValueError, RecursionError) as error:
        raise GradiconError(f"{path}: expected one whole JSON text: {error}") from error
    markup: object = markups[0] if isinstance(markups, list) and markups else None
    points = _member(markup, "controlPoints")
    if not isinstance(points, list):
        raise GradiconError(f"{path}: expected markups[0].controlPoints, a list of points")
    if (units := _member(markup, "coordinateUnits", "mm")) not in (
        "mm",
        ["mm", "UCUM", "millimeter"],
    ):
        raise GradiconError(f"{path}: coordinateUnits: expected 'mm', got {short(units)}")
    frame = _frame(_member(markup, "coordinateSystem", frame), f"{path}: coordinateSystem")
    read = [
        _control_point(f"{path}: point {i}", point, str(i)) for i, point in enumerate(points, 1)
    ]
    return frame, [label for label, _ in read], [position for _, position in read]


def _control_point(where: str, point: object, number: str) -> tuple[str, list[float]]:
    label = _member(point, "label", number)
    status = _member(point, "positionStatus", "defined")
    if not isinstance(label, str):
        raise GradiconError(f"{where}: label: expected a string, got {short(label)}")
    if status != "defined":
        raise GradiconError(
            f"{where}, {short(label)}: expected a point whose positionStatus is "
            f"'defined', got {short(status)}"
        )
    position = _member(point, "position")
    if (
        not isinstance(position, list)
        or len(position) != 3
        or not all(isinstance(value, float) for value in position)
    ):
        raise GradiconError(
            f"{where}: position: expected a list of three numbers, got {short(position)}"
        )
    return label, [
        _number(value, f"{where}: {axis}") for axis, value in zip("xyz", position, strict=True)
    ]


def _member(node: object, key: str, default: object = None) -> object:
    return node.get(key, default) if isinstance(node, dict) else None


def _to_table(path: Path, frame: Frame, named: list[Named]) -> str:
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


def _to_json(frame: Frame, named: list[Named]) -> str:
    control_points = [
        {"id": str(i), "label": label, "position": p, "positionStatus": "defined"}
        for i, label, p in named
    ]
    markup = {
        "type": "Fiducial",
        "coordinateSystem": frame.upper(),
        "coordinateUnits": "mm",
        "controlPoints": control_points,
    }
    return json.dumps({"@schema": _SCHEMA, "markups": [markup]}, indent=1) + "\n"
