"""Reading an image on a grid: the mean over each voxel's extent, along the image's own axes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradicon.physical.preprocess import Scaling, Source, View, mean_over
from gradicon.physical.space import Space
from gradicon.physical.volume import Volume
from maps import blobs


def space(shape: tuple[int, ...], spacing: tuple[float, ...]) -> Space:
    return Space(shape, np.diag([*spacing, 1.0]))


@given(width=st.floats(0.1, 7.9), axis=st.integers(0, 1), seed=st.integers(0, 99))
def test_a_mean_over_some_voxels_is_that_of_finely_divided_ones(width: float, axis: int, seed: int):
    """Voxels are cut into a thousand parts, and those within half a width are averaged."""
    data = torch.rand((1, 1, 9, 11), generator=torch.Generator().manual_seed(seed))
    n = data.shape[axis + 2]
    parts = np.arange(-8000, (n + 8) * 1000) / 1000 + 0.0005 - 0.5  # where each part's centre is
    voxel = np.clip(np.round(parts), 0, n - 1).astype(int)
    lines = data[0, 0].movedim(axis, 0).numpy()
    reach = max(width, 1.0) / 2
    want = [lines[voxel[abs(parts - i) < reach]].mean(0) for i in range(n)]
    found = mean_over(data, axis, width)[0, 0].movedim(axis, 0)
    np.testing.assert_allclose(found, np.array(want), atol=2e-3)


def test_an_image_on_its_own_grid_is_left_as_it_is():
    here = space((12, 14, 16), (3.0, 1.1, 0.7))
    image = blobs((12, 14, 16), 1)
    view = View(here, here)
    assert view.widths == (1.0, 1.0, 1.0)
    torch.testing.assert_close(view.read(image), image, atol=1e-6, rtol=0)


def test_each_axis_is_averaged_as_far_as_it_is_decimated():
    """A heart of thick slices: a 2.7-fold decimation in plane, none across."""
    image = torch.rand((1, 1, 10, 64, 64), generator=torch.Generator().manual_seed(0))
    here = space((10, 64, 64), (8.0, 1.4, 1.4))
    view = View(here, here.resized((24, 24, 24)))
    assert view.widths == pytest.approx((9 / 23, 63 / 23, 63 / 23))
    read = view.read(image)
    blurred = mean_over(mean_over(image, 1, 63 / 23), 2, 63 / 23)
    torch.testing.assert_close(read[..., 0, :, :], View(here, view.grid).read(image)[..., 0, :, :])
    assert read.std() < 0.6 * image.std()  # white noise: nothing is aliased
    assert float(read[0, 0, 0].mean()) == pytest.approx(float(blurred[0, 0, 0].mean()), abs=0.02)


def test_a_quarter_turn_is_averaged_along_the_axes_of_the_image():
    here = space((40, 20), (1.0, 2.0))
    turned = Space((20, 20), np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
    assert View(here, turned).widths == pytest.approx((2.0, 1.0))


def test_beyond_the_border_is_zero_or_the_border():
    here = space((10, 10), (1.0, 1.0))
    wide = here.centered((16, 10), (1.0, 1.0))
    image = torch.ones(1, 1, 10, 10)
    view = View(here, wide)
    assert view.read(image)[0, 0, :, 5].tolist() == [0] * 3 + [1] * 10 + [0] * 3
    assert view.read(image, beyond="border").min() == 1
    assert view.inside[0, 0, :, 5].tolist() == [0] * 3 + [1] * 10 + [0] * 3


def test_hounsfield_units_by_hand_in_both_orders():
    """Air, lung, water, bone in pairs of voxels, halved; a mask that ends between two of them."""
    values = torch.tensor([-1000.0, -800, -600, -400, 0, 0, 1000, 1000])[None, None, None]
    values = values.expand(1, 1, 4, 8).contiguous()
    mask = torch.tensor([1.0, 1, 1, 1, 1, 1, 0, 0])[None, None, None].expand(1, 1, 4, 8)
    here = space((4, 8), (1.0, 1.0))
    grid = Space((4, 4), here.index_to_mm @ np.array([[1.0, 0, 0], [0, 2, 0.5], [0, 0, 1]]))
    volume = Volume(values, here)
    kept = Volume(mask.contiguous(), here)

    def row(order: str, masked: bool) -> list[float]:
        scaling = Scaling(kind="ct", window=(-1000.0, 0.0), order=order)  # type: ignore[arg-type]
        source = Source(volume, kept if masked else None, scaling)
        return [round(v, 4) for v in source.read(View(here, grid))[0, 0, 1].tolist()]

    # A voxel of the grid lies halfway between two of the image, each averaged over two voxels'
    # extent (a quarter, a half, a quarter): -950 and -800 HU, and so on.
    plain = [0.125, 0.525, 1.0, 1.0]
    assert row("resample, scale, mask", masked=False) == plain  # third: -100 and 250 HU
    assert row("resample, scale, mask", masked=True) == [*plain[:3], 0.0]
    # clipped first, the bone beside it counts as water: 0.9 and 1
    assert row("scale, mask, resample", masked=False) == [0.125, 0.525, 0.95, 1.0]
    # and the mask's zeros bleed into both sides of its rim: 0.9 and 0.75, then 0.25 and 0
    assert row("scale, mask, resample", masked=True) == [0.125, 0.525, 0.825, 0.125]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_only_the_decimated_axis_is_averaged(axis: int):
    image = torch.rand((1, 1, 24, 24, 24), generator=torch.Generator().manual_seed(axis))
    here = space((24, 24, 24), (1.0, 1.0, 1.0))
    shape = tuple(6 if i == axis else 24 for i in range(3))
    read = View(here, here.resized(shape)).read(image)
    want = mean_over(image, axis, 23 / 5)
    first = read.narrow(axis + 2, 0, 1)
    torch.testing.assert_close(first, want.narrow(axis + 2, 0, 1), atol=1e-5, rtol=0)
    assert not torch.allclose(first, image.narrow(axis + 2, 0, 1), atol=0.05)
