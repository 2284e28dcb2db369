"""Train a network by a recipe on prepared images, and go on with a run that stopped."""

from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import gradicon
from gradicon.errors import FileInTheWayError, GradiconError
from gradicon.files import written_whole
from gradicon.models import Model, Training, open_checkpoint
from gradicon.training.config import Recipe
from gradicon.training.dataset import Dataset
from gradicon.training.lock import only_here
from gradicon.training.loop import Loop
from gradicon.training.pairs import owned
from gradicon.training.processes import Machine, is_first_process, launched
from gradicon.training.recipe import read_recipe
from gradicon.training.requirements import check_loss_has_data
from gradicon.training.runlog import OnLog, RunLog
from gradicon.training.stages import first_model
from gradicon.training.state import LAST, RECIPE, Checkpoint, read_checkpoint, remove_leftovers
from gradicon.training.stopping import stopping


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `stopped` is empty if it is done, else "time" or "interrupted"."""

    step: int
    steps: int
    stopped: str
    best: float | None
    minutes: float


def train(
    recipe: Recipe,
    data: Path,
    run: Path,
    *,
    start: Path | None = None,
    machine: Machine | None = None,
    max_minutes: float | None = None,
    command: str = "",
    on_log: OnLog | None = None,
) -> Outcome:
    """Train both stages in a new folder.

    Args:
        recipe: what to do.
        data: the folder of prepared images.
        run: the folder of the run, which must be new.
        start: the file of a trained model to begin with, instead of fresh weights.
        machine: where to train; one process, on a GPU where there is one, by default.
        max_minutes: stops cleanly after so long; `resume` goes on.
        command: what the models that are written say they were made by.
        on_log: called with what is logged.
    """
    machine = machine or Machine()
    opened = None if start is None else open_checkpoint(start)
    begin = None if opened is None else opened.load()
    origin = "" if opened is None else opened.header.sha256
    first_model(recipe, begin)  # refuses a model that the recipe cannot go on with
    if is_first_process():
        _check(recipe, data, machine)
        _make_folder(run, recipe)
    return _run(recipe, data, run, (begin, origin), machine, max_minutes, command, on_log)


def resume(
    run: Path,
    *,
    data: Path | None = None,
    machine: Machine | None = None,
    max_minutes: float | None = None,
    command: str = "",
    on_log: OnLog | None = None,
) -> Outcome:
    """Go on from RUN/last.ckpt, as if the run had never stopped.

    Args:
        run: the folder of the run.
        data: the folder of prepared images, if it was moved.
        machine: where to train; it may be another one than before.
        max_minutes: stops cleanly after so long.
        command: what the models that are written say they were made by.
        on_log: called with what is logged.
    """
    machine = machine or Machine()
    checkpoint = read_checkpoint(run)
    recipe = read_recipe(run / RECIPE)
    if _hash(recipe) != checkpoint.recipe:
        raise GradiconError(
            f"{run / RECIPE} has changed since the run began: put it back, or start a new "
            "run with it"
        )
    data = data or Path(checkpoint.data)
    if is_first_process():
        if _check(recipe, data, machine).sha256 != checkpoint.dataset:
            raise GradiconError(
                f"{data}: not the prepared data that {run} was started with: start a new "
                "run, or find them with --data"
            )
        remove_leftovers(run)
    return _run(
        recipe, data, run, (checkpoint, checkpoint.start), machine, max_minutes, command, on_log
    )


def _run(
    recipe: Recipe,
    data: Path,
    run: Path,
    begin: tuple[Checkpoint | Model | None, str],
    machine: Machine,
    max_minutes: float | None,
    command: str,
    on_log: OnLog | None,
) -> Outcome:
    with only_here(run) if is_first_process() else nullcontext(), stopping(max_minutes) as stop:
        fabric = launched(machine)
        dataset = Dataset.open(data, verify=False)  # the first process has compared every byte
        loop = Loop(
            fabric,
            recipe,
            dataset,
            run,
            begin[0],
            _describe_training(recipe, dataset, command, begin[1]),
        )
        log = RunLog(run, after=loop.step, on_log=on_log) if fabric.is_global_zero else None
        try:
            reason = loop.run(log, stop)
        finally:
            if log is not None:
                log.close()
    return Outcome(loop.step, recipe.training.steps, reason, loop.best, loop.seconds / 60)


def _check(recipe: Recipe, data: Path, machine: Machine) -> Dataset:
    """Find what can be wrong before the slow part begins."""
    owned(recipe.training.batch_size, 0, machine.processes)
    dataset = Dataset.open(data)
    dataset.check_recipe(recipe.data)
    check_loss_has_data(recipe, dataset)
    return dataset


def _make_folder(run: Path, recipe: Recipe) -> None:
    if (run / LAST).exists():
        raise FileInTheWayError(
            f"{run} holds a run: go on with it by --resume {run}, or choose another folder"
        )
    if run.exists() and not (run.is_dir() and ((run / RECIPE).exists() or not any(run.iterdir()))):
        raise FileInTheWayError(f"{run} exists and is no folder of a run: choose another place")
    run.mkdir(parents=True, exist_ok=True)
    with written_whole(run / RECIPE, advice="make room, and start again") as part:
        part.write_bytes(recipe.text.encode())


def _describe_training(recipe: Recipe, dataset: Dataset, command: str, origin: str) -> Training:
    return Training(
        recipe=recipe.text,
        dataset=dataset.sha256,
        command=command,
        version=gradicon.__version__,
        started_from=origin,
    )


def _hash(recipe: Recipe) -> str:
    return sha256(recipe.text.encode()).hexdigest()
