"""Improving many maps at once, by rigid motions, similarities or affine maps."""

from typing import Literal

import torch
from torch import Tensor

from gradicon.registration.start.measure import Comparison, Maps

Kind = Literal["rigid", "similarity", "affine"]


def worth(comparison: Comparison, maps: Maps, stiffness: float) -> Tensor:
    """(K,): what images say of each other under maps, less what stretching costs.

    The cost of A is stiffness / 4 |A^T A - I|^2: none for a rotation, and for small stretches the
    sum of their squares.
    """
    linear = maps[..., :-1]
    stretch = linear.mT @ linear - torch.eye(linear.shape[-1])
    return comparison.information(maps) - stiffness / 4 * stretch.square().sum((1, 2))


def descend(
    comparison: Comparison, maps: Maps, kind: Kind, *, steps: int, rate: float, stiffness: float
) -> Maps:
    """Maps (K, D, D+1) after steps of Adam, each from where it was.

    A map changes by exp(G), where G is skew for rigid motions: that is a proper rotation, so a
    mirror image is never found.

    Args:
        comparison: what is improved.
        maps: where to start.
        kind: what may change.
        steps: how many.
        rate: the length of the first one in voxels; they become shorter down to nothing.
        stiffness: what stretching costs.
    """
    radius = float(comparison.points.square().sum(1).mean().sqrt())
    basis = generators(maps.shape[1], kind) / radius  # so that all parameters are in mm
    change = torch.zeros(len(maps), len(basis) + maps.shape[1], requires_grad=True)
    # A short memory, since there are few steps.
    optimizer = torch.optim.Adam([change], betas=(0.8, 0.95))
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * comparison.size_mm * (1 - step / steps)
        loss = -worth(comparison, _changed(maps, change, basis), stiffness).sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    return _changed(maps, change.detach(), basis)


def generators(dimension: int, kind: Kind) -> Tensor:
    """A basis (N, D, D) of the matrices whose exponentials are rotations, similarities or all
    linear maps.
    """
    units = torch.eye(dimension)
    pairs = [(i, j) for i in range(dimension) for j in range(i)]
    outer = [torch.outer(units[i], units[j]) for i, j in pairs]
    basis = [matrix - matrix.T for matrix in outer]
    if kind == "similarity":
        basis += [units]
    if kind == "affine":
        basis += [matrix + matrix.T for matrix in outer]
        basis += [torch.diag(unit) for unit in units]
    return torch.stack(basis)


def _changed(maps: Maps, change: Tensor, basis: Tensor) -> Maps:
    turn = torch.linalg.matrix_exp(torch.einsum("kg,gij->kij", change[:, : len(basis)], basis))
    offset = maps[..., -1:] + change[:, len(basis) :, None]
    return torch.cat([turn @ maps[..., :-1], offset], 2)
