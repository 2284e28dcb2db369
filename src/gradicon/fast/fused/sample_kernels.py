"""Triton kernels that read an image, or a displacement field, at points of the unit cube in 3-D:
linear, constant beyond the cube.

The image has its channels last, CP of them, of which the first C count: a vector of displacements
is one load. Points and answers have their components first, `points` of each.
"""

import triton
import triton.language as tl


@triton.jit
def _axis(x, size):
    """The voxels before and after a coordinate, how far it is from the first, and whether it is
    inside, where it has a gradient.
    """
    position = x * (size - 1)
    inside = (position > 0) & (position < size - 1)
    position = tl.minimum(tl.maximum(position, 0.0), (size - 1).to(tl.float32))
    before = tl.minimum(position.to(tl.int32), size - 1)
    return before, tl.minimum(before + 1, size - 1), position - before.to(tl.float32), inside


@triton.jit
def sample_forward(
    image, x, out, points, image_step, x_step, D, H, W,
    C: tl.constexpr, CP: tl.constexpr, DISPLACED: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """out = I(x), or x + I(x)."""
    p = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.arange(0, CP)
    n = tl.program_id(1)
    there = p < points
    at = x + n * x_step + p
    z0, z1, fz, _ = _axis(tl.load(at, mask=there, other=0), D)
    y0, y1, fy, _ = _axis(tl.load(at + points, mask=there, other=0), H)
    x0, x1, fx, _ = _axis(tl.load(at + 2 * points, mask=there, other=0), W)
    known = there[:, None] & (c < C)[None]
    total = tl.zeros((B, CP), tl.float32)
    if DISPLACED:
        total = tl.load(x + n * x_step + c[None] * points + p[:, None], mask=known, other=0)
    for corner in tl.static_range(8):
        z_at, wz = (z1, fz) if corner >= 4 else (z0, 1 - fz)
        y_at, wy = (y1, fy) if corner % 4 >= 2 else (y0, 1 - fy)
        x_at, wx = (x1, fx) if corner % 2 == 1 else (x0, 1 - fx)
        voxel = (z_at * H + y_at) * W + x_at
        value = tl.load(
            image + n * image_step + voxel[:, None] * CP + c[None], mask=there[:, None], other=0
        )
        total += (wz * wy * wx)[:, None] * value
    tl.store(out + (n * C + c[None]) * points + p[:, None], total, mask=known)


@triton.jit
def sample_backward(
    dout, image, x, dimage, dx, points, image_step, x_step, D, H, W,
    C: tl.constexpr, CP: tl.constexpr, DISPLACED: tl.constexpr, OF_IMAGE: tl.constexpr,
    OF_X: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """The gradients of the image, added to `dimage`, and of the points."""
    p = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.arange(0, CP)
    n = tl.program_id(1)
    there = p < points
    at = x + n * x_step + p
    z0, z1, fz, inside_z = _axis(tl.load(at, mask=there, other=0), D)
    y0, y1, fy, inside_y = _axis(tl.load(at + points, mask=there, other=0), H)
    x0, x1, fx, inside_x = _axis(tl.load(at + 2 * points, mask=there, other=0), W)
    gradient = tl.load(
        dout + (n * C + c[None]) * points + p[:, None], mask=there[:, None] & (c < C)[None], other=0
    )
    dz = tl.zeros((B,), tl.float32)
    dy = tl.zeros((B,), tl.float32)
    dw = tl.zeros((B,), tl.float32)
    for corner in tl.static_range(8):
        z_at, wz, sz = (z1, fz, 1) if corner >= 4 else (z0, 1 - fz, -1)
        y_at, wy, sy = (y1, fy, 1) if corner % 4 >= 2 else (y0, 1 - fy, -1)
        x_at, wx, sx = (x1, fx, 1) if corner % 2 == 1 else (x0, 1 - fx, -1)
        place = n * image_step + ((z_at * H + y_at) * W + x_at)[:, None] * CP + c[None]
        if OF_X:
            value = tl.load(image + place, mask=there[:, None], other=0)
            value = tl.sum(tl.where((c < C)[None], value, 0.0) * gradient, 1)
            dz += sz * wy * wx * value
            dy += sy * wz * wx * value
            dw += sx * wz * wy * value
        if OF_IMAGE:
            part = (wz * wy * wx)[:, None] * gradient
            tl.atomic_add(dimage + place, part, mask=there[:, None], sem="relaxed")
    if OF_X:
        own = dout + n * C * points + p
        to = dx + n * 3 * points + p
        _store_slope(to, own, tl.where(inside_z, dz * (D - 1), 0.0), there, DISPLACED)
        own += points
        to += points
        _store_slope(to, own, tl.where(inside_y, dy * (H - 1), 0.0), there, DISPLACED)
        own += points
        to += points
        _store_slope(to, own, tl.where(inside_x, dw * (W - 1), 0.0), there, DISPLACED)


@triton.jit
def _store_slope(to, own, slope, there, DISPLACED: tl.constexpr):
    """One component of the points' gradient; of a displacement, x + I(x), with that of x itself."""
    if DISPLACED:
        slope += tl.load(own, mask=there, other=0)
    tl.store(to, slope, mask=there)
