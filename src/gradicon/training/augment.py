"""The affine augmentation of the paper's appendix: shared flips of axes, independent affine noise."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from gradicon.core.sampling import sample
from gradicon.core.transform import Affine


def draw(
    dimension: int, source: torch.Generator, *, noise: float = 0.05, flips: bool = True
) -> tuple[Float[Tensor, "d e"], Float[Tensor, "d e"]]:
    """The matrices (D, D+1) of the two images of a pair: diag(u) + gamma N(0, 1), where u_i = +-1 is shared by both.

    They act on homogeneous coordinates centred in the image, [-1,1] along each axis, so that u_i = -1 reverses an axis.
    """
    signs = 1 - 2 * torch.randint(2, (dimension,), generator=source).float() if flips else torch.ones(dimension)
    flip = torch.cat([torch.diag(signs), torch.zeros(dimension, 1)], 1)
    a, b = flip + noise * torch.randn((2, dimension, dimension + 1), generator=source)
    return a, b


def to_unit_cube(matrices: Float[Tensor, "b d e"]) -> Affine:
    """Maps of centred coordinates as maps of the unit cube: with c = 2x - 1, c -> A c + t is x -> A x + (t + 1 - A 1) / 2."""
    linear, shift = matrices[..., :-1].contiguous(), matrices[..., -1]
    return Affine(linear, (shift + 1 - linear.sum(-1)) / 2)


def augmented(image: Float[Tensor, "b c *s"], phi: Affine) -> Float[Tensor, "b c *s"]:
    """I^(x) = I(phi(x)), read linearly; the border goes on beyond the image."""
    return sample(image, phi.on_grid(image.shape[2:]))


def augmented_labels(labels: Tensor, phi: Affine) -> Tensor:
    """The same map for labels (B, *S), read at the nearest voxel: whole numbers stay whole."""
    shape: Sequence[int] = labels.shape[1:]
    return sample(labels[:, None].float(), phi.on_grid(shape), mode="nearest")[:, 0].to(labels.dtype)


def augmented_points(x: Float[Tensor, "b d p"], phi: Affine) -> Float[Tensor, "b d p"]:
    """Where points of I are in I^: phi^-1(x), because I^(phi^-1(x)) = I(x)."""
    return torch.linalg.solve(phi.matrix, x - phi.offset[..., None])
