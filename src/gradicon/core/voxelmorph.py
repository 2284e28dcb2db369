"""VoxelMorph's U-Net, the other backbone of the paper's ablation."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gradicon.core.dense import CONV, DenseNetwork, bias_of
from gradicon.core.sampling import window
from gradicon.errors import GradiconError

_SLOPE = 0.2  # of its leaky ReLUs, where numbers are negative


class VoxelMorphUNet(DenseNetwork):
    """VoxelMorph's U-Net (327,331 parameters in 3-D).

    Down: x <- MaxPool(act(conv3(x)), 2). Up: x <- act(conv3(x)), doubled by repeating voxels, then
    what was before the pooling is joined. Then convolutions at full size. The last one starts near
    zero, so that an untrained network is nearly the identity map.

    Args:
        dimension: 2 or 3.
        in_channels: channels of the stacked images.
        down: channels of the convolutions before each max-pooling, finest first.
        up: channels of the convolutions before each upsampling, coarsest first, then those at full
            size.
    """

    def __init__(
        self,
        dimension: int,
        in_channels: int = 2,
        down: Sequence[int] = (16, 32, 32, 32),
        up: Sequence[int] = (32, 32, 32, 32, 32, 16, 16),
    ) -> None:
        super().__init__(dimension, in_channels, [*down, *up])
        if len(up) <= len(down):
            raise GradiconError(
                f"VoxelMorph's U-Net needs more upward ({len(up)}) than downward "
                f"({len(down)}) channel counts"
            )
        conv = CONV[dimension]
        levels = len(down)
        joined = [
            down[-1],
            *(a + b for a, b in zip(up[:levels], reversed(down), strict=True)),
            *up[levels:-1],
        ]
        self.down = nn.ModuleList(
            conv(a, b, 3, padding=1) for a, b in zip([in_channels, *down[:-1]], down, strict=True)
        )
        self.up = nn.ModuleList(
            conv(a, b, 3, padding=1) for a, b in zip(joined[:levels], up[:levels], strict=True)
        )
        self.full = nn.ModuleList(
            conv(a, b, 3, padding=1) for a, b in zip(joined[levels:], up[levels:], strict=True)
        )
        self.last = conv(up[-1], dimension, 3, padding=1)
        nn.init.normal_(self.last.weight, std=1e-5)
        nn.init.zeros_(bias_of(self.last))

    def displacements(self, images: Float[Tensor, "b c *s"]) -> Float[Tensor, "b d *s"]:
        """u, level by level."""
        x = images
        skips: list[Tensor] = []
        origin = [0] * self.dimension
        for conv in self.down:
            skips.append(F.leaky_relu(conv(x), _SLOPE))
            x = _max_pool(skips[-1])
        for conv, skip in zip(self.up, reversed(skips), strict=True):
            x = F.interpolate(F.leaky_relu(conv(x), _SLOPE), scale_factor=2, mode="nearest")
            x = torch.cat([window(x, origin, skip.shape[2:]), skip], 1)
        for conv in self.full:
            x = F.leaky_relu(conv(x), _SLOPE)
        return self.last(x).contiguous()


def _max_pool(x: Tensor) -> Tensor:
    """The largest of every 2^D block; an axis of one voxel stays as it is."""
    pool = {2: F.max_pool2d, 3: F.max_pool3d}[x.ndim - 2]
    return pool(x, [min(2, n) for n in x.shape[2:]], stride=2, ceil_mode=True)
