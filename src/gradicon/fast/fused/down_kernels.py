"""Triton kernels of a downward step's residual: halving, and back.

A fine grid has D x H x W voxels, the coarse one half as many along each axis, rounded up. Features
are stored with their channels last.
"""

import triton
import triton.language as tl

from gradicon.fast.fused.grid_kernels import coarse


@triton.jit
def add_halved(
    y, x, count, D, H, W, missing,
    CX: tl.constexpr, C: tl.constexpr, C2: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """y += the mean of every 2 x 2 x 2 block of x; channel c of y takes channel c - missing
    of x.
    """
    e = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.arange(0, C2)
    there = e < count
    n, cz, cy, cx = coarse(e, (D + 1) // 2, (H + 1) // 2, (W + 1) // 2)
    known = there[:, None] & (c < C)[None]
    residual = known & (c >= missing)[None]
    total = tl.zeros((B, C2), tl.float32)
    weight = tl.zeros((B,), tl.float32)
    for r in tl.static_range(8):
        fz = 2 * cz + r // 4
        fy = 2 * cy + r // 2 % 2
        fx = 2 * cx + r % 2
        inside = (fz < D) & (fy < H) & (fx < W)
        voxel = ((n * D + fz) * H + fy) * W + fx
        total += tl.load(
            x + voxel[:, None] * CX + (c - missing)[None], mask=residual & inside[:, None], other=0
        ).to(tl.float32)
        weight += tl.where(inside, 1.0, 0.0)
    at = y + e[:, None] * C + c[None]
    total = total / weight[:, None] + tl.load(at, mask=known, other=0).to(tl.float32)
    tl.store(at, total.to(y.dtype.element_ty), mask=known)


@triton.jit
def halved_backward(
    da, x, dout, count, D, H, W, missing,
    CX: tl.constexpr, CX2: tl.constexpr, C: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """In place: the gradient da of leaky(x) becomes that of x, with what `add_halved` adds
    to it.
    """
    e = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.arange(0, CX2)
    there = e < count
    n, fz, fy, fx = coarse(e, D, H, W)
    known = there[:, None] & (c < CX)[None]
    at = e[:, None] * CX + c[None]
    slope = tl.where(tl.load(x + at, mask=known, other=0) > 0, 1.0, 0.01)
    total = tl.load(da + at, mask=known, other=0).to(tl.float32) * slope
    cz = fz // 2
    cy = fy // 2
    cx = fx // 2
    share = tl.minimum(D - 2 * cz, 2) * tl.minimum(H - 2 * cy, 2) * tl.minimum(W - 2 * cx, 2)
    voxel = ((n * ((D + 1) // 2) + cz) * ((H + 1) // 2) + cy) * ((W + 1) // 2) + cx
    residual = known & (c + missing < C)[None]
    value = tl.load(dout + voxel[:, None] * C + (c + missing)[None], mask=residual, other=0).to(
        tl.float32
    )
    tl.store(
        da + at, (total + value / share.to(tl.float32)[:, None]).to(da.dtype.element_ty), mask=known
    )
