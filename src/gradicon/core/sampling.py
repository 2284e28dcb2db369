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

from gradicon.core.acceleration import accelerated
from gradicon.errors import GradiconError

Mode = Literal["bilinear", "nearest", "bicubic"]
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

    Args:
        image: I, (B, C, *S) in array order.
        x: coordinates (B, D, *P): a grid or a list of points, of the image's dtype.
        mode: how to read between voxels; `bicubic` in 2-D only.
        padding: what lies beyond the cube: the border goes on, zeros, or a mirror image.

    >>> sample(torch.tensor([[[[0.0, 1.0], [2.0, 3.0]]]]), torch.tensor([[[0.5], [1.0]]]))
    tensor([[[2.]]])
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
    values = accelerated("sample", image, x, mode, padding)
    if values is not None:
        return values
    points = x.shape[2:]
    if len(points) != dimension:
        x = x.reshape(*x.shape[:2], -1, *[1] * (dimension - 1))
    image = image.expand(batch, *image.shape[1:])
    x = x.expand(batch, *x.shape[1:])
    values = grid_sample(image, x, mode, padding)
    return values.reshape(batch, image.shape[1], *points)


def displace(u: Float[Tensor, "#b d *s"], x: Float[Tensor, "#b d *p"]) -> Float[Tensor, "_ d *p"]:
    """x + u(x): where a displacement field (B, D, *S) takes points (B, D, *P), all in unit-cube
    coordinates.
    """
    values = accelerated("displace", u, x)
    return x + sample(u, x) if values is None else values


def halve(image: Float[Tensor, "b c *s"]) -> Float[Tensor, "b c *half"]:
    """AvgPool(I, 2): the mean of every 2^D block; an odd last voxel is averaged over what is there.

    An axis of one voxel stays as it is, so an image of any size can be halved any number of times.
    The halved image is taken for one of the same cube, as the published weights expect, although
    its outer voxels lie half a voxel further in.
    """
    pool = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[image.ndim - 2]
    return pool(image, [min(2, n) for n in image.shape[2:]], stride=2, ceil_mode=True)


def shrink(image: Tensor, shape: Sequence[int]) -> Tensor:
    """An image (B, C, *S) on a coarser grid of the same field of view, averaged over about one
    coarse voxel first, along each axis by itself.
    """
    for axis, (n, m) in enumerate(zip(image.shape[2:], shape, strict=True)):
        image = box_mean(image, axis, round(n / m / 2) if n > m else 0)
    if tuple(image.shape[2:]) == tuple(shape):
        return image
    return sample(image, unit_grid(shape, like=image))


def box_mean(image: Tensor, axis: int, radius: int) -> Tensor:
    """The mean over 2 * radius + 1 voxels along one axis of an image (B, C, *S), counted from its
    first spatial one; the border voxels go on beyond the image.
    """
    if radius == 0:
        return image
    sides = [0] * (2 * (image.ndim - 2))
    sides[-2 * axis - 2 : len(sides) - 2 * axis] = [radius, radius]  # F.pad counts from the last
    padded = F.pad(image, sides, mode="replicate")
    n = image.shape[axis + 2]
    total = padded.narrow(axis + 2, 0, n)
    # Sums of shifted images: torch's pooling has no border that goes on, and is slower.
    for shift in range(1, 2 * radius + 1):
        total = total + padded.narrow(axis + 2, shift, n)
    return total / (2 * radius + 1)


def inside(x: Float[Tensor, "b d *p"], *, tolerance: float = 1e-4) -> Float[Tensor, "b 1 *p"]:
    """1 where coordinates (B, D, *P) lie in the unit cube, else 0: (B, 1, *P).

    The tolerance keeps points of the faces inside, whatever was rounded.
    """
    return ((x >= -tolerance) & (x <= 1 + tolerance)).all(1, keepdim=True).to(x.dtype)


def window(x: Tensor, start: Sequence[int], shape: Sequence[int]) -> Tensor:
    """The block of `shape` voxels that begins at voxel `start`, of the last axes of x: a view.

    >>> window(torch.arange(5), [1], [3])
    tensor([1, 2, 3])
    """
    return x[(..., *(slice(first, first + n) for first, n in zip(start, shape, strict=True)))]


def grid_sample(image: Tensor, x: Tensor, mode: Mode, padding: Padding) -> Tensor:
    """torch's `grid_sample` of our coordinates: (B, C, *S) at (B, D, *P), with P of D axes."""
    return F.grid_sample(
        image, _for_grid_sample(x), mode=mode, padding_mode=padding, align_corners=True
    )


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
