"""A CT of known Hounsfield units through `gradicon prepare`'s own code, against values worked out
by hand: "resample, scale, mask" with the paper's window of -1000 to 0.
"""

from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk

from gradicon.physical.lists import Item
from gradicon.training.config import DataConfig
from gradicon.training.scans import read_scan

SHAPE = (8, 10, 12)  # of the grid, with 2 mm voxels


def config(**changes: object) -> DataConfig:
    """The paper's preparation of lungs, on a small grid."""
    values: dict[str, object] = {
        "shape": SHAPE,
        "crop": "center",
        "spacing_mm": (2.0, 2.0, 2.0),
        "modality": "ct",
        "window": (-1000.0, 0.0),
        "order": "resample, scale, mask",
    }
    return DataConfig(**{**values, **changes})  # type: ignore[arg-type]


def written(path: Path, data: np.ndarray, spacing: tuple[float, float, float]) -> Path:
    image = sitk.GetImageFromArray(data)
    image.SetSpacing(spacing)
    image.SetOrigin((-31.0, 12.0, 5.0))
    sitk.WriteImage(image, str(path))
    return path


def item(
    folder: Path, hu: np.ndarray, mask: np.ndarray, spacing: tuple[float, float, float]
) -> Item:
    return Item(
        image=written(folder / "ct.nii.gz", hu.astype(np.int16), spacing),
        mask=written(folder / "mask.nii.gz", mask.astype(np.uint8), spacing),
    )


def test_blocks_and_their_rim(tmp_path: Path):
    """Voxels of 1 x 2 x 4 mm (x, y, z) on a grid of 2 mm, centre on centre.

    Along x two scan voxels make one of the grid: the sizes are 24 and 12, so that the centre of
    grid voxel i lies at scan index 2 i + 0.5, between voxels 2 i and 2 i + 1. The mean over
    2 mm about it, read linearly, is (v[2i-1] + 3 v[2i] + 3 v[2i+1] + v[2i+2]) / 8. Along y grid
    and scan are the same. Along z they are 8 and 4, and nothing changes: the centre of grid voxel k
    lies at scan index k / 2 - 0.25, of which the first and the last are beyond the centres of the
    outermost slices, where an image ends.

    Blocks of 6 voxels along x have -1200, -800, -400 and 200 HU.
    """
    blocks = np.repeat([-1200, -800, -400, 200], 6)
    hu = np.broadcast_to(blocks, (4, 10, 24)).copy()
    mask = np.zeros(hu.shape)
    mask[:, 2:8, 3:21] = 1
    scan = read_scan(item(tmp_path, hu, mask, (1.0, 2.0, 4.0)), config(), [])

    # grid voxels 0, 1, 2 lie in block one, 3 to 5 in two, ...; at an edge one in eight is over it
    means = [-1200, -1200, -1150, -850, -800, -750, -450, -400, -325, 125, 200, 200]
    scaled = np.array([0, 0, 0, 0.15, 0.2, 0.25, 0.55, 0.6, 0.675, 1, 1, 1])
    np.testing.assert_allclose(np.clip((np.array(means) + 1000) / 1000, 0, 1), scaled)
    # along x the mask has voxels 3 to 20: grid voxel 1 lies between 2 (outside) and 3, on the edge,
    # which counts; so does grid voxel 10, between 20 and 21
    inside = np.zeros(12)
    inside[1:11] = 1
    expected = np.zeros(SHAPE)
    expected[1:7, 2:8] = scaled * inside
    assert scan.image.shape == SHAPE
    np.testing.assert_allclose(scan.image.astype(float), expected, atol=5e-4)
    assert scan.modality == "ct"
    # the rim holds what the scan holds there: no zero of the mask has been mixed into it
    assert scan.image[4, 5, 10] == 1
    assert scan.image[4, 2, 4] == pytest.approx(0.2, abs=5e-4)
    assert scan.image[4, 1, 4] == 0


def test_masked_first_zeros_bleed_into_the_rim(tmp_path: Path):
    """The other order gives other numbers there: the test above can tell them apart."""
    hu = np.full((8, 10, 24), -200)
    mask = np.zeros(hu.shape)
    mask[:, :, 4:20] = 1
    given = item(tmp_path, hu, mask, (1.0, 2.0, 2.0))
    after = read_scan(given, config(), []).image[4, 5].astype(float)
    before = read_scan(given, config(order="scale, mask, resample"), []).image[4, 5].astype(float)
    np.testing.assert_allclose(after, [0, 0, *[0.8] * 8, 0, 0], atol=5e-4)
    np.testing.assert_allclose(
        before, [0, 0.1, 0.7, *[0.8] * 6, 0.7, 0.1, 0], atol=5e-4
    )  # one and seven eighths of 0.8


def test_slices_are_read_between(tmp_path: Path):
    """Slices of 4 mm: every grid voxel has a quarter of the slice that is further away."""
    hu = np.zeros((4, 10, 12))
    hu[:] = np.array([-900, -500, -100, -300])[:, None, None]
    scan = read_scan(item(tmp_path, hu, np.ones(hu.shape), (2.0, 2.0, 4.0)), config(), [])
    # the first and the last lie beyond the centres of the outermost slices, where an image ends
    expected = [0, 0.2, 0.4, 0.6, 0.8, 0.85, 0.75, 0]
    np.testing.assert_allclose(scan.image[:, 5, 6].astype(float), expected, atol=5e-4)


def test_crop_and_pad_evenly(tmp_path: Path):
    """Of 12 slices the middle 8 stay, two gone on either side; 8 rows get one of zeros before and
    one after; 12 columns stay as they are.
    """
    rng = np.random.default_rng(0)
    hu = rng.integers(-1000, 1, (12, 8, 12))
    scan = read_scan(item(tmp_path, hu, np.ones(hu.shape), (2.0, 2.0, 2.0)), config(), [])
    expected = np.zeros(SHAPE)
    expected[:, 1:9] = (hu[2:10] + 1000) / 1000
    np.testing.assert_allclose(scan.image.astype(float), expected, atol=5e-4)


def test_an_odd_difference_is_halved(tmp_path: Path):
    """Of 9 slices for a grid of 8, half a slice is gone on either side: grid voxel k is the mean of
    slices k and k + 1.
    """
    hu = np.zeros((9, 10, 12))
    hu[:] = (np.arange(9) * -100)[:, None, None]
    scan = read_scan(item(tmp_path, hu, np.ones(hu.shape), (2.0, 2.0, 2.0)), config(), [])
    expected = 1 - (np.arange(8) + 0.5) / 10
    np.testing.assert_allclose(scan.image[:, 4, 5].astype(float), expected, atol=5e-4)
