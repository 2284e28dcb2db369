"""DirLab's files: images of 16-bit numbers without a header, landmarks as voxel indices from 1."""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from gradicon.errors import GradiconError
from gradicon.physical.landmark_values import finite_number
from gradicon.physical.published.dirlab import LANDMARKS, Case
from gradicon.physical.space import Matrix, Space
from gradicon.physical.volume import Volume

Values = Literal["auto", "hu", "hu+1024"]
"""What the stored numbers are. "auto" looks at them."""
OFFSETS: dict[Values, int] = {"hu": 0, "hu+1024": -1024}
"""What is to be added to them."""

_AXES = 3
_STORED = np.dtype("<i2")
_LOOKED_AT = 8  # every so many slices tell enough of the values
_LOWEST_HU = -1024  # the scanner's own lowest; what it did not see is stored as -2000
_AIR = (-1100, -600)  # in and around the body, if values are HU
_TISSUE = (900, 1200)  # which is -124 to 176 HU, if values are HU + 1024
_ENOUGH = 0.05  # of all voxels
_CLEARLY = 5  # times as many of one as of the other


def space_of_case(case: Case) -> Space:
    """Where its voxels lie: the first voxel at 0, x to the left, y to the back, z to the feet.

    The slices are stored from head to feet, so that z goes down in LPS mm.
    """
    x, y, z = case.spacing_mm
    index_to_mm = np.eye(4)
    index_to_mm[:3, :3] = [[0, 0, x], [0, y, 0], [-z, 0, 0]]  # from (z, y, x) to (x, y, z)
    return Space(case.size[::-1], index_to_mm)


def check_length(path: Path, case: Case) -> None:
    """Refuse an image file that does not hold as many 16-bit numbers as the case has voxels."""
    expected = int(np.prod(case.size)) * _STORED.itemsize
    found = path.stat().st_size
    if found != expected:
        size = " x ".join(map(str, case.size))
        raise GradiconError(
            f"{path}: {found} bytes, but {size} voxels of 2 bytes are {expected}: "
            "download it again, or take the published file"
        )


def values_of(path: Path, case: Case) -> Values:
    """What the numbers of an image file are, told by air and soft tissue; if unclear, refused."""
    seen = np.memmap(path, _STORED, "r", shape=case.size[::-1])[::_LOOKED_AT]
    air = _share(seen, *_AIR)
    tissue = _share(seen, *_TISSUE)
    if air > _ENOUGH and air > _CLEARLY * tissue:
        return "hu"
    if tissue > _ENOUGH and tissue > _CLEARLY * air:
        return "hu+1024"
    raise GradiconError(
        f"{path}: its values do not tell whether they are Hounsfield units: {air:.1%} lie where "
        f"air does, and {tissue:.1%} where soft tissue does if 1024 was added: "
        "say --values hu, or --values hu+1024"
    )


def read_hu(path: Path, case: Case, values: Values) -> Volume:
    """An image in Hounsfield units, 16 bit; what the scanner did not see is -1024."""
    stored = np.fromfile(path, _STORED).reshape(case.size[::-1])
    hu = np.maximum(stored.astype(np.int32) + OFFSETS[values], _LOWEST_HU).astype(np.int16)
    return Volume(torch.from_numpy(hu)[None, None], space_of_case(case))


def read_indices(path: Path, case: Case) -> Matrix:
    """The landmarks of a file as voxel indices (300, 3), (x, y, z), counted from 1 as they are
    stored; those that cannot be are refused.
    """
    try:
        lines = path.read_bytes().decode().splitlines()
    except UnicodeDecodeError as error:
        raise GradiconError(f"{path}: byte {error.start}: expected text") from error
    rows = [line.split() for line in lines if line.strip()]
    uneven = [number for number, row in enumerate(rows, 1) if len(row) != _AXES]
    if uneven or len(rows) != LANDMARKS:
        found = (
            f"row {uneven[0]} has {len(rows[uneven[0] - 1])}" if uneven else f"found {len(rows)}"
        )
        raise GradiconError(f"{path}: expected {LANDMARKS} rows of three numbers, {found}")
    indices = np.array(
        [
            [finite_number(cell, f"{path}: row {number}") for cell in row]
            for number, row in enumerate(rows, 1)
        ]
    )
    _check_inside(path, indices, case)
    return indices


def to_mm(indices: Matrix, case: Case) -> Matrix:
    """Voxel indices (N, 3), (x, y, z), counted from 1, as LPS mm."""
    space = space_of_case(case)
    counted_from_0 = indices[:, ::-1] - 1
    return counted_from_0 @ space.index_to_mm[:3, :3].T + space.index_to_mm[:3, 3]


def _check_inside(path: Path, indices: Matrix, case: Case) -> None:
    zeros = int((indices == 0).any(1).sum())
    if zeros:
        raise GradiconError(
            f"{path}: {zeros} landmarks have an index of 0: these are counted from 0, the "
            "published ones from 1: take the published file, or add 1 to every number"
        )
    outside = np.flatnonzero(~((indices >= 1) & (indices <= np.array(case.size))).all(1))
    if len(outside):
        row = int(outside[0])
        point = ", ".join(f"{index:g}" for index in indices[row])
        size = " x ".join(map(str, case.size))
        raise GradiconError(
            f"{path}: {len(outside)} landmarks lie outside the image of {size} voxels, the first "
            f"in row {row + 1}: {point}"
        )


def _share(values: NDArray[np.int16], low: int, high: int) -> float:
    return float(((values >= low) & (values <= high)).mean())
