"""Grids to work on: their size, the coarser ones that lead to them, and the work done on each."""

from collections.abc import Sequence
from math import ceil, prod, sqrt

import torch

from gradicon.physical.space import Space
from gradicon.registration.presets import PRESETS, GridPreset, Presets

Shape = tuple[int, ...]


def working_space(space: Space, preset: GridPreset) -> Space:
    """The grid to work on: the image's own, or one of larger voxels if they would be too many."""
    extents = [n * s for n, s in zip(space.shape, space.spacing_mm, strict=True)]
    size = min(space.spacing_mm)
    shape = space.shape
    while torch.Size(shape).numel() > preset.most_voxels:
        size *= preset.growth
        shape = tuple(
            n if s >= size else ceil(extent / size)
            for n, s, extent in zip(space.shape, space.spacing_mm, extents, strict=True)
        )
    return space.resized(shape)


def pyramid(
    shape: Shape, spacing: Sequence[float], preset: GridPreset = PRESETS.grid
) -> list[Shape]:
    """Grids over one field of view, coarse to fine, the last one being `shape`."""
    shapes = [shape]
    sizes = list(shape)
    lengths = list(spacing)
    while len(shapes) < preset.levels or prod(shapes[0]) > preset.coarsest_voxels:
        shortest = min(lengths)
        for axis, (n, length) in enumerate(zip(sizes, list(lengths), strict=True)):
            if length <= preset.thick * shortest and n >= preset.shortest_axis:
                sizes[axis] = ceil(n / 2)
                lengths[axis] = length * 2
        if len(shapes) >= preset.levels and tuple(sizes) == shapes[0]:
            break
        shapes.insert(0, tuple(sizes))
    return shapes


def steps_per_level(refine: int, shapes: Sequence[Shape], presets: Presets = PRESETS) -> list[int]:
    """Fewer where voxels are many, since what is left to do there is small, and dear.

    Where there is such a level, the coarser ones are cheap beside it and get more: large motion is
    found there or nowhere.
    """
    large = presets.grid.large
    most = presets.fields.most if prod(shapes[-1]) > large else 1.0
    return [ceil(refine * min(most, sqrt(large / prod(shape)))) for shape in shapes]
