"""The two DirLab sets as they are published: their files, sizes, spacings and initial errors.

Sizes and spacings are those of the set's own page. The errors before registration are of the 300
landmarks, as papers print them. Those of COPDgene agree with the paper's own row "Initial" (23.36
mm), and with a public log of what these files give; those of the 4DCT set were not checked.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

Set = Literal["copd", "4dct"]
LANDMARKS = 300
"""In every file."""
_SLICE_MM = 2.5


@dataclass(frozen=True)
class State:
    """One image of a case, and its landmarks.

    Args:
        name: of the files that are written for it.
        images: what its image may be called; the archives are not of one mind.
        landmarks: the same for its landmarks.
    """

    name: str
    images: tuple[str, ...]
    landmarks: tuple[str, ...]


@dataclass(frozen=True)
class Case:
    """One person.

    Args:
        name: as in the names of files.
        size: of both images in voxels, (x, y, z).
        spacing_mm: of both images, (x, y, z).
        error_mm: of the landmarks before registration, as published.
        fixed: the inhale image, the paper's target.
        moving: the exhale image, the paper's source.
    """

    name: str
    size: tuple[int, int, int]
    spacing_mm: tuple[float, float, float]
    error_mm: float
    fixed: State
    moving: State


def _copd(number: int, slices: int, in_plane_mm: float, error_mm: float) -> Case:
    name = f"copd{number}"
    fixed, moving = (
        State(
            f"{name}_{phase}BHCT",
            (f"{name}_{phase}BHCT.img",),
            (f"{name}_300_{phase}BH_xyz_r1.txt",),
        )
        for phase in "ie"
    )
    spacing = (in_plane_mm, in_plane_mm, _SLICE_MM)
    return Case(name, (512, 512, slices), spacing, error_mm, fixed, moving)


def _four_d(number: int, width: int, slices: int, in_plane_mm: float, error_mm: float) -> Case:
    name = f"case{number}"
    fixed, moving = (
        State(
            f"{name}_{phase}",
            tuple(f"{name}_{phase}{end}.img" for end in ("_s", "-ssm", "")),
            tuple(f"{name}_{start}300_{phase}_xyz.txt" for start in ("", "dirLab")),
        )
        for phase in ("T00", "T50")
    )
    spacing = (in_plane_mm, in_plane_mm, _SLICE_MM)
    return Case(name, (width, width, slices), spacing, error_mm, fixed, moving)


SETS: MappingProxyType[Set, tuple[Case, ...]] = MappingProxyType(
    {
        "copd": (
            _copd(1, 121, 0.625, 26.33),
            _copd(2, 102, 0.645, 21.79),
            _copd(3, 126, 0.652, 12.64),
            _copd(4, 126, 0.590, 29.58),
            _copd(5, 131, 0.647, 30.08),
            _copd(6, 119, 0.633, 28.46),
            _copd(7, 112, 0.625, 21.60),
            _copd(8, 115, 0.586, 26.46),
            _copd(9, 116, 0.664, 14.86),
            _copd(10, 135, 0.742, 21.81),
        ),
        "4dct": (
            _four_d(1, 256, 94, 0.97, 3.89),
            _four_d(2, 256, 112, 1.16, 4.34),
            _four_d(3, 256, 104, 1.15, 6.94),
            _four_d(4, 256, 99, 1.13, 9.83),
            _four_d(5, 256, 106, 1.10, 7.48),
            _four_d(6, 512, 128, 0.97, 10.89),
            _four_d(7, 512, 136, 0.97, 11.03),
            _four_d(8, 512, 128, 0.97, 14.99),
            _four_d(9, 512, 128, 0.97, 7.92),
            _four_d(10, 512, 120, 0.97, 7.30),
        ),
    }
)
"""Every case by its number, from 1."""
