"""Small data sets on the disk, in the formats in which the paper's are published."""

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from gradicon.physical.published.dirlab import Case, State

Index = tuple[int, int, int]
SIZE = (24, 20, 16)
SPACING = (0.9, 0.8, 2.5)
SHIFT = (2, -1, 1)  # of exhale's landmarks from inhale's, in voxels
ERROR = float(np.linalg.norm(np.array(SHIFT) * np.array(SPACING)))


def small_case(number: int, error_mm: float = ERROR) -> Case:
    name = f"copd{number}"
    fixed, moving = (
        State(
            f"{name}_{phase}BHCT",
            (f"{name}_{phase}BHCT.img",),
            (f"{name}_300_{phase}BH_xyz_r1.txt",),
        )
        for phase in "ie"
    )
    return Case(name, SIZE, SPACING, error_mm, fixed, moving)


def landmarks(seed: int = 0) -> list[Index]:
    """300 different places of the inhale image, counted from 1; shifted, they are inside, too."""
    rng = np.random.default_rng(seed)
    inner = [(x, y, z) for x in range(2, 22) for y in range(3, 19) for z in range(2, 15)]
    return [inner[i] for i in rng.permutation(len(inner))[:300]]


def hounsfield(x: int, y: int, z: int) -> int:
    """Lung within soft tissue, air around: what a chest has."""
    depth = min(x - 1, SIZE[0] - x, y - 1, SIZE[1] - y)
    return -1000 if depth < 2 else 40 if depth < 4 else -850 + 7 * ((x + 2 * y + 3 * z) % 9)


def write_raw(path: Path, value: Callable[[int, int, int], int]) -> None:
    """Signed 16 bit, little-endian, x fastest, no header. `value` takes indices from 1."""
    with path.open("wb") as file:
        for z in range(1, SIZE[2] + 1):
            for y in range(1, SIZE[1] + 1):
                row = [value(x, y, z) for x in range(1, SIZE[0] + 1)]
                file.write(struct.pack(f"<{SIZE[0]}h", *row))


def write_points(path: Path, points: Sequence[Index]) -> None:
    """A row for each landmark: x, y, z, with tabs between."""
    path.write_text("".join(f"{x}\t{y}\t{z}\r\n" for x, y, z in points))


def write_case(folder: Path, number: int, offset: int = 0) -> list[Index]:
    """One case, in a folder of its own, as its archive has it; returns inhale's landmarks.

    The n-th landmark's voxel holds n HU in both images.
    """
    here = folder / f"copd{number}" / f"copd{number}"
    here.mkdir(parents=True)
    inhale = landmarks(number)
    exhale = [(x + SHIFT[0], y + SHIFT[1], z + SHIFT[2]) for x, y, z in inhale]
    for phase, points in (("i", inhale), ("e", exhale)):
        marked = {point: n for n, point in enumerate(points, 1)}
        write_raw(
            here / f"copd{number}_{phase}BHCT.img",
            lambda x, y, z, marked=marked: (
                -2000 if (x, y) == (1, 1) else offset + marked.get((x, y, z), hounsfield(x, y, z))
            ),
        )
        write_points(here / f"copd{number}_300_{phase}BH_xyz_r1.txt", points)
    return inhale
