from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from gradicon.physical.images import read_volume
from physical.geometry import random_image


@pytest.mark.parametrize(
    ("pixel", "dtype"),
    [
        (sitk.sitkUInt8, torch.uint8),
        (sitk.sitkInt16, torch.int16),
        (sitk.sitkUInt16, torch.int32),
        (sitk.sitkUInt32, torch.int64),
        (sitk.sitkFloat32, torch.float32),
    ],
)
def test_values_are_read_as_they_are_stored(tmp_path: Path, pixel: int, dtype: torch.dtype):
    image = sitk.Cast(random_image(3) * 250, pixel)
    sitk.WriteImage(image, str(tmp_path / "image.nii.gz"))
    volume = read_volume(tmp_path / "image.nii.gz")
    assert volume.data.dtype == dtype
    np.testing.assert_array_equal(volume.data[0, 0].numpy(), sitk.GetArrayFromImage(image))


def test_what_is_not_a_scalar_image_is_named(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match="none.nii: no such image file"):
        read_volume(tmp_path / "none.nii")
    (tmp_path / "text.nii").write_text("not an image")
    with pytest.raises(ValueError, match="text.nii: the file is damaged or cut off"):
        read_volume(tmp_path / "text.nii")
    sitk.WriteImage(sitk.Image([4, 4], sitk.sitkVectorUInt8, 3), str(tmp_path / "rgb.png"))
    with pytest.raises(
        ValueError,
        match="rgb.png: expected a 2-D or 3-D image with one real value per voxel, got 2-D with "
        "3 values",
    ):
        read_volume(tmp_path / "rgb.png")
