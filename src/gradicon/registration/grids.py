"""Grids to work on: their size, and the coarser ones that lead to them."""

from collections.abc import Sequence
from math import ceil, floor, prod, sqrt

from gradicon.physical.space import Space

Shape = tuple[int, ...]


def working_space(space: Space, most_voxels: int) -> Space:
    """The grid to work on: the image's own, or one of larger voxels if they would be too many.

    The finest axes are made coarser, all to one voxel size, until `most_voxels` are left; axes with
    larger voxels stay as they are.
    """
    if prod(space.shape) <= most_voxels:
        return space
    extents = [n * s for n, s in zip(space.shape, space.spacing_mm, strict=True)]
    finest_first = sorted(range(len(extents)), key=lambda axis: space.spacing_mm[axis])
    shape = list(space.shape)
    for count in range(1, len(shape) + 1):
        coarser = finest_first[:count]
        stay = prod(space.shape[axis] for axis in finest_first[count:])
        size = (prod(extents[axis] for axis in coarser) * stay / most_voxels) ** (1 / count)
        for axis in coarser:
            shape[axis] = max(floor(extents[axis] / size), 1)
        if all(space.spacing_mm[axis] >= size for axis in finest_first[count:]):
            break
    return space.resized(tuple(shape))


def pyramid(shape: Shape, spacing: Sequence[float], coarsest: int) -> list[Shape]:
    """Grids over one field of view, coarse to fine, the last one being `shape`.

    From one to the next the axes with the shortest voxels are halved, so that thick slices wait
    until the plane has caught up. Images are looked at from the second grid on, which has at most
    `coarsest` voxels along an axis, in the geometric mean; their maps are kept on the grid before.
    """
    shorter, lengths = _halved(shape, tuple(spacing))
    shapes = [shorter, shape]
    while prod(shapes[1]) > coarsest ** sum(n > 1 for n in shape):
        shorter, lengths = _halved(shorter, lengths)
        shapes.insert(0, shorter)
    return shapes


def _halved(shape: Shape, lengths: tuple[float, ...]) -> tuple[Shape, tuple[float, ...]]:
    """The next coarser grid: halved along axes whose voxels are nearer in length to the shortest
    one than to twice that.
    """
    several = [length for n, length in zip(shape, lengths, strict=True) if n > 1]
    shortest = min(several, default=0.0)
    halve = [
        n > 1 and length < sqrt(2) * shortest for n, length in zip(shape, lengths, strict=True)
    ]
    sizes = tuple(ceil(n / 2) if half else n for n, half in zip(shape, halve, strict=True))
    longer = tuple(
        2 * length if half else length for length, half in zip(lengths, halve, strict=True)
    )
    return sizes, longer
