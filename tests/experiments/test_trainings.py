"""Trainings that were done before an interruption are not done again."""

from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from gradicon.experiments import planar, trainings
from gradicon.experiments.planar import Task, train_tasks
from gradicon.experiments.run import run_study
from gradicon.experiments.study import Setting
from gradicon.models import load

_TASKS = [Task("shapes", "gradicon", 1.5), Task("shapes", "icon", 500.0)]


def _setting(folder: Path, *, kept: Path | None = None) -> Setting:
    folder.mkdir(parents=True)
    return Setting(
        folder,
        quick=True,
        device=torch.device("cpu"),
        data=None,
        jobs=1,
        tell=lambda what, part: None,
        kept=kept,
    )


def _interrupting(monkeypatch: pytest.MonkeyPatch, after: int) -> list[str]:
    """Let only so many trainings run; the names of those that began."""
    began: list[str] = []
    real = trainings.train

    def train(recipe: object, data: object, run: Path, **others: object) -> object:
        began.append(run.name)
        if len(began) > after:
            raise InterruptedError("stopped")
        return real(recipe, data, run, **others)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(trainings, "train", train)
    return began


def test_an_interrupted_study_goes_on_and_finds_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    expected = train_tasks(_TASKS, _setting(tmp_path / "whole"), steps=3, log_every=1)
    (tmp_path / "kept").mkdir()
    began = _interrupting(monkeypatch, after=1)
    with pytest.raises(InterruptedError):
        train_tasks(_TASKS, _setting(tmp_path / "a", kept=tmp_path / "kept"), steps=3, log_every=1)
    assert began == ["shapes-gradicon-1.5", "shapes-icon-500"]
    monkeypatch.undo()
    began = _interrupting(monkeypatch, after=9)
    found = train_tasks(
        _TASKS, _setting(tmp_path / "b", kept=tmp_path / "kept"), steps=3, log_every=1
    )
    assert began == ["shapes-icon-500"]
    assert {task: run.rows for task, run in found.items()} == {
        task: run.rows for task, run in expected.items()
    }


def test_another_recipe_of_the_same_name_is_trained_anew(tmp_path: Path):
    (tmp_path / "kept").mkdir()
    counts = [
        len(
            train_tasks(
                _TASKS[:1],
                _setting(tmp_path / name, kept=tmp_path / "kept"),
                steps=steps,
                log_every=1,
            )[_TASKS[0]].rows
        )
        for name, steps in (("a", 2), ("b", 3))
    ]
    assert counts == [2, 3]


def test_a_kept_model_can_be_read_after_its_run_is_gone(tmp_path: Path):
    setting = _setting(tmp_path / "work", kept=tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    sets = planar.prepared_sets(setting)
    recipe = planar._recipe(_TASKS[0], sets["shapes"], planar.QUICK.model, 2, 1)
    trained = trainings.train_all({"one": recipe}, sets["shapes"].folder, setting)["one"]
    assert trained.model.parent == tmp_path / "kept"
    assert load(trained.model).config.stage == 1


def test_nothing_is_kept_once_a_study_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(planar, "QUICK", replace(planar.QUICK, steps=2, exponents=(0,)))
    run_study("regularizers", _setting(tmp_path / "work"), tmp_path / "out", command="")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "regularizers.json",
        "regularizers.md",
        "regularizers.png",
    ]


@dataclass(frozen=True)
class Asked:
    """A judge who counts the parameters."""

    times: int = 1

    def __call__(self, model: Path, data: Path) -> int:
        assert (data / "dataset.json").exists()
        return self.times * sum(p.numel() for p in load(model).parameters())


def test_what_a_judge_said_is_kept_and_another_judge_is_asked_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    setting = _setting(tmp_path / "work", kept=tmp_path / "kept")
    (tmp_path / "kept").mkdir()
    sets = planar.prepared_sets(setting)
    recipe = planar._recipe(_TASKS[0], sets["shapes"], planar.QUICK.model, 2, 1)
    began = _interrupting(monkeypatch, after=9)

    def said(judge: Asked) -> int:
        return trainings.train_all(
            {"one": recipe}, sets["shapes"].folder, setting, keep=False, judges={"one": judge}
        )["one"].judged

    first = said(Asked())
    assert first > 1000
    assert said(Asked()) == first
    assert began == ["one"]
    assert said(Asked(2)) == 2 * first
    assert began == ["one", "one"]
