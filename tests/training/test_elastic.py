"""Elastic deformations, with scipy's splines as the oracle."""

import numpy as np
import pytest
import torch
from scipy import ndimage

from gradicon.core.jacobian import jacobian_determinant
from gradicon.training.elastic import DRIVE, Deformation, elastic_map, elastic_set, spline_weights
from gradicon.training.pairs import generator
from gradicon.training.triangles import triangles_and_circles


@pytest.mark.parametrize("points", [2, 3, 4, 6])
def test_the_spline_is_scipys(points: int):
    values = np.random.default_rng(points).normal(size=points)
    places = np.linspace(0, points - 1, 50)
    want = ndimage.map_coordinates(values, [places], order=3, mode="mirror")
    np.testing.assert_allclose(spline_weights(50, points) @ values, want, atol=1e-12)


def test_one_deformation_is_a_spline_through_random_displacements():
    """The same control points, carried to the grid by scipy: pixels, and axes in array order."""
    shape = (40, 31)
    phi = elastic_map(shape, [Deformation(4, 1.5)], generator(0, "here"))
    control = 1.5 * torch.randn(1, 2, 4, 4, generator=generator(0, "here"))[0].numpy()
    places = np.meshgrid(*(np.linspace(0, 3, n) for n in shape), indexing="ij")
    for axis in range(2):
        want = ndimage.map_coordinates(control[axis], places, order=3, mode="mirror")
        found = phi.u[0, axis].numpy() * (shape[axis] - 1)
        np.testing.assert_allclose(found, want, atol=1e-4)


def test_deformations_follow_each_other_as_if_the_image_were_deformed_twice():
    """Of a smooth image, that scipy reads after each of the two."""
    shape = (48, 40)
    how = (Deformation(3, 1.5), Deformation(5, 0.7))
    smooth = ndimage.gaussian_filter(np.random.default_rng(0).random(shape), 4)
    source = (smooth - smooth.min()) / np.ptp(smooth)
    found = elastic_set(source[None].astype(np.float32), 1, deformations=how, seed=4).images[1]
    draw = generator(4, 0, 0, "elastic")
    want = source
    grid = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"))
    for one in how:
        control = one.sigma * torch.randn(1, 2, *[one.points] * 2, generator=draw)[0].numpy()
        places = [np.linspace(0, one.points - 1, n) for n in shape]
        on = np.meshgrid(*places, indexing="ij")
        u = [ndimage.map_coordinates(c, on, order=3, mode="mirror") for c in control]
        want = ndimage.map_coordinates(want, grid + np.stack(u), order=3, mode="constant")
    inner = np.s_[6:-6, 6:-6]
    np.testing.assert_allclose(found[inner], want[inner], atol=0.01)
    assert np.abs(found - source)[inner].max() > 0.05


def test_drives_deformations_move_visibly_and_do_not_fold():
    shape = (292, 282)
    moved = []
    for k in range(20):
        phi = elastic_map(shape, DRIVE, generator(0, k))
        assert float(jacobian_determinant(phi, shape).min()) > 0
        pixels = phi.u * torch.tensor([291.0, 281.0]).reshape(1, 2, 1, 1)
        moved.append(float(pixels.norm(dim=1).mean()))
    assert 10 < np.mean(moved) < 20


def test_three_axes_are_deformed_too():
    phi = elastic_map((12, 10, 8), [Deformation(3, 0.3)], generator(0))
    assert phi.u.shape == (1, 3, 12, 10, 8)


def test_a_deformation_depends_on_its_seed_source_and_number_alone():
    sources = triangles_and_circles(2, 32)
    how = [Deformation(3, 1.0)]
    first = elastic_set(sources, 2, deformations=how, seed=1)
    more = elastic_set(sources, 2, deformations=how, seed=1, validation=3)
    torch.manual_seed(7)
    alone = elastic_set(sources[:1], 1, deformations=how, seed=1)
    np.testing.assert_array_equal(first.images, more.images[:6])
    np.testing.assert_array_equal(first.images[2], alone.images[1])
    other = elastic_set(sources, 2, deformations=how, seed=2)
    images = [*first.images[2:], *more.images[6:], other.images[2]]
    assert len({image.tobytes() for image in images}) == len(images)


def test_pairs_are_of_an_image_and_its_own_deformations():
    sources = np.stack([np.full((24, 24), value, np.float32) for value in (0.25, 0.75)])
    made = elastic_set(sources, 3, validation=4, deformations=[Deformation(3, 0.5)])
    assert made.train_pairs == [(0, 2), (0, 3), (0, 4), (1, 5), (1, 6), (1, 7)]
    assert made.validation_pairs == [(0, 8), (0, 9), (1, 10), (1, 11)]
    for source, deformed in (*made.train_pairs, *made.validation_pairs):
        assert made.images[deformed, 12, 12] == pytest.approx(made.images[source, 12, 12])


def test_beyond_the_border_is_black():
    """A white image, moved, has black at some border, and white in the middle."""
    white = np.ones((1, 40, 40), np.float32)
    moved = elastic_set(white, 1, deformations=[Deformation(2, 3.0)]).images[1]
    assert moved.min() == 0
    assert moved[15:25, 15:25].min() > 0.999


@pytest.mark.parametrize(
    ("points", "sigma", "message"),
    [
        (1, 3.0, "points must be at least 2"),
        (3, 0.0, "sigma must be positive, got 0"),
        (3, float("nan"), "sigma must be positive, got nan"),
    ],
)
def test_what_is_no_deformation_is_refused(points: int, sigma: float, message: str):
    with pytest.raises(ValueError, match=message):
        Deformation(points, sigma)


def test_deformations_that_always_fold_are_one_line():
    with pytest.raises(ValueError, match="sigma 90 of 6 control points: 100 deformations"):
        elastic_map((32, 32), [Deformation(6, 90.0)], generator(0))
