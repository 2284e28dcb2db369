"""The correlation of two images in windows about their voxels: what LNCC is the mean of."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

_EPSILON = 1e-5  # the reference's floor of a local variance, for intensities in [0,1]


def local_correlation(
    a: Tensor, b: Tensor, sigma: float | Sequence[float], every: int
) -> tuple[Tensor, list[int]]:
    """cov(a, b) / sqrt(var(a) var(b)) in Gaussian windows about some of the voxels, and how many
    voxels apart those are along each axis.

    Args:
        a, b: two images (B, C, *S) of one shape.
        sigma: of the windows in voxels, for all axes or for each.
        every: how far windows are apart at most: less along axes where `sigma` is much less.
    """
    widths = [sigma] * (a.ndim - 2) if isinstance(sigma, int | float) else sigma
    # Windows are at most 4/3 sigma apart, so that every voxel is within 2/3 sigma of one.
    strides = [every if width >= 0.75 * every else 1 for width in widths]
    mean_a, aa, ab = _gaussian_blur(torch.cat([a, a * a, a * b], 1), widths, strides).chunk(3, 1)
    # Apart from the first, since a fixed image has no gradient.
    mean_b, bb = _gaussian_blur(torch.cat([b, b * b], 1), widths, strides).chunk(2, 1)
    variances = (F.relu(aa - mean_a**2) + _EPSILON) * (F.relu(bb - mean_b**2) + _EPSILON)
    return (ab - mean_a * mean_b) / variances.sqrt(), strides


def pooled(mask: Tensor | None, strides: list[int]) -> Tensor | None:
    """What each window weighs: the mean weight of the voxels that it stands for, so that nothing is
    lost however thin a mask is.
    """
    if mask is None or max(strides) == 1:
        return mask
    pool = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(strides)]
    return pool(mask, strides, ceil_mode=True)


def _gaussian_blur(image: Tensor, widths: Sequence[float], strides: Sequence[int]) -> Tensor:
    """A separable Gaussian, zero beyond the image: along each axis one product with a banded
    matrix, the same code for any D.
    """
    for axis, (width, stride) in reversed(list(enumerate(zip(widths, strides, strict=True), 2))):
        band = _gaussian_band(image.shape[axis], width, image)[::stride]
        shape = list(image.shape)
        shape[axis] = len(band)
        last = axis == image.ndim - 1
        blurred = (
            torch.matmul(image, band.mT) if last else torch.matmul(band, image.flatten(axis + 1))
        )
        image = blurred.reshape(shape)
    return image


def _gaussian_band(n: int, sigma: float, like: Tensor) -> Tensor:
    """(N, N): row i is the Gaussian about voxel i, cut at 2 sigma as the authors'; its weights sum
    to 1 where no voxel is missing.
    """
    radius = round(2 * sigma)
    distance = torch.arange(n, dtype=like.dtype, device=like.device)
    distance = distance[:, None] - distance[None]
    window = torch.arange(-radius, radius + 1, dtype=like.dtype, device=like.device)
    total = (-0.5 * (window / sigma) ** 2).exp().sum()
    return (-0.5 * (distance / sigma) ** 2).exp() * (distance.abs() <= radius) / total
