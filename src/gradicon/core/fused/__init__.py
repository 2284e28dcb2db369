"""The paper's U-Net in 3-D on a GPU, in half precision: the same function as `UNet.forward`, with its upward steps fused.

Features are kept with their channels last, and after their leaky ReLU, which can be inverted. An upward step is a transposed
convolution and two kernels. The last convolution is part of the finest step, so that nothing of full size is kept but the features
before their normalisation, and displacements are float32 from the start.
"""

# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportIncompatibleMethodOverride=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# (torch types neither what a ModuleList holds nor how autograd calls a Function)

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradicon.core.fused import launch
from gradicon.core.fused.launch import CHANNELS_LAST, Known, Statistics
from gradicon.core.fused.weights import blocked_down, blocked_last, blocked_last_adjoint, blocked_up, in_blocks
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
    for up, norm, skip in zip(reversed(net.up[1:]), reversed(net.norm[1:]), reversed(skips), strict=True):
        a = _step(_UpStep, norm, a, up.weight, up.bias, skip)
    return _step(_LastStep, net.norm[0], a, net.up[0].weight, net.up[0].bias, images, net.last.weight, net.last.bias)


def can_be_fused(net: UNet) -> bool:
    """Whether channel counts are powers of two going up, and the residual has enough channels to be cropped."""
    counts = [(norm.num_features, up.in_channels) for norm, up in zip(net.norm, net.up, strict=True)]
    return net.dimension == 3 and all(c >= 4 and c & (c - 1) == 0 and c <= below for c, below in counts)


def _step(step: type[torch.autograd.Function], norm: nn.Module, a: Tensor, *tensors: Tensor) -> Tensor:
    """One upward step. The running statistics of `norm` are kept as BatchNorm keeps them."""
    known = None if norm.training else (norm.running_mean, norm.running_var)
    out, mean, variance, count = step.apply(known, norm.eps, norm.weight, norm.bias, a, *tensors)
    if norm.training:
        with torch.no_grad():
            norm.num_batches_tracked += 1
            norm.running_mean.lerp_(mean, norm.momentum)
            norm.running_var.lerp_(variance * (count / (count - 1)), norm.momentum)
    return out


def _first_step(images: Tensor, conv: nn.Module, dtype: torch.dtype) -> Tensor:
    """conv(leaky(x)) + halved x, from blocks of 2 x 2 x 2 voxels: convolutions of stride 2 over two channels are slow."""
    blocks = in_blocks(F.leaky_relu(images)).to(dtype)
    y = F.conv3d(F.pad(blocks, [1, 0] * 3), blocked_down(conv.weight).to(dtype), conv.bias.to(dtype))
    return (y + fit_channels(halve(images), y.shape[1])).to(dtype).contiguous(memory_format=CHANNELS_LAST)


class _DownStep(torch.autograd.Function):
    """conv(leaky(x)) + halved x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        weight = _half(weight, x)
        y = F.conv3d(F.leaky_relu(x), weight, bias.to(x.dtype), stride=2, padding=1).contiguous(memory_format=CHANNELS_LAST)
        launch.add_halved(y, x)
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor, ...]:
        x, weight = ctx.saved_tensors
        dout, sizes = dout.contiguous(memory_format=CHANNELS_LAST), ([dout.shape[1]], [2] * 3, [1] * 3, [1] * 3)
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
        ctx: Any, known: Known, eps: float, gamma: Tensor, beta: Tensor, a: Tensor, weight: Tensor, bias: Tensor, skip: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, int]:
        a, weight = a.contiguous(memory_format=CHANNELS_LAST), _half(weight, a)
        y = F.conv_transpose3d(a, weight, bias.to(a.dtype), stride=2, padding=1).contiguous(memory_format=CHANNELS_LAST)
        z, statistics = launch.add_upsampled(y, a, known, eps, blocked=False)
        out = launch.join(z, skip.contiguous(memory_format=CHANNELS_LAST), *statistics.affine(gamma, beta))
        ctx.save_for_backward(gamma, a, weight, z, out)
        return out, *_keep(ctx, statistics)

    @staticmethod
    def backward(ctx: Any, dout: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        gamma, a, weight, z, out = ctx.saved_tensors
        dn, dskip, sums = launch.join_backward(dout.contiguous(memory_format=CHANNELS_LAST), out, z, ctx.statistics)
        dgamma, dbeta, dbias = launch.normalise_backward(dn, z, gamma, ctx.statistics, sums)
        da, dweight = launch.up_backward(dn, a, weight)
        return None, None, dgamma, dbeta, da, dweight.float(), dbias, dskip


class _LastStep(torch.autograd.Function):
    """conv([BatchNorm(convT(a) + upsampled x), images]) / 10, with x = leaky^-1(a)."""

    @staticmethod
    def forward(
        ctx: Any, known: Known, eps: float, gamma: Tensor, beta: Tensor, a: Tensor, weight: Tensor, bias: Tensor,
        images: Tensor, last: Tensor, last_bias: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor, int]:  # fmt: skip
        a, images = a.contiguous(memory_format=CHANNELS_LAST), images.contiguous()
        blocks = F.conv3d(a, blocked_up(weight).to(a.dtype), bias.to(a.dtype).repeat(8), padding=1)
        z, statistics = launch.add_upsampled(blocks.contiguous(memory_format=CHANNELS_LAST), a, known, eps, blocked=True)
        scale, shift = statistics.affine(gamma, beta)
        features, pixels = (matrix.to(a.dtype) for matrix in blocked_last(last, gamma.numel()))
        u = launch.last_forward(z, scale, shift, images, (features, pixels), last_bias)
        ctx.save_for_backward(gamma, a, _half(weight, a), z, scale, shift, images, last)
        return u, *_keep(ctx, statistics)

    @staticmethod
    def backward(ctx: Any, du: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        gamma, a, weight, z, scale, shift, images, last = ctx.saved_tensors
        features, pixels = (matrix.to(a.dtype) for matrix in blocked_last_adjoint(last / 10, gamma.numel()))
        dn, dimages, sums = launch.last_backward(
            du, z, ctx.statistics, images, (features, pixels), of_images=ctx.needs_input_grad[7]
        )  # fmt: skip
        dlast = launch.last_weight_backward(du, z, scale, shift, images, last) / 10
        dgamma, dbeta, dbias = launch.normalise_backward(dn, z, gamma, ctx.statistics, sums)
        da, dweight = launch.up_backward(dn, a, weight)
        return None, None, dgamma, dbeta, da, dweight.float(), dbias, dimages, dlast, du.sum([0, 2, 3, 4]) / 10


def _half(weight: Tensor, like: Tensor) -> Tensor:
    return weight.to(like.dtype).contiguous(memory_format=CHANNELS_LAST)


def _keep(ctx: Any, statistics: Statistics) -> tuple[Tensor, Tensor, int]:
    ctx.statistics = statistics
    ctx.mark_non_differentiable(statistics.mean, statistics.variance)
    return statistics.mean, statistics.variance, statistics.count
