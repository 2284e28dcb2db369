"""Transforms in millimetres: ITK's files and filters, for everything that reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import SimpleITK as sitk

from gradicon.core.transform import Transform
from gradicon.errors import GradiconError, MissingFileError
from gradicon.physical.images import Image, place, reason, space_of, written_by_itk
from gradicon.physical.labels import read_labels
from gradicon.physical.space import Matrix, Space

ItkTransform = sitk.Transform
Interpolation = Literal["linear", "nearest", "label", "bspline"]
_INTERPOLATORS: dict[str, int] = {
    "linear": sitk.sitkLinear,
    "nearest": sitk.sitkNearestNeighbor,
    "bspline": sitk.sitkBSpline,
}
_BLOCK = 1 << 20
_FILES = (".h5", ".hdf5", ".tfm", ".txt", ".mat", ".xfm")
_FIELDS = (".nii.gz", ".nii", ".mha", ".nrrd")


def to_itk(phi: Transform, fixed: Space, moving: Space) -> sitk.CompositeTransform:
    """phi, from the unit cube of `fixed` to that of `moving`, as ITK's transform of points of fixed
    to points of moving.

    T(p) = L(p + v(p)) with v = M_fixed u and L = M_moving M_fixed^-1: one displacement field on the
    fixed grid, then one affine. It resamples moving onto fixed. ITK's field is zero beyond the
    fixed grid and ours constant: they agree inside it.
    """
    linear = moving.unit_to_mm @ np.linalg.inv(fixed.unit_to_mm)
    return sitk.CompositeTransform(
        [affine_to_itk(linear), _field(phi, fixed)]
    )  # ITK applies the last one first


def inverse_to_itk(phi: Transform, fixed: Space, moving: Space) -> sitk.CompositeTransform:
    """phi, between two points of `fixed`'s unit cube, as ITK's transform of points of moving to
    points of fixed.

    T(q) = L^-1 q + v(L^-1 q): the reverse order of `to_itk`, with the field still on the fixed
    grid.
    """
    linear = fixed.unit_to_mm @ np.linalg.inv(moving.unit_to_mm)
    return sitk.CompositeTransform([_field(phi, fixed), affine_to_itk(linear)])


def affine_to_itk(matrix: Matrix) -> sitk.AffineTransform:
    """A homogeneous matrix in mm as ITK's."""
    return sitk.AffineTransform(matrix[:-1, :-1].ravel().tolist(), matrix[:-1, -1].tolist())


def identity_transform(dimension: int) -> ItkTransform:
    """The transform that moves nothing."""
    return sitk.Transform(dimension, sitk.sitkIdentity)


def read_transform(path: str | Path) -> ItkTransform:
    """An ITK transform file, or a displacement field in an image file, in mm as ITK and ANTs write
    it.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f"{path}: no such transform file")
    name = path.name.lower()
    if not name.endswith(_FILES + _FIELDS):
        raise GradiconError(
            f"{path}: unknown transform extension: expected one of {', '.join(_FILES + _FIELDS)}"
        )
    sitk.ProcessObject.SetGlobalWarningDisplay(False)  # noqa: FBT003
    try:
        if name.endswith(_FILES):
            return sitk.ReadTransform(str(path))
        field = sitk.ReadImage(str(path), sitk.sitkVectorFloat64)
        if field.GetNumberOfComponentsPerPixel() != field.GetDimension():
            raise GradiconError(
                f"{path}: not a displacement field: "
                f"{field.GetNumberOfComponentsPerPixel()} values per voxel"
            )
        return sitk.DisplacementFieldTransform(field)
    except (RuntimeError, UnicodeDecodeError) as error:
        raise GradiconError(
            f"{path}: not a transform that ITK can read: {reason(error)}"
        ) from error


def write_transform(transform: ItkTransform, path: str | Path) -> None:
    """Write ITK's own `.h5` or `.tfm`, whole or not at all."""
    path = Path(path)
    if not path.name.lower().endswith((".h5", ".hdf5", ".tfm")):
        raise GradiconError(f"{path}: unknown transform extension: expected .h5 or .tfm")
    with written_by_itk(path) as part:
        _check_room(part, 8 * transform.GetNumberOfParameters())
        sitk.WriteTransform(transform, str(part))


def compose(transforms: Sequence[ItkTransform]) -> ItkTransform:
    """One transform through which points go in the order given, as in ANTs: the first one first."""
    dimensions = {transform.GetDimension() for transform in transforms}
    if len(dimensions) != 1:
        raise GradiconError(
            f"transforms to compose must be of one dimension, got {sorted(dimensions)}"
        )
    return sitk.CompositeTransform(list(reversed(transforms)))


def resample(
    image: Image,
    reference: Image,
    transform: ItkTransform,
    interpolation: Interpolation = "linear",
    outside: float = 0,
) -> Image:
    """The image on the reference's grid, in the image's own pixel type: value(p) = image(T(p)).

    "label" takes the label with the greatest share of a linear interpolation: it invents none, and
    knows where between two voxels the surface is, which "nearest" does not.
    """
    if not image.GetDimension() == reference.GetDimension() == transform.GetDimension():
        found = (
            f"{image.GetDimension()}-D, {reference.GetDimension()}-D and "
            f"{transform.GetDimension()}-D"
        )
        raise GradiconError(f"image, reference and transform must be of one dimension, got {found}")
    if interpolation == "label":
        return _labels(image, reference, transform, outside)
    kind = image.GetPixelID()
    how = _INTERPOLATORS[interpolation]
    if interpolation == "nearest" or kind in (sitk.sitkFloat32, sitk.sitkFloat64):
        return sitk.Resample(image, reference, transform, how, outside, kind)
    found = sitk.Resample(image, reference, transform, how, outside, sitk.sitkFloat64)
    return _rounded(found, image)


def transform_points(transform: ItkTransform, points_mm: Matrix) -> Matrix:
    """T(p) for points (N, D) in LPS mm."""
    if points_mm.shape[1] != transform.GetDimension():
        raise GradiconError(
            f"the points are {points_mm.shape[1]}-D, the transform is {transform.GetDimension()}-D"
        )
    return np.array([transform.TransformPoint(point) for point in points_mm.tolist()]).reshape(
        points_mm.shape
    )


def displacement_image(transform: ItkTransform, reference: Image) -> Image:
    """T(p) - p in mm at every voxel of the reference: the field that ANTs and ITK read."""
    size = reference.GetSize()
    origin = reference.GetOrigin()
    spacing = reference.GetSpacing()
    direction = reference.GetDirection()
    return sitk.TransformToDisplacementField(
        transform, sitk.sitkVectorFloat64, size, origin, spacing, direction
    )


def write_ants_field(transform: ItkTransform, reference: Image, path: str | Path) -> None:
    """An ANTs-style displacement field: mm, float32, on the reference's grid."""
    with written_by_itk(Path(path)) as part:
        sitk.WriteImage(
            sitk.Cast(displacement_image(transform, reference), sitk.sitkVectorFloat32),
            str(part),
            useCompression=True,
        )


def write_learn2reg_field(transform: ItkTransform, reference: Image, path: str | Path) -> None:
    """Learn2Reg's displacements: an image (X, Y, Z, 3) of voxels of the reference's grid, along its
    own axes.
    """
    mm = sitk.GetArrayFromImage(displacement_image(transform, reference))
    mm_to_index = np.linalg.inv(space_of(reference).index_to_mm[:-1, :-1])[
        ::-1
    ]  # array order to (x, y, z)
    voxels = np.moveaxis(mm @ mm_to_index.T, -1, 0).astype(np.float32)
    with written_by_itk(Path(path)) as part:
        sitk.WriteImage(
            sitk.GetImageFromArray(voxels, isVector=False), str(part), useCompression=True
        )


def jacobian_image(transform: ItkTransform, reference: Image, *, log: bool = False) -> Image:
    """The determinant of T's Jacobian at every voxel of the reference, or its logarithm, clipped
    below at 1e-9.

    ITK's filter takes displacements for such along the axes of the grid, whatever its direction
    says: they are turned there first.
    """
    turn = np.array(reference.GetDirection()).reshape(reference.GetDimension(), -1)
    along_axes = sitk.GetImageFromArray(
        sitk.GetArrayFromImage(displacement_image(transform, reference)) @ turn, isVector=True
    )
    along_axes.SetSpacing(reference.GetSpacing())
    determinant = sitk.Cast(sitk.DisplacementFieldJacobianDeterminant(along_axes), sitk.sitkFloat32)
    determinant.CopyInformation(reference)
    return sitk.Log(sitk.Maximum(determinant, 1e-9)) if log else determinant


def _rounded(image: Image, like: Image) -> Image:
    """The nearest whole numbers, in the pixel type of another image: ITK's cast cuts them off."""
    kind = sitk.GetArrayViewFromImage(like).dtype
    limits = np.iinfo(kind)
    values = np.rint(sitk.GetArrayViewFromImage(image)).clip(limits.min, limits.max)
    rounded = sitk.GetImageFromArray(values.astype(kind))
    rounded.CopyInformation(image)
    return rounded


def _labels(image: Image, reference: Image, transform: ItkTransform, outside: float) -> Image:
    space = space_of(reference)
    there = space_of(image)
    mm = sitk.GetArrayFromImage(displacement_image(transform, reference)).reshape(
        -1, reference.GetDimension()
    )
    mm += (
        np.moveaxis(np.indices(space.shape), 0, -1).reshape(mm.shape)
        @ space.index_to_mm[:-1, :-1].T
        + space.index_to_mm[:-1, -1]
    )
    to_index = np.linalg.inv(there.index_to_mm).astype(np.float64)
    index = mm @ to_index[:-1, :-1].T + to_index[:-1, -1]
    found = sitk.GetImageFromArray(
        read_labels(sitk.GetArrayViewFromImage(image), index, outside=outside).reshape(space.shape)
    )
    found.CopyInformation(reference)
    return sitk.Cast(found, image.GetPixelID())


def _check_room(path: Path, size: int) -> None:
    """Fail now, with a clean error, if there is no room: HDF5 crashes the process when a disk fills
    up while it writes.
    """
    with path.open("wb") as file:
        for _ in range(size // _BLOCK + 1):
            file.write(bytes(_BLOCK))


def _field(phi: Transform, space: Space) -> sitk.DisplacementFieldTransform:
    u = phi.to("cpu").materialise(space.shape).u
    if u.shape[0] != 1:
        raise GradiconError(f"one transform is written at a time, got a batch of {u.shape[0]}")
    v = np.moveaxis(u[0].detach().double().numpy(), 0, -1) @ space.unit_to_mm[:-1, :-1].T
    field = sitk.GetImageFromArray(v, isVector=True)
    place(field, space)
    return sitk.DisplacementFieldTransform(field)
