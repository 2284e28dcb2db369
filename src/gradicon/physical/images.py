"""Image files in and out, by SimpleITK."""

from pathlib import Path

import numpy as np
import SimpleITK as sitk
import torch

from gradicon.physical.space import Matrix, Space
from gradicon.physical.volume import Volume


def read_volume(path: str | Path) -> Volume:
    """A scalar 2-D or 3-D image file, with the values it stores: labels stay integers."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"{path}: no such image file")
    try:
        image = sitk.ReadImage(str(path))
    except RuntimeError as error:
        raise ValueError(f"{path}: not an image that SimpleITK can read") from error
    if image.GetNumberOfComponentsPerPixel() != 1 or image.GetDimension() not in (2, 3):
        found = f"{image.GetDimension()}-D with {image.GetNumberOfComponentsPerPixel()} values per voxel"
        raise ValueError(f"{path}: expected a 2-D or 3-D image with one value per voxel, got {found}")
    return from_sitk(image)


def from_sitk(image: sitk.Image) -> Volume:
    """A SimpleITK image as a volume. Unsigned integers, of which torch has few, become the next larger signed ones."""
    array = sitk.GetArrayFromImage(image)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int32 if array.dtype.itemsize == 2 else np.int64)
    return Volume(torch.from_numpy(array)[None, None], space_of(image))


def space_of(image: sitk.Image) -> Space:
    """The space of a SimpleITK image. ITK's indices are (x, y, z), ours are in array order: the columns are reversed."""
    dimension = image.GetDimension()
    columns: Matrix = np.array(image.GetDirection()).reshape(dimension, dimension) * np.array(image.GetSpacing())
    index_to_mm = np.eye(dimension + 1)
    index_to_mm[:-1, :-1] = columns[:, ::-1]
    index_to_mm[:-1, -1] = image.GetOrigin()
    return Space(tuple(reversed(image.GetSize())), index_to_mm)
