"""The paper's U-Net in 3-D on a GPU, in half precision: the same function as `UNet.forward`, with
its upward steps fused.

Features are kept with their channels last, and after their leaky ReLU, which can be inverted. An
upward step is a transposed convolution and two kernels. The last convolution is part of the finest
step, so that nothing of full size is kept but the features before their normalisation, and
displacements are float32 from the start.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportIncompatibleMethodOverride=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# (torch types neither what a ModuleList holds nor how autograd calls a Function)

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradicon.core.acceleration import once
from gradicon.core.fused import launch
from gradicon.core.fused.launch import CHANNELS_LAST
from gradicon.core.fused.statistics import batch_gradients, batch_statistics
from gradicon.core.fused.weights import (
    blocked_down,
    blocked_last,
    blocked_last_adjoint,
    blocked_up,
    in_blocks,
)
from gradicon.core.sampling import halve
from gradicon.core.unet import UNet, fit_channels


def fused_forward(net: UNet, images: Tensor, dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """What `net(images)` is, up to rounding. `dtype` is that of features and convolutions."""
    x = _first_step(images, net.down[0], dtype)
    skips = list[Tensor]()
    for conv in net.down[1:]:
        skips.append(x)
        x = _DownStep.apply(x, conv.weight, conv.bias)
    a = F.leaky_relu(x)
    for up, norm, skip in zip(
        reversed(net.up[1:]), reversed(net.norm[1:]), reversed(skips), strict=True
    ):
        a = _UpStep.apply(norm, norm.weight, norm.bias, a, up.weight, up.bias, skip)
    up = net.up[0]
    norm = net.norm[0]
    return _LastStep.apply(
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


class _DownStep(torch.autograd.Function):
    """conv(leaky(x)) + halved x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        weight = _half(weight, x)
        bias = _half(bias, x)
        y = F.conv3d(F.leaky_relu(x), weight, bias, stride=2, padding=1).contiguous(
            memory_format=CHANNELS_LAST
        )
        launch.add_halved(y, x)
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor, ...]:
        x, weight = ctx.saved_tensors
        dout, sizes = (
            dout.contiguous(memory_format=CHANNELS_LAST),
            ([dout.shape[1]], [2] * 3, [1] * 3, [1] * 3),
        )
        da, dweight, dbias = torch.ops.aten.convolution_backward(
            dout, F.leaky_relu(x), weight, *sizes, False, [0] * 3, 1, [True] * 3  # noqa: FBT003
        )  # fmt: skip
        da = da.contiguous(memory_format=CHANNELS_LAST)
        launch.halved_backward(da, x, dout)
        return da, dweight.float(), dbias.float()


class _UpStep(torch.autograd.Function):
    """leaky([BatchNorm(convT(a) + upsampled x), skip]), with x = leaky^-1(a)."""

    @staticmethod
    def forward(
        ctx: Any, norm: nn.Module, gamma: Tensor, _beta: Tensor, a: Tensor, weight: Tensor, bias: Tensor, skip: Tensor
    ) -> Tensor:  # fmt: skip
        a, weight = a.contiguous(memory_format=CHANNELS_LAST), _half(weight, a)
        y = F.conv_transpose3d(a, weight, _half(bias, a), stride=2, padding=1).contiguous(
            memory_format=CHANNELS_LAST
        )
        z, sums = launch.add_upsampled(y, a, blocked=False)
        statistics = batch_statistics(norm, sums, z.shape)
        out = launch.join(
            z, skip.contiguous(memory_format=CHANNELS_LAST), statistics.scale, statistics.shift
        )
        ctx.save_for_backward(gamma, a, weight, z, out)
        ctx.statistics = statistics
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        gamma, a, weight, z, out = ctx.saved_tensors
        dn, dskip, sums = launch.join_backward(
            dout.contiguous(memory_format=CHANNELS_LAST), out, z, ctx.statistics
        )
        found = batch_gradients(gamma, ctx.statistics, sums, z.shape)
        launch.normalise_backward(dn, z, ctx.statistics, found)
        da, dweight = launch.up_backward(dn, a, weight)
        return None, found.gamma, found.beta, da, dweight.float(), found.bias, dskip


class _LastStep(torch.autograd.Function):
    """conv([BatchNorm(convT(a) + upsampled x), images]) / 10, with x = leaky^-1(a)."""

    @staticmethod
    def forward(
        ctx: Any, norm: nn.Module, gamma: Tensor, _beta: Tensor, a: Tensor, weight: Tensor, bias: Tensor,
        images: Tensor, last: Tensor, last_bias: Tensor,
    ) -> Tensor:  # fmt: skip
        a = a.contiguous(memory_format=CHANNELS_LAST)
        images = images.contiguous()
        blocked = once(weight, "blocked", lambda: blocked_up(weight).to(a.dtype))
        blocks = F.conv3d(a, blocked, bias.to(a.dtype).repeat(8), padding=1)
        z, sums = launch.add_upsampled(
            blocks.contiguous(memory_format=CHANNELS_LAST), a, blocked=True
        )
        statistics = batch_statistics(norm, sums, z.shape)
        forward, adjoint = once(last, "blocked", lambda: _matrices(last, gamma.numel(), a.dtype))
        ctx.save_for_backward(gamma, a, _half(weight, a), z, images, last, *adjoint)
        ctx.statistics = statistics
        return launch.last_forward(
            z, statistics.scale, statistics.shift, images, forward, last_bias
        )

    @staticmethod
    def backward(ctx: Any, du: Tensor) -> tuple[Tensor | None, ...]:
        gamma, a, weight, z, images, last, *adjoint = ctx.saved_tensors
        statistics = ctx.statistics
        of_images = ctx.needs_input_grad[6]
        dn, dimages, sums = launch.last_backward(
            du, z, statistics, images, (adjoint[0], adjoint[1]), of_images=of_images
        )
        dlast = (
            launch.last_weight_backward(du, z, statistics.scale, statistics.shift, images, last)
            / 10
        )
        found = batch_gradients(gamma, statistics, sums, z.shape)
        launch.normalise_backward(dn, z, statistics, found)
        da, dweight = launch.up_backward(dn, a, weight)
        return (
            None,
            found.gamma,
            found.beta,
            da,
            dweight.float(),
            found.bias,
            dimages,
            dlast,
            du.sum([0, 2, 3, 4]) / 10,
        )


def _matrices(
    last: Tensor, features: int, dtype: torch.dtype
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The last convolution over blocks, and its adjoint."""
    forward = blocked_last(last, features)
    adjoint = blocked_last_adjoint(last / 10, features)
    return (forward[0].to(dtype), forward[1].to(dtype)), (
        adjoint[0].to(dtype),
        adjoint[1].to(dtype),
    )


def _half(weight: Tensor, like: Tensor) -> Tensor:
    """A weight in the precision of the features, laid out like them."""

    def make() -> Tensor:
        half = weight.to(like.dtype)
        return half.contiguous(memory_format=CHANNELS_LAST) if half.ndim == 5 else half

    return once(weight, "half", make)
