"""The dense networks: an image of stacked channels in, one displacement vector per voxel out.

Both take images of any size: pooling rounds up, and what is upsampled is cropped to the size it
joins.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from gradicon.core.acceleration import is_wanted, kernels_apply, plain
from gradicon.core.sampling import halve, window
from gradicon.errors import GradiconError

_CONV = {2: nn.Conv2d, 3: nn.Conv3d}
_CONV_TRANSPOSE = {2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
_BATCH_NORM = {2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
_LARGE = 4096  # voxels
_ONEDNN = (
    20480  # the product of all sizes but the last, above which torch takes oneDNN for one item
)
_LINEAR = {2: "bilinear", 3: "trilinear"}


class UNet(nn.Module):
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

    With `half_precision` set, features are bfloat16 on a GPU; displacements are float32 all the
    same.
    """

    def __init__(
        self,
        dimension: int,
        in_channels: int = 2,
        down: Sequence[int] = (16, 32, 64, 256, 512),
        up: Sequence[int] = (16, 32, 64, 128, 256),
    ) -> None:
        super().__init__()
        _check_channels(dimension, in_channels, [*down, *up])
        if len(up) != len(down):
            raise GradiconError(
                f"a U-Net goes up as often as down, got {len(down)} down and {len(up)} up "
                "channel counts"
            )
        self.dimension = dimension
        self.in_channels = in_channels
        self.half_precision = False
        below = [wide + joined for wide, joined in zip(down, [*up[1:], 0], strict=True)]
        conv = _CONV[dimension]
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
        nn.init.zeros_(_bias(self.last))

    def forward(self, images: Float[Tensor, "b c *s"]) -> Float[Tensor, "b d *s"]:
        _check_images(images, self.dimension, self.in_channels)
        if self.half_precision and images.is_cuda and is_wanted():
            return self._in_half_precision(images)
        x = _laid_out(images)
        skips: list[Tensor] = []
        origin = [0] * self.dimension
        for conv in self.down:
            skips.append(x)
            y = conv(F.leaky_relu(x))
            x = y + fit_channels(halve(x), y.shape[1])
        for conv, norm, skip in zip(
            reversed(self.up), reversed(self.norm), reversed(skips), strict=True
        ):
            x = _laid_out(x)
            y = conv(F.leaky_relu(x))
            x = y + doubled(fit_channels(x, y.shape[1]))
            x = torch.cat(
                [window(norm(x.contiguous()), origin, skip.shape[2:]), skip], 1
            )  # CPU BatchNorm is slow otherwise
        return (_convolved(self.last, _laid_out(x)) / 10).contiguous()

    def _in_half_precision(self, images: Float[Tensor, "b c *s"]) -> Float[Tensor, "b d *s"]:
        if kernels_apply(images):
            from gradicon.core.fused import (
                can_be_fused,
                fused_forward,
            )  # only here: Triton is not everywhere

            if can_be_fused(self):
                return fused_forward(self, images)
        with torch.autocast("cuda", dtype=torch.bfloat16), plain():
            return self(images)


def use_half_precision(network: nn.Module) -> None:
    """From now on, the paper's U-Nets in `network` compute features in bfloat16 on a GPU, with
    weights laid out for that.
    """
    for module in network.modules():
        if isinstance(module, UNet):
            module.half_precision = True
            for weight in (p for p in module.parameters() if p.ndim == 5):
                weight.data = weight.data.contiguous(memory_format=torch.channels_last_3d)


class VoxelMorphUNet(nn.Module):
    """VoxelMorph's U-Net, the other backbone of the ablation (327,331 parameters in 3-D).

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
        super().__init__()
        _check_channels(dimension, in_channels, [*down, *up])
        if len(up) <= len(down):
            raise GradiconError(
                f"VoxelMorph's U-Net needs more upward ({len(up)}) than downward "
                f"({len(down)}) channel counts"
            )
        self.dimension = dimension
        self.in_channels = in_channels
        conv = _CONV[dimension]
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
        nn.init.zeros_(_bias(self.last))

    def forward(self, images: Float[Tensor, "b c *s"]) -> Float[Tensor, "b d *s"]:
        _check_images(images, self.dimension, self.in_channels)
        x = _laid_out(images)
        skips: list[Tensor] = []
        origin = [0] * self.dimension
        for conv in self.down:
            skips.append(F.leaky_relu(conv(x), 0.2))
            x = _max_pool(skips[-1])
        for conv, skip in zip(self.up, reversed(skips), strict=True):
            x = F.interpolate(F.leaky_relu(conv(x), 0.2), scale_factor=2, mode="nearest")
            x = torch.cat([window(x, origin, skip.shape[2:]), skip], 1)
        for conv in self.full:
            x = F.leaky_relu(conv(x), 0.2)
        return self.last(x).contiguous()


def _check_channels(dimension: int, in_channels: int, channels: Sequence[int]) -> None:
    if dimension not in _CONV:
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


def doubled(x: Float[Tensor, "b c *s"]) -> Float[Tensor, "b c *t"]:
    """Twice as many voxels along each axis, by linear interpolation between voxel centres."""
    if x.is_cuda and x.ndim == 4:
        return doubled_by_products(x)
    return F.interpolate(x, scale_factor=2, mode=_LINEAR[x.ndim - 2], align_corners=False)


def doubled_by_products(x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c p q"]:
    """The same of images, as a product with a matrix for each axis: torch's kernel goes through
    items and channels one by one.
    """
    rows, columns = (
        F.interpolate(
            torch.eye(n, device=x.device, dtype=x.dtype)[None], scale_factor=2, mode="linear"
        )
        for n in x.shape[2:]
    )
    return rows[0].mT @ (x @ columns[0])


def _laid_out(x: Tensor) -> Tensor:
    """With channels last in memory where convolutions are faster so: in 3-D on a CPU, where torch
    then takes oneDNN's, if large.
    """
    if (
        x.device.type == "cpu"
        and x.ndim == 5
        and x.dtype == torch.float32
        and x[0, 0].numel() >= _LARGE
        and is_wanted()
    ):
        return x.contiguous(memory_format=torch.channels_last_3d)
    return x


def _convolved(conv: nn.Conv2d | nn.Conv3d, x: Tensor) -> Tensor:
    """conv(x). Torch has small images done by a slow convolution of its own: one nearly large
    enough gets channels of zeros.
    """
    missing = _ONEDNN // x.shape[2:-1].numel() + 1 - x.shape[:2].numel()
    if not (
        x.ndim == 5
        and x.is_contiguous(memory_format=torch.channels_last_3d)
        and 0 < missing <= 8
        and x.device.type == "cpu"
    ):
        return conv(x)
    wider = [0, 0] * 3 + [0, missing]
    return F.conv3d(_laid_out(F.pad(x, wider)), F.pad(conv.weight, wider), conv.bias, padding=1)


def fit_channels(x: Tensor, channels: int) -> Tensor:
    missing = max(channels - x.shape[1], 0)
    return F.pad(x[:, :channels], [0, 0] * (x.ndim - 2) + [missing, 0])


def _max_pool(x: Tensor) -> Tensor:
    pool = {2: F.max_pool2d, 3: F.max_pool3d}[x.ndim - 2]
    return pool(x, [min(2, n) for n in x.shape[2:]], stride=2, ceil_mode=True)


def _bias(conv: nn.Module) -> Tensor:
    assert isinstance(conv.bias, Tensor)
    return conv.bias
