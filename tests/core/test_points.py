"""The random points of a penalty: as many as they should be, one in each cell, by the generator."""

import pytest
import torch

from gradicon.core.points import cells, one_per_cell, random_points, uniform_points


def drawn(shape: tuple[int, ...], seed: int = 0, cell: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return random_points(shape, generator, like=torch.zeros((), dtype=torch.float64), cell=cell)


def test_the_papers_number_of_points():
    x = drawn((8, 10, 12))
    assert x.shape == (1, 3, 8 * 10 * 12 // 8)
    assert x.dtype == torch.float64
    assert 0 <= x.min() < 0.05
    assert 0.95 < x.max() <= 1


@pytest.mark.parametrize(("shape", "cell"), [((8, 10, 12), 2), ((9, 7), 3), ((1, 5, 6), 2)])
def test_every_cell_has_one_point(shape: tuple[int, ...], cell: int):
    counts = torch.tensor(cells(shape, cell))[:, None]
    x = drawn(shape, cell=cell)
    assert x.shape[2] == counts.prod()
    assert len({tuple(place) for place in (x[0] * counts).floor().T.tolist()}) == x.shape[2]


def test_uniform_points_are_as_many_but_fall_where_they_like():
    shape = (32, 40)
    source = torch.Generator().manual_seed(0)
    x = uniform_points(shape, source, like=torch.zeros((), dtype=torch.float64))
    assert x.shape == drawn(shape).shape
    filled = len({tuple(place) for place in (x[0] * torch.tensor([[16], [20]])).floor().T.tolist()})
    # Of n cells about n / e stay empty.
    assert filled / x.shape[2] == pytest.approx(1 - 1 / 2.71828, abs=0.05)
    assert x.min() >= 0
    assert x.max() < 1


def test_points_are_the_generators():
    assert torch.equal(drawn((8, 8), seed=3), drawn((8, 8), seed=3))
    assert not torch.equal(drawn((8, 8), seed=3), drawn((8, 8), seed=4))


def test_jitter_says_where_in_its_cell_a_point_is():
    jitter = torch.zeros(2, 2, 4)
    jitter[0, 1, 3] = 0.5
    x = one_per_cell(jitter)[0].unflatten(1, (2, 4))
    assert x[:, 0, 0].tolist() == [0, 0]
    assert x[:, 1, 3].tolist() == [0.75, 0.75]
