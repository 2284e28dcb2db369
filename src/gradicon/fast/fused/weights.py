"""Kernels of convolutions, rearranged for blocks of 2 x 2 x 2 fine voxels around one coarse voxel.

Along one axis, r in {0,1} is the fine voxel of a block, s in {0..3} a fine voxel from one before
the block to one after it, o in {0,1,2} the coarse voxel before, at and after it, and t the tap of
the kernel. In the einsums: r is A, B, D; s or o is a, b, d; t is u, v, w.
"""

from collections.abc import Callable
from functools import cache
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor

ROOM = 32
"""The displacements of a block's 8 voxels: 3 components and one lane of room each, as they lie in
memory.
"""


def in_blocks(image: Tensor) -> Tensor:
    """(B, C, *S) -> (B, 8 C, *half of S, rounded up), channels last in memory: the voxels of a
    block as channels, zero outside.
    """
    image = F.pad(image, [side for n in reversed(image.shape[2:]) for side in (0, n % 2)])
    n, c, d, h, w = image.shape
    blocks = image.reshape(n, c, d // 2, 2, h // 2, 2, w // 2, 2).permute(0, 2, 4, 6, 3, 5, 7, 1)
    return blocks.reshape(n, d // 2, h // 2, w // 2, 8 * c).movedim(-1, 1)


def blocked_down(weight: Tensor) -> Tensor:
    """A convolution of width 3 and stride 2, as one of width 2 over blocks, of which the first is
    the one before.

    (Co, Ci, 3, 3, 3) -> (Co, 8 Ci, 2, 2, 2)
    """
    one = _table((2, 2, 3), _is_down, weight.dtype, weight.device)
    taps = torch.einsum("piuvw,Aau,Bbv,Ddw->pABDiabd", weight, one, one, one)
    return taps.reshape(weight.shape[0], 8 * weight.shape[1], 2, 2, 2).contiguous(
        memory_format=torch.channels_last_3d
    )


def blocked_up(weight: Tensor) -> Tensor:
    """A transposed convolution of width 4 and stride 2, as a convolution of width 3 that yields
    whole blocks.

    (Ci, Co, 4, 4, 4) -> (8 Co, Ci, 3, 3, 3). For each output, 8 of the 27 taps are not zero.
    """
    one = _table((2, 3, 4), _is_up, weight.dtype, weight.device)
    taps = torch.einsum("ipuvw,Aau,Bbv,Ddw->ABDpiabd", weight, one, one, one)
    return taps.reshape(8 * weight.shape[1], weight.shape[0], 3, 3, 3).contiguous(
        memory_format=torch.channels_last_3d
    )


def blocked_last(weight: Tensor, features: int) -> tuple[Tensor, Tensor]:
    """The last convolution as two matrices to a block's displacements: from features, and from
    images.

    (3, C + Ci, 3, 3, 3) -> (64 C, 32), rows in the order (sz, sy, sx, c), and (64 Ci, 32), rows in
    the order (c, sz, sy, sx).
    """
    one = _ahead(weight)
    flat = F.pad(
        torch.einsum("pcuvw,Aau,Bbv,Ddw->abdcABDp", weight, one, one, one), (0, 1)
    ).flatten(4)
    pixels = flat[..., features:, :].permute(3, 0, 1, 2, 4)
    return flat[..., :features, :].reshape(-1, ROOM).contiguous(), pixels.reshape(
        -1, ROOM
    ).contiguous()


def unblocked_last(features: Tensor, pixels: Tensor, like: Tensor) -> Tensor:
    """The reverse, for gradients: those of the two matrices to that of the convolution's weight."""
    one = _ahead(like)
    of_images = pixels.reshape(-1, 4, 4, 4, ROOM).permute(1, 2, 3, 0, 4)
    both = torch.cat([features.reshape(4, 4, 4, -1, ROOM), of_images], 3).unflatten(
        -1, (2, 2, 2, 4)
    )[..., :3]
    return torch.einsum("abdcABDp,Aau,Bbv,Ddw->pcuvw", both, one, one, one)


def blocked_last_adjoint(weight: Tensor, features: int) -> tuple[Tensor, Tensor]:
    """The last convolution's adjoint as two matrices from displacements: to a block's features, and
    to its images.

    (3, C + Ci, 3, 3, 3) -> (192, 8 C) and (192, 8 Ci, in a room of 16 or the next power of two),
    rows in the order (component, sz, sy, sx), columns (r, c) for features and (c, r) for images.
    """
    one = _table((2, 4, 3), _is_behind, weight.dtype, weight.device)
    taps = torch.einsum("pcuvw,Aau,Bbv,Ddw->pabdABDc", weight, one, one, one)
    pixels = taps[..., features:].movedim(-1, 4).reshape(192, -1)
    room = max(16, 1 << (pixels.shape[1] - 1).bit_length())
    return taps[..., :features].reshape(192, -1).contiguous(), F.pad(
        pixels, (0, room - pixels.shape[1])
    ).contiguous()


def _ahead(like: Tensor) -> Tensor:
    return _table((2, 4, 3), _is_ahead, like.dtype, like.device)


def _is_down(r: int, o: int, t: int) -> bool:
    return t - 1 == r + 2 * (o - 1)


def _is_up(r: int, o: int, t: int) -> bool:
    return t == r + 1 - 2 * (o - 1)


def _is_ahead(r: int, s: int, t: int) -> bool:
    return s == r + t


def _is_behind(r: int, s: int, t: int) -> bool:
    return s == r - t + 2


@cache
def _table(
    shape: tuple[int, int, int],
    entry: Callable[[int, int, int], bool],
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Where an entry holds, 1, else 0.

    Made once: a copy to the device has no place in a captured graph.
    """
    ones = [float(entry(*index)) for index in product(*map(range, shape))]
    return torch.tensor(ones, dtype=dtype, device=device).reshape(shape)
