"""The 2-D sets as the studies want them: which pairs are trained on, and which are judged."""

import sys
from pathlib import Path

import numpy as np
import pytest

from gradicon.experiments.shapes import pack_drive, read_drive, shape_set, warped_set
from gradicon.training.dataset import Dataset
from gradicon.training.elastic import Deformation
from training.masks_on_disk import masks


def test_any_two_shapes_are_trained_on_and_pairs_are_judged(tmp_path: Path):
    shape_set(12, 32, 50).store(tmp_path / "data")
    dataset = Dataset.open(tmp_path / "data")
    assert dataset.groups[0].images == tuple(range(12))
    assert len(dataset.validation_pairs) == 50
    assert all(a != b and min(a, b) >= 0 and max(a, b) < 12 for a, b in dataset.validation_pairs)


def test_a_source_is_paired_with_its_own_warps(tmp_path: Path):
    """With one bright source and one dark one, no pair mixes them."""
    sources = np.stack([np.full((16, 12), value, np.float32) for value in (0.25, 0.75)])
    made = warped_set(sources, 3, 4, deformations=[Deformation(3, 0.5)])
    made.store(tmp_path / "data")
    dataset = Dataset.open(tmp_path / "data")
    assert dataset.shape == (16, 12)
    assert dataset.groups[0].images == ()
    assert dataset.groups[0].pairs == ((0, 2), (0, 3), (0, 4), (1, 5), (1, 6), (1, 7))
    assert set(dataset.validation_pairs) <= set(dataset.groups[0].pairs)
    assert len(set(dataset.validation_pairs)) == 4
    for moving, fixed in made.train_pairs:
        inner = np.s_[4:-4, 4:-4]  # beyond the border is black
        np.testing.assert_allclose(made.images[moving][inner], made.images[fixed][inner], atol=1e-6)


def test_drive_is_read_from_its_files_or_packed(tmp_path: Path):
    """200 columns of 565 are about 100 of 282."""
    packed = tmp_path / "packed"
    packed.mkdir()
    images = read_drive(masks(tmp_path / "plain"))
    assert images.shape == (2, 292, 282)
    assert images.max() == 1
    assert images[0, 75].sum() == pytest.approx(200 * 282 / 565, rel=0.01)
    assert images[1, 75].sum() == pytest.approx(60 * 282 / 565, rel=0.02)
    assert not images[:, :45].any()
    pack_drive(tmp_path / "plain", packed / "drive.npy")
    np.testing.assert_allclose(read_drive(packed), images, atol=0.5 / 255 + 1e-6)


def test_a_folder_that_is_not_drive_is_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="no images here"):
        read_drive(tmp_path)
    np.save(tmp_path / "drive.npy", np.zeros((2, 10, 10), np.uint8))
    with pytest.raises(ValueError, match=r"expected bytes of the shape"):
        read_drive(tmp_path)


def test_without_file_readers_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in [*sys.modules]:
        if name.startswith(("gradicon.training.scans", "gradicon.physical")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "SimpleITK", None)
    with pytest.raises(ImportError, match=r"needs SimpleITK: install it, or use drive.npy"):
        read_drive(masks(tmp_path / "plain"))
