"""Distances of surfaces, against SimpleITK's distance maps and against geometry."""

import numpy as np
import pytest
import SimpleITK as sitk

from gradicon.evaluation.surfaces import hd95

SPACING = (2.0, 1.0, 0.5)


def ball(
    centre: tuple[float, float, float], radius: float, shape: tuple[int, int, int] = (30, 40, 50)
) -> np.ndarray:
    z, y, x = np.indices(shape)
    mm = [(axis - c) * s for axis, c, s in zip((z, y, x), centre, SPACING, strict=True)]
    return (sum(a**2 for a in mm) < radius**2).astype(np.uint8)


def by_simpleitk(a: np.ndarray, b: np.ndarray) -> float:
    """The same measure from Maurer's distance maps and SimpleITK's contours."""
    images = [sitk.GetImageFromArray(mask) for mask in (a, b)]
    for image in images:
        image.SetSpacing(SPACING[::-1])
    surfaces = [
        image - sitk.BinaryErode(image, [1, 1, 1], sitk.sitkCross, 0, 1, False) for image in images
    ]
    maps = [
        sitk.GetArrayFromImage(sitk.Abs(sitk.SignedMaurerDistanceMap(s, False, False, True)))
        for s in surfaces
    ]
    seen = [sitk.GetArrayFromImage(s) > 0 for s in surfaces]
    return max(np.percentile(maps[1][seen[0]], 95), np.percentile(maps[0][seen[1]], 95))


def test_against_simpleitk():
    a = ball((14, 18, 22), 8)
    b = ball((16, 22, 30), 10)
    np.testing.assert_allclose(hd95(a, b, SPACING)[1], by_simpleitk(a, b), rtol=1e-5)


def test_a_shifted_label_is_as_far_as_it_was_shifted():
    a = np.zeros((20, 20, 20), np.uint8)
    a[5:10, 5:10, 5:10] = 3
    assert hd95(a, np.roll(a, 4, axis=0), SPACING) == {3: 8.0}
    assert hd95(a, a, SPACING) == {3: 0.0}


def test_labels_that_one_map_lacks_have_no_distance():
    a = np.array([[0, 1, 1], [2, 2, 0]])
    b = np.array([[0, 1, 0], [0, 0, 0]])
    assert set(hd95(a, b, (1.0, 1.0))) == {1}
    with pytest.raises(ValueError, match=r"one shape, got \(2, 3\) and \(3, 2\)"):
        hd95(a, a.T, (1.0, 1.0))
