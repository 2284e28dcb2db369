import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.interpolate import BSpline

from gradicon.core.jacobian import fold_percentage
from gradicon.core.sampling import unit_grid
from gradicon.training.augment import (
    augmented,
    augmented_labels,
    augmented_points,
    control_values,
    draw,
    recoloured,
    smooth,
    to_unit_cube,
    warped,
)
from gradicon.training.pairs import generator
from maps import blobs


@pytest.mark.parametrize("shape", [(16, 20), (10, 12, 9)])
def test_without_noise_and_flips_nothing_changes(shape: tuple[int, ...]):
    a, b = draw(len(shape), generator(0), noise=0, flips=False)
    image = blobs(shape, 1)
    torch.testing.assert_close(augmented(image, to_unit_cube(a[None])), image, atol=1e-5, rtol=0)
    assert torch.equal(a, b)


@pytest.mark.parametrize("shape", [(16, 20), (10, 12, 9)])
@pytest.mark.parametrize("seed", range(4))
def test_flips_are_exact_and_shared(shape: tuple[int, ...], seed: int):
    a, b = draw(len(shape), generator(seed), noise=0)
    assert torch.equal(a, b)
    axes = [2 + i for i in range(len(shape)) if a[i, i] < 0]
    image = blobs(shape, 1)
    torch.testing.assert_close(
        augmented(image, to_unit_cube(a[None])), image.flip(axes), atol=1e-5, rtol=0
    )
    labels = (image[:, 0] * 5).to(torch.uint8)
    assert torch.equal(
        augmented_labels(labels, to_unit_cube(a[None])), labels.flip([axis - 1 for axis in axes])
    )


def test_noise_is_independent_and_of_the_papers_size():
    drawn = [draw(3, generator(seed), flips=False) for seed in range(400)]
    a, b = (torch.stack(each) - torch.eye(3, 4) for each in zip(*drawn, strict=True))
    assert a.std().item() == pytest.approx(0.05, rel=0.05)
    assert abs((a * b).mean().item()) < 0.05**2 / 10
    signs = torch.stack([draw(3, generator(seed), noise=0)[0].diagonal() for seed in range(400)])
    assert (signs.mean(0).abs() < 0.15).all()


@given(seed=st.integers(0, 1000), dimension=st.sampled_from([2, 3]))
def test_landmarks_follow_the_image(seed: int, dimension: int):
    """The centre of mass of a bright blob lands on the mapped landmark."""
    shape = (40, 44) if dimension == 2 else (26, 30, 28)
    point = 0.4 + 0.2 * torch.rand((1, dimension, 1), generator=generator(seed, "point"))
    x = unit_grid(shape, like=point)
    blob = (
        -((x - point.reshape(1, -1, *[1] * dimension)) ** 2).sum(1, keepdim=True) / (2 * 0.06**2)
    ).exp()
    phi = to_unit_cube(draw(dimension, generator(seed))[0][None])
    seen = augmented(blob, phi)
    centre = (seen * x).flatten(2).sum(2) / seen.flatten(2).sum(2)
    voxels = torch.tensor([n - 1.0 for n in shape])
    assert ((centre - augmented_points(point, phi)[..., 0]) * voxels).abs().max() < 0.3


@pytest.mark.parametrize("dimension", [2, 3])
def test_what_is_smooth_has_unit_variance_and_interpolates_what_scipy_does(dimension: int):
    shape = (33, 29, 25)[:dimension]
    drawn = torch.stack([control_values(dimension, 2, generator(seed)) for seed in range(200)])
    field = smooth(drawn, shape)
    assert field.shape == (200, 2, *shape)
    assert field.std().item() == pytest.approx(1, rel=0.05)
    spline = BSpline(np.arange(-3, 8), np.eye(7), 3)
    basis = [torch.from_numpy(spline(np.linspace(0, 4, n))) for n in shape]
    letters = "ij" if dimension == 2 else "ijk"
    there = ",".join(f"{big}{small}" for big, small in zip("XYZ", letters, strict=False))
    want = torch.einsum(f"{letters},{there}->{'XYZ'[:dimension]}", drawn[0, 0].double(), *basis)
    torch.testing.assert_close(
        field[0, 0].double() * 0.479 ** (dimension / 2), want, atol=1e-5, rtol=0
    )


def test_warps_of_the_size_in_use_do_not_fold():
    shape = (24, 24, 24)
    drawn = torch.stack([control_values(3, 3, generator(seed)) for seed in range(20)])
    assert (
        fold_percentage(
            warped(to_unit_cube(torch.eye(3, 4)[None]), drawn, 0.02, shape), shape
        ).max()
        == 0
    )


def test_another_contrast_keeps_the_order_of_shades_and_the_range():
    image = torch.linspace(0, 1, 16 * 16).reshape(1, 1, 16, 16)
    still = torch.zeros(1, 1, 7, 7)
    seen = recoloured(image, torch.tensor([1.0]), still, 0.5).flatten()
    torch.testing.assert_close(seen, image.flatten() ** torch.tensor(0.5).exp(), atol=1e-5, rtol=0)
    assert (seen.diff() >= 0).all()
    shaded = recoloured(image, torch.tensor([0.0]), control_values(2, 1, generator(3))[None], 0.5)
    assert 0 <= shaded.min() <= shaded.max() <= 1
    assert (shaded - image).abs().max() > 0.1


@given(seed=st.integers(0, 1000), dimension=st.sampled_from([2, 3]))
def test_landmarks_follow_a_bent_image(seed: int, dimension: int):
    x = torch.rand((1, dimension, 50), generator=generator(seed, "points"))
    affine = to_unit_cube(draw(dimension, generator(seed))[0][None])
    phi = warped(
        affine,
        control_values(dimension, dimension, generator(seed))[None],
        0.02,
        (20, 20, 20)[:dimension],
    )
    torch.testing.assert_close(phi(augmented_points(x, phi)), x, atol=1e-4, rtol=0)
    assert (phi(augmented_points(x, affine)) - x).abs().max() > 1e-3
