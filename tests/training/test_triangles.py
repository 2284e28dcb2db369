"""Triangles and circles: what is drawn, and what is stored."""

from pathlib import Path

import numpy as np
import pytest

from gradicon.training.config import DataConfig
from gradicon.training.dataset import Dataset
from gradicon.training.triangles import store_shapes, triangles_and_circles


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


def test_they_are_stored_with_pairs_of_other_images_to_judge_by(tmp_path: Path):
    store_shapes(tmp_path / "data", DataConfig(shape=(64, 64)), 20, validation=10, seed=3)
    data = Dataset.open(tmp_path / "data")
    assert data.shape == (64, 64)
    assert data.groups[0].images == tuple(range(20))
    assert data.validation_pairs == tuple((20 + 2 * k, 21 + 2 * k) for k in range(10))
    want = triangles_and_circles(20, 64, seed=3).astype(np.float16)
    np.testing.assert_array_equal(data.images[:20], want)
    trained = {image.tobytes() for image in np.array(data.images[:20])}
    assert not trained & {image.tobytes() for image in np.array(data.images[20:])}


def test_pairs_to_judge_by_are_of_all_kinds(tmp_path: Path):
    """Not always a triangle and a circle, in this order."""
    store_shapes(tmp_path / "data", DataConfig(shape=(64, 64)), 2, validation=30)
    data = Dataset.open(tmp_path / "data")
    drawn = triangles_and_circles(60, 64, seed=(0, 1)).astype(np.float16)
    triangles = {image.tobytes() for image in drawn[:30]}
    are = [image.tobytes() in triangles for image in np.array(data.images[2:])]
    assert sum(are) == 30
    assert len({(are[a - 2], are[b - 2]) for a, b in data.validation_pairs}) == 4


def test_training_does_not_depend_on_how_many_are_judged(tmp_path: Path):
    for name, judged in (("a", 0), ("b", 4)):
        store_shapes(tmp_path / name, DataConfig(shape=(32, 32)), 6, validation=judged)
    a, b = (Dataset.open(tmp_path / name).images for name in "ab")
    np.testing.assert_array_equal(a, b[:6])


@pytest.mark.parametrize(
    ("config", "count", "message"),
    [
        (DataConfig(shape=(32, 32), pairs="intra"), 4, 'say pairs = "inter"'),
        (DataConfig(shape=(32, 32, 32)), 4, "2-D and square"),
        (DataConfig(shape=(32, 40)), 4, r"two equal numbers, got \[32, 40\]"),
        (DataConfig(shape=(32, 32)), 1, "at least two of them, got 1"),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    config: DataConfig, count: int, message: str, tmp_path: Path
):
    with pytest.raises(ValueError, match=message):
        store_shapes(tmp_path / "data", config, count)
    assert not (tmp_path / "data").exists()
