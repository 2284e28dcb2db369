"""What keeps a map from folding while it is optimised."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradicon.core.jacobian import Side, jacobian_determinant
from gradicon.core.transform import DisplacementField


def fold_barrier(
    phi: DisplacementField, shape: Sequence[int], differences: Sequence[Side], margin: float
) -> Tensor:
    """The mean of max(0, margin - det grad phi), by a one-sided difference along each axis.

    Few voxels are below the margin: only those are differentiated.

    Args:
        phi: the map.
        shape: of the grid on which its determinants are taken.
        differences: "forward" or "backward", for each axis.
        margin: of the determinant.
    """
    with torch.no_grad():
        determinant = jacobian_determinant(phi, shape, difference=differences)
    items, *low = (determinant < margin).nonzero(as_tuple=True)
    signs = [1 if name == "forward" else -1 for name in differences]
    side = torch.tensor(signs, device=determinant.device)
    voxel = torch.stack(low, -1) + (side < 0)
    neighbours = torch.stack([voxel, *(voxel + step for step in torch.diag(side))])
    places = (items.expand(len(shape) + 1, -1), *neighbours.unbind(-1))
    here, *there = phi.on_grid(shape).movedim(1, -1)[places]
    changes = zip(there, side, shape, strict=True)
    columns = [(neighbour - here) * toward * (n - 1) for neighbour, toward, n in changes]
    return (margin - torch.linalg.det(torch.stack(columns, -1))).sum() / determinant.numel()


def draw_sides(dimension: int, generator: torch.Generator) -> list[Side]:
    """Backward or forward along each axis, by lot.

    A map that folds by none of them is one to one between voxels, too.
    """
    lots = torch.randint(2, (dimension,), generator=generator).tolist()
    return ["forward" if side else "backward" for side in lots]
