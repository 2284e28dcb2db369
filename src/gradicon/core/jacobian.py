"""What a map does to volume: Jacobian determinants, folds, and how far it moves things."""

from collections.abc import Sequence
from math import prod
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from gradicon.core.sampling import window
from gradicon.core.transform import Transform
from gradicon.errors import GradiconError

Side = Literal["backward", "forward"]
Difference = Side | Literal["central"]
_STENCILS: dict[str, tuple[int, int]] = {
    "backward": (0, -1),
    "forward": (1, 0),
    "central": (1, -1),
}  # voxels ahead and behind


def jacobian_determinant(
    phi: Transform,
    shape: Sequence[int],
    *,
    difference: Difference | Sequence[Difference] = "backward",
) -> Float[Tensor, " b *s"]:
    """det grad phi, by finite differences between the voxels of a grid, in unit-cube coordinates: 1
    for the identity.

    `backward` is how the reference counts folds in 3-D (`forward` in 2-D); both have one voxel less
    along each axis, and `central`, as ITK computes it, two less. There may be one for each axis: a
    linearly interpolated map has, about a voxel, the determinants by the choices of backward and
    forward.

    Args:
        phi: the map, (B) of them.
        shape: the voxels of the grid along each axis, three at least, in array order.
        difference: between which voxels, on all axes or on each.
    """
    differences = [difference] * len(shape) if isinstance(difference, str) else list(difference)
    there = phi.on_grid(shape)
    columns = [_difference(there, axis, differences) for axis in range(len(shape))]
    return _determinant([list(column.unbind(1)) for column in columns]) * prod(n - 1 for n in shape)


def fold_percentage(
    phi: Transform,
    shape: Sequence[int],
    *,
    difference: Difference | Sequence[Difference] = "backward",
) -> Float[Tensor, " b"]:
    """%|J|: the percentage of voxels where det grad phi <= 0, per pair; see
    `jacobian_determinant` for the arguments. 0 is best.
    """
    return folded_percentage_of(jacobian_determinant(phi, shape, difference=difference))


def folded_percentage_of(determinant: Float[Tensor, " b *s"]) -> Float[Tensor, " b"]:
    """The percentage of determinants that are not positive, per pair."""
    return 100 * (determinant <= 0).flatten(1).double().mean(1)


def sd_log_jacobian(
    phi: Transform, shape: Sequence[int], *, difference: Difference = "backward"
) -> Float[Tensor, " b"]:
    """SDlogJ: the standard deviation of log det grad phi, per pair."""
    return sd_log_of(jacobian_determinant(phi, shape, difference=difference))


def sd_log_of(determinant: Float[Tensor, " b *s"]) -> Float[Tensor, " b"]:
    """The standard deviation of the logarithm of determinants, clipped to [1e-9, 1e9] first."""
    return determinant.clamp(1e-9, 1e9).log().flatten(1).std(1)


def magnitude(phi: Transform, shape: Sequence[int]) -> Float[Tensor, " b"]:
    """The mean of the squared L2 norm of the displacement in unit-cube coordinates, per pair: what
    the paper's figures call magnitude. The reference implementation logs a part 1 / D of it.
    """
    return phi.materialise(shape).u.square().sum(1).flatten(1).mean(1)


def _difference(x: Tensor, axis: int, differences: Sequence[str]) -> Tensor:
    """The change of x along one axis, on the voxels where the differences along all axes exist."""
    for name in differences:
        if name not in _STENCILS:
            raise GradiconError(f"difference must be one of {', '.join(_STENCILS)}, got {name!r}")
    if min(x.shape[2:]) < 3:
        raise GradiconError(
            f"a Jacobian needs at least 3 voxels along each axis, got {tuple(x.shape[2:])}"
        )
    stencils = [_STENCILS[name] for name in differences]
    shape = [n - (ahead - behind) for n, (ahead, behind) in zip(x.shape[2:], stencils, strict=True)]

    def shifted(by: int) -> Tensor:
        return window(
            x, [by * (i == axis) - behind for i, (_, behind) in enumerate(stencils)], shape
        )

    ahead, behind = stencils[axis]
    change = shifted(ahead) - shifted(behind)
    return change if ahead - behind == 1 else change / (ahead - behind)


def _determinant(columns: list[list[Tensor]]) -> Tensor:
    """Laplace's expansion along the first column, voxel by voxel, for any D."""
    if len(columns) == 1:
        return columns[0][0]
    total = columns[0][0] * _determinant(_minor(columns, 0))
    for row, entry in enumerate(columns[0][1:], 1):
        total = torch.addcmul(total, entry, _determinant(_minor(columns, row)), value=(-1) ** row)
    return total


def _minor(columns: list[list[Tensor]], row: int) -> list[list[Tensor]]:
    return [[value for i, value in enumerate(column) if i != row] for column in columns[1:]]
