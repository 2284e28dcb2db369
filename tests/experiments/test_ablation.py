"""The ablation: what it trains, what it compares, and what it says of it."""

import json
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure

from gradicon.experiments import ablation, ablation_report
from gradicon.experiments.real_sets import SETS, prepare_set
from gradicon.experiments.run import run_study
from gradicon.experiments.study import Numbers, Setting
from gradicon.training.dataset import Dataset


def setting(work: Path, *, quick: bool = True, data: Path | None = None) -> Setting:
    return Setting(work, quick, torch.device("cpu"), data, 1, lambda what, part: None)


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Numbers:
    folder = tmp_path_factory.mktemp("ablation")
    result = json.loads(
        run_study("ablation", setting(folder / "work"), folder, command="a test").read_text()
    )
    assert {path.name for path in folder.iterdir()} >= {
        "ablation.json",
        "ablation.md",
        "ablation.png",
    }
    return result["numbers"]


def test_every_row_of_the_papers_table_on_both_sets(numbers: Numbers):
    rows = {
        (r["set"], r["backbone"], r["resolutions"], r["second"], r["augmented"], r["optimised"])
        for r in numbers["rows"]
    }
    assert len(rows) == len(numbers["rows"]) == 16
    for where in ("cardiac", "hippocampus"):
        assert (where, "voxelmorph", 1, False, False, False) in rows
        assert (where, "unet", 3, True, True, True) in rows
    for row in numbers["rows"]:
        assert row["dice"] == pytest.approx(sum(row["dice_of_pairs"]) / len(row["dice_of_pairs"]))
        assert 0 < row["dissimilarity"] < 1


def test_what_training_pairs_came_to_is_the_mean_of_the_last_half_and_of_both_directions():
    assert ablation.mean_dissimilarity(
        [{"similarity": 9.0}, {"similarity": 1.0}, {"similarity": 0.6}]
    ) == pytest.approx(0.4)


def test_training_and_optimising_change_what_is_judged(numbers: Numbers):
    chosen = [
        r
        for r in numbers["rows"]
        if r["set"] == "hippocampus" and r["second"] and not r["augmented"]
    ]
    plain, optimised = sorted(chosen, key=lambda row: row["optimised"])
    assert optimised["dissimilarity"] != plain["dissimilarity"]


def test_effects_compare_rows_that_differ_in_one_part(numbers: Numbers):
    def dice(**parts: object) -> float:
        return next(
            r["dice"]
            for r in numbers["rows"]
            if all(r[name] == value for name, value in parts.items())
        )

    base = {
        "set": "cardiac",
        "backbone": "unet",
        "resolutions": 3,
        "augmented": False,
        "optimised": False,
    }
    found = ablation_report.compare_parts(numbers["rows"])
    effect = next(e for e in found if e["set"] == "cardiac" and e["part"] == "Stage2")
    assert effect["without"] == dice(**base, second=False)
    assert effect["with"] == dice(**base, second=True)
    pairs = [
        next(r["dice_of_pairs"] for r in numbers["rows"] if r["dice"] == effect[key])
        for key in ("without", "with")
    ]
    assert effect["better"] == sum(after > before for before, after in zip(*pairs, strict=True))
    assert effect["pairs"] == 2
    assert len(found) == 12


def test_two_stages_take_as_many_steps_as_one():
    config = SETS["cardiac"]
    one, two = (
        ablation._recipe(ablation.NETWORKS[i], config, ablation._FULL).training for i in (2, 4)
    )
    assert one.steps == two.steps
    assert two.stage1_steps == two.stage2_steps


def test_table_and_figure_come_from_the_numbers_alone(numbers: Numbers):
    told = ablation.table(numbers)
    assert told.count("| cardiac |") == 1 + 8 + 6
    optimised = next(
        line
        for line in told.splitlines()
        if line.startswith("| hippocampus | unet | 3 | yes | yes |  |")
    )
    assert optimised.endswith(
        "|  |"
    )  # what training came to says nothing of a network that was changed since
    figure = Figure()
    ablation.draw(numbers, figure)
    assert [axes.get_title() for axes in figure.axes] == ["cardiac", "hippocampus"]
    assert (
        next(label.get_text() for label in figure.axes[0].get_yticklabels()) == "voxelmorph, 1 res."
    )
    assert len(figure.axes[0].lines) == 2 * 8 + 1


def test_data_that_are_prepared_already_are_taken_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made, config = prepare_set("cardiac", setting(tmp_path / "made"))
    assert Dataset.open(made).groups[0].pairs == ((0, 1), (2, 3))
    monkeypatch.setitem(SETS, "cardiac", config)
    assert prepare_set("cardiac", setting(tmp_path, quick=False, data=made.parent)) == (
        made,
        config,
    )


def test_the_full_size_wants_real_data(tmp_path: Path):
    with pytest.raises(ValueError, match="say where the data sets are with --data"):
        prepare_set("hippocampus", setting(tmp_path, quick=False))
    with pytest.raises(FileNotFoundError, match="no such data set"):
        prepare_set("hippocampus", setting(tmp_path, quick=False, data=tmp_path))
