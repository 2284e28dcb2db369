"""The inverse that is written: against inverses known another way, and without new folds."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from gradicon.core.jacobian import fold_percentage
from gradicon.core.sampling import unit_grid
from gradicon.core.transform import DisplacementField, identity
from gradicon.physical.space import Space
from gradicon.registration.solve.inverse import improve_inverse, inverse_error

_SHAPE = (24, 30, 20)


def _waves(shape: tuple[int, ...], strength: float) -> DisplacementField:
    """Along each axis x + strength sin(2 pi x) / (2 pi): monotone below 1, with slopes from 1 -
    strength to 1 + strength.
    """
    x = unit_grid(shape, like=torch.zeros(()))
    return DisplacementField(strength * torch.sin(2 * math.pi * x) / (2 * math.pi))


def _inverse_by_table(phi: DisplacementField) -> Tensor:
    """Each axis by itself: the map is linear between voxels, so swapping its two columns inverts
    it.
    """
    columns = []
    for axis, n in enumerate(phi.u.shape[2:]):
        along = phi.u[0, axis].movedim(axis, 0).flatten(1)[:, 0].numpy().astype(np.float64)
        x = np.linspace(0, 1, n)
        columns.append(torch.from_numpy(np.interp(x, x + along, x) - x).float())
    grids = torch.meshgrid(*columns, indexing="ij")
    return torch.stack(grids)[None]


@pytest.mark.parametrize("strength", [0.3, 0.8, 0.95])
@pytest.mark.parametrize("shape", [(40, 50), _SHAPE])
def test_the_inverse_of_a_known_map_is_found_from_nothing(shape: tuple[int, ...], strength: float):
    phi = _waves(shape, strength)
    found = improve_inverse(phi, identity(len(shape)).materialise(shape))
    voxels = torch.tensor([n - 1 for n in shape]).reshape(1, -1, *[1] * len(shape))
    off = phi(unit_grid(shape, like=found.u) + found.u) - unit_grid(shape, like=found.u)
    assert (off * voxels).norm(dim=1).max() < 0.011
    apart = ((found.u - _inverse_by_table(phi)) * voxels).norm(dim=1)
    assert (
        apart.max() < 0.011 / (1 - strength) + 1e-3
    )  # off by less than 0.01 voxels there is off by 0.01 / slope here


def test_what_was_given_is_left_as_it_was():
    given = identity(3).materialise(_SHAPE)
    improve_inverse(_waves(_SHAPE, 0.5), given)
    assert not given.u.any()


def test_the_inverse_of_a_map_that_folds_does_not_fold_and_is_better_than_what_was_given():
    phi = _waves(_SHAPE, 0.7)
    given = identity(3).materialise(_SHAPE)
    phi.u[0, :, 12:14, 14:16, 9:11] += 0.06 * torch.randn(
        3, 2, 2, 2, generator=torch.Generator().manual_seed(2)
    )
    assert fold_percentage(phi, _SHAPE) > 0
    found = improve_inverse(phi, given)
    assert fold_percentage(found, _SHAPE) == 0
    space = Space(_SHAPE, np.eye(4))
    assert inverse_error(phi, found, space).mean_mm < 0.3 * inverse_error(phi, given, space).mean_mm


@pytest.mark.parametrize("size", [0.05, 0.3])
def test_of_a_map_without_an_inverse_it_is_no_worse_than_what_was_given(size: float):
    phi = DisplacementField(
        size * torch.randn(1, 3, *_SHAPE, generator=torch.Generator().manual_seed(0))
    )
    given = identity(3).materialise(_SHAPE)
    found = improve_inverse(phi, given)
    x = unit_grid(_SHAPE, like=given.u)
    assert fold_percentage(found, _SHAPE) == 0
    assert (phi(x + found.u) - x).norm() <= (phi(x) - x).norm()
