"""The unit cube: its grid, and reading an image at any of its points.

A coordinate lives in [0,1]^D with its components in array order; 0 and 1 are the centres of the
first and the last voxel. A tensor of coordinates has shape (B, D, *P), where P is a grid or a list
of points.
"""

from collections.abc import Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gradicon.core.acceleration import is_wanted, kernels_apply
from gradicon.core.cpu_sampling import can_read, read
from gradicon.errors import GradiconError

Mode = Literal["bilinear", "nearest", "bicubic"]
_WORTH_A_THREAD = 4096  # points
Padding = Literal["border", "zeros", "reflection"]


def unit_grid(shape: Sequence[int], *, like: Tensor) -> Float[Tensor, "1 d *shape"]:
    """The identity map sampled at every voxel: (1, D, *shape), of the dtype and device of `like`.

    >>> unit_grid((3,), like=torch.zeros(()))
    tensor([[[0.0000, 0.5000, 1.0000]]])
    """
    axes = [torch.linspace(0, 1, n, dtype=like.dtype, device=like.device) for n in shape]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"))[None]


def sample(
    image: Float[Tensor, "#b c *s"],
    x: Float[Tensor, "#b d *p"],
    *,
    mode: Mode = "bilinear",
    padding: Padding = "border",
) -> Float[Tensor, "_ c *p"]:
    """I(x): an image read between its voxels, at unit-cube coordinates.

    Linear in D dimensions with `mode="bilinear"`. With `padding="border"`, I(x) = I(clip(x,
    [0,1]^D)), the paper's extension. A displacement field is an image with D channels, so this
    reads displacements too. `image` or `x` may have batch size 1.
    """
    dimension = image.ndim - 2
    if x.ndim < 3 or x.shape[1] != dimension:
        raise GradiconError(
            f"coordinates for a {dimension}-D image have shape (B, {dimension}, ...), got "
            f"{tuple(x.shape)}"
        )
    if image.dtype != x.dtype:
        raise TypeError(
            f"image and coordinates must share one dtype, got {image.dtype} and {x.dtype}"
        )
    batch = _common_batch(image.shape[0], x.shape[0])
    if _can_be_fused(image, x, mode, padding):
        from gradicon.core.fused.sampling import fused_sample  # only here: Triton is not everywhere

        return fused_sample(image, x)
    if mode == "bilinear" and padding == "border" and is_wanted() and can_read(image, x):
        return read(image, x)
    points = x.shape[2:]
    if len(points) != dimension:
        x = x.reshape(*x.shape[:2], -1, *[1] * (dimension - 1))
    image = image.expand(batch, *image.shape[1:])
    x = x.expand(batch, *x.shape[1:])
    values = (_in_slices if _goes_by_item(image, x) else _grid_sample)(image, x, mode, padding)
    return values.reshape(batch, image.shape[1], *points)


def displace(u: Float[Tensor, "#b d *s"], x: Float[Tensor, "#b d *p"]) -> Float[Tensor, "_ d *p"]:
    """x + u(x): where a displacement field takes points."""
    if _can_be_fused(u, x, "bilinear", "border") and u.shape[1] == x.shape[1]:
        from gradicon.core.fused.sampling import fused_sample

        return fused_sample(u, x, displaced=True)
    return x + sample(u, x)


def halve(image: Float[Tensor, "b c *s"]) -> Float[Tensor, "b c *half"]:
    """AvgPool(I, 2): the mean of every 2^D block; an odd last voxel is averaged over what is there.

    An axis of one voxel stays as it is, so an image of any size can be halved any number of times.
    """
    pool = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[image.ndim - 2]
    return pool(image, [min(2, n) for n in image.shape[2:]], stride=2, ceil_mode=True)


def one_per_cell(jitter: Float[Tensor, " d *cells"]) -> Float[Tensor, "1 d n"]:
    """A point in each of as many equal cells of the unit cube, at the place in its cell that
    `jitter` in [0,1) says; see `cells`.

    With uniform jitter they are uniform in the unit cube, as the paper's points are, but spread
    evenly, and close in memory.
    """
    counts = jitter.shape[1:]
    corners = torch.meshgrid(
        *[torch.arange(n, device=jitter.device, dtype=jitter.dtype) for n in counts], indexing="ij"
    )
    placed = [
        (corner + within) / n for corner, within, n in zip(corners, jitter, counts, strict=True)
    ]
    return torch.stack(placed).flatten(1)[None]


def cells(shape: Sequence[int], size: int = 2) -> list[int]:
    """How many cells of `size` voxels there are along each axis of a grid: at least one."""
    return [max(n // size, 1) for n in shape]


def shrink(image: Tensor, shape: Sequence[int]) -> Tensor:
    """An image on a coarser grid of the same field of view, averaged over about one coarse voxel
    first.
    """
    for axis, (n, m) in enumerate(zip(image.shape[2:], shape, strict=True)):
        image = box_mean(image, axis, round(n / m / 2) if n > m else 0)
    return (
        image
        if tuple(image.shape[2:]) == tuple(shape)
        else sample(image, unit_grid(shape, like=image))
    )


def box_mean(image: Tensor, axis: int, radius: int) -> Tensor:
    """The mean over 2 * radius + 1 voxels along one axis; the border voxels go on beyond
    the image.
    """
    if radius == 0:
        return image
    sides = [0] * (2 * (image.ndim - 2))
    sides[-2 * axis - 2 : len(sides) - 2 * axis] = [
        radius,
        radius,
    ]  # F.pad counts axes from the last
    padded = F.pad(image, sides, mode="replicate")
    n = image.shape[axis + 2]
    total = padded.narrow(axis + 2, 0, n)
    for shift in range(1, 2 * radius + 1):
        total = total + padded.narrow(
            axis + 2, shift, n
        )  # on a CPU two or three times as fast as torch's pooling
    return total / (2 * radius + 1)


def inside(x: Float[Tensor, "b d *p"], *, tolerance: float = 1e-4) -> Float[Tensor, "b 1 *p"]:
    """1 where a coordinate lies in the unit cube, else 0. The tolerance keeps points of the faces
    inside, whatever was rounded.
    """
    return ((x >= -tolerance) & (x <= 1 + tolerance)).all(1, keepdim=True).to(x.dtype)


def window(x: Tensor, start: Sequence[int], shape: Sequence[int]) -> Tensor:
    """The block of `shape` voxels that begins at voxel `start`."""
    return x[(..., *(slice(first, first + n) for first, n in zip(start, shape, strict=True)))]


def _can_be_fused(image: Tensor, x: Tensor, mode: Mode, padding: Padding) -> bool:
    plain_linear = (mode, padding) == (
        "bilinear",
        "border",
    ) and image.dtype == x.dtype == torch.float32
    return plain_linear and image.ndim == 5 and image.shape[1] <= 4 and kernels_apply(image, x)


def _grid_sample(image: Tensor, x: Tensor, mode: Mode, padding: Padding) -> Tensor:
    return F.grid_sample(
        image, _for_grid_sample(x), mode=mode, padding_mode=padding, align_corners=True
    )


def _goes_by_item(image: Tensor, x: Tensor) -> bool:
    """Whether torch would use one thread of several: in 3-D on a CPU it gives each thread whole
    items of a batch.
    """
    if not is_wanted() or image.device.type != "cpu" or image.ndim != 5:
        return False
    return image.shape[0] < torch.get_num_threads() and x[:, 0].numel() >= _WORTH_A_THREAD


def _in_slices(image: Tensor, x: Tensor, mode: Mode, padding: Padding) -> Tensor:
    """The same, with the points of each item dealt out to as many items as there are threads."""
    (batch, dimension) = x.shape[:2]
    shape = x.shape[2:]
    slices = torch.get_num_threads()
    count = shape.numel()
    flat = (
        F.pad(x.flatten(2), [0, -count % slices])
        .reshape(batch, dimension, slices, -1)
        .transpose(1, 2)
        .flatten(0, 1)
    )
    repeated = image[:, None].expand(-1, slices, *image.shape[1:]).flatten(0, 1)
    values = _grid_sample(repeated, flat[..., None, None], mode, padding)
    return values.reshape(batch, slices, image.shape[1], -1).transpose(1, 2).flatten(2)[..., :count]


def _for_grid_sample(x: Tensor) -> Tensor:
    """Our convention to grid_sample's: [-1,1], components last and in reversed (x, y, z) order."""
    return (2 * x - 1).movedim(1, -1).flip(-1)


def _common_batch(image: int, x: int) -> int:
    if image != x and 1 not in (image, x):
        raise GradiconError(
            f"{image} images cannot be read at {x} sets of coordinates: the batch sizes "
            "must agree, or one be 1"
        )
    return max(image, x)
