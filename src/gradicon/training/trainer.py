"""Train a network by a recipe on prepared images, and go on with a run that stopped."""

from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import gradicon
from gradicon.errors import FileInTheWayError, GradiconError
from gradicon.files import written_whole
from gradicon.models import Model, load, read_header
from gradicon.training.batches import check_loss_has_data
from gradicon.training.config import Recipe
from gradicon.training.dataset import Dataset
from gradicon.training.lock import only_here
from gradicon.training.loop import Loop
from gradicon.training.pairs import owned
from gradicon.training.processes import Machine, is_first_process, launched
from gradicon.training.recipe import read_recipe
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
    """Both stages, fresh or from the trained model `start`, in a new folder. `max_minutes` stops it
    cleanly; `resume` goes on.
    """
    machine = machine or Machine()
    begin, origin = (None, "") if start is None else (load(start), read_header(start).sha256)
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
    """Go on from RUN/last.ckpt, as if the run had never stopped. `data` is for prepared images that
    were moved.
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
            fabric, recipe, dataset, run, begin[0], _provenance(recipe, dataset, command, begin[1])
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


def _provenance(recipe: Recipe, dataset: Dataset, command: str, origin: str) -> dict[str, str]:
    return {
        "command": command,
        "gradicon": gradicon.__version__,
        "recipe": recipe.text,
        "recipe sha256": _hash(recipe),
        "dataset sha256": dataset.sha256,
        **({"started from sha256": origin} if origin else {}),
    }


def _hash(recipe: Recipe) -> str:
    return sha256(recipe.text.encode()).hexdigest()
