"""Image files in and out, by SimpleITK, with the checks that SimpleITK leaves to the caller."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import SimpleITK as sitk
import torch

from gradicon.errors import GradiconError, MissingFileError, UnwritableError
from gradicon.files import written_whole
from gradicon.physical.nifti import read_voxels
from gradicon.physical.pictures import read_gif
from gradicon.physical.space import Matrix, Space
from gradicon.physical.volume import Volume

Image = sitk.Image
_NIFTI = (".nii", ".nii.gz")
_GIF = ".gif"
_PICTURES = (".png", ".tif", ".tiff", _GIF)
_SCANS = (".nrrd", ".nhdr", ".mha", ".mhd", ".dcm", ".hdr", ".img", ".mgz", ".mgh")
EXTENSIONS = (*_NIFTI, *_SCANS, *_PICTURES)
"""Of the files that can be read."""
_FEWEST_VOXELS = 4


class CheckedImage(Image):
    """An image that `read_image` has checked, so that nobody checks it again.

    Whoever writes into one makes it an `Image` first.
    """


def read_image(path: str | Path) -> CheckedImage:
    """A scalar 2-D or 3-D image: a file, or a folder with one DICOM series; a 4-D file with a
    single volume is that volume.
    """
    path = Path(path)
    if not path.exists():
        raise MissingFileError(f"{path}: no such image file")
    sitk.ProcessObject.SetGlobalWarningDisplay(False)  # noqa: FBT003
    try:
        image = _read_series(path) if path.is_dir() else _read_file(path)
    except (RuntimeError, UnicodeDecodeError) as error:
        raise GradiconError(f"{path}: not an image that can be read: {reason(error)}") from error
    return CheckedImage(_checked(image, str(path)))


def read_volume(path: str | Path) -> Volume:
    """`read_image`, as a volume with the values that the file stores: labels stay integers."""
    return from_sitk(read_image(path))


def read_space(path: str | Path) -> Space | None:
    """Where an image file's voxels lie, by its header alone: nothing is read of the voxels.

    None of a DICOM folder, whose slices say it only all together.
    """
    if Path(path).is_dir():
        return None
    if str(path).lower().endswith(_GIF):
        return space_of(read_image(path))
    sitk.ProcessObject.SetGlobalWarningDisplay(False)  # noqa: FBT003
    reader = sitk.ImageFileReader()
    reader.SetFileName(str(path))
    try:
        reader.ReadImageInformation()
    except (RuntimeError, UnicodeDecodeError) as error:
        raise GradiconError(f"{path}: not an image that can be read: {reason(error)}") from error
    return space_of(reader)


def write_image(image: Image, path: str | Path) -> None:
    """Write an image file whole or not at all; its format goes by the extension."""
    with written_by_itk(path) as part:
        sitk.WriteImage(image, str(part), useCompression=True)


@contextmanager
def written_by_itk(path: str | Path) -> Generator[Path]:
    """`written_whole`, for a block in which ITK writes: what ITK says against it is one line."""
    with written_whole(path) as part:
        try:
            yield part
        except RuntimeError as error:
            raise UnwritableError(f"{path}: could not be written: {reason(error)}") from error


def as_image(source: "str | Path | Image | Volume") -> Image:
    """Any of the ways in which an image may be given, as a checked SimpleITK image."""
    if isinstance(source, CheckedImage):
        return source
    if isinstance(source, Volume):
        return _checked(to_sitk(source), "the volume")
    return _checked(source, "the image") if isinstance(source, Image) else read_image(source)


def from_sitk(image: Image) -> Volume:
    """A SimpleITK image as a volume.

    Unsigned integers, of which torch has few, become the next larger signed ones.
    """
    array = sitk.GetArrayFromImage(image)
    if array.dtype.kind == "u" and array.dtype.itemsize > 1:
        array = array.astype(np.int32 if array.dtype.itemsize == 2 else np.int64)
    return Volume(torch.from_numpy(array)[None, None], space_of(image))


def to_sitk(volume: Volume) -> Image:
    """A volume of one channel as a SimpleITK image."""
    if volume.data.shape[1] != 1:
        raise GradiconError(f"expected a volume with one channel, got {volume.data.shape[1]}")
    image = sitk.GetImageFromArray(volume.data[0, 0].cpu().numpy())
    place(image, volume.space)
    return image


def space_of(image: Image | sitk.ImageFileReader) -> Space:
    """The space of a SimpleITK image, without time.

    ITK's indices are (x, y, z), ours are in array order: the columns are reversed.
    """
    rank = image.GetDimension()
    axes = min(rank, 3)
    directions = np.array(image.GetDirection()).reshape(rank, rank)[:axes, :axes]
    columns: Matrix = directions * np.array(image.GetSpacing()[:axes])
    index_to_mm = np.eye(axes + 1)
    index_to_mm[:-1, :-1] = columns[:, ::-1]
    index_to_mm[:-1, -1] = image.GetOrigin()[:axes]
    return Space(tuple(reversed(image.GetSize()[:axes])), index_to_mm)


def place(image: Image, space: Space) -> None:
    """Give a SimpleITK image the spacing, direction and origin of a space."""
    columns: Matrix = space.index_to_mm[:-1, :-1][:, ::-1]
    spacing: Matrix = np.linalg.norm(columns, axis=0)
    image.SetSpacing(spacing.tolist())
    image.SetDirection((columns / spacing).ravel().tolist())
    image.SetOrigin(space.index_to_mm[:-1, -1].tolist())


def same_grid(a: Image, b: Image) -> bool:
    """Whether two images have the same voxels at the same places, to a thousandth of a voxel."""
    return space_of(a).coincides(space_of(b))


def pixel_type(image: Image) -> str:
    """The name of the values that an image stores, such as `16-bit signed integer`."""
    return str(image.GetPixelIDTypeAsString())


def _read_file(path: Path) -> Image:
    if not path.name.lower().endswith(EXTENSIONS):
        raise GradiconError(
            f"{path}: unknown image extension: expected one of {', '.join(EXTENSIONS)}"
        )
    if path.name.lower().endswith(_NIFTI):
        return _read_nifti(path)
    if path.name.lower().endswith(_GIF):
        return sitk.GetImageFromArray(read_gif(path))
    return sitk.ReadImage(str(path))


def _read_series(folder: Path) -> Image:
    series = sitk.ImageSeriesReader.GetGDCMSeriesIDs(str(folder))
    if len(series) != 1:
        found = "no DICOM series" if not series else f"{len(series)} DICOM series"
        raise GradiconError(f"{folder}: {found} in this folder: expected a folder with exactly one")
    return sitk.ReadImage(sitk.ImageSeriesReader.GetGDCMSeriesFileNames(str(folder), series[0]))


def _read_nifti(path: Path) -> Image:
    """Decompressed once: the voxels out of its bytes, where they lie as ITK reads the header."""
    stored = read_voxels(path)
    if stored is None:
        return sitk.ReadImage(str(path))
    if stored.plain:
        header = sitk.ImageFileReader()
        header.SetFileName(str(path))
        header.ReadImageInformation()
        image = sitk.GetImageFromArray(stored.values, isVector=False)
        if (header.GetSize(), header.GetPixelID()) == (image.GetSize(), image.GetPixelID()):
            image.SetSpacing(header.GetSpacing())
            image.SetOrigin(header.GetOrigin())
            image.SetDirection(header.GetDirection())
            return image
    # ITK's reader turns NaN and infinity into zeros: they are found here or not at all
    _refuse_non_finite(stored.values, str(path))
    return sitk.ReadImage(str(path))


def _refuse_non_finite(values: np.ndarray, name: str) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise GradiconError(
            f"{name}: {int((~np.isfinite(values)).sum())} voxels are NaN or infinite: "
            "replace them first"
        )


def _checked(image: Image, name: str) -> Image:
    if image.GetDimension() == 4:
        if image.GetSize()[3] != 1:
            raise GradiconError(
                f"{name}: a 4-D image with {image.GetSize()[3]} volumes: extract the one "
                "to register"
            )
        image = image[:, :, :, 0]
    components = image.GetNumberOfComponentsPerPixel()
    if components != 1 or image.GetDimension() not in (2, 3) or "complex" in pixel_type(image):
        found = f"{image.GetDimension()}-D with {components} values per voxel ({pixel_type(image)})"
        raise GradiconError(
            f"{name}: expected a 2-D or 3-D image with one real value per voxel, got {found}"
        )
    if min(image.GetSize()) < _FEWEST_VOXELS:
        raise GradiconError(
            f"{name}: at least {_FEWEST_VOXELS} voxels are needed along each axis, got "
            f"{image.GetSize()}"
        )
    _refuse_non_finite(sitk.GetArrayViewFromImage(image), name)
    if abs(np.linalg.det(space_of(image).index_to_mm)) < 1e-9:
        raise GradiconError(
            f"{name}: the header's spacing or direction is degenerate: correct it first"
        )
    return image


def reason(error: RuntimeError | UnicodeDecodeError) -> str:
    """The last line of what ITK says, which is the one that matters.

    Of bytes that are no text it says nothing readable.
    """
    return (
        "damaged"
        if isinstance(error, UnicodeDecodeError)
        else str(error).strip().splitlines()[-1].strip()
    )
