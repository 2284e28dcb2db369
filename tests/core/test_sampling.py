import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import uniform_filter1d

from gradicon.core.sampling import box_mean, halve, sample, unit_grid
from maps import blobs

SHAPES = st.lists(st.integers(2, 9), min_size=2, max_size=3).map(tuple)


def test_the_grid_runs_from_0_to_1_in_array_order():
    grid = unit_grid((3, 5), like=torch.zeros((), dtype=torch.float64))
    assert grid.shape == (1, 2, 3, 5)
    assert grid.dtype == torch.float64
    assert grid[0, :, 1, 3].tolist() == [0.5, 0.75]


@given(SHAPES, st.integers(0, 99))
def test_reading_at_the_voxels_gives_the_voxels(shape: tuple[int, ...], seed: int):
    image = blobs(shape, seed, dtype=torch.float64)
    torch.testing.assert_close(sample(image, unit_grid(shape, like=image)), image)


@given(SHAPES, st.integers(0, 99))
def test_a_linear_image_is_read_exactly_between_voxels(shape: tuple[int, ...], seed: int):
    generator = torch.Generator().manual_seed(seed)
    slope = torch.randn(len(shape), generator=generator, dtype=torch.float64)
    image = torch.einsum("d,bd...->b...", slope, unit_grid(shape, like=slope))[:, None]
    x = torch.rand(1, len(shape), 20, generator=generator, dtype=torch.float64)
    torch.testing.assert_close(sample(image, x)[0, 0], slope @ x[0])


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("points", [(6,), (2, 3), (1, 2, 3)])
def test_lists_and_grids_of_points_take_one_path(
    dimension: int, points: tuple[int, ...], generator: torch.Generator
):
    image = torch.rand(1, 2, *range(4, 4 + dimension), generator=generator)
    x = torch.rand(1, dimension, 6, generator=generator)
    together = sample(image, x.reshape(1, dimension, *points))
    one_by_one = [sample(image, x[:, :, i : i + 1]) for i in range(6)]
    assert together.shape == (1, 2, *points)
    torch.testing.assert_close(together.flatten(2), torch.cat(one_by_one, 2))


def test_beyond_the_cube_the_border_goes_on():
    image = torch.arange(6.0).reshape(1, 1, 2, 3)
    x = torch.tensor([[-1.0, 2.0], [-3.0, 9.0]])[None]
    assert sample(image, x).flatten().tolist() == [0.0, 5.0]


def test_nearest_invents_no_labels(generator: torch.Generator):
    labels = torch.tensor([0.0, 7.0])[torch.randint(0, 2, (1, 1, 5, 6, 4), generator=generator)]
    read = sample(labels, torch.rand(1, 3, 500, generator=generator), mode="nearest")
    assert set(read.unique().tolist()) == {0.0, 7.0}


def test_a_batch_of_one_is_shared(generator: torch.Generator):
    image = torch.rand(3, 1, 4, 4, generator=generator)
    x = torch.rand(1, 2, 5, generator=generator)
    torch.testing.assert_close(
        sample(image, x), torch.cat([sample(image[i : i + 1], x) for i in range(3)])
    )
    torch.testing.assert_close(sample(image[:1], x.expand(3, -1, -1))[2], sample(image[:1], x)[0])


def test_halving_averages_blocks_and_rounds_up():
    image = torch.tensor([[0.0, 2.0, 5.0], [4.0, 6.0, 7.0], [1.0, 3.0, 9.0]])[None, None]
    assert halve(image)[0, 0].tolist() == [[3.0, 6.0], [2.0, 9.0]]


@pytest.mark.parametrize("shape", [(1, 5), (1, 1), (1, 4, 3), (1, 1, 1)])
def test_an_axis_of_one_voxel_can_be_halved(shape: tuple[int, ...]):
    half = halve(torch.ones(1, 2, *shape))
    assert half.shape[2:] == tuple((n + 1) // 2 for n in shape)
    assert (half == 1).all()


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    ("image", "x", "message"),
    [
        (
            torch.zeros(1, 1, 4, 4),
            torch.zeros(1, 3, 5),
            r"2-D image have shape \(B, 2, ...\), got \(1, 3, 5\)",
        ),
        (torch.zeros(2, 1, 4, 4), torch.zeros(3, 2, 5), "2 images cannot be read at 3 sets"),
        (
            torch.zeros(1, 1, 4, 4),
            torch.zeros(1, 2, 5, dtype=torch.float64),
            "float32 and torch.float64",
        ),
    ],
)
def test_bad_input(image: torch.Tensor, x: torch.Tensor, message: str):
    with pytest.raises((ValueError, TypeError), match=message):
        sample(image, x)


@pytest.mark.parametrize("shape", [(9, 7), (8, 5, 6)])
@pytest.mark.parametrize("radius", [0, 1, 3])
def test_means_over_a_box_are_scipys(shape: tuple[int, ...], radius: int):
    image = torch.rand(2, 3, *shape, dtype=torch.float64)
    for axis in range(len(shape)):
        want = uniform_filter1d(image.numpy(), 2 * radius + 1, axis=axis + 2, mode="nearest")
        torch.testing.assert_close(box_mean(image, axis, radius), torch.from_numpy(want))
