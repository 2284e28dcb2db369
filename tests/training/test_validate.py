from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from gradicon import ModelConfig, build, mse
from gradicon.core.metrics import dice
from gradicon.training.batches import Shelf
from gradicon.training.dataset import Dataset
from gradicon.training.prepare import prepare
from gradicon.training.validate import pictures, score, validate
from maps import blobs
from training.scans_on_disk import recipe_of, scans, write_csv, write_image


def test_an_untrained_network_scores_as_no_registration_does(tmp_path: Path):
    """Voxels of the moving image (i1) are twice as large: its millimetres are the ones
    that count.
    """
    manifest = scans(tmp_path, 2)
    for name in ("i1", "l1"):
        data = sitk.GetArrayFromImage(sitk.ReadImage(str(tmp_path / f"{name}.nii.gz")))
        write_image(tmp_path / f"{name}.nii.gz", data, spacing=3.0)
    write_csv(
        tmp_path / "p0.csv", ["x", "y"], [["13", "20"]]
    )  # index (4, 4): in i1, that is (19, 26)
    write_csv(tmp_path / "p1.csv", ["x", "y"], [["22", "30"]])
    prepare(manifest, recipe_of(), tmp_path / "data", validation=tmp_path / "pairs.csv")
    dataset = Dataset.open(tmp_path / "data")
    network = build(
        ModelConfig(dimension=2, stage=1, resolutions=1, down_channels=(4,), up_channels=(4,))
    ).train()
    found = validate(network, Shelf(dataset, torch.device("cpu")), mse)
    assert network.training
    assert found["validation_landmark_error_mm"] == pytest.approx(5, rel=1e-4)
    assert found["validation_folds"] == 0
    assert dataset.labels is not None
    overlaps = dice(*(torch.from_numpy(np.array(dataset.labels[i])) for i in (0, 1)))
    assert found["validation_dice"] == pytest.approx(sum(overlaps.values()) / len(overlaps))
    assert score(found) == found["validation_dice"]


def test_what_counts_as_better():
    assert score({"validation_similarity": 0.5}) == -0.5
    assert score({"validation_similarity": 0.5, "validation_landmark_error_mm": 2.0}) == -2
    assert score({}) is None


@pytest.mark.parametrize("shape", [(24, 16), (10, 24, 16)])
def test_pictures_are_middle_slices(shape: tuple[int, ...]):
    images = np.stack([blobs(shape, i)[0, 0].numpy() for i in (0, 1)]).astype(np.float16)
    dataset = Dataset(Path(), "", {}, images, None, (None, None))
    network = build(
        ModelConfig(
            dimension=len(shape), stage=1, resolutions=1, down_channels=(4,), up_channels=(4,)
        )
    )
    shown = pictures(network, Shelf(dataset, torch.device("cpu")), (0, 1))
    middle = (
        torch.from_numpy(images[0]).float()
        if len(shape) == 2
        else torch.from_numpy(images[0][5]).float()
    )
    torch.testing.assert_close(shown["moving"], middle)
    torch.testing.assert_close(shown["warped"], middle, atol=1e-4, rtol=0)
    assert 0.1 < shown["grid"].mean() < 0.3
