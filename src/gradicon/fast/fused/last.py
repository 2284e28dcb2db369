"""How the kernels of the last convolution are called."""

import torch
import torch.nn.functional as F
from torch import Tensor

from gradicon.fast.fused import last_kernels, last_weight_kernels
from gradicon.fast.fused.run import run
from gradicon.fast.fused.sizes import programs
from gradicon.fast.fused.statistics import Statistics
from gradicon.fast.fused.weights import ROOM, unblocked_last

_BLOCK = 64  # coarse voxels of a program
_RUN = 2048  # coarse voxels whose contributions to a weight's gradient one program sums


def last_forward(
    z: Tensor,
    statistics: Statistics,
    images: Tensor,
    matrices: tuple[Tensor, Tensor],
    bias: Tensor,
) -> Tensor:
    """(conv([z * scale + shift, images]) + bias) / 10, float32, (B, 3, *S) with four lanes a voxel
    in memory.

    Args:
        z: features before their normalisation, on a grid that may exceed the images' by a voxel.
        statistics: of z, with the scale and the shift.
        images: the stacked images.
        matrices: the convolution's weight as `blocked_last` has it.
        bias: the convolution's.
    """
    u = images.new_empty((images.shape[0], *images.shape[2:], 4), dtype=torch.float32)
    count = z.numel() // z.shape[1] // 8
    room = F.pad(bias, (0, 1)).repeat(8)
    run(
        last_kernels.last_forward, programs(count, _BLOCK),
        z, statistics.scale, statistics.shift, images, *matrices, room, u,
        count, *_blocks(z), *images.shape[2:], C=z.shape[1], CI=images.shape[1], B=_BLOCK,
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
    """The gradients of the normalised features and of the images, and the sums for BatchNorm's.

    Args:
        du: the gradient of the displacements.
        z: features before their normalisation.
        statistics: of z.
        images: the stacked images.
        matrices: the convolution's weight as `blocked_last_adjoint` has it.
        of_images: whether the images' gradient is wanted; else what is returned for it is not set.
    """
    count = z.numel() // z.shape[1] // 8
    channels = z.shape[1]
    inputs = images.shape[1]
    grid = programs(count, _BLOCK)
    (du, *strides) = _with_strides(du)
    dn = torch.empty_like(z)
    dimages = torch.empty_like(images)
    sums = z.new_empty((grid[0], 2, channels), dtype=torch.float32)
    sizes = {"C": channels, "CI": inputs, "CI8": matrices[1].shape[1], "B": _BLOCK}
    run(
        last_kernels.last_backward, grid,
        du, z, statistics.mean, statistics.rstd, *matrices, dn, dimages, sums,
        count, *_blocks(z), *images.shape[2:], *strides, IMAGES=of_images, **sizes,
    )  # fmt: skip
    return dn, dimages, sums


def last_weight_backward(
    du: Tensor, z: Tensor, statistics: Statistics, images: Tensor, weight: Tensor
) -> Tensor:
    """The gradient of the last convolution's weight.

    Args:
        du: the gradient of the displacements.
        z: features before their normalisation.
        statistics: of z.
        images: the stacked images.
        weight: the convolution's weight.
    """
    count = z.numel() // z.shape[1] // 8
    channels = z.shape[1]
    inputs = images.shape[1]
    grids = *_blocks(z), *images.shape[2:]
    blocks = z.new_empty((count, ROOM))
    (du, *strides) = _with_strides(du)
    run(
        last_weight_kernels.gather_blocks, programs(count, 128),
        du, blocks, count, *grids, *strides, B=128,
    )  # fmt: skip
    runs = programs(count, _RUN)[0]
    features = z.new_empty((runs, 64 * channels, ROOM), dtype=torch.float32)
    run(
        last_weight_kernels.last_weight_backward, (runs, 4),
        blocks, z, statistics.scale, statistics.shift, features, count, _RUN, *grids,
        C=channels, B=_BLOCK,
    )  # fmt: skip
    pixels = z.new_empty((runs, 64 * inputs, ROOM), dtype=torch.float32)
    run(
        last_weight_kernels.last_weight_images_backward, (runs, inputs),
        blocks, images, pixels, count, _RUN, *grids, CI=inputs, B=128,
    )  # fmt: skip
    return unblocked_last(features.sum(0), pixels.sum(0), weight)


def _with_strides(du: Tensor) -> tuple[Tensor, int, int, int]:
    """With its strides of batch, component and voxel; made contiguous where voxels are not evenly
    spaced.
    """
    _, _, _, h, w = du.shape
    if du.stride()[2:4] != (du.stride(4) * h * w, du.stride(4) * w):
        du = du.contiguous()
    return du, du.stride(0), du.stride(1), du.stride(4)


def _blocks(z: Tensor) -> list[int]:
    """How many blocks of 2 x 2 x 2 voxels there are along each axis: coarse voxels."""
    return [n // 2 for n in z.shape[2:]]
