"""What Triton kernels over coarse and fine grids have in common."""

import triton
import triton.language as tl  # noqa: F401 (Triton's interpreter looks for it)


@triton.jit
def coarse(i, D, H, W):
    """Batch index and coordinates of the coarse voxel number i."""
    x = i % W
    rest = i // W
    y = rest % H
    rest = rest // H
    return rest // D, rest % D, y, x
