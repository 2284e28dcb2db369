"""Triton kernels of the U-Net's last convolution, 3 x 3 x 3, over normalised features and the
images, in blocks of 2 x 2 x 2 voxels.

Coarse voxel (z, y, x) stands for the fine voxels 2z + {0,1} and so on; its convolution reads those
from 2z - 1 to 2z + 2. Features are read before their normalisation, z * scale + shift. Beyond the
FD x FH x FW voxels of the images there are zeros. Displacements have four lanes a voxel, the last
one zero; their gradients come with any strides of batch (SN), component (SC) and voxel (SV).
"""

import triton
import triton.language as tl

from gradicon.fast.fused.grid_kernels import coarse


@triton.jit
def features(z, scale, shift, there, n, fz, fy, cx, j, D, H, W, FD, FH, FW, C: tl.constexpr):
    """Normalised features at four fine voxels in a row, for each coarse voxel: (B, 4C), zero
    outside.
    """
    fx = 2 * cx[:, None] + (j // C)[None] - 1
    inside = (
        (there & (fz >= 0) & (fz < FD) & (fy >= 0) & (fy < FH))[:, None] & (fx >= 0) & (fx < FW)
    )
    # The four voxels lie side by side.
    first = (((n * 2 * D + fz) * 2 * H + fy) * 2 * W + 2 * cx - 1) * C
    value = tl.load(z + first[:, None] + j[None], mask=inside, other=0).to(tl.float32)
    value = value * tl.load(scale + j % C)[None] + tl.load(shift + j % C)[None]
    return tl.where(inside, value, 0.0)


@triton.jit
def pixels(image, there, n, channel, fz, cy, cx, k, FD, FH, FW, SN, SC, SV):
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
    voxels = FD * FH * FW
    total = tl.zeros((B, 32), tl.float32)
    for s in range(16):
        z_at = 2 * cz + s // 4 - 1
        y_at = 2 * cy + s % 4 - 1
        value = features(z, scale, shift, there, n, z_at, y_at, cx, j, D, H, W, FD, FH, FW, C)
        weight = tl.load(w_features + (s * 4 * C + j)[:, None] * 32 + o[None])
        total = tl.dot(value.to(weight.dtype), weight, total)
    for s in range(4 * CI):
        z_at = 2 * cz + s % 4 - 1
        channel = s // 4
        value = pixels(
            images, there, n, channel, z_at, cy, cx, k, FD, FH, FW, CI * voxels, voxels, 1
        )
        weight = tl.load(w_images + (s * 16 + k)[:, None] * 32 + o[None])
        total = tl.dot(value.to(weight.dtype), weight, total)
    fz, fy, fx = _voxels_of_block(o // 4, cz, cy, cx)
    inside = there[:, None] & (fz < FD) & (fy < FH) & (fx < FW)
    at = (((n[:, None] * FD + fz) * FH + fy) * FW + fx) * 4 + (o % 4)[None]
    tl.store(u + at, (total + tl.load(bias + o)[None]) / 10, mask=inside)


@triton.jit
def last_backward(
    du, z, mean, rstd, w_features, w_images, dn, dimages, sums,
    count, D, H, W, FD, FH, FW, SN, SC, SV,
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
        value = pixels(du, there, n, s // 4, 2 * cz + s % 4 - 1, cy, cx, k, FD, FH, FW, SN, SC, SV)
        weight = tl.load(w_features + (s * 16 + k)[:, None] * (8 * C) + f[None])
        total = tl.dot(value.to(weight.dtype), weight, total)
        if IMAGES:
            weight = tl.load(w_images + (s * 16 + k)[:, None] * CI8 + g[None])
            total_images = tl.dot(value.to(weight.dtype), weight, total_images)
    c = f % C
    fz, fy, fx = _voxels_of_block(f // C, cz, cy, cx)
    total = tl.where((fz < FD) & (fy < FH) & (fx < FW) & there[:, None], total, 0.0)
    at = (((n[:, None] * 2 * D + fz) * 2 * H + fy) * 2 * W + fx) * C + c[None]
    rounded = total.to(dn.dtype.element_ty)
    tl.store(dn + at, rounded, mask=there[:, None])
    value = tl.load(z + at, mask=there[:, None], other=0).to(tl.float32)
    standard = (value - tl.load(mean + c)[None]) * tl.load(rstd + c)[None]
    _store_sums(sums + tl.program_id(0) * 2 * C, rounded.to(tl.float32), standard, C)
    if IMAGES:
        fz, fy, fx = _voxels_of_block(g % 8, cz, cy, cx)
        inside = there[:, None] & (g < 8 * CI)[None] & (fz < FD) & (fy < FH) & (fx < FW)
        at = (((n[:, None] * CI + (g // 8)[None]) * FD + fz) * FH + fy) * FW + fx
        tl.store(dimages + at, total_images, mask=inside)


@triton.jit
def _voxels_of_block(r, cz, cy, cx):
    """Coordinates of the fine voxels number r, of 8, in the block of each coarse voxel."""
    fz = 2 * cz[:, None] + (r // 4)[None]
    fy = 2 * cy[:, None] + (r // 2 % 2)[None]
    fx = 2 * cx[:, None] + (r % 2)[None]
    return fz, fy, fx


@triton.jit
def _store_sums(to, gradient, standard, C: tl.constexpr):
    """Of gradients (B, 8 C), and of their products with the standardised values, per channel."""
    each = tl.arange(0, C)
    tl.store(to + each, tl.sum(tl.reshape(tl.sum(gradient, 0), (8, C)), 0))
    with_value = tl.sum(gradient * standard, 0)
    tl.store(to + C + each, tl.sum(tl.reshape(with_value, (8, C)), 0))
