"""An image and where it lies."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from torch import Tensor

from gradicon.core.sampling import sample, unit_grid
from gradicon.errors import GradiconError
from gradicon.physical.space import Space


@dataclass(frozen=True, eq=False)
class Volume:
    """Voxel values (1, C, *S), of any dtype, and the space they lie in."""

    data: Tensor
    space: Space

    def __post_init__(self) -> None:
        if self.data.shape[0] != 1 or tuple(self.data.shape[2:]) != self.space.shape:
            raise GradiconError(
                f"a volume on a grid {self.space.shape} needs data (1, C, *grid), got "
                f"{tuple(self.data.shape)}"
            )

    def resized(self, shape: Sequence[int]) -> "Volume":
        """The same field of view with another number of voxels, read linearly.

        The data must be floating point.
        """
        return Volume(
            sample(self.data, unit_grid(shape, like=self.data)), self.space.resized(shape)
        )

    def canonical(self) -> "Volume":
        """The same voxels at the same places, with the array axes in the order and direction
        nearest to LPS (z, y, x).

        No value is interpolated: axes are reordered and reversed, and the space follows.
        """
        columns = self.space.index_to_mm[:-1, :-1]
        cosines = np.abs(columns / np.linalg.norm(columns, axis=0))[
            ::-1
        ]  # rows: the mm axes in array order
        axes = range(len(self.space.shape))
        order = max(
            permutations(axes),
            key=lambda p: sum(float(cosines[row, axis]) for row, axis in enumerate(p)),
        )
        backwards = [row for row, axis in enumerate(order) if columns[::-1][row, axis] < 0]
        change = np.zeros((len(order) + 1, len(order) + 1))
        change[-1, -1] = 1
        for row, axis in enumerate(order):
            change[axis, row] = -1 if row in backwards else 1
            change[axis, -1] = self.space.shape[axis] - 1 if row in backwards else 0
        data = self.data.permute(0, 1, *(2 + axis for axis in order)).flip(
            [2 + row for row in backwards]
        )
        return Volume(
            data.contiguous(),
            Space(tuple(self.space.shape[axis] for axis in order), self.space.index_to_mm @ change),
        )
