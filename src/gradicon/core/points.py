"""Points of the unit cube, at random but spread evenly: where a penalty is evaluated.

The paper draws voxels / 2^D points uniformly. Here one point is drawn in each cell of 2^D voxels:
as many, each uniform in its cell and so all together uniform in the cube, but with less noise, and
close in memory where they are close in space. The caller brings the generator of random numbers.
"""

from collections.abc import Sequence
from math import prod

import torch
from jaxtyping import Float
from torch import Tensor


def random_points(
    shape: Sequence[int], generator: torch.Generator, *, like: Tensor, cell: int = 2
) -> Float[Tensor, "1 d n"]:
    """About voxels / cell^D points of the unit cube, one at random in each cell: (1, D, N).

    Numbers are drawn on the generator's device: those of a GPU's generator differ from a CPU's.

    Args:
        shape: the voxels of the grid along each axis, in array order.
        generator: where the random numbers come from.
        like: a tensor of the dtype and on the device that the points shall have.
        cell: the voxels of a cell along each axis; the paper's number of points has 2.
    """
    size = (len(shape), *cells(shape, cell))
    jitter = torch.rand(size, generator=generator, dtype=like.dtype, device=generator.device)
    return one_per_cell(jitter.to(like.device))


def uniform_points(
    shape: Sequence[int], generator: torch.Generator, *, like: Tensor
) -> Float[Tensor, "1 d n"]:
    """As many points as `random_points` gives, each anywhere in the unit cube, as the paper draws
    them: (1, D, N).
    """
    size = (1, len(shape), prod(cells(shape)))
    x = torch.rand(size, generator=generator, dtype=like.dtype, device=generator.device)
    return x.to(like.device)


def one_per_cell(jitter: Float[Tensor, " d *cells"]) -> Float[Tensor, "1 d n"]:
    """A point in each of as many equal cells of the unit cube: (index + jitter) / count along each
    axis, with `jitter` in [0,1).

    >>> one_per_cell(torch.tensor([[0.0, 0.5]]))
    tensor([[[0.0000, 0.7500]]])
    """
    counts = jitter.shape[1:]
    corners = torch.meshgrid(
        *[torch.arange(n, device=jitter.device, dtype=jitter.dtype) for n in counts], indexing="ij"
    )
    placed = [
        (corner + within) / n for corner, within, n in zip(corners, jitter, counts, strict=True)
    ]
    return torch.stack(placed).flatten(1)[None]


def cells(shape: Sequence[int], size: int = 2) -> list[int]:
    """How many cells of `size` voxels there are along each axis of a grid: at least one.

    >>> cells((175, 3, 1))
    [87, 1, 1]
    """
    return [max(n // size, 1) for n in shape]
