"""How the kernels of an upward step are called."""

from math import prod

import torch
from torch import Tensor

from gradicon.fast.fused import join_kernels, up_kernels
from gradicon.fast.fused.run import run
from gradicon.fast.fused.sizes import CHANNELS_LAST, features, power, programs, voxels
from gradicon.fast.fused.statistics import Gradients, Statistics


def add_upsampled(y: Tensor, a: Tensor, *, blocked: bool) -> tuple[Tensor, Tensor]:
    """y plus the upsampled residual, on the fine grid, and its sums (P, 2, C) for BatchNorm."""
    c = y.shape[1] // 8 if blocked else y.shape[1]
    z = features((a.shape[0], c, *(2 * n for n in a.shape[2:])), like=a)
    count = a.numel() // a.shape[1]
    block = max(1024 // c, 4)
    grid = programs(count, block)
    sums = z.new_empty((grid[0], 2, c), dtype=torch.float32)
    sizes = {"C": c, "CA": a.shape[1], "BLOCKED": blocked, "B": block}
    run(up_kernels.add_upsampled, grid, y, a, z, sums, count, *a.shape[2:], **sizes)
    return z, sums


def up_backward(dz: Tensor, a: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the transposed convolution's input, with that of the upsampled residual, and
    of its weight.
    """
    da, dweight, _ = torch.ops.aten.convolution_backward(
        dz, a, weight, None,
        [2] * 3, [1] * 3, [1] * 3, True, [0] * 3, 1, [True, True, False],  # noqa: FBT003
    )  # fmt: skip
    da = da.contiguous(memory_format=CHANNELS_LAST)
    count = a.numel() // a.shape[1]
    c = dz.shape[1]
    block = max(voxels(c) // 4, 8)
    run(
        up_kernels.upsample_backward, programs(count, block),
        dz, a, da, count, *a.shape[2:], C=c, CA=a.shape[1], B=block,
    )  # fmt: skip
    return da, dweight


def join(z: Tensor, skip: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """leaky([z * scale + shift, skip]), on the voxels of the skip."""
    (n, c) = z.shape[:2]
    cs = skip.shape[1]
    fine = skip.shape[2:]
    out = features((n, c + cs, *fine), like=z)
    count = n * prod(fine)
    block = voxels(c + cs)
    coarse = [size // 2 for size in z.shape[2:]]
    sizes = {"C": c, "CS": cs, "CS2": power(cs), "B": block}
    run(
        join_kernels.join, programs(count, block),
        z, skip, out, scale, shift, count, *coarse, *fine, **sizes,
    )  # fmt: skip
    return out


def join_backward(
    dout: Tensor, out: Tensor, z: Tensor, statistics: Statistics
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the normalised features, of the skip, and the sums for BatchNorm's.

    Args:
        dout: the gradient of `out`.
        out: what `join` gave.
        z: the features it was given.
        statistics: of z.
    """
    (n, c) = z.shape[:2]
    fine = out.shape[2:]
    cs = out.shape[1] - c
    dn = torch.empty_like(z)
    dskip = features((n, cs, *fine), like=z)
    count = z.numel() // c
    block = voxels(c + cs)
    grid = programs(count, block)
    sums = z.new_empty((grid[0], 2, c), dtype=torch.float32)
    coarse = [size // 2 for size in z.shape[2:]]
    sizes = {"C": c, "CS": cs, "CS2": power(cs), "B": block}
    run(
        join_kernels.join_backward, grid,
        dout, out, z, statistics.mean, statistics.rstd, dn, dskip, sums,
        count, *coarse, *fine, **sizes,
    )  # fmt: skip
    return dn, dskip, sums


def normalise_backward(dn: Tensor, z: Tensor, statistics: Statistics, gradients: Gradients) -> None:
    """In place: dn, the gradient after BatchNorm, becomes that before it.

    Args:
        dn: the gradient after BatchNorm.
        z: the features before it.
        statistics: of z.
        gradients: what the formula needs of dn.
    """
    block = 1024
    run(
        join_kernels.normalise_backward, programs(z.numel(), block),
        dn, z, statistics.mean, statistics.rstd, gradients.gain, gradients.m1, gradients.m2,
        z.numel(), C=z.shape[1], B=block,
    )  # fmt: skip
