"""Landmark files in and out: tables (.csv) and the fiducials of 3D Slicer (.fcsv, .mrk.json).

In memory, points are LPS mm.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradicon.errors import GradiconError, MissingFileError
from gradicon.files import written_whole
from gradicon.physical.landmark_json import json_text, read_json
from gradicon.physical.landmark_tables import read_csv, read_fcsv, table_text
from gradicon.physical.landmark_values import Frame, checked_frame

__all__ = ["Frame", "Landmarks", "read_landmarks", "write_landmarks"]


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
    frame = checked_frame(frame, "frame")
    suffix = _suffix(path)
    text = _read_text(path)
    if suffix == ".csv":
        labels, points = read_csv(path, text)
    else:
        frame, labels, points = (
            read_fcsv(path, text) if suffix == ".fcsv" else read_json(path, text, frame)
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
    frame = checked_frame(frame, "frame")
    suffix = _suffix(path)
    points = _between_lps_and(frame, landmarks.points_mm).tolist()
    if suffix != ".csv" and len(points[0]) != 3:
        raise GradiconError(f"{path}: {suffix} holds 3-D points, got 2-D ones: write a .csv")
    named = list(zip(range(1, len(points) + 1), landmarks.labels, points, strict=True))
    text = json_text(frame, named) if suffix == ".mrk.json" else table_text(path, frame, named)
    with written_whole(path) as part:
        part.write_bytes(text.encode())


def _between_lps_and(frame: Frame, points: NDArray[np.float64]) -> NDArray[np.float64]:
    return (
        points if frame == "lps" else points * np.array([-1.0, -1.0, 1.0])[: points.shape[1]]
    )  # its own inverse


def _suffix(path: Path) -> str:
    for suffix in (".csv", ".fcsv", ".mrk.json"):
        if path.name.lower().endswith(suffix):
            return suffix
    raise GradiconError(f"{path}: expected a landmark file that ends in .csv, .fcsv or .mrk.json")


def _read_text(path: Path) -> str:
    if not path.is_file():
        raise MissingFileError(f"{path}: no such landmark file")
    try:
        return path.read_bytes().decode("utf-8-sig")  # spreadsheets put a byte order mark first
    except UnicodeDecodeError as error:
        raise GradiconError(f"{path}: byte {error.start}: expected text in UTF-8") from error
