"""What is minimised: similarity both ways, plus a penalty on the maps.

All regularizers are plain functions of transforms.

The points `x` of a penalty are given by the caller: nothing here draws random numbers.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from gradicon.core.acceleration import is_wanted, weights_held_still
from gradicon.core.network import RegistrationNetwork
from gradicon.core.sampling import sample
from gradicon.core.similarity import Similarity
from gradicon.core.transform import Transform

Points = Float[Tensor, "_ d *p"]
Scalar = Float[Tensor, ""]
Penalty = Callable[[Transform, Transform, Tensor], Tensor]
"""(phi_ab, phi_ba, x) -> a scalar."""


def gradient_inconsistency(
    phi_ab: Transform, phi_ba: Transform, x: Points, *, step: float = 1e-3
) -> Scalar:
    """GradICON: || grad[phi_ab o phi_ba] - I ||_F^2 at the points x.

    One-sided differences of length `step` along each axis of the unit cube; the mean over points
    and components, the sum over axes. So it is 1/D of the squared Frobenius norm that the paper
    prints, which is a sum over components; the authors' code takes the mean, too, and lambda goes
    with it. Zero for exact inverses, and for maps that are inverses up to a translation.

    Args:
        phi_ab, phi_ba: the maps of the two directions.
        x: points (1 or B, D, ...) in unit-cube coordinates, given by the caller.
        step: the length of a difference, the paper's: less than a voxel at any usual size.
    """
    dimension = x.shape[1]
    shifts = step * torch.eye(dimension, dtype=x.dtype, device=x.device)
    origins = x.flatten(2)
    points = torch.cat([origins, *(origins + shift[:, None] for shift in shifts)], 2)
    here, *shifted = (phi_ab(phi_ba(points)) - points).chunk(dimension + 1, 2)
    return torch.stack([(((there - here) / step) ** 2).mean() for there in shifted]).sum()


def inconsistency(phi_ab: Transform, phi_ba: Transform, x: Points) -> Scalar:
    """ICON: || phi_ab o phi_ba - Id ||^2 + || phi_ba o phi_ab - Id ||^2, each a mean over the
    points x and components, in unit-cube coordinates. Unlike GradICON it sees translations.

    The paper prints one direction, and a norm that is a sum over components. The authors' code has
    both directions and the mean, as here: about 2/D of what is printed, and the lambda goes with
    it.
    """
    return ((phi_ab(phi_ba(x)) - x) ** 2).mean() + ((phi_ba(phi_ab(x)) - x) ** 2).mean()


def diffusion(phi: Transform, shape: Sequence[int]) -> Scalar:
    """The mean squared first difference of the displacement on a grid, summed over axes.

    In the reference's units: every difference is divided by 1 / shape[0], on all axes.
    """
    u = phi.materialise(shape).u
    return (
        torch.stack([(u.diff(dim=axis) ** 2).mean() for axis in range(2, u.ndim)]).sum()
        * shape[0] ** 2
    )


def bending_energy(phi: Transform, shape: Sequence[int]) -> Scalar:
    """The mean squared second difference of phi on a grid, in unit-cube coordinates: all D^2 second
    derivatives, over D^2.
    """
    u = phi.materialise(shape).u
    inverse_spacing = [n - 1 for n in shape]
    energy = u.new_zeros(())
    for i, n in enumerate(inverse_spacing):
        energy = energy + ((u.diff(n=2, dim=2 + i) * n**2) ** 2).mean()
    for (i, n), (j, m) in combinations(enumerate(inverse_spacing), 2):
        mixed = _central(_central(u, 2 + i), 2 + j) * (n * m)
        energy = energy + 2 * (mixed**2).mean()
    return energy / len(shape) ** 2


@dataclass(frozen=True)
class Objective:
    """loss = similarity + weight * penalty, with the two maps it was computed from."""

    loss: Scalar
    similarity: Scalar
    penalty: Scalar
    phi_ab: Transform
    phi_ba: Transform


def objective(
    network: RegistrationNetwork,
    a: Float[Tensor, "b c *s"],
    b: Float[Tensor, "b c *s"],
    x: Points,
    *,
    similarity: Similarity,
    weight: float = 1.5,
    penalty: Penalty = gradient_inconsistency,
    mask_a: Float[Tensor, "_ 1 *s"] | None = None,
    mask_b: Float[Tensor, "_ 1 *s"] | None = None,
) -> Objective:
    """The paper's loss: sim(A o phi_ab, B) + sim(B o phi_ba, A) + lambda * penalty(phi_ab, phi_ba,
    x).

    Args:
        network: Phi. It is called twice, as Phi[A, B] and Phi[B, A].
        a, b: the two images, I^A and I^B.
        x: the points of the penalty, (1 or B, D, ...). The paper draws voxels / 2^D of them,
            uniformly at random.
        similarity: one of `gradicon.core.similarity`, or any function with its signature.
        weight: the paper's lambda: 1.5 with LNCC, 0.2 with the mean squared error. It goes with
            a penalty that is a mean over components, 1/D of the printed norm.
        penalty: GradICON, or any function of (phi_ab, phi_ba, x).
        mask_a, mask_b: where each image counts in the similarity; where both do, after warping, is
            averaged over.
    """
    with weights_held_still() if is_wanted() else nullcontext():
        phi_ab = network(a, b)
        phi_ba = network(b, a)
    forward = dissimilarity(phi_ab, a, b, mask_a, mask_b, similarity)
    backward = dissimilarity(phi_ba, b, a, mask_b, mask_a, similarity)
    unlike = forward + backward
    cost = penalty(phi_ab, phi_ba, x)
    return Objective(unlike + weight * cost, unlike, cost, phi_ab, phi_ba)


def dissimilarity(
    phi: Transform,
    moving: Tensor,
    fixed: Tensor,
    moving_mask: Tensor | None,
    fixed_mask: Tensor | None,
    similarity: Similarity,
) -> Scalar:
    """sim(moving o phi, fixed), where both masks count after warping.

    Args:
        phi: the map from fixed to moving coordinates.
        moving, fixed: images (B, C, *S).
        moving_mask, fixed_mask: weights (1 or B, 1, *S) of each image's voxels, or None.
        similarity: one of `gradicon.core.similarity`, or any function with its signature.
    """
    return dissimilarity_at(
        phi.on_grid(fixed.shape[2:]), moving, fixed, moving_mask, fixed_mask, similarity
    )


def dissimilarity_at(
    x: Tensor,
    moving: Tensor,
    fixed: Tensor,
    moving_mask: Tensor | None,
    fixed_mask: Tensor | None,
    similarity: Similarity,
) -> Scalar:
    """The same, where x are the places in moving of fixed's voxels.

    Masks have no gradient: shrinking the overlap must not pay.
    """
    masks = [] if fixed_mask is None else [fixed_mask]
    if moving_mask is not None:
        masks.append(sample(moving_mask, x.detach()))
    mask = torch.stack(torch.broadcast_tensors(*masks)).prod(0) if masks else None
    warped = sample(moving, x)
    return similarity(warped, fixed) if mask is None else similarity(warped, fixed, mask=mask)


def _central(u: Tensor, axis: int) -> Tensor:
    n = u.shape[axis]
    return (u.narrow(axis, 2, n - 2) - u.narrow(axis, 0, n - 2)) / 2
