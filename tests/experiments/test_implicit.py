"""The maps are exact inverses, the noise is what it says, and the prediction is derived right."""

import json
from math import log, pi
from pathlib import Path

import pytest
import torch

from gradicon.core.jacobian import jacobian_determinant
from gradicon.core.objective import gradient_inconsistency
from gradicon.core.points import one_per_cell
from gradicon.core.transform import identity
from gradicon.experiments.exact_maps import Pair, add_noise, exact_pair, jacobian, white_gradient
from gradicon.experiments.implicit import (
    VOXELS,
    exact_penalty,
    measure_noise,
    measure_translation,
    measure_wave,
    predict_penalty,
)
from gradicon.experiments.run import run_study
from gradicon.experiments.study import Setting

STILL = Pair(identity(2, dtype=torch.float64), identity(2, dtype=torch.float64))


@pytest.fixture
def x(generator: torch.Generator) -> torch.Tensor:
    return one_per_cell(torch.rand(2, 32, 32, dtype=torch.float64, generator=generator))


@pytest.mark.parametrize("seed", range(3))
def test_pairs_are_inverses_of_the_square_onto_itself(x: torch.Tensor, seed: int):
    pair = exact_pair(0.8, seed)
    torch.testing.assert_close(pair.ab(pair.ba(x)), x, rtol=0, atol=1e-13)
    torch.testing.assert_close(pair.ba(pair.ab(x)), x, rtol=0, atol=1e-13)
    edge = torch.cat([x[..., :50].clone() for _ in range(2)], 2)
    edge[:, 0, :50] = 0
    edge[:, 1, 50:] = 1
    assert torch.equal(pair.ab(edge)[:, 0, :50], edge[:, 0, :50])
    torch.testing.assert_close(pair.ab(edge)[:, 1, 50:], edge[:, 1, 50:])
    determinant = jacobian_determinant(pair.ab, (200, 200))
    assert 0 < determinant.min() < 0.7, "so that the determinant matters in the prediction"


def test_the_jacobian_is_that_of_small_differences(x: torch.Tensor):
    pair = exact_pair(0.5, 0)
    step = 1e-6
    found = jacobian(pair.ab, x)
    for j in range(2):
        shift = step * torch.eye(2, dtype=torch.float64)[j][:, None]
        torch.testing.assert_close(
            found[:, :, j].T[None], (pair.ab(x + shift) - pair.ab(x)) / step, rtol=0, atol=1e-4
        )


def test_the_gradient_of_the_noise_is_white_and_the_noise_small(x: torch.Tensor):
    gradients = torch.cat([jacobian(white_gradient(32, seed), x).flatten(1) for seed in range(40)])
    covariance = gradients.T @ gradients / len(gradients)
    torch.testing.assert_close(covariance, torch.eye(4, dtype=torch.float64), rtol=0, atol=0.04)
    size = torch.cat([white_gradient(32, seed)(x) for seed in range(10)]).pow(2).mean().sqrt()
    assert float(size) == pytest.approx(2**0.5 / (2 * pi * 32), rel=0.03)


def test_for_the_identity_the_prediction_is_twice_the_dimension(x: torch.Tensor):
    assert predict_penalty(STILL, x) == pytest.approx(4, abs=1e-12)
    assert measure_noise(STILL, 1e-3, 32, x, range(20))["measured"] == pytest.approx(4, rel=0.01)


def test_both_forms_of_the_prediction_agree(x: torch.Tensor):
    """The change of variables to the other image."""
    pair = exact_pair(0.6, 3)
    ba = jacobian(pair.ba, x)
    here = float(((ba**2).sum((1, 2)) + (torch.linalg.inv(ba) ** 2).sum((1, 2))).mean())
    assert predict_penalty(pair, x) == pytest.approx(here, rel=2e-3)
    assert here > 4.5, "far from the identity"


def test_the_penalty_is_as_predicted_and_quadratic_in_eps(x: torch.Tensor):
    pair = exact_pair(0.5, 1)
    found = [measure_noise(pair, eps, 32, x, range(12)) for eps in (1e-4, 1e-3, 1e-2)]
    for row in found:
        assert row["ratio, exact"] == pytest.approx(1, abs=0.03)
        assert row["ratio, small step"] == pytest.approx(row["ratio, exact"], rel=2e-3)
    slope = log(found[-1]["measured"] * 1e-4 / (found[0]["measured"] * 1e-8)) / log(100)
    assert slope == pytest.approx(2, rel=0.02)


def test_the_exact_penalty_is_the_librarys_in_the_limit(x: torch.Tensor):
    maps = add_noise(exact_pair(0.5, 1), 0.05, 4, 0)
    assert exact_penalty(maps, x) == pytest.approx(
        float(gradient_inconsistency(maps.ab, maps.ba, x, step=1e-6)), rel=1e-4
    )


@pytest.mark.parametrize("voxels", [0.5, 1, 8])
def test_a_translation_costs_gradicon_nothing_and_icon_its_square(x: torch.Tensor, voxels: float):
    assert measure_translation(exact_pair(0.5, 0), voxels, x)["gradicon"] < 1e-10
    found = measure_translation(STILL, voxels, x)
    assert found["gradicon"] < 1e-10
    assert found["icon"] == pytest.approx((voxels / (VOXELS - 1)) ** 2, rel=1e-9), (
        "two directions, mean over two components"
    )


def test_gradicon_weighs_a_wave_by_its_frequency_squared_and_icon_does_not(x: torch.Tensor):
    slow = measure_wave(STILL, 2, x)
    fast = measure_wave(STILL, 8, x)
    assert slow["icon"] == pytest.approx(1e-6, rel=0.01)
    assert fast["icon"] == pytest.approx(slow["icon"], rel=0.03)
    assert slow["gradicon"] == pytest.approx((2 * pi * 2 * 1e-3) ** 2 / 2, rel=0.03)
    assert fast["gradicon"] == pytest.approx(16 * slow["gradicon"], rel=0.03)


def test_a_run_leaves_numbers_a_table_and_a_figure(tmp_path: Path):
    setting = Setting(
        tmp_path, quick=True, device=torch.device("cpu"), data=None, jobs=1, tell=lambda *_: None
    )
    numbers = json.loads(run_study("implicit", setting, tmp_path, command="c").read_text())[
        "numbers"
    ]
    assert numbers["exponent"] == pytest.approx(2, rel=0.02)
    assert numbers["slope"] == pytest.approx(1, abs=0.05)
    assert numbers["correlation"] > 0.99
    low = numbers["by frequency"][0]
    high = numbers["by frequency"][-2]
    assert abs(high["ratio, exact"] - 1) < 0.03 < abs(low["ratio, exact"] - 1), (
        "the hypothesis |n| << |grad n| is needed"
    )
    assert "| 8 |" in (tmp_path / "implicit.md").read_text()
    assert (tmp_path / "implicit.png").stat().st_size > 10_000
