"""Landmarks as the .mrk.json of 3D Slicer."""

import json
from pathlib import Path
from reprlib import repr as short  # short, and safe for what is nested deeply

from gradicon.errors import GradiconError
from gradicon.physical.landmark_values import Frame, Named, Table, checked_frame, finite_number

_SCHEMA = "https://raw.githubusercontent.com/slicer/slicer/master/Modules/Loadable/Markups/Resources/Schema/markups-schema-v1.0.3.json#"


def read_json(path: Path, text: str, frame: Frame) -> tuple[Frame, *Table]:
    """The frame, labels and points of the first markup; `frame` is for one that names none."""
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
    frame = checked_frame(_member(markup, "coordinateSystem", frame), f"{path}: coordinateSystem")
    read = [_read_point(f"{path}: point {i}", point, str(i)) for i, point in enumerate(points, 1)]
    return frame, [label for label, _ in read], [position for _, position in read]


def json_text(frame: Frame, named: list[Named]) -> str:
    """The text of a .mrk.json with one markup."""
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


def _read_point(where: str, point: object, number: str) -> tuple[str, list[float]]:
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
        finite_number(value, f"{where}: {axis}")
        for axis, value in zip("xyz", position, strict=True)
    ]


def _member(node: object, key: str, default: object = None) -> object:
    return node.get(key, default) if isinstance(node, dict) else None
