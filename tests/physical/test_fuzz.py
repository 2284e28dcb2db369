"""Damaged files of every kind: the readers answer with a value or with one clear line, and with
nothing else.
"""

from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradicon.physical.images import read_image
from gradicon.physical.transforms import read_transform
from physical.geometry import random_image

FUZZ = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
EDITS = st.tuples(
    st.integers(0, 10**6), st.integers(0, 255), st.sampled_from(["flip", "cut", "insert"])
)


def damage(content: bytes, edit: tuple[int, int, str]) -> bytes:
    position, value, kind = edit
    position %= len(content)
    if kind == "cut":
        return content[:position]
    middle = bytes([value]) + (content[position:] if kind == "insert" else content[position + 1 :])
    return content[:position] + middle


def answers_with_a_value_or_one_line(read: object, path: Path) -> None:
    message = path.name
    try:
        read(path)  # type: ignore[operator]
    except (ValueError, OSError) as error:
        message = str(error)
    assert "\n" not in message
    assert path.name in message


@pytest.mark.parametrize(
    "name", ["image.nii.gz", "image.nii", "image.nrrd", "image.mha", "image.png"]
)
@FUZZ
@given(edit=EDITS)
def test_images(tmp_path: Path, name: str, edit: tuple[int, int, str]):
    path = tmp_path / name
    image = random_image(1, 2 if name.endswith("png") else 3)
    sitk.WriteImage(sitk.Cast(image * 250, sitk.sitkUInt8), str(path))
    path.write_bytes(damage(path.read_bytes(), edit))
    answers_with_a_value_or_one_line(read_image, path)


@pytest.mark.parametrize("name", ["affine.tfm", "affine.h5", "field.nii.gz"])
@FUZZ
@given(edit=EDITS)
def test_transforms(tmp_path: Path, name: str, edit: tuple[int, int, str]):
    path = tmp_path / name
    if name.startswith("affine"):
        sitk.WriteTransform(sitk.AffineTransform(3), str(path))
    else:
        sitk.WriteImage(sitk.GetImageFromArray(np.zeros((4, 5, 6, 3)), isVector=True), str(path))
    path.write_bytes(damage(path.read_bytes(), edit))
    answers_with_a_value_or_one_line(read_transform, path)


@FUZZ
@given(
    content=st.binary(max_size=400),
    name=st.sampled_from(
        ["x.nii.gz", "x.nii", "x.nrrd", "x.mha", "x.png", "x.tif", "x.h5", "x.tfm"]
    ),
)
def test_random_bytes(tmp_path: Path, content: bytes, name: str):
    (tmp_path / name).write_bytes(content)
    answers_with_a_value_or_one_line(
        read_transform if name.endswith((".h5", ".tfm")) else read_image, tmp_path / name
    )
