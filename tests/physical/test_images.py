from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from gradicon.physical import images
from gradicon.physical.images import as_image, read_image, read_volume, space_of
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


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("name", ["image.nii", "image.nii.gz"])
@pytest.mark.parametrize(
    "pixel",
    [
        sitk.sitkUInt8,
        sitk.sitkInt8,
        sitk.sitkUInt16,
        sitk.sitkInt16,
        sitk.sitkUInt32,
        sitk.sitkInt32,
        sitk.sitkInt64,
        sitk.sitkFloat32,
        sitk.sitkFloat64,
    ],
)
def test_an_image_is_what_itk_reads(tmp_path: Path, pixel: int, name: str, dimension: int):
    path = tmp_path / name
    sitk.WriteImage(sitk.Cast(random_image(3, dimension) * 100, pixel), str(path))
    same_image(path)


@pytest.mark.parametrize("kind", ["scaled", "scaled floats", "big-endian", "one volume"])
def test_unusual_files_are_read_as_itk_reads_them(tmp_path: Path, kind: str):
    path = tmp_path / "image.nii"
    pixel = sitk.sitkFloat32 if kind == "scaled floats" else sitk.sitkInt16
    image = sitk.Cast(random_image(3) * 100, pixel)
    sitk.WriteImage(sitk.JoinSeries([image]) if kind == "one volume" else image, str(path))
    content = bytearray(path.read_bytes())
    if kind.startswith("scaled"):
        content[112:120] = np.array([0.5, -3], "<f4").tobytes()
    if kind == "big-endian":
        content = big_endian(bytes(content))
    path.write_bytes(content)
    same_image(path)


def same_image(path: Path) -> None:
    ours = read_image(path)
    itks = sitk.ReadImage(str(path))
    assert ours.GetPixelID() == itks.GetPixelID()
    assert space_of(ours).shape == space_of(itks).shape
    np.testing.assert_array_equal(space_of(ours).index_to_mm, space_of(itks).index_to_mm)
    np.testing.assert_array_equal(
        sitk.GetArrayViewFromImage(ours), sitk.GetArrayViewFromImage(itks)
    )


def big_endian(content: bytes) -> bytearray:
    """A file of 16-bit integers with all its bytes in the other order."""
    sizes = [(0, 1, 4), (32, 1, 4), (36, 1, 2), (40, 8, 2), (56, 3, 4), (68, 4, 2), (76, 11, 4)]
    sizes += [(120, 1, 2), (124, 6, 4), (252, 2, 2), (256, 18, 4)]
    sizes += [(352, (len(content) - 352) // 2, 2)]
    turned = bytearray(content)
    for offset, count, width in sizes:
        part = np.frombuffer(content, f"<u{width}", count, offset)
        turned[offset : offset + count * width] = part.astype(f">u{width}").tobytes()
    return turned


@pytest.mark.parametrize("slope", [0.0, 2.0])
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("pixel", [sitk.sitkFloat32, sitk.sitkFloat64])
def test_nan_in_a_file_is_refused(tmp_path: Path, pixel: int, value: float, slope: float):
    path = tmp_path / "image.nii"
    image = sitk.Cast(random_image(3), pixel)
    image[1, 1, 1] = value
    sitk.WriteImage(image, str(path))
    content = bytearray(path.read_bytes())
    content[112:116] = np.array([slope], "<f4").tobytes()
    path.write_bytes(content)
    with pytest.raises(ValueError, match="image.nii: 1 voxels are NaN or infinite"):
        read_image(path)


def test_an_image_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    sitk.WriteImage(random_image(3), str(tmp_path / "image.nii.gz"))
    searched: list[str] = []
    search = images._refuse_non_finite
    monkeypatch.setattr(
        images,
        "_refuse_non_finite",
        lambda values, name: (searched.append(name), search(values, name)),
    )
    as_image(read_image(tmp_path / "image.nii.gz"))
    assert searched == [str(tmp_path / "image.nii.gz")]
    as_image(sitk.Image(random_image(3)))
    assert len(searched) == 2
