"""How the kernels are called: their sizes and buffers."""

from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from gradicon.core.fused import kernels, last_kernels
from gradicon.core.fused.kernels import run
from gradicon.core.fused.statistics import Gradients, Statistics
from gradicon.core.fused.weights import ROOM, unblocked_last

CHANNELS_LAST = torch.channels_last_3d
_RUN = 2048  # coarse voxels whose contributions to a weight's gradient one program sums
_ELEMENTS = 4096  # of features, that one program takes


def add_upsampled(y: Tensor, a: Tensor, *, blocked: bool) -> tuple[Tensor, Tensor]:
    """y plus the upsampled residual, on the fine grid, and its sums (P, 2, C) for BatchNorm."""
    channels = y.shape[1] // 8 if blocked else y.shape[1]
    z = _features((a.shape[0], channels, *(2 * n for n in a.shape[2:])), like=a)
    count = a.numel() // a.shape[1]
    block = max(1024 // channels, 4)
    programs = _programs(count, block)
    sums = z.new_empty((programs[0], 2, channels), dtype=torch.float32)
    run(kernels.add_upsampled, programs,
        y, a, z, sums, count, *a.shape[2:], C=channels, CA=a.shape[1], BLOCKED=blocked, B=block
    )  # fmt: skip
    return z, sums


def add_halved(y: Tensor, x: Tensor) -> None:
    """y += x at half its size, its channels cropped, or with zeros in front, to fit y's."""
    count = y.numel() // y.shape[1]
    block = _voxels(y.shape[1])
    run(kernels.add_halved, _programs(count, block),
        y, x, count, *x.shape[2:], max(y.shape[1] - x.shape[1], 0), CX=x.shape[1], C=y.shape[1], C2=_power(y.shape[1]), B=block
    )  # fmt: skip


def halved_backward(da: Tensor, x: Tensor, dout: Tensor) -> None:
    """In place: the gradient of leaky(x) becomes that of x, with the part through `add_halved`."""
    count = x.numel() // x.shape[1]
    block = _voxels(x.shape[1])
    c = dout.shape[1]
    run(kernels.halved_backward, _programs(count, block),
        da, x, dout, count, *x.shape[2:], max(c - x.shape[1], 0), CX=x.shape[1], CX2=_power(x.shape[1]), C=c, B=block
    )  # fmt: skip


def join(z: Tensor, skip: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
    """leaky([z * scale + shift, skip]), on the voxels of the skip."""
    (n, c) = z.shape[:2]
    cs = skip.shape[1]
    fine = skip.shape[2:]
    out = _features((n, c + cs, *fine), like=z)
    count = n * prod(fine)
    block = _voxels(c + cs)
    coarse = [size // 2 for size in z.shape[2:]]
    run(kernels.join, _programs(count, block),
        z, skip, out, scale, shift, count, *coarse, *fine, C=c, CS=cs, CS2=_power(cs), B=block
    )  # fmt: skip
    return out


def join_backward(
    dout: Tensor, out: Tensor, z: Tensor, statistics: Statistics
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradient of the normalised features, of the skip, and the sums for BatchNorm's."""
    (n, c) = z.shape[:2]
    fine = out.shape[2:]
    cs = out.shape[1] - c
    dn = torch.empty_like(z)
    dskip = _features((n, cs, *fine), like=z)
    count = z.numel() // c
    block = _voxels(c + cs)
    programs = _programs(count, block)
    sums = z.new_empty((programs[0], 2, c), dtype=torch.float32)
    coarse = [size // 2 for size in z.shape[2:]]
    run(kernels.join_backward, programs,
        dout, out, z, statistics.mean, statistics.rstd, dn, dskip, sums, count, *coarse, *fine, C=c, CS=cs, CS2=_power(cs), B=block
    )  # fmt: skip
    return dn, dskip, sums


def normalise_backward(dn: Tensor, z: Tensor, statistics: Statistics, gradients: Gradients) -> None:
    """dn, the gradient after BatchNorm, becomes that before it, in place."""
    block = 1024
    run(kernels.normalise_backward, _programs(z.numel(), block),
        dn, z, statistics.mean, statistics.rstd, gradients.gain, gradients.m1, gradients.m2, z.numel(), C=z.shape[1], B=block
    )  # fmt: skip


def up_backward(dz: Tensor, a: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of the transposed convolution's input, with that of the upsampled residual, and
    of its weight.
    """
    da, dweight, _ = torch.ops.aten.convolution_backward(
        dz, a, weight, None, [2] * 3, [1] * 3, [1] * 3, True, [0] * 3, 1, [True, True, False]  # noqa: FBT003
    )  # fmt: skip
    da = da.contiguous(memory_format=CHANNELS_LAST)
    count = a.numel() // a.shape[1]
    channels = dz.shape[1]
    block = max(_voxels(channels) // 4, 8)
    run(kernels.upsample_backward, _programs(count, block),
        dz, a, da, count, *a.shape[2:], C=channels, CA=a.shape[1], B=block
    )  # fmt: skip
    return da, dweight


def last_forward(
    z: Tensor,
    scale: Tensor,
    shift: Tensor,
    images: Tensor,
    matrices: tuple[Tensor, Tensor],
    bias: Tensor,
) -> Tensor:
    """(conv([z * scale + shift, images]) + bias) / 10, float32, (B, 3, *S) with four lanes a voxel
    in memory.
    """
    u = images.new_empty((images.shape[0], *images.shape[2:], 4), dtype=torch.float32)
    coarse = _blocks(z)
    count = z.numel() // z.shape[1] // 8
    block = 64
    room = F.pad(bias, (0, 1)).repeat(8)
    run(last_kernels.last_forward, _programs(count, block),
        z, scale, shift, images, *matrices, room, u, count, *coarse, *images.shape[2:], C=z.shape[1], CI=images.shape[1], B=block
    )  # fmt: skip
    return u[..., :3].movedim(-1, 1)


def last_backward(
    du: Tensor,
    z: Tensor,
    statistics: Statistics,
    images: Tensor,
    matrices: tuple[Tensor, Tensor],
    *,
    of_images: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of the normalised features and of the images, and the sums for BatchNorm's."""
    coarse = _blocks(z)
    count = z.numel() // z.shape[1] // 8
    block = 64
    channels = z.shape[1]
    programs = _programs(count, block)
    (du, *strides) = _with_strides(du)
    dn = torch.empty_like(z)
    dimages = torch.empty_like(images)
    sums = z.new_empty((programs[0], 2, channels), dtype=torch.float32)
    run(last_kernels.last_backward, programs,
        du, z, statistics.mean, statistics.rstd, *matrices, dn, dimages, sums, count, *coarse, *images.shape[2:], *strides,
        C=channels, CI=images.shape[1], CI8=matrices[1].shape[1], IMAGES=of_images, B=block,
    )  # fmt: skip
    return dn, dimages, sums


def last_weight_backward(
    du: Tensor, z: Tensor, scale: Tensor, shift: Tensor, images: Tensor, weight: Tensor
) -> Tensor:
    """The gradient of the last convolution's weight."""
    coarse = _blocks(z)
    count = z.numel() // z.shape[1] // 8
    channels = z.shape[1]
    inputs = images.shape[1]
    sizes = *coarse, *images.shape[2:]
    blocks = z.new_empty((count, ROOM))
    (du, *strides) = _with_strides(du)
    run(
        last_kernels.gather_blocks,
        _programs(count, 128),
        du,
        blocks,
        count,
        *sizes,
        *strides,
        B=128,
    )
    runs = _programs(count, _RUN)[0]
    features = z.new_empty((runs, 64 * channels, ROOM), dtype=torch.float32)
    run(
        last_kernels.last_weight_backward,
        (runs, 4),
        blocks,
        z,
        scale,
        shift,
        features,
        count,
        _RUN,
        *sizes,
        C=channels,
        B=64,
    )
    pixels = z.new_empty((runs, 64 * inputs, ROOM), dtype=torch.float32)
    run(
        last_kernels.last_weight_images_backward,
        (runs, inputs),
        blocks,
        images,
        pixels,
        count,
        _RUN,
        *sizes,
        CI=inputs,
        B=128,
    )
    return unblocked_last(features.sum(0), pixels.sum(0), weight)


def _with_strides(du: Tensor) -> tuple[Tensor, int, int, int]:
    """With its strides of batch, component and voxel; made contiguous where voxels are not evenly
    spaced.
    """
    _, _, _, h, w = du.shape
    if du.stride()[2:4] != (du.stride(4) * h * w, du.stride(4) * w):
        du = du.contiguous()
    return du, du.stride(0), du.stride(1), du.stride(4)


def _features(shape: tuple[int, ...], *, like: Tensor) -> Tensor:
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=CHANNELS_LAST)


def _blocks(z: Tensor) -> list[int]:
    return [n // 2 for n in z.shape[2:]]


def _programs(count: int, block: int) -> tuple[int]:
    return (-(-count // block),)


def _voxels(channels: int) -> int:
    return max(_ELEMENTS // _power(channels), 8)


def _power(n: int) -> int:
    return 1 << (n - 1).bit_length()
