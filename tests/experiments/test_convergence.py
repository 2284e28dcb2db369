"""The study of convergence: how it chooses and reads curves, and a whole run at its quick size."""

import json
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
from matplotlib.figure import Figure

from gradicon.experiments import convergence
from gradicon.experiments.convergence import choose_as_regular, compare_speed, find_step, make_curve
from gradicon.experiments.planar import LAMBDA0, QUICK


def network(
    weight: float, dissimilarity: float, folds: float, regularizer: str = "icon"
) -> dict[str, Any]:
    return {
        "set": "shapes",
        "regularizer": regularizer,
        "weight": weight,
        "dissimilarity": dissimilarity,
        "folds_percent": folds,
    }


def falling(over: float) -> convergence.Curve:
    """From 1 down to 0 in so many steps, straight."""
    steps = [float(step) for step in range(0, 101, 10)]
    return {
        "step": steps,
        "dissimilarity": [max(1 - step / over, 0.0) for step in steps],
        "folds_percent": [0.1] * len(steps),
    }


def test_icon_is_compared_where_it_is_nearly_as_regular_but_not_less():
    tried = [
        network(1, 0.1, 2.0),
        network(4, 0.2, 0.04),
        network(16, 0.3, 0.01),
        network(64, 0.4, 0.0),
    ]
    assert choose_as_regular(tried, 0.05)["weight"] == 4
    assert choose_as_regular(tried, 0.04)["weight"] == 4
    assert choose_as_regular(tried, 0.03)["weight"] == 16
    assert choose_as_regular(tried, 5.0)["weight"] == 1


def test_of_equally_regular_ones_the_most_similar_is_taken():
    """That is in favour of ICON."""
    assert (
        choose_as_regular(
            [network(16, 0.3, 0.0), network(4, 0.2, 0.0), network(64, 0.4, 0.0)], 0.0
        )["weight"]
        == 4
    )


def test_if_none_is_as_regular_the_most_regular_is_taken():
    assert choose_as_regular([network(1, 0.1, 2.0), network(4, 0.2, 0.4)], 0.1)["weight"] == 4


def test_a_curve_is_means_over_few_blocks():
    rows = [{"step": 5.0 * i, "similarity": 2.0 * i, "folds": float(i)} for i in range(250)]
    curve = make_curve(rows)
    assert len(curve["step"]) == 84
    assert curve["step"][:2] == [5, 20]
    assert curve["dissimilarity"][:2] == [1, 4]
    assert curve["folds_percent"][-1] == 249
    assert len(make_curve(rows[:100])["step"]) == 100


def test_steps_to_a_level_are_read_between_the_points():
    curve = falling(100)
    assert find_step(curve, 0.5) == pytest.approx(50)
    assert find_step(curve, 0.45) == pytest.approx(55)
    assert find_step(curve, 1.5) == 0
    assert find_step(falling(200), 0.4) is None


def test_the_ratio_of_speeds():
    """Half as steep: twice the steps to the same level. Both come down to 0.5."""
    found = compare_speed(falling(100), falling(200))
    assert [each["dissimilarity"] for each in found] == pytest.approx([0.75, 0.625, 0.55, 0.525])
    assert [each["gradicon"] for each in found] == pytest.approx([25, 37.5, 45, 47.5])
    assert [each["ratio"] for each in found] == pytest.approx([2, 2, 2, 2])


def test_the_table_and_the_figure_come_from_the_json_alone():
    icon = [network(4, 0.5, 0.1), network(16, 0.6, 0.0)]
    ours = network(1.5, 0.4, 0.1, "gradicon")
    curves = {"gradicon": falling(100), "icon": falling(200)}
    each = {
        "set": "shapes",
        "gradicon": ours,
        "icon": icon[0],
        "icon_tried": icon,
        "speed": compare_speed(**curves),
        "curves": curves,
    }
    numbers = json.loads(
        json.dumps({"steps": 100, "pairs": 5, "sets": [each, each | {"set": "drive"}]})
    )
    table = convergence.table(numbers)
    assert "| Triangles and Circles | GradICON | 1.5 | 0.4000 | 0.1000 | compared |" in table
    assert "| Triangles and Circles | ICON | 4 | 0.5000 | 0.1000 | compared |" in table
    assert "| Triangles and Circles | ICON | 16 | 0.6000 | 0.0000 |  |" in table
    assert "| DRIVE | 0.7500 | 25 | 50 | 2 |" in table
    figure = Figure()
    convergence.draw(numbers, figure)
    assert [axes.get_ylabel().split(",")[0] for axes in figure.axes] == [
        "dissimilarity",
        "folds",
    ] * 2
    assert list(figure.axes[0].get_lines()[0].get_ydata()) == falling(200)["dissimilarity"]


def test_a_quick_run_through_the_command_line(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "gradicon.experiments",
        "convergence",
        "--quick",
        "--device",
        "cpu",
        "-o",
        str(tmp_path),
    ]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    assert "100 %  trained warped-icon-" in said
    numbers = json.loads((tmp_path / "convergence.json").read_text())["numbers"]
    assert [each["set"] for each in numbers["sets"]] == ["shapes", "warped"]
    for each in numbers["sets"]:
        assert each["icon"] in each["icon_tried"]
        assert [tried["weight"] for tried in each["icon_tried"]] == [
            LAMBDA0["icon"] * 2.0**i for i in QUICK.search
        ]
        for name in ("gradicon", "icon"):
            assert each["curves"][name]["step"] == list(range(2, 41, 2))
            assert len(each["curves"][name]["folds_percent"]) == 20
        assert all(row["gradicon"] is not None and row["icon"] is not None for row in each["speed"])
    learned = numbers["sets"][1]["curves"]["gradicon"]["dissimilarity"]
    assert mean(learned[-5:]) < 0.8 * mean(learned[:5])
    assert numbers["sets"][1]["gradicon"]["dissimilarity"] < 0.35
    assert (tmp_path / "convergence.png").stat().st_size > 10_000
    assert [file.name for file in sorted(tmp_path.iterdir())] == [
        "convergence.json",
        "convergence.md",
        "convergence.png",
    ]
