"""What a command line for training does, whichever parses it: `gradicon train` or, where its
packages are not installed, `python -m gradicon.training`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gradicon.ending import INTERRUPTED
from gradicon.errors import MissingPackageError, UsageError
from gradicon.training.recipe import read_recipe
from gradicon.training.runlog import OnLog, Report

if TYPE_CHECKING:
    from gradicon.training.trainer import Outcome


@dataclass(frozen=True)
class TrainingRequest:
    """A new run, or one to go on with.

    Args:
        recipe, data, out: of a new run: what to train, the prepared images, and where to.
        start: a trained model to begin with, instead of fresh weights.
        resume: the run to go on with; `data` is then for prepared images that were moved.
        device, devices, nodes: the machines, as in `gradicon.training.processes.Machine`.
        max_minutes: stop after so long.
    """

    recipe: Path | None
    data: Path | None
    out: Path | None
    start: Path | None
    resume: Path | None
    device: str
    devices: int
    nodes: int
    max_minutes: float | None

    def __post_init__(self) -> None:
        is_new = self.recipe is not None and self.data is not None and self.out is not None
        goes_on = self.resume is not None
        if is_new == goes_on or (goes_on and (self.recipe or self.out or self.start)):
            raise UsageError(
                "give RECIPE --data DATA -o RUN to start, or --resume RUN [--data DATA] to go on"
            )
        if self.max_minutes is not None and self.max_minutes < 0:
            raise UsageError(f"--max-minutes must not be negative, got {self.max_minutes:g}")


def train_as_asked(
    request: TrainingRequest,
    *,
    program: str,
    command: str,
    on_log: OnLog,
    say: Callable[[str], None],
) -> int:
    """Train, and say in one line how it ended. Returns the exit code of the program.

    Args:
        request: what to train.
        program: how to call this program, for the line that says how to go on.
        command: the whole command line, for the record.
        on_log: called with what the run says on the way.
        say: called with the closing line, in the first process only.
    """
    try:  # here, because only training needs Lightning Fabric
        from gradicon.training.processes import is_first_process
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"training needs {error.name}: pip install 'gradicon[training]'"
        ) from error
    outcome = _train(request, command, on_log)
    if is_first_process():
        say(_closing_line(request, outcome, program))
    return INTERRUPTED if outcome.stopped == "interrupted" else 0


def progress_line(report: Report) -> str:
    """Where a run is, as a line for a log file: losses, folds, and what validation found."""
    values = "  ".join(f"{name} {value:.4g}" for name, value in report.values.items())
    return (
        f"Stage{report.stage} step {report.step} of {report.steps}  "
        f"{report.steps_per_second:.3g}/s  {values}"
    )


def _train(request: TrainingRequest, command: str, on_log: OnLog) -> "Outcome":
    from gradicon.training.processes import Machine
    from gradicon.training.trainer import resume, train

    machine = Machine(request.device, request.devices, request.nodes)
    if request.recipe is not None and request.data is not None and request.out is not None:
        return train(
            read_recipe(request.recipe),
            request.data,
            request.out,
            start=request.start,
            machine=machine,
            max_minutes=request.max_minutes,
            command=command,
            on_log=on_log,
        )
    return resume(
        request.resume or Path(),
        data=request.data,
        machine=machine,
        max_minutes=request.max_minutes,
        command=command,
        on_log=on_log,
    )


def _closing_line(request: TrainingRequest, outcome: "Outcome", program: str) -> str:
    run = request.resume or request.out or Path()
    best = "" if outcome.best is None else f", best validation score {outcome.best:.4f}"
    best_model = best and f"{best} (best.safetensors)"
    if outcome.stopped:
        return (
            f"stopped at step {outcome.step} of {outcome.steps}{best_model}: go on with "
            f"`{program} --resume {run}`"
        )
    minutes = f"{outcome.minutes:.1f} minutes"
    return f"{run / 'model.safetensors'}: {outcome.steps} steps in {minutes}{best_model}"
