"""The paper's U-Net by torch's own operations, each in the form in which torch is fast: on a CPU
with channels last in memory, and on a GPU in 2-D without torch's slow upsampling.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradicon.core.sampling import halve, window
from gradicon.core.unet import UNet, doubled, fit_channels

_LARGE = 4096  # voxels; below that, laying images out anew takes longer than it saves
_MOST_ADDED = 8  # channels of zeros; with more, the convolution costs more than it saves
_ONEDNN = 20480
"""Torch takes oneDNN's convolution of one item where the product of all its sizes but the last is
above this, else a slow one of its own.
"""


def rearranged_unet(net: UNet, images: Tensor) -> Tensor:
    """What `net.displacements(images)` is, in the same steps."""
    x = laid_out(images)
    skips: list[Tensor] = []
    origin = [0] * net.dimension
    for conv in net.down:
        skips.append(x)
        y = conv(F.leaky_relu(x))
        x = y + fit_channels(halve(x), y.shape[1])
    for conv, norm, skip in zip(reversed(net.up), reversed(net.norm), reversed(skips), strict=True):
        x = laid_out(x)
        y = conv(F.leaky_relu(x))
        x = y + _doubled(fit_channels(x, y.shape[1]))
        x = norm(x.contiguous())  # a CPU's BatchNorm is slow where channels come last
        x = torch.cat([window(x, origin, skip.shape[2:]), skip], 1)
    return (_convolved(net.last, laid_out(x)) / 10).contiguous()


def channels_last_pays(x: Tensor) -> bool:
    """Whether convolutions are faster with channels last in memory: of large volumes on a CPU,
    where torch then takes oneDNN's.
    """
    return x.is_cpu and x.ndim == 5 and x.dtype == torch.float32 and x[0, 0].numel() >= _LARGE


def laid_out(x: Tensor) -> Tensor:
    """x, with its channels last in memory where that pays."""
    if channels_last_pays(x):
        return x.contiguous(memory_format=torch.channels_last_3d)
    return x


def doubled_by_products(x: Tensor) -> Tensor:
    """`gradicon.core.unet.doubled` of images (B, C, H, W), as a product with a matrix for each
    axis: torch's kernel goes through items and channels one by one.
    """
    rows, columns = (
        F.interpolate(
            torch.eye(n, device=x.device, dtype=x.dtype)[None], scale_factor=2, mode="linear"
        )
        for n in x.shape[2:]
    )
    return rows[0].mT @ (x @ columns[0])


def _doubled(x: Tensor) -> Tensor:
    return doubled_by_products(x) if x.is_cuda and x.ndim == 4 else doubled(x)


def _convolved(conv: nn.Conv2d | nn.Conv3d, x: Tensor) -> Tensor:
    """conv(x), a convolution of width 3.

    An image that is nearly large enough for oneDNN gets channels of zeros.
    """
    missing = _ONEDNN // x.shape[2:-1].numel() + 1 - x.shape[:2].numel()
    if not (
        x.is_cpu
        and x.ndim == 5
        and x.is_contiguous(memory_format=torch.channels_last_3d)
        and 0 < missing <= _MOST_ADDED
    ):
        return conv(x)
    wider = [0, 0] * 3 + [0, missing]
    return F.conv3d(laid_out(F.pad(x, wider)), F.pad(conv.weight, wider), conv.bias, padding=1)
