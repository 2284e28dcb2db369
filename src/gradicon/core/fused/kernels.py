"""Triton kernels of the fused U-Net: what stands between its convolutions, and its last
convolution.

A coarse grid has D x H x W voxels, the fine one twice as many along each axis. Features are stored
with their channels last. The last convolution treats the 2 x 2 x 2 fine voxels of one coarse voxel
together: 64 neighbours in, 8 displacements out, one small matrix product.
"""

from typing import Any

import triton
import triton.language as tl


def run(kernel: Any, programs: tuple[int, ...], *arguments: Any, **sizes: int) -> None:
    """Launch a kernel, which Triton leaves untyped."""
    kernel[programs](*arguments, **sizes)


@triton.jit
def coarse(i, D, H, W):
    """Batch index and coordinates of the coarse voxel number i."""
    x = i % W
    rest = i // W
    y = rest % H
    rest = rest // H
    return rest // D, rest % D, y, x


@triton.jit
def _unleaky(a):
    """The inverse of a leaky ReLU of slope 0.01."""
    return tl.where(a > 0, a, a * 100)


@triton.jit
def _row(a, there, row, cx, c, W, CA: tl.constexpr):
    """The residual along one row of coarse voxels, at the two fine voxels of each."""
    before = tl.maximum(cx - 1, 0)
    after = tl.minimum(cx + 1, W - 1)
    near = _unleaky(
        tl.load(a + (row + cx)[:, None] * CA + c[None], mask=there[:, None], other=0).to(tl.float32)
    )
    left = _unleaky(
        tl.load(a + (row + before)[:, None] * CA + c[None], mask=there[:, None], other=0).to(
            tl.float32
        )
    )
    right = _unleaky(
        tl.load(a + (row + after)[:, None] * CA + c[None], mask=there[:, None], other=0).to(
            tl.float32
        )
    )
    return 0.75 * near + 0.25 * left, 0.75 * near + 0.25 * right


@triton.jit
def _plane(a, there, plane, cy, cx, c, H, W, CA: tl.constexpr):
    """The residual in one plane of coarse voxels, at the four fine voxels of each."""
    near0, near1 = _row(a, there, (plane + cy) * W, cx, c, W, CA)
    up0, up1 = _row(a, there, (plane + tl.maximum(cy - 1, 0)) * W, cx, c, W, CA)
    down0, down1 = _row(a, there, (plane + tl.minimum(cy + 1, H - 1)) * W, cx, c, W, CA)
    near0 = 0.75 * near0
    near1 = 0.75 * near1
    return near0 + 0.25 * up0, near1 + 0.25 * up1, near0 + 0.25 * down0, near1 + 0.25 * down1


@triton.jit
def _add_and_count(y, z, total, there, at, to, C: tl.constexpr):
    """z = y + total at one fine voxel of each block; what it adds to the sums per channel."""
    c = tl.arange(0, C)
    total += tl.load(y + at[:, None] * C + c[None], mask=there[:, None], other=0).to(tl.float32)
    rounded = total.to(z.dtype.element_ty)
    tl.store(z + to[:, None] * C + c[None], rounded, mask=there[:, None])
    total = tl.where(there[:, None], rounded.to(tl.float32), 0.0)
    return tl.sum(total, 0), tl.sum(total * total, 0)


@triton.jit
def add_upsampled(
    y,
    a,
    z,
    sums,
    count,
    D,
    H,
    W,
    C: tl.constexpr,
    CA: tl.constexpr,
    BLOCKED: tl.constexpr,
    B: tl.constexpr,
):
    """z = y + the trilinearly upsampled residual, and its sums per channel. y may lie in blocks of
    2 x 2 x 2 fine voxels.
    """
    i = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.arange(0, C)
    there = i < count
    n, cz, cy, cx = coarse(i, D, H, W)
    near00, near01, near10, near11 = _plane(a, there, (n * D + cz) * H, cy, cx, c, H, W, CA)
    front00, front01, front10, front11 = _plane(
        a, there, (n * D + tl.maximum(cz - 1, 0)) * H, cy, cx, c, H, W, CA
    )
    back00, back01, back10, back11 = _plane(
        a, there, (n * D + tl.minimum(cz + 1, D - 1)) * H, cy, cx, c, H, W, CA
    )
    first = tl.zeros((C,), tl.float32)
    second = tl.zeros((C,), tl.float32)
    for r in tl.static_range(8):
        if r % 4 == 0:
            near = near00
            far = front00 if r < 4 else back00
        elif r % 4 == 1:
            near = near01
            far = front01 if r < 4 else back01
        elif r % 4 == 2:
            near = near10
            far = front10 if r < 4 else back10
        else:
            near = near11
            far = front11 if r < 4 else back11
        to = ((n * 2 * D + 2 * cz + r // 4) * 2 * H + 2 * cy + r // 2 % 2) * 2 * W + 2 * cx + r % 2
        s, ss = _add_and_count(
            y, z, 0.75 * near + 0.25 * far, there, i * 8 + r if BLOCKED else to, to, C
        )
        first = first + s
        second = second + ss
    tl.store(sums + tl.program_id(0) * 2 * C + c, first)
    tl.store(sums + tl.program_id(0) * 2 * C + C + c, second)


@triton.jit
def join(
    z,
    skip,
    out,
    scale,
    shift,
    count,
    D,
    H,
    W,
    FD,
    FH,
    FW,
    C: tl.constexpr,
    CS: tl.constexpr,
    CS2: tl.constexpr,
    B: tl.constexpr,
):
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
    """In place: dn becomes gain * (dn - m1 - standardised z * m2), the gradient before BatchNorm."""
    e = tl.program_id(0) * B + tl.arange(0, B)
    c = e % C
    there = e < count
    value = tl.load(z + e, mask=there, other=0).to(tl.float32)
    standard = (value - tl.load(mean + c)) * tl.load(rstd + c)
    gradient = tl.load(dn + e, mask=there, other=0).to(tl.float32)
    gradient = tl.load(gain + c) * (gradient - tl.load(m1 + c) - standard * tl.load(m2 + c))
    tl.store(dn + e, gradient.to(dn.dtype.element_ty), mask=there)


@triton.jit
def upsample_backward(
    dz, a, da, count, D, H, W, C: tl.constexpr, CA: tl.constexpr, B: tl.constexpr
):
    """da += the gradient of the upsampled residual, through the leaky ReLU that a went through, in
    its first C channels.
    """
    i = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.arange(0, C)
    there = i < count
    n, cz, cy, cx = coarse(i, D, H, W)
    total = tl.zeros((B, C), tl.float32)
    for tz in range(4):
        fz = 2 * cz + tz - 1
        wz = (
            tl.where((tz == 0) | (tz == 3), 0.25, 0.75)
            + 0.25 * ((tz == 1) & (cz == 0))
            + 0.25 * ((tz == 2) & (cz == D - 1))
        )
        for ty in range(4):
            fy = 2 * cy + ty - 1
            wy = (
                tl.where((ty == 0) | (ty == 3), 0.25, 0.75)
                + 0.25 * ((ty == 1) & (cy == 0))
                + 0.25 * ((ty == 2) & (cy == H - 1))
            )
            row = there & (fz >= 0) & (fz < 2 * D) & (fy >= 0) & (fy < 2 * H)
            for tx in tl.static_range(4):
                fx = 2 * cx + tx - 1
                wx = (
                    (0.25 if tx == 0 or tx == 3 else 0.75)
                    + 0.25 * ((tx == 1) & (cx == 0))
                    + 0.25 * ((tx == 2) & (cx == W - 1))
                )
                inside = row & (fx >= 0) & (fx < 2 * W)
                voxel = ((n * 2 * D + fz) * 2 * H + fy) * 2 * W + fx
                value = tl.load(
                    dz + voxel[:, None] * C + c[None], mask=inside[:, None], other=0
                ).to(tl.float32)
                total += value * (wz * wy * wx)[:, None]
    at = i[:, None] * CA + c[None]
    slope = tl.where(tl.load(a + at, mask=there[:, None], other=0) > 0, 1.0, 100.0)
    known = tl.load(da + at, mask=there[:, None], other=0).to(tl.float32)
    tl.store(da + at, (known + slope * total).to(da.dtype.element_ty), mask=there[:, None])


@triton.jit
def add_halved(
    y,
    x,
    count,
    D,
    H,
    W,
    missing,
    CX: tl.constexpr,
    C: tl.constexpr,
    C2: tl.constexpr,
    B: tl.constexpr,
):
    """y += the mean of every 2 x 2 x 2 block of x; channel c of y takes channel c - missing of x."""
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
    da,
    x,
    dout,
    count,
    D,
    H,
    W,
    missing,
    CX: tl.constexpr,
    CX2: tl.constexpr,
    C: tl.constexpr,
    B: tl.constexpr,
):
    """In place: the gradient da of leaky(x) becomes that of x, with what `add_halved` adds to it."""
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
