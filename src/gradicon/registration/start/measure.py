"""How much one image says of another under many maps at once."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from gradicon.core.sampling import inside, sample
from gradicon.registration.start.content import Content, pooled, spread_points

Maps = Tensor
"""Maps in mm (K, D, D+1), as matrices A and offsets t: x -> A (x - center) + t."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two images at one resolution, compared at some places of the first one.

    Args:
        size_mm: of a voxel.
        points: the places (N, D) in mm, from the center of the first image's content.
        greys: the first image's level of grey there, a whole number below `bins`.
        moving: the second image.
        to_unit: from mm to the second image's unit cube: a matrix and an offset.
        bins: levels of grey in the histogram.
    """

    size_mm: float
    points: Tensor
    greys: Tensor
    moving: Tensor
    to_unit: tuple[Tensor, Tensor]
    bins: int

    def information(self, maps: Maps) -> Tensor:
        """(K,): the mutual information in nats at those places that fall inside the second image,
        summed over them, divided by the number of all places.

        It is the gain in log-likelihood of a joint distribution over two independent ones, so a
        place outside says nothing, and little overlap is never worth much.
        """
        places = self._read_at(maps)
        seen = inside(places.detach())[0, 0]
        values = sample(self.moving, places)[0, 0]
        level = values.detach().clamp(0, 1) * (self.bins - 1)
        lower = level.floor().clamp_(max=self.bins - 2)
        part = level - lower
        cells = self._cells(lower.long())
        counts = self._counts(cells, part, seen)
        total = counts.sum((1, 2), keepdim=True)
        joint = counts / total.clamp_min(1)
        apart = joint.sum(1, keepdim=True) * joint.sum(2, keepdim=True)
        tiny = 1e-12
        gains = ((joint + tiny) / (apart + tiny)).log()
        information = (counts * gains).sum((1, 2)).float() / len(self.points)
        if not values.requires_grad:
            return information
        # The derivative by a value: how much more the next level of grey would say.
        steps = gains.flatten()
        slope = (steps[cells + 1] - steps[cells]) * (self.bins - 1) * seen / len(self.points)
        change = (slope.float() * values).sum(1)
        return information + change - change.detach()

    def _read_at(self, maps: Maps) -> Tensor:
        """(1, D, K, N): where maps take the places, in the second image's unit cube."""
        matrix, offset = self.to_unit
        linear = matrix @ maps[..., :-1]
        shift = maps[..., -1] @ matrix.mT + offset
        places = torch.einsum("kij,nj->ikn", linear, self.points) + shift.mT[:, :, None]
        return places[None]

    def _cells(self, lower: Tensor) -> Tensor:
        """The cell of the joint histogram of each map (K, N), flattened; the next cell is that of
        the next level of the second image.
        """
        first = torch.arange(len(lower))[:, None] * self.bins**2
        return first + self.greys * self.bins + lower

    def _counts(self, cells: Tensor, part: Tensor, seen: Tensor) -> Tensor:
        """The joint histograms (K, bins, bins): a value between two levels counts for both."""
        size = len(cells) * self.bins**2
        last = (part * seen).double().flatten()
        first = seen.double().flatten() - last
        low = torch.bincount(cells.flatten(), weights=first, minlength=size)
        high = torch.bincount(cells.flatten() + 1, weights=last, minlength=size)
        return (low + high).view(len(cells), self.bins, self.bins)


def compare(first: Content, second: Content, size_mm: float, points: int, bins: int) -> Comparison:
    """Two images with voxels of about `size_mm`, to be compared at places of the first one.

    Args:
        first: the image whose content should all be found in the other.
        second: the other one.
        size_mm: the size of a voxel.
        points: the number of places.
        bins: the levels of grey.
    """
    fixed = pooled(first.volume, size_mm)
    moving = pooled(second.volume, size_mm)
    places = spread_points(first, points)
    unit = torch.from_numpy(fixed.space.to_unit(places).T.copy()).float()[None]
    values = sample(fixed.data, unit)[0, 0]
    inverse = np.linalg.inv(moving.space.unit_to_mm)
    return Comparison(
        size_mm=size_mm,
        points=torch.from_numpy(places - first.center).float(),
        greys=(values * (bins - 1)).round().long().clamp_(0, bins - 1),
        moving=moving.data,
        to_unit=(
            torch.from_numpy(inverse[:-1, :-1].copy()).float(),
            torch.from_numpy(inverse[:-1, -1].copy()).float(),
        ),
        bins=bins,
    )
