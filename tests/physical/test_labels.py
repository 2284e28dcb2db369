"""Labels between voxels, against ITK's own interpolator."""

import numpy as np
import pytest
import SimpleITK as sitk

from gradicon.physical.labels import read_labels
from gradicon.physical.transforms import resample


def blobs(shape: tuple[int, ...], seed: int = 0) -> sitk.Image:
    rng = np.random.default_rng(seed)
    image = sitk.GetImageFromArray(rng.integers(0, 5, shape).astype(np.uint8) * 40)
    image.SetSpacing([1.3, 0.7, 2.1][: len(shape)])
    image.SetOrigin([-5.0, 12.0, 3.0][: len(shape)])
    return image


def turned(dimension: int) -> sitk.Transform:
    turn = sitk.Euler3DTransform() if dimension == 3 else sitk.Euler2DTransform()
    turn.SetParameters(
        [0.05, -0.03, 0.2, 1.234, -0.567, 0.391] if dimension == 3 else [0.3, 1.234, -0.567]
    )
    turn.SetCenter([-5.0, 12.0, 3.0][:dimension])
    return turn


@pytest.mark.parametrize("shape", [(9, 11, 8), (12, 10), (1, 9, 8)])
def test_labels_are_read_as_itk_reads_them(shape: tuple[int, ...]):
    moving = blobs(shape)
    fixed = blobs(tuple(n + 3 for n in shape), 1)
    ours = resample(moving, fixed, turned(len(shape)), "label", outside=7)
    itk = sitk.Resample(
        moving, fixed, turned(len(shape)), sitk.sitkLabelLinear, 7, moving.GetPixelID()
    )
    a = sitk.GetArrayFromImage(ours)
    b = sitk.GetArrayFromImage(itk)
    assert len(np.unique(b)) > 2  # several labels, and the outside
    np.testing.assert_array_equal(a, b)
    assert ours.GetPixelID() == moving.GetPixelID()
    assert (ours.GetOrigin(), ours.GetSpacing(), ours.GetDirection()) == (
        itk.GetOrigin(),
        itk.GetSpacing(),
        itk.GetDirection(),
    )


def test_at_the_voxels_nothing_changes():
    labels = blobs((6, 7, 5))
    same = resample(labels, labels, sitk.Transform(3, sitk.sitkIdentity), "label")
    np.testing.assert_array_equal(sitk.GetArrayFromImage(same), sitk.GetArrayFromImage(labels))


def test_the_greatest_share_wins_over_the_nearest_voxel():
    labels = np.zeros((2, 2), np.int32)
    labels[0, 1] = 9
    point = np.array([[0.4, 0.7]])  # nearest to the 9, which has a share of 0.42
    assert read_labels(labels, point).tolist() == [0]


def test_more_points_than_are_read_at_a_time():
    labels = np.arange(64, dtype=np.int64).reshape(4, 4, 4)
    index = np.tile([[1.2, 2.1, 0.4], [8.0, 0.0, 0.0]], (200_000, 1))
    found = read_labels(labels, index, outside=-1)
    assert set(found[::2].tolist()) == {labels[1, 2, 0]}
    assert set(found[1::2].tolist()) == {-1}
