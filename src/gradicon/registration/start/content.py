"""What an image shows: where its content lies, smaller copies of it, and places to look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F

from gradicon.physical.space import Matrix, Space
from gradicon.physical.volume import Volume

_WIDTH = 48  # voxels along an image in which its content is looked for
_GREYS = 128  # of the histogram that parts content from background


@dataclass(frozen=True, eq=False)
class Content:
    """An image and where its content lies in mm: the centre, and the covariance about it."""

    volume: Volume
    center: Matrix
    spread: Matrix

    @cached_property
    def extent(self) -> float:
        """The longest extent in mm, of a block with this spread."""
        return 2 * float(np.sqrt(3 * np.linalg.eigvalsh(self.spread)[-1]))

    @property
    def size(self) -> float:
        """The determinant of the spread: of two contents the larger one has the larger."""
        return float(np.linalg.det(self.spread))


def find_content(volume: Volume) -> Content:
    """The content is what is brighter than Otsu's threshold; moments are not misled by specks."""
    extents = [n * s for n, s in zip(volume.space.shape, volume.space.spacing_mm, strict=True)]
    small = pooled(volume, max(extents) / _WIDTH)
    bright = small.data[0, 0] > _otsu(small.data)
    if not bright.any():
        bright = torch.ones_like(bright)
    to_mm = small.space.index_to_mm
    indices = bright.nonzero().double().numpy()
    places = indices @ to_mm[:-1, :-1].T + to_mm[:-1, -1]
    center = places.mean(0)
    # A voxel is a block, not a point: without its own spread a single slice would have none.
    spread = (places - center).T @ (places - center) / len(places)
    return Content(volume, center, spread + to_mm[:-1, :-1] @ to_mm[:-1, :-1].T / 12)


def pooled(volume: Volume, size_mm: float) -> Volume:
    """Means over blocks of about `size_mm`; axes with larger voxels stay.

    What is left at the far border is dropped.
    """
    blocks = [
        max(1, min(n, round(size_mm / s)))
        for n, s in zip(volume.space.shape, volume.space.spacing_mm, strict=True)
    ]
    dimension = len(blocks)
    pool = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[dimension]
    data = pool(volume.data, blocks, blocks)
    change = np.diag([*map(float, blocks), 1.0])
    change[:-1, -1] = [(n - 1) / 2 for n in blocks]
    return Volume(data, Space(tuple(data.shape[2:]), volume.space.index_to_mm @ change))


def spread_points(content: Content, count: int) -> Matrix:
    """Places (count, D) in mm, evenly in a box about the content, within the image.

    The box has a quarter more than the content's extents, so that its outline is seen.
    """
    space = content.volume.space
    to_unit = np.linalg.inv(space.unit_to_mm)[:-1, :-1]
    center = space.to_unit(content.center[None])[0]
    half = 1.25 * np.sqrt(3 * np.diag(to_unit @ content.spread @ to_unit.T))
    low = np.clip(center - half, 0, 1)
    high = np.clip(center + half, 0, 1)
    return space.to_mm(low + (high - low) * _even(count, len(center)))


def _even(count: int, dimension: int) -> Matrix:
    """A sequence that fills the unit cube evenly and is on no grid: grids make measures of likeness
    prefer maps that lay voxel on voxel.

    x_n = n (1/g, 1/g^2, ...) mod 1, where g^(D+1) = g + 1 (the golden ratio for D = 1).
    """
    ratio = 2.0
    for _ in range(50):
        ratio = (1 + ratio) ** (1 / (dimension + 1))
    powers = ratio ** -np.arange(1.0, dimension + 1)
    return (0.5 + np.arange(1.0, count + 1)[:, None] * powers) % 1


def _otsu(data: torch.Tensor) -> float:
    """The grey that parts the values in [0,1] into two classes as unlike as can be."""
    counts = torch.histc(data, _GREYS, 0, 1).double()
    greys = (torch.arange(_GREYS) + 0.5) / _GREYS
    below = counts.cumsum(0)
    sums = (counts * greys).cumsum(0)
    apart = (sums[-1] * below / below[-1] - sums) ** 2
    return float(greys[(apart / (below * (below[-1] - below)).clamp_min(1e-9)).argmax()])


def smaller_first(a: Content, b: Content) -> tuple[Content, Content, bool]:
    """The two with the smaller content first, and whether that changed their order."""
    swapped = b.size < a.size
    return (b, a, True) if swapped else (a, b, False)


def shared_extent(contents: Sequence[Content]) -> float:
    """The extent in mm that voxel sizes are measured by: of the smaller content."""
    return min(content.extent for content in contents)
