"""What landmark files are made of: frames, labels and finite numbers, each checked."""

from contextlib import suppress
from reprlib import repr as short  # short, and safe for what is nested deeply
from typing import Literal

import numpy as np

from gradicon.errors import GradiconError

Frame = Literal["lps", "ras"]
Table = tuple[list[str], list[list[float]]]
"""Labels, and points in the frame of the file."""
Named = tuple[int, str, list[float]]
"""Number (from one), label and point."""

_FRAMES: dict[str, Frame] = {
    "lps": "lps",
    "ras": "ras",
    "1": "lps",
    "0": "ras",
}  # the numbers are Slicer's


def checked_frame(value: object, where: str) -> Frame:
    """LPS or RAS, in any of the ways in which files say so."""
    if not isinstance(value, str) or value.lower() not in _FRAMES:
        raise GradiconError(f"{where}: expected LPS or RAS, got {short(value)}")
    return _FRAMES[value.lower()]


def finite_number(value: str | float, where: str) -> float:
    """A number, or one line that says `where` none stands."""
    with suppress(ValueError):
        if np.isfinite(number := float(str(value).replace("_", "?"))):  # Python reads 1_0 as ten
            return number
    raise GradiconError(f"{where}: expected a finite number, got {short(value)}")
