import math
from collections.abc import Callable

import numpy as np
import pytest
import SimpleITK as sitk
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from gradicon.core.similarity import (
    SIMILARITIES,
    lncc,
    mind_ssc,
    mutual_information,
    ncc,
    squared_lncc,
)
from maps import blobs

SHAPES = [(13, 16), (9, 11, 10)]
EACH = pytest.mark.parametrize("similarity", list(SIMILARITIES.values()), ids=list(SIMILARITIES))
IN_BOTH_DIMENSIONS = pytest.mark.parametrize("shape", SHAPES, ids=["2d", "3d"])
Measure = Callable[..., Tensor]


@EACH
@IN_BOTH_DIMENSIONS
def test_an_image_is_most_like_itself(similarity: Measure, shape: tuple[int, ...]):
    image = blobs(shape, 1)
    other = blobs(shape, 2)
    assert similarity(image, image) < similarity(image, other)
    if similarity is not mutual_information:
        assert similarity(image, image).item() == pytest.approx(0, abs=5e-3)


@EACH
@IN_BOTH_DIMENSIONS
def test_gradients_are_exact(similarity: Measure, shape: tuple[int, ...]):
    small = tuple(min(n, 6) for n in shape)
    fixed = blobs(small, 2, dtype=torch.float64)
    warped = blobs(small, 1, dtype=torch.float64)
    direction = torch.randn(
        warped.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    direction[warped == warped.max()] = direction[warped == warped.min()] = (
        0  # the histogram's range is held fixed
    )
    # MIND holds its noise clamp fixed too: its bounds are far away here
    t = torch.zeros((), dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(similarity(warped + t * direction, fixed), t)
    h = 1e-6
    measured = (
        similarity(warped + h * direction, fixed) - similarity(warped - h * direction, fixed)
    ) / (2 * h)
    assert slope.item() == pytest.approx(measured.item(), rel=1e-4, abs=1e-8)


@EACH
@IN_BOTH_DIMENSIONS
def test_a_mask_of_ones_changes_nothing(similarity: Measure, shape: tuple[int, ...]):
    a = blobs(shape, 1)
    b = blobs(shape, 2)
    torch.testing.assert_close(similarity(a, b, mask=torch.ones_like(a)), similarity(a, b))


@EACH
@IN_BOTH_DIMENSIONS
def test_a_mask_is_normalised_by_its_weight(similarity: Measure, shape: tuple[int, ...]):
    a = blobs(shape, 1)
    b = blobs(shape, 2)
    mask = torch.rand(a.shape, generator=torch.Generator().manual_seed(0)).round()
    torch.testing.assert_close(similarity(a, b, mask=mask), similarity(a, b, mask=3 * mask))


@EACH
def test_what_lies_outside_the_mask_does_not_count(similarity: Measure):
    image = blobs((48, 20), 1)
    mask = torch.zeros_like(image)
    mask[..., :14, :] = 1
    altered = image.clone()
    altered[..., 30:, :] = 2 * blobs((18, 20), 3)  # beyond the reach of every window
    torch.testing.assert_close(
        similarity(altered, image, mask=mask),
        similarity(image, image, mask=mask),
        rtol=1e-3,
        atol=1e-3,
    )
    assert similarity(altered, image) > similarity(image, image) + 0.02


def test_background_does_not_dilute_a_masked_value():
    """The reference divides a masked LNCC by the whole volume: the same pair in a larger frame then
    looks better matched.
    """
    a = blobs((20, 20), 1)
    b = blobs((20, 20), 2)
    mask = torch.zeros_like(a)
    mask[..., 8:12, 8:12] = 1
    frame = (30, 30, 30, 30)
    framed = [torch.nn.functional.pad(image, frame) for image in (a, b, mask)]
    narrow = lncc(a, b, sigma=1, mask=mask)
    assert lncc(framed[0], framed[1], sigma=1, mask=framed[2]).item() == pytest.approx(
        narrow.item(), rel=1e-4
    )


@EACH
def test_a_batch_is_the_mean_of_its_pairs(similarity: Measure):
    a = torch.cat([blobs((12, 14), seed) for seed in (1, 2, 3)])
    b = torch.cat([blobs((12, 14), seed) for seed in (4, 5, 6)])
    one_by_one = torch.stack([similarity(a[i : i + 1], b[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(similarity(a, b), one_by_one.mean())


@pytest.mark.parametrize("every", [1, 2])
def test_lncc_is_what_its_definition_says(every: int):
    """Window by window, with numpy: weights exp(-d^2 / 2 sigma^2) up to 2 sigma, zero beyond the
    image.
    """
    sigma = 2
    a, b = (blobs((11, 9), seed, dtype=torch.float64)[0, 0].numpy() for seed in (1, 2))
    offsets = np.arange(-2 * sigma, 2 * sigma + 1)
    weights = np.exp(-0.5 * (offsets / sigma) ** 2)
    window = np.outer(weights, weights) / weights.sum() ** 2
    pad_a = np.pad(a, 2 * sigma)
    pad_b = np.pad(b, 2 * sigma)
    total = 0.0
    windows = [(i, j) for i, j in np.ndindex(a.shape) if i % every == j % every == 0]
    for i, j in windows:
        at = (slice(i, i + len(offsets)), slice(j, j + len(offsets)))
        mean_a = (window * pad_a[at]).sum()
        mean_b = (window * pad_b[at]).sum()
        var_a = (window * pad_a[at] ** 2).sum() - mean_a**2
        var_b = (window * pad_b[at] ** 2).sum() - mean_b**2
        covariance = (window * pad_a[at] * pad_b[at]).sum() - mean_a * mean_b
        total += covariance / math.sqrt((var_a + 1e-5) * (var_b + 1e-5))
    found = lncc(
        torch.from_numpy(a)[None, None], torch.from_numpy(b)[None, None], sigma=sigma, every=every
    )
    assert found.item() == pytest.approx(1 - total / len(windows), rel=1e-9)


@pytest.mark.parametrize("measure", [lncc, squared_lncc])
def test_fewer_windows_say_nearly_the_same_and_weigh_all_of_a_mask(measure: Measure):
    a = blobs((24, 26, 20), 1, dtype=torch.float64)
    b = blobs((24, 26, 20), 2, dtype=torch.float64)
    mask = torch.zeros_like(a)
    mask[..., 3:20, 5:22, 2:17] = 1
    for weight in (None, mask):
        all_of_them = measure(a, b, sigma=3, mask=weight).item()
        assert measure(a, b, sigma=3, every=2, mask=weight).item() == pytest.approx(
            all_of_them, rel=0.03
        )
    thin = torch.zeros_like(a)
    thin[..., 7] = 1  # between two windows along that axis
    assert measure(a, b, sigma=3, every=2, mask=thin).item() == pytest.approx(
        measure(a, b, sigma=3, mask=thin).item(), rel=0.1
    )
    torch.testing.assert_close(
        measure(a, b, sigma=1.4, every=2), measure(a, b, sigma=1.4)
    )  # too narrow to leave any out
    assert measure(a, b, sigma=1.9, every=2) != measure(
        a, b, sigma=1.9
    )  # voxels need not be cubes to the last digit


@given(st.floats(0.1, 5), st.floats(-2, 2))
def test_ncc_ignores_brightness_and_contrast(scale: float, shift: float):
    a = blobs((12, 13), 1, dtype=torch.float64)
    b = blobs((12, 13), 2, dtype=torch.float64)
    torch.testing.assert_close(ncc(scale * a + shift, b), ncc(a, b), rtol=1e-6, atol=1e-6)


def test_ncc_is_one_minus_the_correlation_coefficient():
    a = blobs((12, 13), 1, dtype=torch.float64)
    b = blobs((12, 13), 2, dtype=torch.float64)
    assert ncc(a, b).item() == pytest.approx(
        1 - np.corrcoef(a.flatten(), b.flatten())[0, 1], rel=1e-6
    )


@pytest.mark.parametrize("similarity", [squared_lncc, mind_ssc, mutual_information])
def test_measures_for_two_modalities_see_through_inverted_contrast(similarity: Measure):
    a = blobs((40, 42), 1)
    inside = torch.zeros(1, 1, 40, 42)
    inside[..., 10:-10, 10:-10] = (
        1  # LNCC's windows reach beyond the image near its border, where there is nothing to invert
    )
    assert similarity(1 - a, a, mask=inside).item() == pytest.approx(
        similarity(a, a, mask=inside).item(), abs=1e-3
    )
    assert similarity(1 - a, a, mask=inside) < similarity(blobs((40, 42), 2), a, mask=inside) - 0.1


def test_mutual_information_of_independent_images_is_zero_and_of_equal_ones_large():
    generator = torch.Generator().manual_seed(0)
    a, b = torch.rand(2, 1, 1, 200, 200, generator=generator)
    assert -mutual_information(a, b).item() < 0.03
    assert -mutual_information(a, a).item() > 1.5


def test_mutual_information_agrees_with_itk():
    """ITK's Mattes metric puts each fixed voxel into one bin, not into a spline over four: its
    values are a little larger.
    """
    a = blobs((60, 70), 1)
    b = blobs((60, 70), 2)
    for moving, fixed in ((a, b), (a + 0.2 * b, b), (a, a)):
        method = sitk.ImageRegistrationMethod()
        method.SetMetricAsMattesMutualInformation(32)
        method.SetInterpolator(sitk.sitkLinear)
        method.SetInitialTransform(sitk.Transform(2, sitk.sitkIdentity))
        images = [sitk.GetImageFromArray(image[0, 0].numpy()) for image in (fixed, moving)]
        oracle = method.MetricEvaluate(images[0], images[1])
        assert mutual_information(moving, fixed, bins=32).item() == pytest.approx(oracle, rel=0.2)


@EACH
def test_constant_images_give_finite_values_and_gradients(similarity: Measure):
    flat = torch.full((1, 1, 9, 9), 0.5, requires_grad=True)
    value = similarity(flat, blobs((9, 9), 1))
    value.backward()
    assert torch.isfinite(value)
    assert flat.grad is not None
    assert torch.isfinite(flat.grad).all()


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    ("warped", "fixed", "mask", "message"),
    [
        (
            torch.zeros(1, 1, 5, 5),
            torch.zeros(1, 1, 5, 6),
            None,
            r"one shape, got \(1, 1, 5, 5\) and \(1, 1, 5, 6\)",
        ),
        (
            torch.zeros(1, 1, 5, 5).int(),
            torch.zeros(1, 1, 5, 5).int(),
            None,
            "floating-point dtype, got torch.int32",
        ),
        (
            torch.zeros(1, 1, 5, 5),
            torch.zeros(1, 1, 5, 5),
            torch.ones(1, 1, 5, 4),
            r"mask must have shape \(1, 1, 5, 5\)",
        ),
        (
            torch.zeros(1, 1, 5, 5),
            torch.zeros(1, 1, 5, 5),
            torch.zeros(1, 1, 5, 5),
            "the mask is empty",
        ),
        (
            torch.zeros(1, 1, 5, 5),
            torch.zeros(1, 1, 5, 5),
            torch.ones(1, 1, 5, 5).bool(),
            "images' dtype",
        ),
    ],
)
@EACH
def test_bad_input(
    similarity: Measure, warped: Tensor, fixed: Tensor, mask: Tensor | None, message: str
):
    with pytest.raises((ValueError, TypeError), match=message):
        similarity(warped, fixed, mask=mask)
