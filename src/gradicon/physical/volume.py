"""An image and where it lies."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from gradicon.core.sampling import sample, unit_grid
from gradicon.physical.space import Space


@dataclass(frozen=True, eq=False)
class Volume:
    """Voxel values (1, C, *S), of any dtype, and the space they lie in."""

    data: Tensor
    space: Space

    def __post_init__(self) -> None:
        if self.data.shape[0] != 1 or tuple(self.data.shape[2:]) != self.space.shape:
            raise ValueError(f"a volume on a grid {self.space.shape} needs data (1, C, *grid), got {tuple(self.data.shape)}")

    def resized(self, shape: Sequence[int]) -> "Volume":
        """The same field of view with another number of voxels, read linearly. The data must be floating point."""
        return Volume(sample(self.data, unit_grid(shape, like=self.data)), self.space.resized(shape))
