"""The study of regularizers: how it compares at equal folds, and a whole run at its quick size."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure

from gradicon.experiments import regularizers
from gradicon.experiments.planar import (
    LAMBDA0,
    QUICK,
    REGULARIZERS,
    Task,
    set_names,
    summarise,
    train_tasks,
)
from gradicon.experiments.regularizers import FLOOR, compare_at_equal_folds, dissimilarity_at
from gradicon.experiments.study import Setting


def row(
    regularizer: str, weight: float, dissimilarity: float, folds: float, name: str = "shapes"
) -> dict[str, Any]:
    return {
        "set": name,
        "regularizer": regularizer,
        "weight": weight,
        "dissimilarity": dissimilarity,
        "folds_percent": folds,
    }


def made_up() -> dict[str, Any]:
    """Lines from (0.001 %, high) to (10 %, low); on DRIVE, diffusion never folds."""
    ends = {
        "gradicon": (0.3, 0.1),
        "icon": (0.5, 0.3),
        "diffusion": (0.6, 0.2),
        "bending": (0.7, 0.3),
    }
    rows = [
        row(name, w, ends[name][i], (0.001, 10)[i])
        for name in REGULARIZERS
        for i, w in enumerate((4.0, 1.0))
    ]
    rows += [
        row(name, 1.0, 0.4, 0.0 if name == "diffusion" else 2.0, "drive") for name in REGULARIZERS
    ]
    return {"steps": 10, "pairs": 5, "rows": rows, "equal_folds": compare_at_equal_folds(rows)}


def test_between_two_networks_dissimilarity_is_linear_in_the_logarithm_of_folds():
    points = [(0.01, 0.8), (1.0, 0.4)]
    assert dissimilarity_at(points, 0.1) == pytest.approx(0.6)
    assert dissimilarity_at(points, 0.01) == pytest.approx(0.8)
    assert dissimilarity_at(points, 1.0) == pytest.approx(0.4)


def test_a_network_that_is_worse_in_both_does_not_count():
    assert dissimilarity_at([(0.01, 0.8), (0.1, 0.95), (1.0, 0.4)], 0.1) == pytest.approx(0.6)
    assert dissimilarity_at([(0.01, 0.5), (1.0, 0.7)], 0.1) == pytest.approx(0.5)


def test_who_has_fewer_folds_than_allowed_counts_and_who_has_more_has_no_value():
    points = [(0.05, 0.8), (0.5, 0.4)]
    assert dissimilarity_at(points, 1.0) == 0.4
    assert dissimilarity_at(points, 0.01) is None
    assert dissimilarity_at([], 1.0) is None


def test_no_folds_at_all_count_as_the_floor():
    assert dissimilarity_at([(0.0, 0.8), (100**2 * FLOOR, 0.4)], 100 * FLOOR) == pytest.approx(0.6)


def test_the_least_of_those_that_are_regular_enough_is_named():
    found = made_up()["equal_folds"]
    assert [(each["set"], each["folds_percent"], each["least"]) for each in found] == [
        *(("shapes", level, "gradicon") for level in (0.01, 0.1, 1.0)),
        *(("drive", level, "diffusion") for level in (0.01, 0.1, 1.0)),
    ]
    assert found[1]["dissimilarity"] == pytest.approx(
        {"gradicon": 0.2, "icon": 0.4, "diffusion": 0.4, "bending": 0.5}
    )
    assert found[5]["dissimilarity"] == {
        "gradicon": None,
        "icon": None,
        "diffusion": 0.4,
        "bending": None,
    }


def test_the_table_and_the_figure_come_from_the_json_alone():
    numbers = json.loads(json.dumps(made_up()))
    table = regularizers.table(numbers)
    assert "GradICON is the most similar in 3 of 6 comparisons" in table
    assert "| Triangles and Circles | 0.1 | 0.2000 | 0.4000 | 0.4000 | 0.5000 | GradICON |" in table
    assert (
        "| DRIVE | 1 | more folds at any weight | more folds at any weight | 0.4000 | "
        "more folds at any weight | diffusion |"
    ) in table
    assert "| DRIVE | ICON | 1 | 0.4000 | 2.0000 |" in table
    figure = Figure()
    regularizers.draw(numbers, figure)
    assert [axes.get_title() for axes in figure.axes] == ["Triangles and Circles", "DRIVE"]
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert list(lines["GradICON"].get_ydata()) == [0.1, 0.3]
    assert list(lines["GradICON"].get_xdata()) == [10, 0.001]
    clipped = {line.get_label(): line for line in figure.axes[1].get_lines()}["diffusion"]
    assert list(clipped.get_xdata()) == [FLOOR]


def test_a_full_run_asks_for_drive(tmp_path: Path, unhooked: None):
    setting = Setting(tmp_path, False, torch.device("cpu"), None, 1, lambda what, part: None)
    assert set_names(setting) == ("shapes", "drive")
    with pytest.raises(ValueError, match="--data"):
        train_tasks([], setting, steps=1, log_every=1)


def test_trainings_leave_only_numbers(tmp_path: Path):
    setting = Setting(tmp_path, True, torch.device("cpu"), None, 1, lambda what, part: None)
    task = Task("shapes", "gradicon", 1.0)
    trained = train_tasks([task], setting, steps=2, log_every=1)[task]
    assert [each["step"] for each in trained.rows] == [1, 2]
    assert summarise(task, trained)["weight"] == 1.0
    assert not list((tmp_path / "runs").iterdir())


def test_a_quick_run_through_the_command_line(tmp_path: Path):
    command = [
        sys.executable,
        "-m",
        "gradicon.experiments",
        "regularizers",
        "--quick",
        "--device",
        "cpu",
        "-o",
        str(tmp_path),
    ]
    subprocess.run(command, check=True, capture_output=True)
    result = json.loads((tmp_path / "regularizers.json").read_text())
    assert (result["experiment"], result["size"]) == ("regularizers", "quick")
    rows = result["numbers"]["rows"]
    wanted = {
        (name, each, LAMBDA0[each] * 2.0**i)
        for name in ("shapes", "warped")
        for each in REGULARIZERS
        for i in QUICK.exponents
    }
    assert {(each["set"], each["regularizer"], each["weight"]) for each in rows} == wanted
    assert len(rows) == len(wanted)
    assert all(
        0 < each["dissimilarity"] < 1.2 and 0 <= each["folds_percent"] <= 100 for each in rows
    )
    value = {
        (each["set"], each["regularizer"], each["weight"]): each["dissimilarity"] for each in rows
    }
    for name, each in {(name, each) for name, each, _ in wanted}:
        weak, strong = (value[name, each, LAMBDA0[each] * 2.0**i] for i in QUICK.exponents)
        assert weak < strong, f"{name}, {each}: a heavier penalty gives up similarity"
    assert (tmp_path / "regularizers.png").stat().st_size > 10_000
    assert "| warped shapes | bending energy |" in (tmp_path / "regularizers.md").read_text()
