"""From a scan to what is compared: the one way from an image to a tensor in [0,1] on a grid.

`gradicon prepare` makes training data by it, and `register` and `evaluate` what they work on, so
that a network is asked about what it was trained on.
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from gradicon.core.sampling import inside, sample
from gradicon.core.transform import Affine
from gradicon.models.header import Order, Preparation
from gradicon.physical.intensity import clip, looks_like_ct, percentile_bounds
from gradicon.physical.space import Matrix, Space
from gradicon.physical.volume import Volume

Kind = Literal["ct", "mr"]
Beyond = Literal["zero", "border"]
# Of a mask read linearly: its surface lies halfway between two voxels. What lies on it counts,
# however places are rounded; where voxels double in length, that is the whole rim.
_NEARER = 0.499


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """How the values of one image become numbers from 0 to 1.

    Args:
        kind: "ct" is clipped to `window`, "mr" at `percentiles`.
        window: in Hounsfield units.
        percentiles: of the voxels.
        order: whether that is done before an image is read on another grid, or after it.
    """

    kind: Kind
    window: tuple[float, float] = Preparation.window
    percentiles: tuple[float, float] = Preparation.percentiles
    order: Order = Preparation.order

    @classmethod
    def of(cls, kind: Kind, preparation: Preparation | None) -> "Scaling":
        """As a network's images were scaled, or as by default."""
        if preparation is None:
            return cls(kind=kind)
        return cls(
            kind=kind,
            window=preparation.window,
            percentiles=preparation.percentiles,
            order=preparation.order,
        )

    def __call__(self, data: Tensor) -> Tensor:
        """Values in [0,1], as float32; an image in which there is nothing to see is refused."""
        if self.kind == "ct":
            return clip(data, *self.window)
        return clip(data, *percentile_bounds(data, *self.percentiles))


def look_at(volume: Volume) -> Kind:
    """What kind of image it looks like."""
    return "ct" if looks_like_ct(volume) else "mr"


def place_grid(preparation: Preparation, space: Space) -> Space:
    """A network's grid over an image: its whole field of view, or what lies about its centre."""
    if preparation.crop == "fit":
        return space.resized(preparation.shape)
    return space.centered(preparation.shape, preparation.spacing_mm)


@dataclass(frozen=True, eq=False)
class View:
    """The voxels of a grid, seen in an image's space: where they lie there, and how large they are.

    Args:
        space: of the image.
        grid: anywhere in the same millimetres, in any orientation.
    """

    space: Space
    grid: Space

    @cached_property
    def places(self) -> Tensor:
        """(1, D, *grid), float32: where in the image's unit cube each voxel of the grid lies."""
        return unit_map(self.grid, self.space).on_grid(self.grid.shape)

    @cached_property
    def inside(self) -> Tensor:
        """(1, 1, *grid): 1 where a voxel lies in the image, else 0."""
        return inside(self.places)

    @cached_property
    def widths(self) -> tuple[float, ...]:
        """How long a voxel of the grid is along each axis of the image, in its voxels.

        Where the grid is turned against the image, the extents of its axes add up in squares.
        """
        steps = np.linalg.inv(self.space.index_to_mm)[:-1, :-1] @ self.grid.index_to_mm[:-1, :-1]
        return tuple(round(float(length), 9) for length in np.linalg.norm(steps, axis=1))

    def read(self, data: Tensor, *, beyond: Beyond = "zero") -> Tensor:
        """An image of this space on the grid, as the mean over each voxel's extent.

        Beyond its border an image is zero, or goes on as at the border.
        """
        for axis, width in enumerate(self.widths):
            data = mean_over(data, axis, width)
        read = sample(data, self.places)
        return read if beyond == "border" else read * self.inside

    def read_labels(self, labels: Tensor) -> Tensor:
        """Whole numbers at the nearest voxel, 0 beyond the border."""
        return sample(labels.float(), self.places, mode="nearest") * self.inside


def unit_map(grid: Space, space: Space, matrix: Matrix | None = None) -> Affine:
    """The map from a grid's unit cube to an image's, after an affine map in mm if one is given.

    It is rounded to 12 digits, so that it is the same however the world is turned.
    """
    to_mm = grid.unit_to_mm if matrix is None else matrix @ grid.unit_to_mm
    unit = np.round(np.linalg.inv(space.unit_to_mm) @ to_mm, 12)
    both = torch.from_numpy(unit).float()
    return Affine(both[None, :-1, :-1], both[None, :-1, -1])


@dataclass(frozen=True, eq=False)
class Source:
    """An image, ready to be read on any grid as numbers from 0 to 1.

    Args:
        volume: the image in canonical orientation, with its own values.
        mask: 1 where the image counts, on its own grid; what lies outside is set to zero.
        scaling: of intensities.
    """

    volume: Volume
    mask: Volume | None
    scaling: Scaling

    @cached_property
    def scaled(self) -> Volume:
        """On its own grid."""
        data = self.scaling(self.volume.data)
        return Volume(data if self.mask is None else data * self.mask.data, self.volume.space)

    def read(self, view: View, *, beyond: Beyond = "zero") -> Tensor:
        """(1, 1, *grid), float32, on the grid of a view of its space.

        Beyond its border an image is zero, or goes on as at the border.
        """
        if self.scaling.order == "scale, mask, resample":
            return view.read(self.scaled.data, beyond=beyond)
        read = self.scaling(view.read(self.volume.data.float(), beyond="border"))
        if self.mask is not None:
            read = read * (sample(self.mask.data, view.places) >= _NEARER)
        return read if beyond == "border" else read * view.inside


def mean_over(data: Tensor, axis: int, width: float) -> Tensor:
    """The mean over `width` voxels about each one along an axis, as if values filled their voxels.

    A width of 1 and less changes nothing; one of 2.5 counts the neighbours on both sides by three
    quarters. The border voxels go on beyond the image.

    >>> mean_over(torch.tensor([[[0.0, 0.0, 4.0, 0.0, 0.0]]]), 0, 2.0)
    tensor([[[0., 1., 2., 1., 0.]]])
    """
    if width <= 1:
        return data
    reach = ceil((width - 1) / 2)
    edge = (width - 1) / 2 - (reach - 1)  # the part of the outermost voxels that is covered
    sides = [0] * (2 * (data.ndim - 2))
    sides[-2 * axis - 2 : len(sides) - 2 * axis] = [reach, reach]  # F.pad counts from the last axis
    padded = F.pad(data, sides, mode="replicate")
    n = data.shape[axis + 2]
    total = padded.narrow(axis + 2, reach, n).clone()
    for shift in range(1, reach + 1):
        part = edge if shift == reach else 1.0
        total.add_(padded.narrow(axis + 2, reach - shift, n), alpha=part)
        total.add_(padded.narrow(axis + 2, reach + shift, n), alpha=part)
    return total / width
