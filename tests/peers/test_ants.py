"""ANTs opens what we write, and finds the same places and the same image."""

from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk

from gradicon import Options, register
from gradicon.physical.images import read_image, write_image
from gradicon.physical.transforms import (
    resample,
    transform_points,
    write_ants_field,
    write_transform,
)
from registration.pairs import SAMPLE

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("name", ["transform.h5", "field.nii.gz"])
def test_ants_reads_our_transforms(tmp_path: Path, name: str):
    import ants
    import pandas as pd

    fixed, moving = (
        sitk.Cast(read_image(SAMPLE / f"{part}.nii.gz"), sitk.sitkFloat32)
        for part in ("fixed", "moving")
    )
    found = register(fixed, moving, Options(model="none", refine=5, init="affine"))
    path = tmp_path / name
    reference = ants.image_read(str(SAMPLE / "fixed.nii.gz"))
    if name.endswith("h5"):
        write_transform(found.transform, path)
    else:
        write_ants_field(found.transform, fixed, path)
    write_image(moving, tmp_path / "moving.nii.gz")
    theirs = ants.apply_transforms(
        reference, ants.image_read(str(tmp_path / "moving.nii.gz")), [str(path)], defaultvalue=0
    )
    ours = sitk.GetArrayFromImage(resample(moving, fixed, found.transform, outside=0))
    inner = (slice(3, -3),) * 3
    np.testing.assert_allclose(theirs.numpy().T[inner], ours[inner], atol=1e-2 * ours.max())
    indices = [(8, 12, 9), (17, 25, 17), (20, 30, 22)]
    points = np.array([fixed.TransformIndexToPhysicalPoint(index) for index in indices])
    frame = pd.DataFrame(points, columns=["x", "y", "z"])
    there = ants.apply_transforms_to_points(3, frame, [str(path)]).to_numpy()
    np.testing.assert_allclose(there, transform_points(found.transform, points), atol=1e-3)
    assert np.abs(there - points).max() > 0.5  # something was there to get wrong
