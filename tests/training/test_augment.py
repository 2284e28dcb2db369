import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradicon.core.sampling import unit_grid
from gradicon.training.augment import augmented, augmented_labels, augmented_points, draw, to_unit_cube
from gradicon.training.pairs import generator
from maps import blobs


@pytest.mark.parametrize("shape", [(16, 20), (10, 12, 9)])
def test_without_noise_and_flips_nothing_changes(shape: tuple[int, ...]):
    a, b = draw(len(shape), generator(0), noise=0, flips=False)
    image = blobs(shape, 1)
    torch.testing.assert_close(augmented(image, to_unit_cube(a[None])), image, atol=1e-5, rtol=0)
    assert torch.equal(a, b)


@pytest.mark.parametrize("shape", [(16, 20), (10, 12, 9)])
@pytest.mark.parametrize("seed", range(4))
def test_flips_are_exact_and_shared(shape: tuple[int, ...], seed: int):
    a, b = draw(len(shape), generator(seed), noise=0)
    assert torch.equal(a, b)
    axes = [2 + i for i in range(len(shape)) if a[i, i] < 0]
    image = blobs(shape, 1)
    torch.testing.assert_close(augmented(image, to_unit_cube(a[None])), image.flip(axes), atol=1e-5, rtol=0)
    labels = (image[:, 0] * 5).to(torch.uint8)
    assert torch.equal(augmented_labels(labels, to_unit_cube(a[None])), labels.flip([axis - 1 for axis in axes]))


def test_noise_is_independent_and_of_the_papers_size():
    drawn = [draw(3, generator(seed), flips=False) for seed in range(400)]
    a, b = (torch.stack(each) - torch.eye(3, 4) for each in zip(*drawn, strict=True))
    assert a.std().item() == pytest.approx(0.05, rel=0.05)
    assert abs((a * b).mean().item()) < 0.05**2 / 10
    signs = torch.stack([draw(3, generator(seed), noise=0)[0].diagonal() for seed in range(400)])
    assert (signs.mean(0).abs() < 0.15).all()


@given(seed=st.integers(0, 1000), dimension=st.sampled_from([2, 3]))
def test_landmarks_follow_the_image(seed: int, dimension: int):
    """The centre of mass of a bright blob lands on the mapped landmark."""
    shape = (40, 44) if dimension == 2 else (26, 30, 28)
    point = 0.4 + 0.2 * torch.rand((1, dimension, 1), generator=generator(seed, "point"))
    x = unit_grid(shape, like=point)
    blob = (-((x - point.reshape(1, -1, *[1] * dimension)) ** 2).sum(1, keepdim=True) / (2 * 0.06**2)).exp()
    phi = to_unit_cube(draw(dimension, generator(seed))[0][None])
    seen = augmented(blob, phi)
    centre = (seen * x).flatten(2).sum(2) / seen.flatten(2).sum(2)
    voxels = torch.tensor([n - 1.0 for n in shape])
    assert ((centre - augmented_points(point, phi)[..., 0]) * voxels).abs().max() < 0.3
