"""Triton kernels of the gradient of the last convolution's weight; see `last_kernels`, whose grids
and names these are.
"""

import triton
import triton.language as tl

from gradicon.fast.fused.grid_kernels import coarse
from gradicon.fast.fused.last_kernels import features, pixels


@triton.jit
def gather_blocks(du, blocks, count, D, H, W, FD, FH, FW, SN, SC, SV, B: tl.constexpr):
    """The gradients of displacements as rows of 32 per coarse voxel: what those of the weights read
    again and again.
    """
    i = tl.program_id(0) * B + tl.arange(0, B)
    lane = tl.arange(0, 4)
    there = i < count
    n, cz, cy, cx = coarse(i, D, H, W)
    for r in tl.static_range(8):
        fz = 2 * cz + r // 4
        fy = 2 * cy + r // 2 % 2
        fx = 2 * cx + r % 2
        inside = there & (fz < FD) & (fy < FH) & (fx < FW)
        voxel = n * SN + ((fz * FH + fy) * FW + fx) * SV
        value = tl.load(
            du + voxel[:, None] + lane[None] * SC, mask=inside[:, None] & (lane < 3)[None], other=0
        )
        tl.store(
            blocks + i[:, None] * 32 + r * 4 + lane[None],
            value.to(blocks.dtype.element_ty),
            mask=there[:, None],
        )


@triton.jit
def last_weight_backward(
    blocks, z, scale, shift, partial, count, per_program, D, H, W, FD, FH, FW,
    C: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Of the weights over features: one program sums a run of coarse voxels, for the four rows of
    one plane.
    """
    o = tl.arange(0, 32)
    j = tl.arange(0, 4 * C)
    s = tl.program_id(1)
    row0 = tl.zeros((4 * C, 32), tl.float32)
    row1 = tl.zeros((4 * C, 32), tl.float32)
    row2 = tl.zeros((4 * C, 32), tl.float32)
    row3 = tl.zeros((4 * C, 32), tl.float32)
    first = tl.program_id(0) * per_program
    for start in range(0, per_program, B):
        i = first + start + tl.arange(0, B)
        there = i < count
        n, cz, cy, cx = coarse(i, D, H, W)
        out = tl.load(blocks + i[:, None] * 32 + o[None], mask=there[:, None], other=0)
        z_at = 2 * cz + s - 1
        y_at = 2 * cy - 1
        x = features(z, scale, shift, there, n, z_at, y_at, cx, j, D, H, W, FD, FH, FW, C)
        row0 = tl.dot(tl.trans(x.to(out.dtype)), out, row0)
        x = features(z, scale, shift, there, n, z_at, y_at + 1, cx, j, D, H, W, FD, FH, FW, C)
        row1 = tl.dot(tl.trans(x.to(out.dtype)), out, row1)
        x = features(z, scale, shift, there, n, z_at, y_at + 2, cx, j, D, H, W, FD, FH, FW, C)
        row2 = tl.dot(tl.trans(x.to(out.dtype)), out, row2)
        x = features(z, scale, shift, there, n, z_at, y_at + 3, cx, j, D, H, W, FD, FH, FW, C)
        row3 = tl.dot(tl.trans(x.to(out.dtype)), out, row3)
    to = partial + ((tl.program_id(0) * 4 + s) * 16 * C + j)[:, None] * 32 + o[None]
    tl.store(to, row0)
    tl.store(to + 4 * C * 32, row1)
    tl.store(to + 8 * C * 32, row2)
    tl.store(to + 12 * C * 32, row3)


@triton.jit
def last_weight_images_backward(
    blocks, images, partial, count, per_program, D, H, W, FD, FH, FW,
    CI: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Of the weights over images: one program sums a run of coarse voxels, for the four planes of
    one channel.
    """
    o = tl.arange(0, 32)
    k = tl.arange(0, 16)
    s = tl.program_id(1)
    voxels = FD * FH * FW
    batch = CI * voxels
    plane0 = tl.zeros((16, 32), tl.float32)
    plane1 = tl.zeros((16, 32), tl.float32)
    plane2 = tl.zeros((16, 32), tl.float32)
    plane3 = tl.zeros((16, 32), tl.float32)
    first = tl.program_id(0) * per_program
    for start in range(0, per_program, B):
        i = first + start + tl.arange(0, B)
        there = i < count
        n, cz, cy, cx = coarse(i, D, H, W)
        out = tl.load(blocks + i[:, None] * 32 + o[None], mask=there[:, None], other=0)
        z_at = 2 * cz - 1
        x = pixels(images, there, n, s, z_at, cy, cx, k, FD, FH, FW, batch, voxels, 1)
        plane0 = tl.dot(tl.trans(x.to(out.dtype)), out, plane0)
        x = pixels(images, there, n, s, z_at + 1, cy, cx, k, FD, FH, FW, batch, voxels, 1)
        plane1 = tl.dot(tl.trans(x.to(out.dtype)), out, plane1)
        x = pixels(images, there, n, s, z_at + 2, cy, cx, k, FD, FH, FW, batch, voxels, 1)
        plane2 = tl.dot(tl.trans(x.to(out.dtype)), out, plane2)
        x = pixels(images, there, n, s, z_at + 3, cy, cx, k, FD, FH, FW, batch, voxels, 1)
        plane3 = tl.dot(tl.trans(x.to(out.dtype)), out, plane3)
    to = partial + ((tl.program_id(0) * CI + s) * 64 + k)[:, None] * 32 + o[None]
    tl.store(to, plane0)
    tl.store(to + 16 * 32, plane1)
    tl.store(to + 32 * 32, plane2)
    tl.store(to + 48 * 32, plane3)
