"""How unlike two images are: plain functions (warped, fixed) -> one number, lower is better.

Images are (B, C, *S). `mask` is an optional weight (B, 1, *S) of zero or more per voxel of the
fixed grid; what is averaged is then averaged over the mask's weight and over nothing else, so that
a value does not depend on how much background surrounds it.
"""

from collections.abc import Callable, Sequence
from itertools import combinations, product

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from gradicon.core.sampling import box_mean, window
from gradicon.errors import GradiconError

Image = Float[Tensor, "b c *s"]
Mask = Float[Tensor, "_ 1 *s"] | None
Scalar = Float[Tensor, ""]
Similarity = Callable[..., Tensor]
"""(warped, fixed, *, mask=None) -> a scalar. Other parameters are set with `functools.partial`."""

_EPSILON = 1e-5  # the reference's floor of a local variance, for intensities in [0,1]


def lncc(
    warped: Image,
    fixed: Image,
    *,
    sigma: float | Sequence[float] = 5,
    every: int = 1,
    mask: Mask = None,
) -> Scalar:
    """1 - mean of the local normalised cross-correlation, in Gaussian windows of `sigma` voxels,
    cut at 2 sigma (the paper's).

    `sigma` may differ by axis, for voxels that are not cubes. There is a window about every voxel,
    or about every so many along those axes where `sigma` is not much less: all voxels still count,
    at a fraction of the cost.
    """
    _check(warped, fixed, mask)
    correlation, strides = _local_correlation(warped, fixed, sigma, every)
    return 1 - _mean(correlation, _pooled(mask, strides))


def squared_lncc(
    warped: Image,
    fixed: Image,
    *,
    sigma: float | Sequence[float] = 5,
    every: int = 1,
    mask: Mask = None,
) -> Scalar:
    """1 - mean of the squared local correlation: blind to a local inversion of contrast."""
    _check(warped, fixed, mask)
    correlation, strides = _local_correlation(warped, fixed, sigma, every)
    return 1 - _mean(correlation**2, _pooled(mask, strides))


def ncc(warped: Image, fixed: Image, *, mask: Mask = None) -> Scalar:
    """1 - the correlation coefficient of the two images, per channel."""
    _check(warped, fixed, mask)
    a = warped - _per_channel(warped, mask)
    b = fixed - _per_channel(fixed, mask)
    norm = (_per_channel(a * a, mask) * _per_channel(b * b, mask) + 1e-12).sqrt()
    return 1 - (_per_channel(a * b, mask) / norm).mean()


def mse(warped: Image, fixed: Image, *, mask: Mask = None) -> Scalar:
    """The mean squared difference."""
    _check(warped, fixed, mask)
    return _mean((warped - fixed) ** 2, mask)


def mind_ssc(
    warped: Image, fixed: Image, *, radius: int = 2, dilation: int = 2, mask: Mask = None
) -> Scalar:
    """The mean squared difference of self-similarity descriptors (MIND-SSC, Heinrich et al. 2013),
    for images of two modalities.

    `radius` is the half-width of the compared patches, `dilation` their distance from the voxel
    they describe.
    """
    _check(warped, fixed, mask)
    difference = _self_similarity(warped, radius, dilation) - _self_similarity(
        fixed, radius, dilation
    )
    return _mean(difference**2, mask)


def mutual_information(warped: Image, fixed: Image, *, bins: int = 32, mask: Mask = None) -> Scalar:
    """-I(warped; fixed) in nats, from a joint histogram with cubic B-spline windows in both images,
    per channel.

    Each image's own range, inside the mask, is divided into `bins`. Memory is 2 * `bins` floats per
    voxel.
    """
    _check(warped, fixed, mask)
    weight = torch.ones_like(warped[:, :1]) if mask is None else mask
    rows = _parzen(warped, weight, bins)
    columns = _parzen(fixed, weight, bins)
    joint = torch.matmul((rows * weight.flatten(2)[..., None]).mT, columns)
    joint = joint / joint.sum((-2, -1), keepdim=True)
    independent = joint.sum(-1, keepdim=True) * joint.sum(-2, keepdim=True)
    tiny = torch.finfo(joint.dtype).tiny
    return -(joint * ((joint + tiny) / (independent + tiny)).log()).sum((-2, -1)).mean()


SIMILARITIES: dict[str, Similarity] = {
    "lncc": lncc,
    "squared_lncc": squared_lncc,
    "ncc": ncc,
    "mse": mse,
    "mind_ssc": mind_ssc,
    "mutual_information": mutual_information,
}
PENALTY_WEIGHTS = {"mse": 0.2, "mind_ssc": 0.02}
"""Of GradICON, the paper's lambda, where a similarity's numbers are smaller than LNCC's; with all
others it is 1.5.
"""


def penalty_weight(similarity: str) -> float:
    """The weight of GradICON that goes with a similarity, by its name."""
    return PENALTY_WEIGHTS.get(similarity, 1.5)


def _local_correlation(
    a: Tensor, b: Tensor, sigma: float | Sequence[float], every: int
) -> tuple[Tensor, list[int]]:
    """In windows about some of the voxels, and the distance between those along each axis."""
    widths = [sigma] * (a.ndim - 2) if isinstance(sigma, int | float) else sigma
    strides = [every if width >= 0.75 * every else 1 for width in widths]
    mean_a, aa, ab = _gaussian_blur(torch.cat([a, a * a, a * b], 1), widths, strides).chunk(3, 1)
    mean_b, bb = _gaussian_blur(torch.cat([b, b * b], 1), widths, strides).chunk(
        2, 1
    )  # apart: a fixed image has no gradient
    variances = (F.relu(aa - mean_a**2) + _EPSILON) * (F.relu(bb - mean_b**2) + _EPSILON)
    return (ab - mean_a * mean_b) / variances.sqrt(), strides


def _pooled(mask: Tensor | None, strides: list[int]) -> Tensor | None:
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
    radius = round(2 * sigma)
    distance = torch.arange(n, dtype=like.dtype, device=like.device)
    distance = distance[:, None] - distance[None]
    window = torch.arange(-radius, radius + 1, dtype=like.dtype, device=like.device)
    total = (-0.5 * (window / sigma) ** 2).exp().sum()
    return (-0.5 * (distance / sigma) ** 2).exp() * (distance.abs() <= radius) / total


def _self_similarity(image: Tensor, radius: int, dilation: int) -> Tensor:
    """Descriptors (B, C*K, *S): the patch distances between all K neighbours of a voxel that are
    sqrt(2) steps apart.
    """
    dimension = image.ndim - 2
    shape = image.shape[2:]
    padded = F.pad(image, [dilation] * (2 * dimension), mode="replicate")

    def neighbour(axis: int, sign: int) -> Tensor:
        return window(
            padded, [dilation * (1 + sign * (i == axis)) for i in range(dimension)], shape
        )

    pairs = [
        (a, i, b, j)
        for a, b in combinations(range(dimension), 2)
        for i, j in product((-1, 1), repeat=2)
    ]
    distances = torch.stack([(neighbour(a, i) - neighbour(b, j)) ** 2 for a, i, b, j in pairs], 2)
    patches = distances.flatten(1, 2)
    for axis in range(dimension):
        patches = box_mean(patches, axis, radius)
    distances = patches.reshape(distances.shape)
    distances = distances - distances.amin(2, keepdim=True)
    noise = distances.mean(2, keepdim=True)
    typical = noise.detach().flatten(2).mean(-1)[(..., *[None] * (dimension + 1))]
    floor = torch.clamp_min(typical * 1e-3, 1e-12)
    return (
        (-distances / noise.clamp(floor, torch.clamp_min(typical * 1e3, 1e-12))).exp().flatten(1, 2)
    )


def _parzen(image: Tensor, weight: Tensor, bins: int) -> Tensor:
    """(B, C, N, bins): the cubic B-spline weight of every voxel in every bin, all inside the
    histogram where the mask is.
    """
    values = image.flatten(2)
    counted = weight.flatten(2) > 0
    known = values.detach()
    low = known.where(counted, torch.inf).amin(-1, keepdim=True)
    high = known.where(counted, -torch.inf).amax(-1, keepdim=True)
    position = 1 + (bins - 3) * (values - low) / (high - low).clamp_min(1e-12)
    distance = (
        position[..., None] - torch.arange(bins, dtype=image.dtype, device=image.device)
    ).abs()
    near = 2 / 3 - distance**2 + distance**3 / 2
    far = (2 - distance).clamp_min(0) ** 3 / 6
    return torch.where(distance < 1, near, far)


def _per_channel(values: Tensor, mask: Tensor | None) -> Tensor:
    axes = list(range(2, values.ndim))
    if mask is None:
        return values.mean(axes, keepdim=True)
    return (values * mask).sum(axes, keepdim=True) / mask.sum(axes, keepdim=True)


def _mean(values: Tensor, mask: Tensor | None) -> Tensor:
    return _per_channel(values, mask).mean()


def _check(warped: Tensor, fixed: Tensor, mask: Tensor | None) -> None:
    if warped.shape != fixed.shape:
        raise GradiconError(
            f"images to compare must have one shape, got {tuple(warped.shape)} and "
            f"{tuple(fixed.shape)}"
        )
    if not warped.is_floating_point() or warped.dtype != fixed.dtype:
        raise TypeError(
            f"images to compare must share one floating-point dtype, got {warped.dtype} "
            f"and {fixed.dtype}"
        )
    if mask is None:
        return
    if mask.shape not in ((fixed.shape[0], 1, *fixed.shape[2:]), (1, 1, *fixed.shape[2:])):
        raise GradiconError(
            f"a mask must have shape {(fixed.shape[0], 1, *fixed.shape[2:])}, got "
            f"{tuple(mask.shape)}"
        )
    if mask.dtype != fixed.dtype:
        raise TypeError(f"a mask must have the images' dtype {fixed.dtype}, got {mask.dtype}")
    if not torch.compiler.is_compiling() and not (mask.flatten(1).sum(1) > 0).all():
        raise GradiconError(
            "the mask is empty: it must have a positive weight somewhere in every image"
        )
