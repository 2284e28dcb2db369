"""Triton kernels of the U-Net's last convolution, 3 x 3 x 3, over normalised features and the
images, in blocks of 2 x 2 x 2 voxels.

Coarse voxel (z, y, x) stands for the fine voxels 2z + {0,1} and so on; its convolution reads those
from 2z - 1 to 2z + 2. Features are read before their normalisation, z * scale + shift. Beyond the
FD x FH x FW voxels of the images there are zeros. Displacements have four lanes a voxel, the last
one zero; their gradients come with any strides of batch (SN), component (SC) and voxel (SV).
"""

import triton
import triton.language as tl

from gradicon.core.fused.kernels import coarse


@triton.jit
def _features(z, scale, shift, there, n, fz, fy, cx, j, D, H, W, FD, FH, FW, C: tl.constexpr):
    """Normalised features at four fine voxels in a row, for each coarse voxel: (B, 4C), zero
    outside.
    """
    fx = 2 * cx[:, None] + (j // C)[None] - 1
    inside = (
        (there & (fz >= 0) & (fz < FD) & (fy >= 0) & (fy < FH))[:, None] & (fx >= 0) & (fx < FW)
    )
    first = (
        ((n * 2 * D + fz) * 2 * H + fy) * 2 * W + 2 * cx - 1
    ) * C  # the four voxels lie side by side
    value = tl.load(z + first[:, None] + j[None], mask=inside, other=0).to(tl.float32)
    value = value * tl.load(scale + j % C)[None] + tl.load(shift + j % C)[None]
    return tl.where(inside, value, 0.0)


@triton.jit
def _pixels(image, there, n, channel, fz, cy, cx, k, FD, FH, FW, SN, SC, SV):
    """An image of fine voxels at 4 x 4 of them in the plane fz, for each coarse voxel: (B, 16),
    zero outside.
    """
    fy = 2 * cy[:, None] + (k // 4)[None] - 1
    fx = 2 * cx[:, None] + (k % 4)[None] - 1
    inside = (
        (there & (fz >= 0) & (fz < FD))[:, None] & (fy >= 0) & (fy < FH) & (fx >= 0) & (fx < FW)
    )
    first = n * SN + channel * SC
    return tl.load(
        image + first[:, None] + ((fz[:, None] * FH + fy) * FW + fx) * SV, mask=inside, other=0
    )


@triton.jit
def last_forward(
    z, scale, shift, images, w_features, w_images, bias, u, count, D, H, W, FD, FH, FW,
    C: tl.constexpr, CI: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """u = (conv([normalised z, images]) + bias) / 10, in float32."""
    i = tl.program_id(0) * B + tl.arange(0, B)
    there = i < count
    n, cz, cy, cx = coarse(i, D, H, W)
    o = tl.arange(0, 32)
    j = tl.arange(0, 4 * C)
    k = tl.arange(0, 16)
    total = tl.zeros((B, 32), tl.float32)
    for s in range(16):
        value = _features(
            z,
            scale,
            shift,
            there,
            n,
            2 * cz + s // 4 - 1,
            2 * cy + s % 4 - 1,
            cx,
            j,
            D,
            H,
            W,
            FD,
            FH,
            FW,
            C,
        )
        weight = tl.load(w_features + (s * 4 * C + j)[:, None] * 32 + o[None])
        total = tl.dot(value.to(weight.dtype), weight, total)
    for s in range(4 * CI):
        value = _pixels(
            images,
            there,
            n,
            s // 4,
            2 * cz + s % 4 - 1,
            cy,
            cx,
            k,
            FD,
            FH,
            FW,
            CI * FD * FH * FW,
            FD * FH * FW,
            1,
        )
        weight = tl.load(w_images + (s * 16 + k)[:, None] * 32 + o[None])
        total = tl.dot(value.to(weight.dtype), weight, total)
    r = o // 4
    fz = 2 * cz[:, None] + (r // 4)[None]
    fy = 2 * cy[:, None] + (r // 2 % 2)[None]
    fx = 2 * cx[:, None] + (r % 2)[None]
    inside = there[:, None] & (fz < FD) & (fy < FH) & (fx < FW)
    at = (((n[:, None] * FD + fz) * FH + fy) * FW + fx) * 4 + (o % 4)[None]
    tl.store(u + at, (total + tl.load(bias + o)[None]) / 10, mask=inside)


@triton.jit
def last_backward(
    du, z, mean, rstd, w_features, w_images, dn, dimages, sums, count, D, H, W, FD, FH, FW, SN, SC, SV,
    C: tl.constexpr, CI: tl.constexpr, CI8: tl.constexpr, IMAGES: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """The gradients of the normalised features, on all fine voxels and with BatchNorm's two sums,
    and of the images.
    """
    i = tl.program_id(0) * B + tl.arange(0, B)
    there = i < count
    n, cz, cy, cx = coarse(i, D, H, W)
    k = tl.arange(0, 16)
    f = tl.arange(0, 8 * C)
    g = tl.arange(0, CI8)
    total = tl.zeros((B, 8 * C), tl.float32)
    total_images = tl.zeros((B, CI8), tl.float32)
    for s in range(12):
        value = _pixels(du, there, n, s // 4, 2 * cz + s % 4 - 1, cy, cx, k, FD, FH, FW, SN, SC, SV)
        weight = tl.load(w_features + (s * 16 + k)[:, None] * (8 * C) + f[None])
        total = tl.dot(value.to(weight.dtype), weight, total)
        if IMAGES:
            weight = tl.load(w_images + (s * 16 + k)[:, None] * CI8 + g[None])
            total_images = tl.dot(value.to(weight.dtype), weight, total_images)
    r = f // C
    c = f % C
    fz = 2 * cz[:, None] + (r // 4)[None]
    fy = 2 * cy[:, None] + (r // 2 % 2)[None]
    fx = 2 * cx[:, None] + (r % 2)[None]
    total = tl.where((fz < FD) & (fy < FH) & (fx < FW) & there[:, None], total, 0.0)
    at = (((n[:, None] * 2 * D + fz) * 2 * H + fy) * 2 * W + fx) * C + c[None]
    rounded = total.to(dn.dtype.element_ty)
    tl.store(dn + at, rounded, mask=there[:, None])
    value = tl.load(z + at, mask=there[:, None], other=0).to(tl.float32)
    standard = (value - tl.load(mean + c)[None]) * tl.load(rstd + c)[None]
    gradient = rounded.to(tl.float32)
    by_channel = tl.sum(tl.reshape(tl.sum(gradient, 0), (8, C)), 0)
    with_value = tl.sum(tl.reshape(tl.sum(gradient * standard, 0), (8, C)), 0)
    each = tl.arange(0, C)
    tl.store(sums + tl.program_id(0) * 2 * C + each, by_channel)
    tl.store(sums + tl.program_id(0) * 2 * C + C + each, with_value)
    if IMAGES:
        r = g % 8
        channel = g // 8
        fz = 2 * cz[:, None] + (r // 4)[None]
        fy = 2 * cy[:, None] + (r // 2 % 2)[None]
        fx = 2 * cx[:, None] + (r % 2)[None]
        inside = there[:, None] & (g < 8 * CI)[None] & (fz < FD) & (fy < FH) & (fx < FW)
        at = (((n[:, None] * CI + channel[None]) * FD + fz) * FH + fy) * FW + fx
        tl.store(dimages + at, total_images, mask=inside)


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
    blocks, z, scale, shift, partial, count, per_program, D, H, W, FD, FH, FW, C: tl.constexpr, B: tl.constexpr
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
        gradient = tl.load(blocks + i[:, None] * 32 + o[None], mask=there[:, None], other=0)
        fz = 2 * cz + s - 1
        value = _features(
            z, scale, shift, there, n, fz, 2 * cy - 1, cx, j, D, H, W, FD, FH, FW, C
        ).to(gradient.dtype)
        row0 = tl.dot(tl.trans(value), gradient, row0)
        value = _features(z, scale, shift, there, n, fz, 2 * cy, cx, j, D, H, W, FD, FH, FW, C).to(
            gradient.dtype
        )
        row1 = tl.dot(tl.trans(value), gradient, row1)
        value = _features(
            z, scale, shift, there, n, fz, 2 * cy + 1, cx, j, D, H, W, FD, FH, FW, C
        ).to(gradient.dtype)
        row2 = tl.dot(tl.trans(value), gradient, row2)
        value = _features(
            z, scale, shift, there, n, fz, 2 * cy + 2, cx, j, D, H, W, FD, FH, FW, C
        ).to(gradient.dtype)
        row3 = tl.dot(tl.trans(value), gradient, row3)
    out = partial + ((tl.program_id(0) * 4 + s) * 16 * C + j)[:, None] * 32 + o[None]
    tl.store(out, row0)
    tl.store(out + 4 * C * 32, row1)
    tl.store(out + 8 * C * 32, row2)
    tl.store(out + 12 * C * 32, row3)


@triton.jit
def last_weight_images_backward(
    blocks, images, partial, count, per_program, D, H, W, FD, FH, FW, CI: tl.constexpr, B: tl.constexpr
):  # fmt: skip
    """Of the weights over images: one program sums a run of coarse voxels, for the four planes of
    one channel.
    """
    o = tl.arange(0, 32)
    k = tl.arange(0, 16)
    s = tl.program_id(1)
    voxels = FD * FH * FW
    plane0 = tl.zeros((16, 32), tl.float32)
    plane1 = tl.zeros((16, 32), tl.float32)
    plane2 = tl.zeros((16, 32), tl.float32)
    plane3 = tl.zeros((16, 32), tl.float32)
    first = tl.program_id(0) * per_program
    for start in range(0, per_program, B):
        i = first + start + tl.arange(0, B)
        there = i < count
        n, cz, cy, cx = coarse(i, D, H, W)
        gradient = tl.load(blocks + i[:, None] * 32 + o[None], mask=there[:, None], other=0)
        value = _pixels(
            images, there, n, s, 2 * cz - 1, cy, cx, k, FD, FH, FW, CI * voxels, voxels, 1
        ).to(gradient.dtype)
        plane0 = tl.dot(tl.trans(value), gradient, plane0)
        value = _pixels(
            images, there, n, s, 2 * cz, cy, cx, k, FD, FH, FW, CI * voxels, voxels, 1
        ).to(gradient.dtype)
        plane1 = tl.dot(tl.trans(value), gradient, plane1)
        value = _pixels(
            images, there, n, s, 2 * cz + 1, cy, cx, k, FD, FH, FW, CI * voxels, voxels, 1
        ).to(gradient.dtype)
        plane2 = tl.dot(tl.trans(value), gradient, plane2)
        value = _pixels(
            images, there, n, s, 2 * cz + 2, cy, cx, k, FD, FH, FW, CI * voxels, voxels, 1
        ).to(gradient.dtype)
        plane3 = tl.dot(tl.trans(value), gradient, plane3)
    out = partial + ((tl.program_id(0) * CI + s) * 64 + k)[:, None] * 32 + o[None]
    tl.store(out, plane0)
    tl.store(out + 16 * 32, plane1)
    tl.store(out + 32 * 32, plane2)
    tl.store(out + 48 * 32, plane3)
