"""From a folder of masks to pairs, and what is refused."""

from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
from PIL import Image

from gradicon.training.config import DataConfig
from gradicon.training.dataset import Dataset
from gradicon.training.deformed import store_deformed
from gradicon.training.elastic import Deformation
from training.masks_on_disk import masks

CONFIG = DataConfig(shape=(58, 56), pairs="intra")
MILD = [Deformation(3, 1.0)]


def test_every_image_is_paired_with_its_own_deformations(tmp_path: Path):
    folder = masks(tmp_path / "masks", (116, 112))
    (folder / "notes.txt").write_text("no image")
    (folder / ".hidden.gif").write_text("no image")
    store_deformed(folder, CONFIG, tmp_path / "data", each=3, validation=2, deformations=MILD)
    data = Dataset.open(tmp_path / "data")
    assert data.groups[0].pairs == ((0, 2), (0, 3), (0, 4), (1, 5), (1, 6), (1, 7))
    assert data.validation_pairs == ((0, 8), (1, 9))
    assert data.names[:2] == ["21_manual1.gif", "22_manual1.gif"]
    assert data.names[8] == "21_manual1.gif, deformation 7"
    images = np.array(data.images).astype(float)
    assert images.min() == 0
    assert images.max() == 1
    for source, deformed in (*data.groups[0].pairs, *data.validation_pairs):
        assert images[deformed].sum() == pytest.approx(images[source].sum(), rel=0.3)
        assert np.abs(images[deformed] - images[source]).max() > 0.2


def test_sources_are_halved(tmp_path: Path):
    """20 x 40 pixels of 116 x 112 are white; 115 steps become 57, and 111 become 55."""
    folder = masks(tmp_path / "masks", (116, 112))
    store_deformed(folder, CONFIG, tmp_path / "data", each=1, deformations=MILD)
    source = np.array(Dataset.open(tmp_path / "data").images[0]).astype(float)
    assert source.sum() == pytest.approx(800 / (115 / 57 * 111 / 55), rel=0.01)
    assert source[14, 17] == 1


def stored(folder: Path, out: Path, config: DataConfig = CONFIG) -> None:
    store_deformed(folder, config, out, each=1, deformations=MILD)


def test_what_is_no_set_of_masks_is_refused(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="no such folder"):
        stored(tmp_path / "none", tmp_path / "data")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no images here: expected files ending in"):
        stored(tmp_path / "empty", tmp_path / "data")
    folder = masks(tmp_path / "masks", (116, 112))
    with pytest.raises(ValueError, match='say pairs = "intra"'):
        stored(folder, tmp_path / "data", DataConfig(shape=(58, 56)))
    Image.fromarray(np.zeros((40, 30), np.uint8)).save(folder / "30_manual1.gif")
    with pytest.raises(ValueError, match="has 40 x 30 voxels, but 21_manual1.gif has 116 x 112"):
        stored(folder, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_the_recipe_and_the_images_have_as_many_axes(tmp_path: Path):
    folder = masks(tmp_path / "masks", (116, 112))
    with pytest.raises(ValueError, match="a 2-D image, but the recipe's shape is 3-D"):
        stored(folder, tmp_path / "data", DataConfig(shape=(16, 16, 16), pairs="intra"))
    (tmp_path / "scans").mkdir()
    sitk.WriteImage(sitk.Image(16, 16, 16, sitk.sitkUInt8), str(tmp_path / "scans/scan.nii.gz"))
    with pytest.raises(ValueError, match="a 3-D image, but the recipe's shape is 2-D"):
        stored(tmp_path / "scans", tmp_path / "data")


def test_a_folder_that_is_there_is_not_replaced(tmp_path: Path):
    folder = masks(tmp_path / "masks", (116, 112))
    stored(folder, tmp_path / "data")
    with pytest.raises(FileExistsError, match="exists"):
        stored(folder, tmp_path / "data")
