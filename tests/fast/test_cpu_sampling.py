"""Reading volumes on a CPU: the same as torch's own code, value and gradient."""

import pytest
import torch
from torch import Tensor
from torch.func import jacrev, vmap

from gradicon.core.acceleration import plain
from gradicon.core.sampling import sample, unit_grid
from gradicon.fast.cpu_sampling import can_read

SHAPE = (7, 5, 9)


def volume(generator: torch.Generator, channels: int = 1) -> Tensor:
    return torch.rand(1, channels, *SHAPE, generator=generator)


def anywhere(generator: torch.Generator, count: int = 3000) -> Tensor:
    """Points in the unit cube and beyond it."""
    return torch.rand(1, 3, count, generator=generator) * 1.6 - 0.3


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("block", [64, 1 << 15])
def test_values_are_torchs(
    generator: torch.Generator, channels: int, block: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        "gradicon.fast.cpu_sampling._BLOCK", block
    )  # 3000 points are no whole number of blocks
    image = volume(generator, channels)
    x = anywhere(generator)
    assert can_read(image, x)
    with plain():
        want = sample(image, x)
    torch.testing.assert_close(sample(image, x), want)


def test_gradients_are_torchs_and_zero_beyond_the_image(generator: torch.Generator):
    image = volume(generator)
    weight = torch.rand(1, 1, 3000, generator=generator)
    x = anywhere(generator).requires_grad_()
    assert can_read(image, x)
    (sample(image, x) * weight).sum().backward()
    found = x.grad
    x.grad = None
    with plain():
        (sample(image, x) * weight).sum().backward()
    assert found is not None
    torch.testing.assert_close(found, x.grad)
    assert not found[(x < 0) | (x > 1)].any()


def test_where_points_lie_on_voxels_slopes_are_of_the_side_that_torch_takes(
    generator: torch.Generator,
):
    """Else all of them were of one side: the first step from the identity would lean to it."""
    image = torch.rand(1, 1, 35, 51, 40, generator=generator)
    x = unit_grid((35, 51, 40), like=image).requires_grad_()
    sample(image, x).sum().backward()
    found = x.grad
    x.grad = None
    with plain():
        sample(image, x).sum().backward()
    assert found is not None
    torch.testing.assert_close(found, x.grad)


def test_voxels_are_themselves_and_so_are_the_borders(generator: torch.Generator):
    image = volume(generator)
    torch.testing.assert_close(sample(image, unit_grid(SHAPE, like=image)), image)
    corners = torch.cartesian_prod(*[torch.tensor([-1.0, 0.0, 1.0, 2.0])] * 3).mT[None]
    with plain():
        want = sample(image, corners)
    torch.testing.assert_close(sample(image, corners), want)


def test_what_is_no_number_stays_none_and_reads_nothing_beyond_memory(generator: torch.Generator):
    x = anywhere(generator, 10)
    x[0, 1, 3] = float("nan")
    x[0, 2, 7] = float("inf")
    found = sample(volume(generator), x)[0, 0]
    assert found.isnan().tolist() == [k == 3 for k in range(10)]


def test_what_it_cannot_do_is_left_to_torch(generator: torch.Generator):
    image = volume(generator)
    x = anywhere(generator)
    assert not can_read(image.double(), x.double())
    assert not can_read(image.expand(2, -1, -1, -1, -1), x)
    assert not can_read(image[:, :, :1], x)
    assert not can_read(image.clone().requires_grad_(), x)
    assert not can_read(volume(generator, 2), x.clone().requires_grad_())
    with torch.no_grad():
        assert can_read(image.clone().requires_grad_(), x)


@pytest.mark.parametrize("channels", [1, 3])
def test_it_stands_back_from_transformed_functions(generator: torch.Generator, channels: int):
    image = volume(generator, channels)
    x = torch.rand(5, 3, generator=generator)

    def value(p: Tensor) -> Tensor:
        return sample(image, p[None, :, None])[0, :, 0]

    torch.testing.assert_close(vmap(value)(x), sample(image, x.mT[None])[0].mT)
    with plain():
        want = vmap(jacrev(value))(x)
    torch.testing.assert_close(vmap(jacrev(value))(x), want)
