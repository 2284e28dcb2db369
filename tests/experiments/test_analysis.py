"""Each expansion leaves what Taylor's series says, waves decay as they should, steep maps fold."""

import json
from math import pi
from pathlib import Path
from statistics import mean

import pytest
import scipy.stats
import torch

from gradicon.core.jacobian import jacobian_determinant
from gradicon.core.points import one_per_cell
from gradicon.core.transform import Affine, identity
from gradicon.experiments import expansion, flow, lipschitz
from gradicon.experiments.exact_maps import Formula, Pair, add_noise, exact_pair, jacobian
from gradicon.experiments.powers import interval, power
from gradicon.experiments.run import run_study
from gradicon.experiments.study import Setting

STILL = Pair(identity(2, dtype=torch.float64), identity(2, dtype=torch.float64))


@pytest.fixture
def x(generator: torch.Generator) -> torch.Tensor:
    return one_per_cell(torch.rand(2, 32, 32, dtype=torch.float64, generator=generator))


def test_a_jacobian_changes_along_a_direction_as_the_second_derivatives_say():
    x = torch.tensor([[[1.0], [2.0]]], dtype=torch.float64)
    n = torch.tensor([[[3.0], [5.0]]], dtype=torch.float64)
    found = expansion.directional_jacobian(
        lambda p: torch.stack([p[:, 0] ** 2 * p[:, 1], p[:, 1] * 7], 1), x, n
    )
    # of (a^2 b, 7 b): grad is (2 a b, a^2; 0, 7), and its change (2 b 3 + 2 a 5, 2 a 3; 0, 0)
    assert found.tolist() == [[[22.0, 6.0], [0.0, 0.0]]]


def test_the_first_order_is_the_derivative_of_the_composition_by_the_noise(x: torch.Tensor):
    pair = exact_pair(0.5, 1)
    ends = [add_noise(pair, eps, 4, 2) for eps in (1e-5, -1e-5)]
    up, down = (jacobian(lambda p, m=m: m.ab(m.ba(p)), x) for m in ends)
    kept, dropped = expansion.first_order(pair, 4, 2, x)
    torch.testing.assert_close(kept + dropped, (up - down) / 2e-5, rtol=0, atol=1e-6)
    assert expansion.root_mean_square(dropped) > 0.05, "so that it matters here"


@pytest.mark.parametrize("seed", range(3))
def test_each_expansion_leaves_what_taylors_series_says(x: torch.Tensor, seed: int):
    eps = [10 ** -(3 + k / 2) for k in range(4)]
    found = expansion.measure_remainders(exact_pair(0.5, seed), 4, 2 * seed, x, eps)
    assert list(found) == list(expansion.REMAINDERS)
    for name, (_, _, order) in expansion.REMAINDERS.items():
        assert power(eps, found[name]) == pytest.approx(order, abs=0.1), name


def test_what_is_dropped_goes_with_the_period_and_is_nothing_for_the_identity(x: torch.Tensor):
    slow, fast = (expansion.measure_dropped(exact_pair(0.5, 2), f, 4, x) for f in (4, 16))
    assert slow["noise"] == pytest.approx(1 / (2 * pi * 4), rel=0.1)
    assert slow["term"] / fast["term"] == pytest.approx(4, rel=0.15)
    assert expansion.measure_dropped(STILL, 4, 4, x)["term"] == 0


def test_both_sides_of_the_equation_of_correlations_are_equal():
    assert expansion.measure_correlation(0, 16) < 1e-14


def test_the_grid_has_the_frequencies_of_its_own_operator():
    n = 9
    difference = torch.diff(torch.eye(n, dtype=torch.float64), dim=0) * (n - 1)
    share = torch.ones(n, dtype=torch.float64)
    share[[0, -1]] = 0.5
    values = torch.linalg.eigvals((difference.T @ difference) / share[:, None]).real.sort().values
    found = [flow.Wave((k, 0)).squared_on((n, n)) for k in range(n - 1)]
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), values[:-1])
    assert flow.Wave((2, 0)).squared == pytest.approx((2 * pi) ** 2), "one period"
    assert flow.Wave((2, 4)).squared_on((999, 999)) == pytest.approx(
        flow.Wave((2, 4)).squared, rel=1e-3
    )


@pytest.mark.parametrize("halves", [(2, 0), (0, 4), (4, 4), (2, 2, 2)])
def test_from_the_identity_gradicon_damps_a_wave_by_its_frequency_squared_and_icon_by_eight(
    halves: tuple[int, ...],
):
    wave = flow.Wave(halves)
    shape = (17,) * len(halves)
    pair = Pair(*(identity(len(halves), dtype=torch.float64) for _ in range(2)))
    rates = flow.decay(flow.gradicon_flow(shape), pair, wave, 4 * wave.squared, 0.1)
    expected = 4 * wave.squared_on(shape)
    assert rates == pytest.approx([expected] * len(rates), rel=5e-3), "exponential"
    rates = flow.decay(flow.icon_flow(shape), pair, wave, 8.0, 0.1)
    assert rates == pytest.approx([8.0] * len(rates), rel=5e-3)


def test_the_expected_rate_is_that_of_both_maps(x: torch.Tensor):
    wave = flow.Wave((2, 0))
    assert flow.expected_rate(STILL, wave, x) == pytest.approx(4 * wave.squared)
    ab, ba = (
        Affine(
            torch.diag(torch.tensor([k, 1.0], dtype=torch.float64))[None],
            torch.zeros(1, 2, dtype=torch.float64),
        )
        for k in (2.0, 0.5)
    )
    # R = diag(2, 1): det R + (R R^T)_11 = 2 + 4
    assert flow.expected_rate(Pair(ab, ba), wave, x) == pytest.approx(12 * wave.squared)


def test_from_other_inverses_waves_start_at_the_expected_rate_and_slow_ones_fall_behind():
    pair = exact_pair(0.3, 0)
    setting = flow.gradicon_flow((33, 33))
    for half in (2, 4):
        wave = flow.Wave((half, 0))
        expected = flow.expected_rate(pair, wave, setting.points)
        assert expected > 4.3 * wave.squared, "far from the identity"
        rates = flow.decay(setting, pair, wave, expected, 0.02)
        on_grid = expected * wave.squared_on((33, 33)) / wave.squared
        assert rates[0] == pytest.approx(on_grid, rel=0.01)
        assert rates[-1] < 0.99 * rates[0]


def test_waves_have_known_constants_and_fold_where_they_must():
    seen = {
        name: lipschitz.measure_field(wave(2, 2), 2, cells=128, pairs=10_000)
        for name, wave in (("in", lipschitz.squeezing_wave), ("past", lipschitz.shearing_wave))
    }
    for each in seen.values():
        assert each.constant == pytest.approx(1, abs=1e-8), "sought between the grid's points"
        assert 0.99 < each.stretch <= 1
    assert seen["past"].fold is None
    assert seen["past"].scaled_map(3.0)["determinant"] == pytest.approx(1)
    assert seen["in"].fold == pytest.approx(1, rel=3e-3)
    near = seen["in"].scaled_map(0.9)
    assert near["ratio"] == pytest.approx(0.1, abs=3e-3), "the bound is reached"
    assert near["determinant"] == pytest.approx(0.1, abs=3e-3)


def test_the_steepest_place_is_found_between_the_points_of_a_coarse_grid():
    seen = lipschitz.measure_field(lipschitz.squeezing_wave(2, 2), 2, cells=12, pairs=100)
    assert float(torch.linalg.matrix_norm(seen.slopes, 2).max()) < 0.98
    assert seen.constant == pytest.approx(1, abs=1e-8)


def test_the_bounds_are_those_of_the_least_singular_value():
    assert lipschitz.bounds(0.25, 3) == {"ratio": 0.75, "determinant": 0.421875}
    assert lipschitz.bounds(1.5, 2) == {"ratio": 0, "determinant": 0}


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("seed", range(3))
def test_random_fields_keep_the_bounds_and_fold_where_it_is_said(dimension: int, seed: int):
    field = lipschitz.random_field(dimension, 2, seed)
    seen = lipschitz.measure_field(field, dimension, cells={2: 64, 3: 20}[dimension], pairs=10_000)
    assert 0.7 * seen.constant < seen.stretch <= seen.constant
    assert seen.constant <= seen.frobenius * 1.05
    for row in lipschitz.sweep_constant(seen, (0.3, 0.6, 0.99)):
        bound = lipschitz.bounds(row["constant"], dimension)
        assert bound["ratio"] <= row["ratio"] < 1
        assert bound["determinant"] <= row["determinant"] < 1
        assert row["folds"] == 0
    assert seen.fold is not None
    assert seen.fold * seen.constant > 1
    assert seen.scaled_map(0.99 * seen.fold)["determinant"] > 0
    assert seen.scaled_map(1.01 * seen.fold)["determinant"] < 0


def test_folds_are_those_of_finite_differences():
    field = lipschitz.random_field(2, 1, 0)
    seen = lipschitz.measure_field(field, 2, cells=200, pairs=100)
    s = 2.5 / seen.constant
    map_ = Formula(lambda x: x + s * field(x))
    folds = 100 * float((jacobian_determinant(map_, (401, 401)) <= 0).double().mean())
    assert folds > 1
    assert seen.scaled_map(s)["folds"] == pytest.approx(folds, rel=0.05)


def test_small_penalties_do_not_keep_maps_from_folding():
    waves = [lipschitz.small_but_steep("wave", length, 64) for length in (0.5, 0.125)]
    for row in waves:  # a sine of slope 1.5 in one of two components
        assert row["icon"] == pytest.approx((1.5 * row["length"] / (2 * pi)) ** 2 / 2, rel=0.02)
        assert row["gradicon"] == pytest.approx(1.5**2 / 4, rel=0.02)
        assert row["folds"] > 20
    wide, narrow = (lipschitz.small_but_steep("dent", width, 256) for width in (0.1, 0.025))
    assert narrow["gradicon"] == pytest.approx(wide["gradicon"] / 16, rel=0.02)
    assert max(wide["determinant"], narrow["determinant"]) < -0.48
    for row in (*waves, wide, narrow):  # folds are where |grad v| >= 1; the sum is twice the mean
        assert row["folds"] / 100 <= 2 * row["gradicon"]


@pytest.mark.parametrize("count", range(2, 10))
def test_an_interval_is_students(count: int):
    values = [float(k**2) for k in range(count)]
    found = interval(values)
    low, high = scipy.stats.t.interval(
        0.95, count - 1, loc=mean(values), scale=scipy.stats.sem(values)
    )
    assert found == pytest.approx({"mean": mean(values), "low": low, "high": high}, rel=1e-5)


def test_a_run_leaves_numbers_a_table_and_a_figure(tmp_path: Path):
    setting = Setting(
        tmp_path, quick=True, device=torch.device("cpu"), data=None, jobs=1, tell=lambda *_: None
    )
    result = json.loads(run_study("analysis", setting, tmp_path, command="c").read_text())
    numbers = result["numbers"]
    for row in numbers["expansion"]["orders"]:
        assert row["low"] <= row["mean"] <= row["high"]
        assert row["mean"] == pytest.approx(row["taylor"], abs=0.05), row["name"]
    assert numbers["expansion"]["dropped, power"]["mean"] == pytest.approx(-1, abs=0.1)
    rates = numbers["flow"]
    assert rates["power, gradicon"]["identity"] == pytest.approx(1, abs=0.03)
    assert rates["power, gradicon"]["mean"] == pytest.approx(1, abs=0.03)
    assert rates["power, icon"]["mean"] == pytest.approx(0, abs=0.02)
    for field in numbers["lipschitz"]["fields"]:
        assert field["fold"] > 1
        for row in field["sweep"]:
            bound = max(1 - row["constant"], 0)
            assert row["ratio"] >= bound
            assert row["constant"] >= 1 or row["determinant"] >= bound ** field["dimension"]
    text = (tmp_path / "analysis.md").read_text()
    assert "| penalty, no term in n | Eq. 7 | above 2 | 2.0" in text
    assert "| identity | 2 x 2 |" in text
    assert "| 0.99 | 2 | 0 of 12 |" in text
    assert (tmp_path / "analysis.png").stat().st_size > 10_000
