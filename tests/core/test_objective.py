import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import jacrev, vmap

from gradicon.core.network import Displace, multiresolution
from gradicon.core.objective import (
    bending_energy,
    diffusion,
    gradient_inconsistency,
    inconsistency,
    objective,
)
from gradicon.core.sampling import unit_grid
from gradicon.core.similarity import mse
from gradicon.core.transform import Affine, DisplacementField, Transform, identity
from gradicon.core.unet import UNet
from maps import Wave, blobs, smooth_field

DIMENSIONS = st.integers(2, 3)
SEEDS = st.integers(0, 99)


def points(dimension: int, seed: int = 0, count: int = 200) -> torch.Tensor:
    return torch.rand(
        1, dimension, count, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def inverse_pair(dimension: int, seed: int) -> tuple[Affine, Affine]:
    matrix = torch.randn(
        1, dimension, dimension, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    matrix = torch.eye(dimension, dtype=torch.float64) + 0.2 * matrix
    offset = torch.full((1, dimension), 0.1, dtype=torch.float64)
    inverse = torch.linalg.inv(matrix)
    return Affine(matrix, offset), Affine(inverse, -(inverse @ offset[..., None])[..., 0])


def exact_penalty(phi: Transform, psi: Transform, x: torch.Tensor) -> float:
    """|| grad[phi o psi] - I ||_F^2 by automatic differentiation: the sum over directions, the mean
    over components.
    """
    jacobians = vmap(jacrev(lambda p: phi(psi(p[None, :, None]))[0, :, 0]))(x[0].T)
    error = jacobians - torch.eye(x.shape[1], dtype=x.dtype)
    return (error**2).mean((0, 1)).sum().item()


@given(DIMENSIONS, SEEDS)
def test_exact_inverses_cost_nothing(dimension: int, seed: int):
    phi, psi = inverse_pair(dimension, seed)
    assert gradient_inconsistency(phi, psi, points(dimension)).item() == pytest.approx(0, abs=1e-18)
    assert inconsistency(phi, psi, points(dimension)).item() == pytest.approx(0, abs=1e-25)


@given(DIMENSIONS, SEEDS)
def test_a_translation_error_costs_gradicon_nothing_and_icon_something(dimension: int, seed: int):
    phi, psi = inverse_pair(dimension, seed)
    shifted = Affine(phi.matrix, phi.offset + 0.05)
    assert gradient_inconsistency(shifted, psi, points(dimension)).item() == pytest.approx(
        0, abs=1e-18
    )
    assert inconsistency(shifted, psi, points(dimension)).item() > 0.05**2


def test_the_value_of_a_known_error():
    """2 x, against the identity: the Jacobian of the composition is 2 I, so the error is I: 1/D per
    direction, D directions.
    """
    for dimension in (2, 3):
        twice = Affine(
            2 * torch.eye(dimension, dtype=torch.float64)[None],
            torch.zeros(1, dimension, dtype=torch.float64),
        )
        assert gradient_inconsistency(
            twice, identity(dimension, dtype=torch.float64), points(dimension)
        ).item() == pytest.approx(1)


@pytest.mark.parametrize("dimension", [2, 3])
def test_finite_differences_converge_to_the_exact_jacobian_with_order_1(dimension: int):
    phi = Wave(0.05)
    psi = Wave(0.08, phase=1.0)
    x = points(dimension)
    exact = exact_penalty(phi, psi, x)
    errors = [
        abs(gradient_inconsistency(phi, psi, x, step=step).item() - exact)
        for step in (2e-3, 1e-3, 5e-4)
    ]
    for coarse, fine in pairwise(errors):
        assert math.log2(coarse / fine) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("shape", [(12, 9), (6, 7, 8)])
def test_on_displacement_fields_it_is_the_exact_jacobian_inside_a_cell(shape: tuple[int, ...]):
    phi = smooth_field(shape, 1)
    psi = smooth_field(shape, 2)
    x = points(len(shape), count=100)

    def jacobian(p: torch.Tensor) -> torch.Tensor:
        p = p.clone().requires_grad_()
        y = phi(psi(p[None, :, None]))[0, :, 0]
        return torch.stack(
            [torch.autograd.grad(component, p, retain_graph=True)[0] for component in y]
        )

    errors = torch.stack([jacobian(p) for p in x[0].T]) - torch.eye(len(shape), dtype=x.dtype)
    exact = (errors**2).mean((0, 1)).sum().item()
    assert gradient_inconsistency(phi, psi, x, step=1e-7).item() == pytest.approx(exact, rel=1e-3)


def test_points_may_be_a_grid_or_a_list():
    phi = Wave(0.05)
    psi = Wave(0.08, phase=1.0)
    grid = unit_grid((5, 6), like=torch.zeros((), dtype=torch.float64))
    torch.testing.assert_close(
        gradient_inconsistency(phi, psi, grid), gradient_inconsistency(phi, psi, grid.flatten(2))
    )


def test_diffusion_and_bending_of_known_maps():
    x = unit_grid((9, 11), like=torch.zeros((), dtype=torch.float64))
    quadratic = DisplacementField(torch.cat([x[:, :1] ** 2, x[:, :1] * x[:, 1:]], 1))
    # second derivatives: u0_00 = 2, u1_01 = u1_10 = 1; all components and D^2 derivatives are
    # averaged
    assert bending_energy(quadratic, (9, 11)).item() == pytest.approx((4 / 2 + 2 * 1 / 2) / 4)
    linear = DisplacementField(torch.cat([0.3 * x[:, :1], 0.2 * x[:, 1:]], 1))
    assert bending_energy(linear, (9, 11)).item() == pytest.approx(0, abs=1e-20)
    # first differences per voxel: 0.3 / 8 and 0.2 / 10, each in one of two components, in units of
    # 1/9
    assert diffusion(linear, (9, 11)).item() == pytest.approx(
        ((0.3 / 8) ** 2 / 2 + (0.2 / 10) ** 2 / 2) * 81
    )


def test_regularizers_of_the_identity_are_zero():
    for dimension in (2, 3):
        one = identity(dimension)
        shape = (5, 6, 7)[:dimension]
        assert diffusion(one, shape).item() == bending_energy(one, shape).item() == 0


def small_network() -> torch.nn.Module:
    torch.manual_seed(0)
    net = multiresolution(lambda: UNet(2, down=(4, 8), up=(4, 8)), resolutions=2)
    for name, parameter in net.named_parameters():
        if "last" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return net.eval()


def test_the_loss_is_its_parts_and_symmetric_in_the_similarity():
    net = small_network()
    a = blobs((20, 17), 1)
    b = blobs((20, 17), 2)
    x = points(2).float()
    found = objective(net, a, b, x, similarity=mse, weight=0.7)
    torch.testing.assert_close(found.loss, found.similarity + 0.7 * found.penalty)
    torch.testing.assert_close(found.similarity, objective(net, b, a, x, similarity=mse).similarity)
    torch.testing.assert_close(found.penalty, gradient_inconsistency(net(a, b), net(b, a), x))


def test_another_penalty_takes_the_place_of_gradicon():
    net = small_network()
    a = blobs((20, 17), 1)
    b = blobs((20, 17), 2)
    found = objective(
        net,
        a,
        b,
        points(2).float(),
        similarity=mse,
        penalty=lambda ab, ba, x: diffusion(ab, (20, 17)),
    )
    torch.testing.assert_close(found.penalty, diffusion(net(a, b), (20, 17)))


def test_masks_count_where_both_images_do():
    net = Displace(UNet(2, down=(4, 8), up=(4, 8))).eval()  # untrained: the identity
    a = blobs((20, 17), 1)
    b = blobs((20, 17), 2)
    left = torch.zeros_like(a)
    top = torch.zeros_like(a)
    left[..., :9] = 1
    top[..., :11, :] = 1
    found = objective(net, a, b, points(2).float(), similarity=mse, mask_a=left, mask_b=top)
    torch.testing.assert_close(found.similarity, 2 * ((a - b) ** 2)[..., :11, :9].mean())
