"""The paper's U-Net."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gradicon.core.dense import CONV, DenseNetwork, bias_of
from gradicon.core.sampling import halve, window
from gradicon.errors import GradiconError

_CONV_TRANSPOSE = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
_BATCH_NORM = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
_LINEAR = {2: "bilinear", 3: "trilinear"}


class UNet(DenseNetwork):
    """The paper's U-Net (Sec. 4.1; `tallUNet2` in the reference): few channels where voxels are
    many, many where they are few.

    Down: x <- conv3(act(x)), stride 2, plus the average-pooled x. Up: x <- convT4(act(x)), stride
    2, plus the upsampled x, then BatchNorm, then the skip is joined. Residual paths crop surplus
    channels and put missing ones, as zeros, in front. The last convolution starts at zero, so that
    an untrained network is the identity map.

    Args:
        dimension: 2 or 3.
        in_channels: channels of the stacked images; 2 for two scalar images.
        down: channels after each downward step, finest first.
        up: channels after each upward step, finest first; as many as `down`.
    """

    def __init__(
        self,
        dimension: int,
        in_channels: int = 2,
        down: Sequence[int] = (16, 32, 64, 256, 512),
        up: Sequence[int] = (16, 32, 64, 128, 256),
    ) -> None:
        super().__init__(dimension, in_channels, [*down, *up])
        if len(up) != len(down):
            raise GradiconError(
                f"a U-Net goes up as often as down, got {len(down)} down and {len(up)} up "
                "channel counts"
            )
        below = [wide + joined for wide, joined in zip(down, [*up[1:], 0], strict=True)]
        conv = CONV[dimension]
        conv_transpose = _CONV_TRANSPOSE[dimension]
        norm = _BATCH_NORM[dimension]
        self.down = nn.ModuleList(
            conv(a, b, 3, stride=2, padding=1)
            for a, b in zip([in_channels, *down[:-1]], down, strict=True)
        )
        self.up = nn.ModuleList(
            conv_transpose(a, b, 4, stride=2, padding=1) for a, b in zip(below, up, strict=True)
        )
        self.norm = nn.ModuleList(norm(n) for n in up)
        self.last = conv(up[0] + in_channels, dimension, 3, padding=1)
        nn.init.zeros_(self.last.weight)
        nn.init.zeros_(bias_of(self.last))

    def displacements(self, images: Float[Tensor, "b c *s"]) -> Float[Tensor, "b d *s"]:
        """u, level by level."""
        x = images
        skips: list[Tensor] = []
        origin = [0] * self.dimension
        for conv in self.down:
            skips.append(x)
            y = conv(F.leaky_relu(x))
            x = y + fit_channels(halve(x), y.shape[1])
        for conv, norm, skip in zip(
            reversed(self.up), reversed(self.norm), reversed(skips), strict=True
        ):
            y = conv(F.leaky_relu(x))
            x = norm(y + doubled(fit_channels(x, y.shape[1])))
            x = torch.cat([window(x, origin, skip.shape[2:]), skip], 1)
        return (self.last(x) / 10).contiguous()  # the reference's scale, which its weights expect


def doubled(x: Float[Tensor, "b c *s"]) -> Float[Tensor, "b c *t"]:
    """Twice as many voxels along each axis, by linear interpolation between voxel centres: new
    voxels lie 1/4 and 3/4 of the way, and beyond the outer centres the border goes on.
    """
    return F.interpolate(x, scale_factor=2, mode=_LINEAR[x.ndim - 2], align_corners=False)


def fit_channels(x: Float[Tensor, "b c *s"], channels: int) -> Float[Tensor, "b k *s"]:
    """The first `channels` channels; where there are fewer, zeros in front of them (as the
    reference has it).
    """
    missing = max(channels - x.shape[1], 0)
    return F.pad(x[:, :channels], [0, 0] * (x.ndim - 2) + [missing, 0])
