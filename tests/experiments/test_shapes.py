"""The 2-D sets: drawn shapes, and masks with warps that do not fold."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gradicon.core.jacobian import jacobian_determinant
from gradicon.experiments.shapes import (
    elastic_maps,
    pack_drive,
    read_drive,
    shape_set,
    shrink_area,
    triangles_and_circles,
    warped_set,
)
from gradicon.training.dataset import Dataset


def masks(folder: Path) -> Path:
    """Two files like DRIVE's: a white block, and a white column of one pixel."""
    for name, columns in (("21", slice(100, 300)), ("22", slice(200, 201))):
        image = np.zeros((584, 565), np.uint8)
        image[100:200, columns] = 255
        Image.fromarray(image).save(folder / f"{name}_manual1.gif")
    return folder


def test_shapes_depend_on_the_seed_alone():
    images = triangles_and_circles(10, 64, seed=3)
    assert images.shape == (10, 64, 64)
    assert images.dtype == np.float32
    np.testing.assert_array_equal(images, triangles_and_circles(10, 64, seed=3))
    assert not np.array_equal(images, triangles_and_circles(10, 64, seed=4))


def test_shapes_are_outlines():
    """Bright on an edge, dark within and outside; in [0,1]."""
    images = triangles_and_circles(40)
    assert images.min() >= 0
    assert images.max() <= 1
    assert images.reshape(40, -1).max(1).min() > 0.95
    assert (images.mean((1, 2)) < 0.3).all()
    for image in images:
        bright = np.argwhere(image > 0.9)
        assert image[tuple(np.round(bright.mean(0)).astype(int))] < 0.1


def test_the_first_half_are_triangles_and_the_others_circles():
    """All of a circle's edge is equally far from its centre; a triangle's corners are twice as far
    as its sides.
    """

    def roundness(image: np.ndarray) -> float:
        bright = np.argwhere(image > 0.9)
        distance = np.linalg.norm(bright - bright.mean(0), axis=1)
        return float(distance.min() / distance.max())

    images = triangles_and_circles(60)
    within = [
        i
        for i, image in enumerate(images)
        if max(image[[0, -1]].max(), image[:, [0, -1]].max()) < 0.01
    ]
    found = {i: roundness(images[i]) for i in within}
    assert min(within) < 20
    assert max(within) > 40
    assert all(value < 0.65 if i < 30 else value > 0.85 for i, value in found.items())


def test_elastic_maps_are_visible_and_do_not_fold():
    phi = elastic_maps(100, (60, 50), np.random.default_rng(0))
    assert phi.u.shape == (100, 2, 60, 50)
    assert float(jacobian_determinant(phi, (60, 50)).min()) > 0
    assert float(phi.u.abs().mean()) > 0.02
    again = elastic_maps(100, (60, 50), np.random.default_rng(0))
    assert bool((phi.u == again.u).all())


def test_elastic_maps_are_the_same_at_any_resolution():
    """The corners and the middle are control points on every odd grid."""
    coarse, fine = (elastic_maps(3, (n, n), np.random.default_rng(0)).u for n in (9, 33))
    np.testing.assert_allclose(coarse.numpy(), fine[..., ::4, ::4].numpy(), atol=1e-6)


def test_any_two_shapes_are_trained_on_and_pairs_are_judged(tmp_path: Path):
    shape_set(12, 32, 50).store(tmp_path / "data")
    dataset = Dataset.open(tmp_path / "data")
    assert dataset.groups[0].images == tuple(range(12))
    assert len(dataset.validation_pairs) == 50
    assert all(a != b and min(a, b) >= 0 and max(a, b) < 12 for a, b in dataset.validation_pairs)


def test_a_source_is_paired_with_its_own_warps(tmp_path: Path):
    """With one bright source and one dark one, no pair mixes them."""
    sources = np.stack([np.full((16, 12), value, np.float32) for value in (0.25, 0.75)])
    made = warped_set(sources, 3, 4)
    made.store(tmp_path / "data")
    dataset = Dataset.open(tmp_path / "data")
    assert dataset.shape == (16, 12)
    assert dataset.groups[0].images == ()
    assert dataset.groups[0].pairs == ((0, 2), (0, 3), (0, 4), (1, 5), (1, 6), (1, 7))
    assert set(dataset.validation_pairs) <= set(dataset.groups[0].pairs)
    assert len(set(dataset.validation_pairs)) == 4
    for moving, fixed in made.train_pairs:
        np.testing.assert_allclose(made.images[moving], made.images[fixed], atol=1e-6)


def test_warps_of_a_source_differ_and_stay_in_range():
    made = warped_set(triangles_and_circles(2, 48), 2, 1)
    assert made.images.shape == (6, 48, 48)
    assert made.images.min() >= 0
    assert made.images.max() <= 1
    for i, j in ((0, 2), (0, 3), (2, 3), (1, 4), (4, 5)):
        assert np.abs(made.images[i] - made.images[j]).max() > 0.3


def test_shrinking_keeps_the_mean_and_averages_areas():
    rng = np.random.default_rng(0)
    image = rng.random((584, 565), dtype=np.float32)
    small = shrink_area(image, (292, 282))
    assert small.shape == (292, 282)
    assert float(small.mean()) == pytest.approx(float(image.mean()), abs=1e-6)
    np.testing.assert_allclose(
        shrink_area(np.array([[0, 1, 1], [0, 0, 1]], np.float32), (1, 2)),
        [[1 / 6, 5 / 6]],
        atol=1e-6,
    )


def test_drive_is_read_from_its_files_or_packed(tmp_path: Path):
    """200 columns of 565 are about 100 of 282; one column is half a pixel."""
    plain = tmp_path / "plain"
    packed = tmp_path / "packed"
    plain.mkdir()
    packed.mkdir()
    images = read_drive(masks(plain))
    assert images.shape == (2, 292, 282)
    assert images.max() == pytest.approx(1)
    assert images[0, 75].sum() == pytest.approx(200 * 282 / 565, abs=1e-3)
    assert images[1, 75].sum() == pytest.approx(282 / 565, abs=1e-3)
    assert not images[:, :50].any()
    pack_drive(plain, packed / "drive.npy")
    np.testing.assert_allclose(read_drive(packed), images, atol=0.5 / 255 + 1e-6)


def test_a_folder_that_is_not_drive_is_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="no folder of DRIVE"):
        read_drive(tmp_path)
    np.save(tmp_path / "drive.npy", np.zeros((2, 10, 10), np.uint8))
    with pytest.raises(ValueError, match=r"expected bytes of the shape"):
        read_drive(tmp_path)


def test_a_mask_of_another_size_is_refused(tmp_path: Path):
    Image.fromarray(np.zeros((10, 10), np.uint8)).save(tmp_path / "21_manual1.gif")
    with pytest.raises(ValueError, match="584 x 565"):
        read_drive(tmp_path)


def test_without_pillow_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    masks(tmp_path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ValueError, match="needs Pillow"):
        read_drive(tmp_path)
