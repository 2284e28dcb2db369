"""Dense networks: an image of stacked channels in, one displacement vector per voxel out.

They take images of any size: pooling rounds up, and what is upsampled is cropped to the size it
joins.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from gradicon.core.acceleration import accelerated
from gradicon.errors import GradiconError

CONV: dict[int, type[nn.Conv2d | nn.Conv3d]] = {2: nn.Conv2d, 3: nn.Conv3d}


class DenseNetwork(nn.Module, ABC):
    """Two images, stacked along their channels, (B, 2C, *S), to displacements (B, D, *S) in
    unit-cube coordinates.

    Args:
        dimension: 2 or 3.
        in_channels: channels of the stacked images; 2 for two scalar images.
        channels: all channel counts within, to be checked.
    """

    def __init__(self, dimension: int, in_channels: int, channels: Sequence[int]) -> None:
        super().__init__()
        _check_channels(dimension, in_channels, channels)
        self.dimension = dimension
        self.in_channels = in_channels
        self.half_precision = False
        """A wish for fast code; see `gradicon.core.acceleration.use_half_precision`."""

    def forward(self, images: Float[Tensor, "b c *s"]) -> Float[Tensor, "b d *s"]:
        """u: displacements in unit-cube coordinates, at every voxel of the images."""
        _check_images(images, self.dimension, self.in_channels)
        u = accelerated("dense", self, images)
        return self.displacements(images) if u is None else u

    @abstractmethod
    def displacements(self, images: Float[Tensor, "b c *s"]) -> Float[Tensor, "b d *s"]:
        """The same by plain torch: what defines the network, and the reference of fast code."""


def bias_of(conv: nn.Module) -> Tensor:
    """The bias of a convolution, which torch types as anything at all."""
    assert isinstance(conv.bias, Tensor)
    return conv.bias


def _check_channels(dimension: int, in_channels: int, channels: Sequence[int]) -> None:
    if dimension not in CONV:
        raise GradiconError(f"dimension must be 2 or 3, got {dimension}")
    if in_channels < 1 or min(channels, default=0) < 1:
        raise GradiconError(
            f"channel counts must be positive, got {in_channels} in, then {list(channels)}"
        )


def _check_images(images: Tensor, dimension: int, in_channels: int) -> None:
    if images.ndim != dimension + 2:
        raise GradiconError(
            f"this network is {dimension}-D: it takes images of rank {dimension + 2}, got "
            f"shape {tuple(images.shape)}"
        )
    if images.shape[1] != in_channels:
        raise GradiconError(
            f"this network takes {in_channels} stacked image channels, got {images.shape[1]}"
        )
