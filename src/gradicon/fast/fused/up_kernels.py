"""Triton kernels of an upward step's residual: its upsampling, and back.

A coarse grid has D x H x W voxels, the fine one twice as many along each axis. Features are stored
with their channels last.
"""

import triton
import triton.language as tl

from gradicon.fast.fused.grid_kernels import coarse


@triton.jit
def _unleaky(at, there):
    """Features before their leaky ReLU of slope 0.01, from those after it."""
    a = tl.load(at, mask=there[:, None], other=0).to(tl.float32)
    return tl.where(a > 0, a, a * 100)


@triton.jit
def _row(a, there, row, cx, c, W, CA: tl.constexpr):
    """The residual along one row of coarse voxels, at the two fine voxels of each."""
    before = tl.maximum(cx - 1, 0)
    after = tl.minimum(cx + 1, W - 1)
    near = _unleaky(a + (row + cx)[:, None] * CA + c[None], there)
    left = _unleaky(a + (row + before)[:, None] * CA + c[None], there)
    right = _unleaky(a + (row + after)[:, None] * CA + c[None], there)
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
    y, a, z, sums, count, D, H, W,
    C: tl.constexpr, CA: tl.constexpr, BLOCKED: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
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
