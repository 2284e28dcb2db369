"""Reading images and displacement fields at points, in 3-D on a GPU: one kernel each way instead of
a dozen.
"""

# pyright: reportIncompatibleMethodOverride=false
# (torch types neither what a ModuleList holds nor how autograd calls a Function)

from math import prod
from typing import Any

import torch
from torch import Tensor

from gradicon.fast.fused import sample_kernels
from gradicon.fast.fused.run import run

_POINTS = 128


def fused_sample(image: Tensor, x: Tensor, *, displaced: bool = False) -> Tensor:
    """I(x), or x + I(x) for a displacement field: `gradicon.core.sampling.sample`, linear and with
    border padding, in float32.
    """
    return _Sample.apply(image, x.contiguous(), displaced)


class _Sample(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, image: Tensor, x: Tensor, displaced: bool) -> Tensor:  # noqa: FBT001
        batch = max(image.shape[0], x.shape[0])
        channels = image.shape[1]
        points = prod(x.shape[2:])
        last = _channels_last(image)
        out = image.new_empty((batch, channels, *x.shape[2:]))
        grid = (-(-points // _POINTS), batch)
        run(
            sample_kernels.sample_forward, grid,
            last, x, out, points, _step(last, batch), _step(x, batch), *image.shape[2:],
            C=channels, CP=last.shape[-1], DISPLACED=displaced, B=_POINTS,
        )  # fmt: skip
        ctx.save_for_backward(last, x)
        ctx.channels = channels
        ctx.displaced = displaced
        return out

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        last, x = ctx.saved_tensors
        batch = dout.shape[0]
        points = prod(x.shape[2:])
        (of_image, of_x, _) = ctx.needs_input_grad
        dimage = torch.zeros_like(last) if of_image else last
        dx = x.new_empty((batch, *x.shape[1:])) if of_x else x
        grid = (-(-points // _POINTS), batch)
        sizes = {"C": ctx.channels, "CP": last.shape[-1], "DISPLACED": ctx.displaced, "B": _POINTS}
        run(
            sample_kernels.sample_backward, grid,
            dout.contiguous(), last, x, dimage, dx, points, _step(last, batch), _step(x, batch),
            *last.shape[1:-1], OF_IMAGE=of_image, OF_X=of_x, **sizes,
        )  # fmt: skip
        shared = dx.sum(0, keepdim=True) if of_x and x.shape[0] < batch else dx
        return (
            dimage[..., : ctx.channels].movedim(-1, 1) if of_image else None,
            shared if of_x else None,
            None,
        )


def _step(tensor: Tensor, batch: int) -> int:
    """From one item of a batch to the next; none, where one item serves them all."""
    return tensor[0].numel() if tensor.shape[0] == batch else 0


def _channels_last(image: Tensor) -> Tensor:
    """(B, *S, C or the next power of two): as it lies in memory if it lies so, or a copy."""
    channels = image.shape[1]
    room = 1 << (channels - 1).bit_length()
    shape = (image.shape[0], *image.shape[2:], room)
    steps = [prod(shape[i + 1 :]) for i in range(len(shape))]
    whole = image.untyped_storage().nbytes() >= 4 * (image.storage_offset() + prod(shape))
    if whole and [*image.movedim(1, -1).stride()] == steps:
        return image.as_strided(shape, steps)
    last = image.new_empty(shape)
    last[..., :channels] = image.movedim(1, -1)
    last[..., channels:] = 0
    return last
