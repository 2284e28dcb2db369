"""How unlike two images are: plain functions (warped, fixed) -> one number, lower is better.

Images are (B, C, *S). `mask` is an optional weight (B, 1, *S) of zero or more per voxel of the
fixed grid; what is averaged is then averaged over the mask's weight and over nothing else, so that
a value does not depend on how much background surrounds it.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from gradicon.core.descriptors import parzen_weights, self_similarity
from gradicon.core.local_correlation import local_correlation, pooled
from gradicon.errors import GradiconError

Image = Float[Tensor, "b c *s"]
Mask = Float[Tensor, "_ 1 *s"] | None
Scalar = Float[Tensor, ""]
Similarity = Callable[..., Tensor]
"""(warped, fixed, *, mask=None) -> a scalar. Other parameters are set with `functools.partial`."""
WINDOW = 5.0
"""LNCC's sigma in voxels: the paper's."""


def lncc(
    warped: Image,
    fixed: Image,
    *,
    sigma: float | Sequence[float] = WINDOW,
    every: int = 1,
    mask: Mask = None,
) -> Scalar:
    """1 - mean of the local normalised cross-correlation, in Gaussian windows of `sigma` voxels,
    cut at 2 sigma, as in the authors' code.

    `sigma` may differ by axis, for voxels that are not cubes. There is a window about every voxel,
    or about every so many along those axes where `sigma` is not much less: all voxels still count,
    at a fraction of the cost.

    Args:
        warped, fixed: images (B, C, *S) of one shape and dtype.
        sigma: of the windows in voxels, for all axes or for each; the paper's is 5.
        every: how many voxels apart windows are, at most.
        mask: a weight (1 or B, 1, *S) per voxel of the fixed grid.
    """
    _check(warped, fixed, mask)
    correlation, strides = local_correlation(warped, fixed, sigma, every)
    return 1 - _mean(correlation, pooled(mask, strides))


def squared_lncc(
    warped: Image,
    fixed: Image,
    *,
    sigma: float | Sequence[float] = WINDOW,
    every: int = 1,
    mask: Mask = None,
) -> Scalar:
    """1 - mean of the squared local correlation: blind to a local inversion of contrast.

    Args:
        warped, fixed, sigma, every, mask: as in `lncc`.
    """
    _check(warped, fixed, mask)
    correlation, strides = local_correlation(warped, fixed, sigma, every)
    return 1 - _mean(correlation**2, pooled(mask, strides))


def ncc(warped: Image, fixed: Image, *, mask: Mask = None) -> Scalar:
    """1 - the correlation coefficient of the two images, cov(a, b) / sqrt(var(a) var(b)), per
    channel: 0 where they agree up to brightness and contrast.
    """
    _check(warped, fixed, mask)
    a = warped - _per_channel(warped, mask)
    b = fixed - _per_channel(fixed, mask)
    # The floor keeps the root of a constant image's variance, and its gradient, finite.
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
    own = self_similarity(warped, radius, dilation)
    theirs = self_similarity(fixed, radius, dilation)
    return _mean((own - theirs) ** 2, mask)


def mutual_information(warped: Image, fixed: Image, *, bins: int = 32, mask: Mask = None) -> Scalar:
    """-I(warped; fixed) in nats, from a joint histogram with cubic B-spline windows in both images,
    per channel.

    Each image's own range, inside the mask, is divided into `bins`. Memory is 2 * `bins` floats per
    voxel.
    """
    _check(warped, fixed, mask)
    weight = torch.ones_like(warped[:, :1]) if mask is None else mask
    rows = parzen_weights(warped, weight, bins)
    columns = parzen_weights(fixed, weight, bins)
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
