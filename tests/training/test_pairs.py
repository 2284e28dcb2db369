from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gradicon.training.dataset import Group
from gradicon.training.pairs import Pairs, generator, owned, points
from gradicon.training.recipe import parse_recipe

NUMBERS = st.integers(0, 10**6)


@given(seed=NUMBERS, step=NUMBERS, index=st.integers(0, 9), count=st.integers(2, 9))
def test_a_draw_depends_on_its_key_alone(seed: int, step: int, index: int, count: int):
    pairs = Pairs(seed, (Group(tuple(range(10, 10 + count)), ()),))
    drawn = pairs.draw(step, index)
    torch.manual_seed(step)  # nothing global matters, nor what was drawn before
    pairs.draw(step + 1, index)
    assert pairs.draw(step, index) == drawn
    assert drawn[0] != drawn[1]
    assert set(drawn) <= set(pairs.groups[0].images)


@given(batch=st.integers(1, 12), processes=st.integers(1, 4))
def test_processes_share_a_batch_without_gap_or_overlap(batch: int, processes: int):
    if batch % processes:
        with pytest.raises(
            ValueError, match=f"a batch of {batch} cannot be shared by {processes} processes"
        ):
            owned(batch, 0, processes)
    else:
        assert [i for rank in range(processes) for i in owned(batch, rank, processes)] == list(
            range(batch)
        )


def test_every_pair_is_drawn_equally_often():
    counts = Counter(Pairs(3, (Group((0, 1, 2, 3), ()),)).draw(step, 0) for step in range(2400))
    assert len(counts) == 12
    assert all(140 < count < 260 for count in counts.values())


def test_the_samples_of_a_step_differ():
    assert (
        len({Pairs(0, (Group(tuple(range(50)), ()),)).draw(7, index) for index in range(20)}) > 15
    )


def test_given_pairs_come_in_either_order():
    counts = Counter(Pairs(0, (Group((), ((0, 1), (2, 3))),)).draw(step, 0) for step in range(800))
    assert set(counts) == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert all(140 < count < 260 for count in counts.values())


def test_keys_are_well_mixed():
    first = [
        torch.rand((), generator=generator(*key)).item()
        for key in ((1, 23), (12, 3), (1, 2, 3), (0, 1), (0, 2), ("a",))
    ]
    assert len(set(first)) == len(first)


@given(shape=st.sampled_from([(16, 12), (9, 8), (8, 10, 12)]), step=NUMBERS)
def test_points_fill_the_cube_one_per_cell(shape: tuple[int, ...], step: int):
    x = points(shape, 0, step, torch.device("cpu"))
    cells = torch.tensor([n // 2 for n in shape])[:, None]
    assert x.shape == (1, len(shape), int(cells.prod()))
    assert 0 <= x.min() <= x.max() <= 1
    assert len({tuple(cell) for cell in (x[0] * cells).floor().T.tolist()}) == x.shape[2]
    assert torch.equal(x, points(shape, 0, step, torch.device("cpu")))
    assert not torch.equal(x, points(shape, 0, step + 1, torch.device("cpu")))


def test_a_recipe_may_want_points_anywhere():
    shape = (16, 16)
    cpu = torch.device("cpu")
    spread = points(shape, 0, 3, cpu)
    uniform = points(shape, 0, 3, cpu, "uniform")
    assert uniform.shape == spread.shape
    assert len({tuple(cell) for cell in (8 * spread[0]).floor().T.tolist()}) == 64
    assert len({tuple(cell) for cell in (8 * uniform[0]).floor().T.tolist()}) < 55
    recipe = parse_recipe('[data]\nshape = [16, 16]\n[loss]\npoints = "uniform"')
    assert recipe.loss.points == "uniform"
