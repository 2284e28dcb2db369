"""Sizes of buffers and of programs, which all launches share."""

import torch
from torch import Tensor

CHANNELS_LAST = torch.channels_last_3d
_ELEMENTS = 4096  # of features, that one program takes


def features(shape: tuple[int, ...], *, like: Tensor) -> Tensor:
    """Room for features (B, C, *S), with their channels last in memory."""
    return torch.empty(shape, dtype=like.dtype, device=like.device, memory_format=CHANNELS_LAST)


def programs(count: int, block: int) -> tuple[int]:
    """How many programs of `block` voxels each take `count` of them."""
    return (-(-count // block),)


def voxels(channels: int) -> int:
    """How many voxels one program takes."""
    return max(_ELEMENTS // power(channels), 8)


def power(n: int) -> int:
    """The next power of two: the sizes that Triton counts in."""
    return 1 << (n - 1).bit_length()
