import numpy as np
import pytest
import SimpleITK as sitk
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradicon.core.sampling import sample
from gradicon.physical.images import from_sitk, space_of
from gradicon.physical.space import Space
from gradicon.physical.volume import Volume
from physical.geometry import random_image

SEEDS = st.integers(0, 999)
DIMENSIONS = st.integers(2, 3)


@given(SEEDS, DIMENSIONS)
def test_indices_and_unit_coordinates_are_where_itk_says(seed: int, dimension: int):
    image = random_image(seed, dimension)
    space = space_of(image)
    random = np.random.default_rng(seed)
    index = random.uniform(0, 4, dimension)  # in ITK's order
    want = image.TransformContinuousIndexToPhysicalPoint(index.tolist())
    unit = index[::-1] / (np.array(space.shape) - 1)
    np.testing.assert_allclose(space.to_mm(unit[None])[0], want, atol=1e-9)
    np.testing.assert_allclose(space.to_unit(np.array([want]))[0], unit, atol=1e-12)


@given(SEEDS, DIMENSIONS)
def test_resizing_keeps_the_field_of_view(seed: int, dimension: int):
    space = space_of(random_image(seed, dimension))
    resized = space.resized((4, 9, 13)[:dimension])
    corners = np.stack(np.meshgrid(*[[0.0, 1.0]] * dimension), -1).reshape(-1, dimension)
    np.testing.assert_allclose(resized.to_mm(corners), space.to_mm(corners), atol=1e-9)


def test_a_resized_volume_shows_the_same_thing_at_the_same_place():
    space = Space((30, 20), np.array([[0.5, 0.1, 3.0], [-0.2, 2.0, 7.0], [0.0, 0.0, 1.0]]))
    indices = np.stack(np.meshgrid(np.arange(30), np.arange(20), indexing="ij"), -1).reshape(-1, 2)
    mm = indices @ space.index_to_mm[:-1, :-1].T + space.index_to_mm[:-1, -1]
    volume = Volume(
        torch.from_numpy(mm @ [0.3, 0.7]).reshape(1, 1, 30, 20), space
    )  # a linear function of millimetres
    resized = volume.resized((11, 47))
    indices = np.stack(np.meshgrid(np.arange(11), np.arange(47), indexing="ij"), -1).reshape(-1, 2)
    mm = indices @ resized.space.index_to_mm[:-1, :-1].T + resized.space.index_to_mm[:-1, -1]
    np.testing.assert_allclose(resized.data.flatten(), mm @ [0.3, 0.7], atol=1e-9)


@pytest.mark.parametrize(
    ("shape", "matrix", "message"),
    [
        ((4, 5), np.eye(4), r"a 2-D space needs an index_to_mm of shape \(3, 3\), got \(4, 4\)"),
        ((4, 5), np.zeros((3, 3)), "finite and invertible"),
        ((4, 5), np.full((3, 3), np.nan), "finite and invertible"),
    ],
)
def test_bad_geometry(shape: tuple[int, ...], matrix: np.ndarray, message: str):
    with pytest.raises(ValueError, match=message):
        Space(shape, matrix)


def test_data_must_lie_on_the_grid():
    volume = from_sitk(random_image(0))
    with pytest.raises(ValueError, match="needs data"):
        Volume(volume.data[..., :-1], volume.space)


@given(SEEDS, DIMENSIONS)
def test_canonical_keeps_every_voxel_where_it_is(seed: int, dimension: int):
    volume = from_sitk(random_image(seed, dimension))
    turned = volume.canonical()
    x = np.random.default_rng(seed).random((20, dimension))
    mm = volume.space.to_mm(x)
    for original, canonical in zip(x, turned.space.to_unit(mm), strict=True):
        read = [
            sample(v.data, torch.from_numpy(p).reshape(1, dimension, 1)).item()
            for v, p in ((volume, original), (turned, canonical))
        ]
        assert read[0] == pytest.approx(read[1], abs=1e-9)
    main = np.abs(turned.space.index_to_mm[:-1, :-1] / np.array(turned.space.spacing_mm))[::-1]
    assert np.trace(main) >= np.trace(main[::-1]) - 1e-9
    assert all(np.diag(turned.space.index_to_mm[:-1, :-1][::-1]) > 0)


def test_canonical_undoes_every_stored_order_and_direction():
    plain = from_sitk(sitk.GetImageFromArray(np.arange(4 * 5 * 6.0).reshape(4, 5, 6)))
    for order in ("RAS", "LAS", "LPS", "RPI", "SAR", "ALI"):
        stored = from_sitk(
            sitk.DICOMOrient(sitk.GetImageFromArray(np.arange(4 * 5 * 6.0).reshape(4, 5, 6)), order)
        ).canonical()
        assert torch.equal(stored.data, plain.data)
        np.testing.assert_allclose(stored.space.index_to_mm, plain.space.index_to_mm, atol=1e-12)
