"""The images of one resolution, and how unlike they are under a map."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from gradicon.core.objective import dissimilarity_at
from gradicon.core.sampling import shrink, unit_grid, window
from gradicon.core.similarity import Similarity
from gradicon.core.transform import DisplacementField
from gradicon.registration.presets import PRESETS, FieldPreset
from gradicon.registration.solve.smoothing import along_axes, linear_matrix


@dataclass(frozen=True, eq=False)
class Images:
    """Moving and fixed (1, C, *S) on one grid, and where each counts (1, 1, *S), or None."""

    moving: Tensor
    fixed: Tensor
    moving_weight: Tensor | None = None
    fixed_weight: Tensor | None = None

    def resized(self, shape: Sequence[int]) -> "Images":
        """The same on a coarser grid."""
        found = (self.moving, self.fixed, self.moving_weight, self.fixed_weight)
        moving, fixed, *weights = (None if x is None else shrink(x, shape) for x in found)
        assert moving is not None
        assert fixed is not None
        return Images(moving, fixed, *weights)

    def swapped(self) -> "Images":
        """Fixed as moving, and the other way round."""
        return Images(self.fixed, self.moving, self.fixed_weight, self.moving_weight)


@dataclass(frozen=True, eq=False)
class Resolution:
    """The images, and the block of their voxels outside of which both are empty.

    Args:
        images: on the grid of this resolution.
        start, shape: of the block, in voxels.
        grid: the identity map in the block.
        finer: the matrices that read maps in the block, if they are kept on a coarser grid.
    """

    images: Images
    start: list[int]
    shape: list[int]
    grid: Tensor
    finer: list[Tensor] | None

    @classmethod
    def of(
        cls, images: Images, maps: Sequence[Tensor], preset: FieldPreset = PRESETS.fields
    ) -> "Resolution":
        """`maps` are displacements on the grid that they are kept on."""
        start, shape = filled_block([images.moving, images.fixed], preset)
        whole = images.fixed.shape[2:]
        kept = maps[0].shape[2:]
        grid = window(unit_grid(whole, like=images.fixed), start, shape)
        rows = [slice(first, first + n) for first, n in zip(start, shape, strict=True)]
        finer = [
            linear_matrix(few, n, images.fixed)[place]
            for few, n, place in zip(kept, whole, rows, strict=True)
        ]
        return cls(images, start, shape, grid, None if kept == whole else finer)

    @property
    def share(self) -> float:
        """Of all voxels: what the mean over the block counts in the mean over all."""
        return prod(self.shape) / self.images.fixed[0, 0].numel()

    def unlike(
        self, phi: DisplacementField, similarity: Similarity, *, back: bool = False
    ) -> Tensor:
        """How unlike moving o phi and fixed are in the block; `back`, fixed o phi and moving."""
        images = self.images.swapped() if back else self.images
        if self.finer is None:
            x = self.grid + window(phi.u, self.start, self.shape)
        else:
            x = self.grid + along_axes(phi.u, self.finer)
        fixed = window(images.fixed, self.start, self.shape)
        weight = images.fixed_weight
        if weight is not None:
            weight = window(weight, self.start, self.shape)
        masks = (images.moving_weight, weight)
        return dissimilarity_at(x, images.moving, fixed, *masks, similarity)


def filled_block(
    images: Sequence[Tensor], preset: FieldPreset = PRESETS.fields
) -> tuple[list[int], list[int]]:
    """The first voxel, and how many along each axis, of the block of what is not empty in any.

    What is read there depends on voxels a little further out: there is a margin.
    """
    filled = torch.stack([image > preset.empty for image in images]).flatten(0, 2).any(0)
    whole = list(filled.shape)
    if not filled.any():
        return [0] * len(whole), whole
    places = filled.nonzero()
    first = [max(int(n) - preset.around, 0) for n in places.amin(0)]
    last = [min(int(n) + 1 + preset.around, m) for n, m in zip(places.amax(0), whole, strict=True)]
    return first, [end - begin for begin, end in zip(first, last, strict=True)]
