"""Many trainings, some at a time, by the same trainer as `gradicon train`."""

import gc
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from shutil import copyfile, rmtree
from typing import Any

import torch

from gradicon.experiments.study import Setting
from gradicon.files import written_whole
from gradicon.training.config import Recipe
from gradicon.training.dataset import Dataset
from gradicon.training.processes import Machine
from gradicon.training.runlog import Report
from gradicon.training.state import FINAL
from gradicon.training.trainer import train

Row = dict[str, float]
"""What was logged at a step: step, stage, loss, similarity, penalty, folds, and what validation
found.
"""


Judge = Callable[[Path, Path], Any]
"""Called with the file of a model and the folder of its data, it says what is to be known of them,
as JSON can say it. A dataclass, so that its repr tells it from others and another process can have
it.
"""


@dataclass(frozen=True)
class Trained:
    """A run that is done.

    Args:
        rows: what it logged.
        minutes: of training.
        model: the file of its model, which exists if it was kept.
        judged: what the judge said.
    """

    rows: tuple[Row, ...]
    minutes: float
    model: Path
    judged: Any = None

    @property
    def last(self) -> Row:
        """What was logged last."""
        return self.rows[-1]


def train_all(
    recipes: Mapping[str, Recipe],
    data: Path | Mapping[str, Path],
    setting: Setting,
    *,
    share: float = 1.0,
    keep: bool = True,
    judges: Mapping[str, Judge] | None = None,
) -> dict[str, Trained]:
    """Train every recipe, `setting.jobs` at a time, and judge it; what became of it, by name.

    What is done is remembered in `setting.kept`, and not done again.

    Args:
        recipes: what to train, by name.
        data: the folder of prepared images, of all recipes or of each by name.
        setting: how the study is run.
        share: how much of the whole study this is, for the progress.
        keep: the models. Without, a run leaves no files, for studies that need only what was
            logged: a hundred networks with their checkpoints would fill a disk.
        judges: of recipes, by name; a recipe without one is not judged.
    """
    one = partial(_remembered, machine=Machine(setting.device.type), keep=keep, kept=setting.kept)
    tasks = {
        name: (
            recipe,
            data if isinstance(data, Path) else data[name],
            setting.work / "runs" / name,
            (judges or {}).get(name),
        )
        for name, recipe in recipes.items()
    }
    found: dict[str, Trained] = {}

    def done(name: str, trained: Trained) -> None:
        found[name] = trained
        setting.tell(f"trained {name}", share * len(found) / len(tasks))

    if setting.jobs == 1:
        for name, task in tasks.items():
            done(name, one(*task))
    else:
        with ProcessPoolExecutor(setting.jobs, mp_context=get_context("spawn")) as pool:
            waiting: dict[Any, str] = {
                pool.submit(one, *task): name for name, task in tasks.items()
            }
            for future in as_completed(waiting):
                done(waiting[future], future.result())
    return {name: found[name] for name in recipes}


def _remembered(
    recipe: Recipe,
    data: Path,
    run: Path,
    judge: Judge | None,
    *,
    machine: Machine,
    keep: bool,
    kept: Path | None,
) -> Trained:
    """Train, unless the same recipe was trained on the same data, and judged alike, before."""
    if kept is None:
        return _train_one(recipe, data, run, judge, machine=machine, keep=keep)
    record = kept / f"{run.name}.json"
    model = kept / f"{run.name}.safetensors"
    task = [
        repr(recipe),
        Dataset.open(data, verify=False).sha256,
        *([] if judge is None else [repr(judge)]),
    ]
    if record.exists():
        found = json.loads(record.read_text(encoding="utf-8"))
        if found["task"] == task:
            return Trained(tuple(found["rows"]), found["minutes"], model, found.get("judged"))
    trained = _train_one(recipe, data, run, judge, machine=machine, keep=keep)
    if keep:
        copyfile(trained.model, model)
    done = {
        "task": task,
        "minutes": trained.minutes,
        "rows": trained.rows,
        "judged": trained.judged,
    }
    with written_whole(record, advice="make room, and run the study again") as part:
        part.write_bytes(json.dumps(done).encode())
    return Trained(trained.rows, trained.minutes, model, trained.judged)


def _train_one(
    recipe: Recipe, data: Path, run: Path, judge: Judge | None, *, machine: Machine, keep: bool
) -> Trained:
    rows: list[Row] = []

    def note(report: Report) -> None:
        rows.append({"step": report.step, "stage": report.stage, **report.values})

    outcome = train(recipe, data, run, machine=machine, on_log=note)
    if outcome.stopped:
        raise InterruptedError(f"{run.name}: interrupted at step {outcome.step} of {outcome.steps}")
    judged = None if judge is None else judge(run / FINAL, data)
    gc.collect()
    torch.cuda.empty_cache()  # other trainings are on the same GPU
    if not keep:
        rmtree(run)
    return Trained(tuple(rows), outcome.minutes, run / FINAL, judged)
