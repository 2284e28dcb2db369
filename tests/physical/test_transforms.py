import numpy as np
import pytest
import SimpleITK as sitk
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradicon.core.sampling import sample
from gradicon.core.transform import Affine, DisplacementField, identity
from gradicon.physical.images import from_sitk, space_of
from gradicon.physical.transforms import jacobian_image, to_itk
from maps import smooth_field
from physical.geometry import random_image


@given(st.integers(0, 999), st.integers(2, 3))
def test_itk_sends_points_where_phi_does(seed: int, dimension: int):
    """Fixed and moving of unrelated oblique, anisotropic, mirrored geometry; any point inside the
    fixed grid.
    """
    fixed = random_image(seed, dimension)
    moving = random_image(seed + 1000, dimension)
    space = space_of(fixed)
    target = space_of(moving)
    phi = smooth_field(space.shape, seed, size=0.1)
    itk = to_itk(phi, space, target)
    x = torch.rand(
        1, dimension, 10, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    want = target.to_mm(phi(x)[0].T.numpy())
    found = [itk.TransformPoint(point.tolist()) for point in space.to_mm(x[0].T.numpy())]
    np.testing.assert_allclose(found, want, atol=1e-8)


@pytest.mark.parametrize("dimension", [2, 3])
def test_itk_resamples_moving_onto_fixed_as_we_do(dimension: int):
    fixed = random_image(1, dimension)
    moving = random_image(2, dimension)
    space = space_of(fixed)
    volume = from_sitk(moving)
    inwards = Affine(
        0.8 * torch.eye(dimension, dtype=torch.float64)[None],
        torch.full((1, dimension), 0.1, dtype=torch.float64),
    )
    phi = inwards @ smooth_field(
        (6, 7, 8)[:dimension], 3, size=0.05
    )  # stays inside the moving image
    resampled = sitk.Resample(
        moving, fixed, to_itk(phi, space, volume.space), sitk.sitkLinear, -1.0
    )
    np.testing.assert_allclose(
        sitk.GetArrayFromImage(resampled),
        sample(volume.data, phi.on_grid(space.shape))[0, 0],
        atol=1e-6,
    )


def test_the_identity_between_equal_spaces_moves_nothing():
    space = space_of(random_image(5))
    point = space.to_mm(np.array([[0.3, 0.6, 0.9]]))[0]
    np.testing.assert_allclose(
        to_itk(identity(3), space, space).TransformPoint(point.tolist()), point, atol=1e-9
    )


def test_a_batch_is_not_one_transform():
    space = space_of(random_image(5))
    with pytest.raises(ValueError, match="got a batch of 2"):
        to_itk(DisplacementField(torch.zeros(2, 3, *space.shape)), space, space)


@given(seed=st.integers(0, 1000), dimension=st.sampled_from([2, 3]))
def test_the_determinant_of_an_affine_map_is_that_of_its_matrix_however_the_grid_is_turned(
    seed: int, dimension: int
):
    reference = random_image(seed, dimension)
    matrix = np.eye(dimension) + 0.15 * np.random.default_rng(seed).normal(
        size=(dimension, dimension)
    )
    transform = sitk.AffineTransform(dimension)
    transform.SetMatrix(matrix.ravel().tolist())
    inner = (slice(1, -1),) * dimension  # ITK takes what lies beyond the border for the same
    found = jacobian_image(transform, reference)
    np.testing.assert_allclose(
        sitk.GetArrayFromImage(found)[inner], np.linalg.det(matrix), rtol=1e-4
    )
    np.testing.assert_allclose(space_of(found).index_to_mm, space_of(reference).index_to_mm)
