"""The steps of the fused U-Net, each as one function that autograd knows, forward and back."""

# pyright: reportIncompatibleMethodOverride=false
# (torch does not type how autograd calls a Function)

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gradicon.fast.fused.down import add_halved, halved_backward
from gradicon.fast.fused.last import last_backward, last_forward, last_weight_backward
from gradicon.fast.fused.sizes import CHANNELS_LAST
from gradicon.fast.fused.statistics import batch_gradients, batch_statistics
from gradicon.fast.fused.up import (
    add_upsampled,
    join,
    join_backward,
    normalise_backward,
    up_backward,
)
from gradicon.fast.fused.weights import blocked_last, blocked_last_adjoint, blocked_up
from gradicon.fast.made import once


class DownStep(torch.autograd.Function):
    """conv(leaky(x)) + halved x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        weight = _half(weight, x)
        bias = _half(bias, x)
        y = F.conv3d(F.leaky_relu(x), weight, bias, stride=2, padding=1).contiguous(
            memory_format=CHANNELS_LAST
        )
        add_halved(y, x)
        ctx.save_for_backward(x, weight)
        return y

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor, ...]:
        x, weight = ctx.saved_tensors
        dout = dout.contiguous(memory_format=CHANNELS_LAST)
        da, dweight, dbias = torch.ops.aten.convolution_backward(
            dout, F.leaky_relu(x), weight, [dout.shape[1]],
            [2] * 3, [1] * 3, [1] * 3, False, [0] * 3, 1, [True] * 3,  # noqa: FBT003
        )  # fmt: skip
        da = da.contiguous(memory_format=CHANNELS_LAST)
        halved_backward(da, x, dout)
        return da, dweight.float(), dbias.float()


class UpStep(torch.autograd.Function):
    """leaky([BatchNorm(convT(a) + upsampled x), skip]), with x = leaky^-1(a)."""

    @staticmethod
    def forward(
        ctx: Any, norm: nn.Module, gamma: Tensor, _beta: Tensor, a: Tensor,
        weight: Tensor, bias: Tensor, skip: Tensor,
    ) -> Tensor:  # fmt: skip
        a = a.contiguous(memory_format=CHANNELS_LAST)
        weight = _half(weight, a)
        y = F.conv_transpose3d(a, weight, _half(bias, a), stride=2, padding=1).contiguous(
            memory_format=CHANNELS_LAST
        )
        z, sums = add_upsampled(y, a, blocked=False)
        statistics = batch_statistics(norm, sums, z.shape)
        out = join(
            z, skip.contiguous(memory_format=CHANNELS_LAST), statistics.scale, statistics.shift
        )
        ctx.save_for_backward(gamma, a, weight, z, out)
        ctx.statistics = statistics
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        gamma, a, weight, z, out = ctx.saved_tensors
        dn, dskip, sums = join_backward(
            dout.contiguous(memory_format=CHANNELS_LAST), out, z, ctx.statistics
        )
        gradients = batch_gradients(gamma, ctx.statistics, sums, z.shape)
        normalise_backward(dn, z, ctx.statistics, gradients)
        da, dweight = up_backward(dn, a, weight)
        return None, gradients.gamma, gradients.beta, da, dweight.float(), gradients.bias, dskip


class LastStep(torch.autograd.Function):
    """conv([BatchNorm(convT(a) + upsampled x), images]) / 10, with x = leaky^-1(a)."""

    @staticmethod
    def forward(
        ctx: Any, norm: nn.Module, gamma: Tensor, _beta: Tensor, a: Tensor,
        weight: Tensor, bias: Tensor, images: Tensor, last: Tensor, last_bias: Tensor,
    ) -> Tensor:  # fmt: skip
        a = a.contiguous(memory_format=CHANNELS_LAST)
        images = images.contiguous()
        blocked = once(weight, "blocked", lambda: blocked_up(weight).to(a.dtype))
        blocks = F.conv3d(a, blocked, bias.to(a.dtype).repeat(8), padding=1)
        z, sums = add_upsampled(blocks.contiguous(memory_format=CHANNELS_LAST), a, blocked=True)
        statistics = batch_statistics(norm, sums, z.shape)
        forward, adjoint = once(last, "blocked", lambda: _matrices(last, gamma.numel(), a.dtype))
        ctx.save_for_backward(gamma, a, _half(weight, a), z, images, last, *adjoint)
        ctx.statistics = statistics
        return last_forward(z, statistics, images, forward, last_bias)

    @staticmethod
    def backward(ctx: Any, du: Tensor) -> tuple[Tensor | None, ...]:
        gamma, a, weight, z, images, last, *adjoint = ctx.saved_tensors
        statistics = ctx.statistics
        of_images = ctx.needs_input_grad[6]
        dn, dimages, sums = last_backward(
            du, z, statistics, images, (adjoint[0], adjoint[1]), of_images=of_images
        )
        dlast = last_weight_backward(du, z, statistics, images, last) / 10
        gradients = batch_gradients(gamma, statistics, sums, z.shape)
        normalise_backward(dn, z, statistics, gradients)
        da, dweight = up_backward(dn, a, weight)
        dlast_bias = du.sum([0, 2, 3, 4]) / 10
        of_norm = (None, gradients.gamma, gradients.beta)
        return *of_norm, da, dweight.float(), gradients.bias, dimages, dlast, dlast_bias


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
