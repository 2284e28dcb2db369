"""How the kernels of a downward step are called."""

from torch import Tensor

from gradicon.fast.fused import down_kernels
from gradicon.fast.fused.run import run
from gradicon.fast.fused.sizes import power, programs, voxels


def add_halved(y: Tensor, x: Tensor) -> None:
    """y += x at half its size, its channels cropped, or with zeros in front, to fit y's."""
    c = y.shape[1]
    cx = x.shape[1]
    count = y.numel() // c
    block = voxels(c)
    sizes = {"CX": cx, "C": c, "C2": power(c), "B": block}
    missing = max(c - cx, 0)
    run(
        down_kernels.add_halved, programs(count, block),
        y, x, count, *x.shape[2:], missing, **sizes,
    )  # fmt: skip


def halved_backward(da: Tensor, x: Tensor, dout: Tensor) -> None:
    """In place: the gradient of leaky(x) becomes that of x, with the part through `add_halved`."""
    c = dout.shape[1]
    cx = x.shape[1]
    count = x.numel() // cx
    block = voxels(cx)
    sizes = {"CX": cx, "CX2": power(cx), "C": c, "B": block}
    missing = max(c - cx, 0)
    run(
        down_kernels.halved_backward, programs(count, block),
        da, x, dout, count, *x.shape[2:], missing, **sizes,
    )  # fmt: skip
