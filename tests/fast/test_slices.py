"""Points dealt out to all threads are read as torch reads them."""

import pytest
import torch

from gradicon.core.acceleration import plain
from gradicon.core.sampling import Mode, Padding, sample
from gradicon.fast.sampling import sample_in_slices


@pytest.mark.parametrize(("images", "places"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize(("mode", "padding"), [("bilinear", "zeros"), ("nearest", "border")])
@pytest.mark.parametrize("shape", [(101,), (5, 6, 7)], ids=str)
def test_points_in_slices(
    images: int,
    places: int,
    mode: Mode,
    padding: Padding,
    shape: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
):
    generator = torch.Generator().manual_seed(0)
    image = torch.rand(images, 2, 6, 7, 8, generator=generator)
    x = torch.rand(places, 3, *shape, generator=generator) * 1.4 - 0.2
    with plain():
        want = sample(image, x, mode=mode, padding=padding)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    assert torch.equal(sample_in_slices(image, x, mode, padding), want)
