"""The affine augmentation of the paper's appendix; and, of ours, smooth warps and shading."""

from collections.abc import Sequence
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor

from gradicon.core.sampling import sample
from gradicon.core.transform import Affine, Composition, DisplacementField, Transform

_KNOTS = 4  # cells along each axis of what is smooth: about a warp of an organ, a coil's shading
_SPREAD = 0.479  # the mean square of a cubic B-spline of independent values of variance 1, per axis
_INVERSE_STEPS = 12  # to find points: a warp at most 0.3 steep leaves less than a millionth


def draw(
    dimension: int, source: torch.Generator, *, noise: float = 0.05, flips: bool = True
) -> tuple[Float[Tensor, "d e"], Float[Tensor, "d e"]]:
    """The matrices (D, D+1) of the two images of a pair: diag(u) + gamma N(0, 1).

    The signs u_i = +-1 are shared by both. The matrices act on homogeneous coordinates centred in
    the image, [-1,1] along each axis, so that u_i = -1 reverses an axis.

    Args:
        dimension: D.
        source: of random numbers.
        noise: gamma, the standard deviation of every entry.
        flips: whether u is random; without, it is 1.
    """
    signs = (
        1 - 2 * torch.randint(2, (dimension,), generator=source).float()
        if flips
        else torch.ones(dimension)
    )
    flip = torch.cat([torch.diag(signs), torch.zeros(dimension, 1)], 1)
    a, b = flip + noise * torch.randn((2, dimension, dimension + 1), generator=source)
    return a, b


def to_unit_cube(matrices: Float[Tensor, "b d e"]) -> Affine:
    """Maps of centred coordinates as maps of the unit cube.

    With c = 2x - 1, c -> A c + t is x -> A x + (t + 1 - A 1) / 2.
    """
    linear = matrices[..., :-1].contiguous()
    shift = matrices[..., -1]
    return Affine(linear, (shift + 1 - linear.sum(-1)) / 2)


def control_values(
    dimension: int, channels: int, source: torch.Generator
) -> Float[Tensor, " c *k"]:
    """Random values of what varies smoothly; `smooth` makes a field of them."""
    return torch.randn((channels, *[_KNOTS + 3] * dimension), generator=source)


def smooth(values: Float[Tensor, "b c *k"], shape: Sequence[int]) -> Float[Tensor, "b c *s"]:
    """A field of standard deviation about 1 on a grid: cubic B-splines of control values."""
    field = values / _SPREAD ** (len(shape) / 2)
    for axis, n in enumerate(shape):
        basis = _spline_basis(n, values.shape[axis + 2], values.device)
        field = (
            field.movedim(2, -1) @ basis.mT
        )  # the new axis is the last, so that the next one is at 2 again
    return field


def warped(
    affine: Affine, values: Float[Tensor, "b d *k"], size: float, shape: Sequence[int]
) -> Composition:
    """An affine map after a smooth random warp.

    Args:
        affine: of the unit cube.
        values: of the warp, from `control_values`, one channel for each axis.
        size: the standard deviation of the warp along each axis, as a part of the field of view.
        shape: of the grid that the warp is made on.
    """
    return Composition(affine, DisplacementField(size * smooth(values, shape)))


def recoloured(
    image: Float[Tensor, "b 1 *s"],
    bend: Float[Tensor, " b"],
    values: Float[Tensor, "b 1 *k"],
    size: float,
) -> Float[Tensor, "b 1 *s"]:
    """An image with another gamma and a smooth shading: I^exp(size * bend) * exp(size * shading).

    Args:
        image: in [0,1]; what comes out is cut off at 1.
        bend: a number of each image, of standard deviation 1.
        values: of the shading, from `control_values`, one channel.
        size: how strong both are, as a logarithm.
    """
    gamma = (size * bend).exp().reshape(-1, *[1] * (image.ndim - 1))
    return (
        image.clamp_min(1e-6) ** gamma * (size * smooth(values, image.shape[2:])).exp()
    ).clamp_max(1)


def augmented(image: Float[Tensor, "b c *s"], phi: Transform) -> Float[Tensor, "b c *s"]:
    """I^(x) = I(phi(x)), read linearly; the border goes on beyond the image."""
    return sample(image, phi.on_grid(image.shape[2:]))


def augmented_labels(labels: Tensor, phi: Transform) -> Tensor:
    """The same map for labels (B, *S), read at the nearest voxel: whole numbers stay whole."""
    shape: Sequence[int] = labels.shape[1:]
    return sample(labels[:, None].float(), phi.on_grid(shape), mode="nearest")[:, 0].to(
        labels.dtype
    )


def augmented_points(
    x: Float[Tensor, "b d p"], phi: Affine | Composition
) -> Float[Tensor, "b d p"]:
    """Where points of I are in I^: phi^-1(x), because I^(phi^-1(x)) = I(x)."""
    if isinstance(phi, Affine):
        return torch.linalg.solve(phi.matrix, x - phi.offset[..., None])
    assert isinstance(phi.outer, Affine)
    before = augmented_points(x, phi.outer)
    found = before
    for _ in range(_INVERSE_STEPS):
        found = found + before - phi.inner(found)
    return found


@lru_cache(maxsize=16)
def _spline_basis(n: int, controls: int, device: torch.device) -> Float[Tensor, " n k"]:
    """The weights of control values at n places, uniform cubic B-splines.

    The places go evenly from one end of the cells to the other; each sees four control values.
    """
    cells = controls - 3
    place = torch.linspace(0, cells, n)
    cell = place.floor().clamp_max(cells - 1)
    t = place - cell
    weights = (
        torch.stack(
            [(1 - t) ** 3, 3 * t**3 - 6 * t**2 + 4, 1 + 3 * t + 3 * t**2 - 3 * t**3, t**3], 1
        )
        / 6
    )
    return (
        torch.zeros(n, controls)
        .scatter(1, cell.long()[:, None] + torch.arange(4), weights)
        .to(device)
    )
