import math
from itertools import product
from typing import get_args

import numpy as np
import pytest
import SimpleITK as sitk
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import jacrev, vmap

from gradicon.core.jacobian import (
    Side,
    fold_percentage,
    jacobian_determinant,
    magnitude,
    sd_log_jacobian,
)
from gradicon.core.sampling import unit_grid
from gradicon.core.transform import Affine, DisplacementField, identity
from maps import Wave, smooth_field


@given(st.integers(2, 3), st.integers(0, 99), st.sampled_from(["backward", "forward", "central"]))
def test_the_determinant_of_an_affine_is_that_of_its_matrix(
    dimension: int, seed: int, difference: str
):
    matrix = torch.randn(
        1, dimension, dimension, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    phi = Affine(matrix, torch.zeros(1, dimension, dtype=torch.float64))
    found = jacobian_determinant(phi, (4, 7, 5)[:dimension], difference=difference)  # type: ignore[arg-type]
    torch.testing.assert_close(found, torch.linalg.det(matrix)[0].expand_as(found))


@pytest.mark.parametrize(("difference", "order"), [("forward", 1), ("backward", 1), ("central", 2)])
def test_it_converges_to_the_exact_jacobian(difference: str, order: int):
    phi = Wave(0.05)

    def exact(x: torch.Tensor) -> torch.Tensor:
        points = x.flatten(2)[0].T
        return torch.linalg.det(
            vmap(jacrev(lambda p: phi(p[None, :, None])[0, :, 0]))(points)
        ).reshape(x.shape[2:])

    errors = []
    for n in (17, 33):
        inner = {"forward": slice(0, -1), "backward": slice(1, None), "central": slice(1, -1)}[
            difference
        ]
        x = unit_grid((n, n), like=torch.zeros((), dtype=torch.float64))[..., inner, inner]
        errors.append(
            (jacobian_determinant(phi, (n, n), difference=difference)[0] - exact(x)).abs().max()
        )  # type: ignore[arg-type]
    assert math.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.2)


@pytest.mark.parametrize("shape", [(9, 12), (8, 9, 10)])
def test_it_agrees_with_itk(shape: tuple[int, ...]):
    phi = smooth_field(shape, 5, size=0.1)
    # ITK's field in its own convention: components reversed, in the units of its spacing
    u = np.moveaxis(phi.u[0].numpy(), 0, -1)[..., ::-1]
    field = sitk.GetImageFromArray(np.ascontiguousarray(u), isVector=True)
    field.SetSpacing([1 / (n - 1) for n in reversed(shape)])
    oracle = sitk.GetArrayFromImage(sitk.DisplacementFieldJacobianDeterminant(field))
    inner = (slice(1, -1),) * len(shape)
    np.testing.assert_allclose(
        jacobian_determinant(phi, shape, difference="central")[0].numpy(), oracle[inner], rtol=1e-5
    )


@pytest.mark.parametrize("sides", list(product(get_args(Side), repeat=3)), ids="-".join)
def test_a_difference_for_each_axis_is_the_interpolated_map_on_that_side_of_a_voxel(
    sides: tuple[Side, ...],
):
    """Against autograd, a hair's breadth from the voxel (2, 3, 2) towards those sides."""
    shape = (5, 6, 7)
    phi = DisplacementField(
        torch.randn(1, 3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        * 0.1
    )
    start = torch.tensor([0 if side == "forward" else 1 for side in sides])
    toward = torch.tensor(
        [1.0 if side == "forward" else -1.0 for side in sides], dtype=torch.float64
    )
    cells = torch.tensor(shape, dtype=torch.float64) - 1
    beside = (torch.tensor([2.0, 3.0, 2.0], dtype=torch.float64) + 1e-9 * toward) / cells
    matrix = torch.autograd.functional.jacobian(lambda x: phi(x[None, :, None])[0, :, 0], beside)
    found = jacobian_determinant(phi, shape, difference=sides)[0]
    assert found.shape == tuple(n - 1 for n in shape)
    torch.testing.assert_close(
        found[tuple(torch.tensor([2, 3, 2]) - start)],
        torch.linalg.det(matrix),
        rtol=1e-6,
        atol=1e-6,
    )


def test_a_fold_is_found_where_it_is():
    x = unit_grid((6, 8), like=torch.zeros(())).clone()
    x[0, 1, 2, 4] = x[0, 1, 2, 3] - 0.01  # one voxel behind its left neighbour
    phi = DisplacementField(x - unit_grid((6, 8), like=x))
    folds = jacobian_determinant(phi, (6, 8)) <= 0
    assert folds.sum() == 1
    assert folds[0, 1, 3]  # the cell that ends at voxel (2, 4)
    assert fold_percentage(phi, (6, 8)).item() == pytest.approx(100 / 35)


def test_statistics_of_known_maps():
    assert fold_percentage(identity(3), (4, 5, 6)).item() == 0
    assert magnitude(identity(3), (4, 5, 6)).item() == 0
    assert sd_log_jacobian(identity(3), (4, 5, 6)).item() == pytest.approx(0, abs=1e-5)
    shift = Affine(torch.eye(2)[None], torch.tensor([[0.3, -0.1]]))
    assert magnitude(shift, (4, 5)).item() == pytest.approx(0.09 + 0.01)
    mirror = Affine(torch.diag(torch.tensor([-1.0, 1.0]))[None], torch.zeros(1, 2))
    assert fold_percentage(mirror, (4, 5)).item() == 100
    wave = Wave(0.03)
    logs = np.log(jacobian_determinant(wave, (20, 21)).numpy())
    assert sd_log_jacobian(wave, (20, 21)).item() == pytest.approx(logs.std(ddof=1))


def test_bad_input():
    with pytest.raises(ValueError, match=r"at least 3 voxels along each axis, got \(2, 5\)"):
        jacobian_determinant(identity(2), (2, 5))
