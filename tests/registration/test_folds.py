"""Folds: found from every side of a voxel, to the border, and smoothed away where they are and
nowhere else.
"""

import pytest
import torch

from gradicon.core.sampling import unit_grid
from gradicon.core.transform import DisplacementField, identity
from gradicon.registration.solve.folds import folded, without_folds


def _pulled(shape: tuple[int, ...], voxel: tuple[int, ...], by: float) -> DisplacementField:
    """Nothing moves but one voxel, along the last axis, by that many voxels."""
    still = identity(len(shape)).materialise(shape)
    still.u[(0, -1, *voxel)] = by / (shape[-1] - 1)
    return still


@pytest.mark.parametrize("voxel", [(0, 0), (4, 5), (8, 9), (0, 9), (8, 0)], ids=str)
def test_in_2d_a_fold_is_a_triangle_of_voxels_that_is_turned_over(voxel: tuple[int, int]):
    """Area by the shoelace formula, of every voxel's triangles with a neighbour along each axis; to
    the border.
    """
    shape = (9, 10)
    phi = _pulled(shape, voxel, -1.5 if voxel[1] else 1.5)
    y, x = (
        ((unit_grid(shape, like=phi.u) + phi.u)[0] * torch.tensor([8.0, 9.0])[:, None, None])
        .double()
        .tolist()
    )
    turned = torch.zeros(shape)
    for i in range(shape[0]):
        for j in range(shape[1]):
            for a in (i - 1, i + 1):
                for b in (j - 1, j + 1):
                    if 0 <= a < shape[0] and 0 <= b < shape[1]:
                        down = ((y[a][j] - y[i][j]) * (a - i), (x[a][j] - x[i][j]) * (a - i))
                        right = ((y[i][b] - y[i][j]) * (b - j), (x[i][b] - x[i][j]) * (b - j))
                        turned[i, j] = max(
                            turned[i, j], float(down[0] * right[1] - down[1] * right[0] <= 0)
                        )
    assert turned.any()
    torch.testing.assert_close(folded(phi)[0, 0], turned)


@pytest.mark.parametrize("voxel", [(0, 0, 0), (10, 11, 12), (21, 11, 0)], ids=str)
def test_a_fold_is_smoothed_away_and_nothing_moves_far_from_it(voxel: tuple[int, int, int]):
    shape = (22, 24, 26)
    phi = _pulled(shape, voxel, 3.0)
    mended = without_folds(phi)
    assert folded(phi).any()
    assert not folded(mended).any()
    moved = (mended.u != phi.u).any(1)[0].nonzero()
    assert ((moved - torch.tensor(voxel)).abs() <= 6).all()


def test_a_map_without_folds_is_left_alone():
    phi = _pulled((8, 9, 10), (4, 4, 4), 0.9)
    assert without_folds(phi) is phi


def test_a_map_that_is_nothing_but_folds_ends_all_the_same():
    phi = DisplacementField(
        torch.randn(1, 3, 12, 12, 12, generator=torch.Generator().manual_seed(0))
    )
    assert folded(without_folds(phi)).sum() < folded(phi).sum()
