"""Triton kernels of an upward step's end: BatchNorm, joining the skip, leaky ReLU; and back.

A coarse grid has D x H x W voxels, the fine one twice as many along each axis, of which a skip may
have FD x FH x FW only. Features are stored with their channels last.
"""

import triton
import triton.language as tl

from gradicon.fast.fused.grid_kernels import coarse


@triton.jit
def join(
    z, skip, out, scale, shift, count, D, H, W, FD, FH, FW,
    C: tl.constexpr, CS: tl.constexpr, CS2: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """out = leaky([z * scale + shift, skip]) on the fine voxels that the skip has, FD x FH x FW of
    them.
    """
    e = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.arange(0, C)
    s = tl.arange(0, CS2)
    there = e < count
    n, fz, fy, fx = coarse(e, FD, FH, FW)
    voxel = ((n * 2 * D + fz) * 2 * H + fy) * 2 * W + fx
    value = tl.load(z + voxel[:, None] * C + c[None], mask=there[:, None], other=0).to(tl.float32)
    value = value * tl.load(scale + c)[None] + tl.load(shift + c)[None]
    value = tl.where(value > 0, value, value * 0.01)
    tl.store(
        out + e[:, None] * (C + CS) + c[None], value.to(out.dtype.element_ty), mask=there[:, None]
    )
    inside = there[:, None] & (s < CS)[None]
    value = tl.load(skip + e[:, None] * CS + s[None], mask=inside, other=0).to(tl.float32)
    value = tl.where(value > 0, value, value * 0.01)
    tl.store(out + e[:, None] * (C + CS) + C + s[None], value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def join_backward(
    dout, out, z, mean, rstd, dn, dskip, sums, count, D, H, W, FD, FH, FW,
    C: tl.constexpr, CS: tl.constexpr, CS2: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """The gradient of `join` before its normalisation, dn on all fine voxels, with the two sums
    that BatchNorm needs; and the skip's.
    """
    e = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.arange(0, C)
    s = tl.arange(0, CS2)
    there = e < count
    n, fz, fy, fx = coarse(e, 2 * D, 2 * H, 2 * W)
    kept = there & (fz < FD) & (fy < FH) & (fx < FW)
    voxel = ((n * FD + fz) * FH + fy) * FW + fx
    at = voxel[:, None] * (C + CS) + c[None]
    slope = tl.where(tl.load(out + at, mask=kept[:, None], other=0) > 0, 1.0, 0.01)
    gradient = tl.load(dout + at, mask=kept[:, None], other=0).to(tl.float32) * slope
    rounded = gradient.to(dn.dtype.element_ty)
    tl.store(dn + e[:, None] * C + c[None], rounded, mask=there[:, None])
    value = tl.load(z + e[:, None] * C + c[None], mask=there[:, None], other=0).to(tl.float32)
    gradient = rounded.to(tl.float32)
    tl.store(sums + tl.program_id(0) * 2 * C + c, tl.sum(gradient, 0))
    standard = (value - tl.load(mean + c)[None]) * tl.load(rstd + c)[None]
    tl.store(sums + tl.program_id(0) * 2 * C + C + c, tl.sum(gradient * standard, 0))
    inside = kept[:, None] & (s < CS)[None]
    at = voxel[:, None] * (C + CS) + C + s[None]
    slope = tl.where(tl.load(out + at, mask=inside, other=0) > 0, 1.0, 0.01)
    value = tl.load(dout + at, mask=inside, other=0).to(tl.float32) * slope
    tl.store(dskip + voxel[:, None] * CS + s[None], value.to(dskip.dtype.element_ty), mask=inside)


@triton.jit
def normalise_backward(dn, z, mean, rstd, gain, m1, m2, count, C: tl.constexpr, B: tl.constexpr):
    """In place: dn becomes gain * (dn - m1 - standardised z * m2), the gradient before
    BatchNorm.
    """
    e = tl.program_id(0) * B + tl.arange(0, B)
    c = e % C
    there = e < count
    value = tl.load(z + e, mask=there, other=0).to(tl.float32)
    standard = (value - tl.load(mean + c)) * tl.load(rstd + c)
    gradient = tl.load(dn + e, mask=there, other=0).to(tl.float32)
    gradient = tl.load(gain + c) * (gradient - tl.load(m1 + c) - standard * tl.load(m2 + c))
    tl.store(dn + e, gradient.to(dn.dtype.element_ty), mask=there)
