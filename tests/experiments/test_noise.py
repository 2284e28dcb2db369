"""Exact inverses are found, and what is left of noise that was put there is what theory says."""

import json
from math import pi, sqrt
from pathlib import Path

import pytest
import torch

from gradicon.core.sampling import unit_grid
from gradicon.core.transform import DisplacementField
from gradicon.experiments.exact_maps import exact_pair
from gradicon.experiments.inverses import autocorrelation, closest_inverses, gradient, region
from gradicon.experiments.noise_report import table
from gradicon.experiments.run import run_study
from gradicon.experiments.study import Setting

SHAPE = (48, 48)


def wave(turns: tuple[float, float], size: float) -> torch.Tensor:
    """A field (1, 2, *SHAPE) that vanishes towards the border."""
    y, x = unit_grid(SHAPE, like=torch.zeros((), dtype=torch.float64))[0]
    angle = 2 * pi * (turns[0] * y + turns[1] * x)
    return (
        size
        * (
            torch.sin(pi * y)
            * torch.sin(pi * x)
            * torch.stack([torch.sin(angle), torch.cos(angle)])
        )[None]
    )


def rms(x: torch.Tensor) -> float:
    """Away from the border."""
    middle = x[..., x.shape[2] // 8 : -x.shape[2] // 8, x.shape[3] // 8 : -x.shape[3] // 8]
    return float(middle.pow(2).sum(1).mean().sqrt())


def smooth(strength: float, shape: tuple[int, int] = SHAPE) -> tuple[torch.Tensor, torch.Tensor]:
    """The displacements of exact inverses."""
    pair = exact_pair(strength, 1)
    return pair.ab.materialise(shape).u, pair.ba.materialise(shape).u


def remainders(u_ab: torch.Tensor, u_ba: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What is left after the closest inverses."""
    ab, ba = closest_inverses(DisplacementField(u_ab), DisplacementField(u_ba), iterations=100)[-1]
    return u_ab - ab.u, u_ba - ba.u


def test_exact_inverses_leave_what_a_grid_cannot_hold_and_less_on_a_finer_one():
    coarse, fine = (smooth(0.4, (n, n)) for n in (49, 97))
    found = [rms(remainders(*said)[0]) for said in (coarse, fine)]
    assert found[0] < 0.02 * rms(coarse[0])
    assert found[1] < found[0] / 3, "linear interpolation is of second order"


def test_what_is_found_are_inverses_and_better_ones_with_each_weight():
    forth, back = smooth(0.4)
    said = (
        DisplacementField(forth + wave((3, 2), 0.004)),
        DisplacementField(back + wave((2, -4), 0.004)),
    )
    found = closest_inverses(*said, iterations=100)
    errors = [rms((ab @ ba).materialise(SHAPE).u) for ab, ba in found]
    others = [rms((ba @ ab).materialise(SHAPE).u) for ab, ba in found]
    assert len(errors) == 3
    assert errors == sorted(errors, reverse=True)
    assert max(errors[-1], others[-1]) < 0.06 * rms(wave((3, 2), 0.004))


def test_noise_common_to_both_maps_is_recovered():
    (forth, back) = smooth(0.1)
    n = wave((3, 2), 0.002)
    for found in remainders(forth + n, back + n):
        assert rms(found - n) < 0.12 * rms(n)


def test_noise_that_is_opposite_in_the_maps_is_none():
    """Near the identity: it is part of an inverse pair."""
    (forth, back) = smooth(0.02)
    n = wave((3, 2), 0.002)
    for found in remainders(forth + n, back - n):
        assert rms(found) < 0.05 * rms(n)


def test_of_noise_in_one_map_half_is_left_in_each():
    """The bias that the study tells of."""
    (forth, back) = smooth(0.02)
    n = wave((3, 2), 0.002)
    for found in remainders(forth + n, back):
        assert rms(found - n / 2) < 0.1 * rms(n)


def test_the_gradient_of_a_linear_field_is_its_matrix():
    x = unit_grid((9, 17), like=torch.zeros((), dtype=torch.float64))
    u = torch.cat([2 * x[:, :1] + 3 * x[:, 1:], 5 * x[:, :1] + 7 * x[:, 1:]], 1)
    want = (
        torch.tensor([2.0, 5.0, 3.0, 7.0], dtype=torch.float64)
        .reshape(1, 4, 1, 1)
        .expand(1, 4, 8, 16)
    )
    torch.testing.assert_close(gradient(u), want)


def test_a_wave_has_a_gradient_of_its_frequency():
    n = torch.sin(2 * pi * 4 * unit_grid((401, 401), like=torch.zeros((), dtype=torch.float64)))
    assert rms(gradient(n)) / rms(n) == pytest.approx(2 * pi * 4, rel=0.01)


def test_white_noise_has_no_autocorrelation_and_a_smooth_field_has(generator: torch.Generator):
    white = torch.randn(3, 4, 128, 128, generator=generator, dtype=torch.float64)
    assert autocorrelation(white, 1).abs().max() < 0.02
    smooth = (white + white.roll(1, 2)) / sqrt(2)
    assert autocorrelation(smooth, 1).tolist() == pytest.approx([0.25] * 3, abs=0.02), (
        "a half along one of the two axes"
    )
    assert autocorrelation(smooth, 2).abs().max() < 0.02


def test_what_is_not_judged_has_no_autocorrelation(generator: torch.Generator):
    white = torch.randn(1, 2, 128, 128, generator=generator, dtype=torch.float64)
    white[..., 40:60] = torch.nan
    assert 0 < autocorrelation(white, 1).abs() < 0.02


def test_noise_is_judged_where_nothing_comes_near_the_border():
    still = torch.zeros(1, 2, 33, 33)
    shift = torch.zeros(1, 2, 33, 33)
    shift[:, 1] = 0.25
    judged = region(DisplacementField(still), DisplacementField(shift))[0, 0]
    assert judged.any(1).nonzero().flatten().tolist() == list(range(4, 29)), (
        "an eighth is left out on each side"
    )
    assert judged.any(0).nonzero().flatten().tolist() == list(range(4, 21)), (
        "and what one of the maps takes there"
    )


def test_a_run_leaves_numbers_a_table_and_a_figure(tmp_path: Path):
    setting = Setting(
        tmp_path, quick=True, device=torch.device("cpu"), data=None, jobs=1, tell=lambda *_: None
    )
    numbers = json.loads(run_study("noise", setting, tmp_path / "out", command="c").read_text())[
        "numbers"
    ]
    assert len(numbers["pairs"]) == 3
    for pair in numbers["pairs"]:
        assert 0 < pair["n"] < 0.1
        assert pair["ratio"] == pytest.approx(pair["gradient"] / pair["n"])
        assert abs(pair["lag 1"]) <= 1
        assert 0.1 < pair["judged"] <= 0.6
        assert pair["inverse error"] < 0.2 * pair["n"]
    text = (tmp_path / "out/noise.md").read_text()
    assert "| mean |" in text
    assert ("not an order of magnitude" in text) == (
        sum(pair["ratio"] for pair in numbers["pairs"]) < 30
    )
    assert (tmp_path / "out/noise.png").stat().st_size > 10_000


def test_the_table_warns_of_inverses_that_are_none():
    pair = {
        "n": 1.0,
        "gradient": 5.0,
        "ratio": 5.0,
        "periods": 0.8,
        "dropped": 0.5,
        "inverse error": 0.5,
        "likeness": 1.0,
        "judged": 0.6,
    }
    pair |= {f"lag {lag}": 0.0 for lag in (1, 2, 4, 8)}
    trained = {"similarity": 0.1, "penalty": 0.01, "folds": 0.0}
    numbers = {"pairs": [pair], "by weight": [], "displacement": [1.0], "trained": trained}
    assert "exact to 50 % of the noise, so this means little." in table(numbers)
    assert "5.0 times the noise, not an order of magnitude" in table(numbers)
    pair["inverse error"] = 0.01
    assert "exact to 1 % of the noise.\n" in table(numbers)
    assert "The gradient is white" in table(numbers)
