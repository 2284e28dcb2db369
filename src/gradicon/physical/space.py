"""Where an image lies: the one place that knows of millimetres, directions and origins.

Millimetres are LPS, components in (x, y, z) order, as in ITK, ANTs and 3D Slicer. Indices and
unit-cube coordinates are in array order, (z, y, x). Geometry is float64 throughout.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gradicon.errors import GradiconError

Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Space:
    """A grid in physical space.

    Args:
        shape: voxels along each axis, in array order.
        index_to_mm: the homogeneous matrix (D+1, D+1) from an index in array order to LPS mm.
    """

    shape: tuple[int, ...]
    index_to_mm: Matrix

    def __post_init__(self) -> None:
        size = len(self.shape) + 1
        if self.index_to_mm.shape != (size, size):
            raise GradiconError(
                f"a {size - 1}-D space needs an index_to_mm of shape {(size, size)}, got "
                f"{self.index_to_mm.shape}"
            )
        if not np.isfinite(self.index_to_mm).all() or abs(np.linalg.det(self.index_to_mm)) < 1e-12:
            raise GradiconError(
                f"index_to_mm must be finite and invertible, got {self.index_to_mm.tolist()}"
            )

    @property
    def unit_to_mm(self) -> Matrix:
        """The homogeneous matrix M from the unit cube to LPS mm.

        An axis of one voxel is one voxel long.
        """
        return self.index_to_mm @ np.diag([*(max(n - 1, 1) for n in self.shape), 1.0])

    @property
    def spacing_mm(self) -> tuple[float, ...]:
        """The size of a voxel along each array axis."""
        return tuple(float(length) for length in np.linalg.norm(self.index_to_mm[:-1, :-1], axis=0))

    def to_mm(self, unit: Matrix) -> Matrix:
        """Unit-cube points (N, D), in array order, as LPS mm."""
        return _apply(self.unit_to_mm, unit)

    def to_unit(self, mm: Matrix) -> Matrix:
        """LPS mm points (N, D) as unit-cube points, in array order."""
        mm_to_unit: Matrix = np.linalg.inv(self.unit_to_mm).astype(np.float64)
        return _apply(mm_to_unit, mm)

    def coincides(self, other: "Space") -> bool:
        """Whether two grids have the same voxels at the same places, to a thousandth of a voxel."""
        return self.shape == other.shape and np.allclose(
            self.index_to_mm, other.index_to_mm, atol=1e-3 * min(self.spacing_mm), rtol=0
        )

    def resized(self, shape: Sequence[int]) -> "Space":
        """Another number of voxels over the same field of view: the centres of the corner voxels
        stay where they are.
        """
        factors = [max(n - 1, 1) / max(m - 1, 1) for n, m in zip(self.shape, shape, strict=True)]
        return Space(tuple(shape), self.index_to_mm @ np.diag([*factors, 1.0]))

    def centered(self, shape: Sequence[int], spacing_mm: Sequence[float]) -> "Space":
        """A grid of other voxels, turned the same way, about the same centre."""
        columns: Matrix = (
            self.index_to_mm[:-1, :-1] / np.array(self.spacing_mm) * np.array(spacing_mm)
        )
        centre = self.to_mm(np.full((1, len(shape)), 0.5))[0]
        index_to_mm = np.eye(len(shape) + 1)
        index_to_mm[:-1, :-1] = columns
        index_to_mm[:-1, -1] = centre - columns @ ((np.array(shape) - 1) / 2)
        return Space(tuple(shape), index_to_mm)


def _apply(matrix: Matrix, points: Matrix) -> Matrix:
    return points @ matrix[:-1, :-1].T + matrix[:-1, -1]
