"""The paper's U-Net in 3-D on a GPU, in half precision: the same function as `UNet.forward`, with
its upward steps fused.

Features are kept with their channels last, and after their leaky ReLU, which can be inverted. An
upward step is a transposed convolution and two kernels. The last convolution is part of the finest
step, so that nothing of full size is kept but the features before their normalisation, and
displacements are float32 from the start.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportIndexIssue=false
# (torch does not type what a ModuleList holds)

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradicon.core.sampling import halve
from gradicon.core.unet import UNet, fit_channels
from gradicon.fast.fused.sizes import CHANNELS_LAST
from gradicon.fast.fused.steps import DownStep, LastStep, UpStep
from gradicon.fast.fused.weights import blocked_down, in_blocks
from gradicon.fast.made import once


def fused_forward(net: UNet, images: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """What `net(images)` is, up to rounding. `dtype` is that of features and convolutions."""
    x = _first_step(images, net.down[0], dtype)
    skips = list[Tensor]()
    for conv in net.down[1:]:
        skips.append(x)
        x = DownStep.apply(x, conv.weight, conv.bias)
    a = F.leaky_relu(x)
    for up, norm, skip in zip(
        reversed(net.up[1:]), reversed(net.norm[1:]), reversed(skips), strict=True
    ):
        a = UpStep.apply(norm, norm.weight, norm.bias, a, up.weight, up.bias, skip)
    up = net.up[0]
    norm = net.norm[0]
    return LastStep.apply(
        norm, norm.weight, norm.bias, a, up.weight, up.bias, images, net.last.weight, net.last.bias
    )


def can_be_fused(net: UNet) -> bool:
    """Whether channel counts are powers of two going up, and the residual has enough channels to be
    cropped.
    """
    counts = [
        (norm.num_features, up.in_channels) for norm, up in zip(net.norm, net.up, strict=True)
    ]
    return net.dimension == 3 and all(
        c >= 4 and c & (c - 1) == 0 and c <= below for c, below in counts
    )


def _first_step(images: Tensor, conv: nn.Module, dtype: torch.dtype) -> Tensor:
    """conv(leaky(x)) + halved x, from blocks of 2 x 2 x 2 voxels: convolutions of stride 2 over two
    channels are slow.
    """
    blocks = in_blocks(F.leaky_relu(images)).to(dtype)
    weight = once(conv.weight, "blocked", lambda: blocked_down(conv.weight).to(dtype))
    y = F.conv3d(F.pad(blocks, [1, 0] * 3), weight, conv.bias.to(dtype))
    return (
        (y + fit_channels(halve(images), y.shape[1]))
        .to(dtype)
        .contiguous(memory_format=CHANNELS_LAST)
    )
