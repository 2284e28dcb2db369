"""Transforms in millimetres, for ITK and everything that reads its files."""

import numpy as np
import SimpleITK as sitk

from gradicon.core.transform import Transform
from gradicon.physical.space import Matrix, Space


def to_itk(phi: Transform, fixed: Space, moving: Space) -> sitk.CompositeTransform:
    """phi, from the unit cube of `fixed` to that of `moving`, as ITK's transform of points of fixed to points of moving.

    T(p) = L(p + v(p)) with v = M_fixed u and L = M_moving M_fixed^-1: one displacement field on the fixed grid, then one affine.
    It resamples moving onto fixed. ITK's field is zero beyond the fixed grid and ours constant: they agree inside it.
    """
    u = phi.to("cpu").materialise(fixed.shape).u
    if u.shape[0] != 1:
        raise ValueError(f"one transform is written at a time, got a batch of {u.shape[0]}")
    v = np.moveaxis(u[0].detach().double().numpy(), 0, -1) @ fixed.unit_to_mm[:-1, :-1].T
    field = sitk.GetImageFromArray(v, isVector=True)
    _place(field, fixed)
    linear = moving.unit_to_mm @ np.linalg.inv(fixed.unit_to_mm)
    affine = sitk.AffineTransform(linear[:-1, :-1].ravel().tolist(), linear[:-1, -1].tolist())
    return sitk.CompositeTransform([affine, sitk.DisplacementFieldTransform(field)])  # ITK applies the last one first


def _place(image: sitk.Image, space: Space) -> None:
    columns: Matrix = space.index_to_mm[:-1, :-1][:, ::-1]
    spacing: Matrix = np.linalg.norm(columns, axis=0)
    image.SetSpacing(spacing.tolist())
    image.SetDirection((columns / spacing).ravel().tolist())
    image.SetOrigin(space.index_to_mm[:-1, -1].tolist())
