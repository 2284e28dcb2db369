"""What a command line for studies does, whichever parses it: `gradicon experiment` or, where its
packages are not installed, `python -m gradicon.experiments`.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gradicon.devices import choose_device
from gradicon.errors import MissingPackageError, UsageError
from gradicon.experiments.study import STUDIES, Setting


@dataclass(frozen=True)
class StudyRequest:
    """A study to run, or the result of one to show.

    Args:
        name: which study.
        out: the folder for what it finds.
        quick: a size that a CPU finishes in minutes.
        data: the folder of real data sets, for studies that need one.
        device: "auto", "cpu" or "cuda".
        jobs: trainings at a time, on one GPU.
        show: a result, whose table and figure are written; then nothing is run.
    """

    name: str | None
    out: Path
    quick: bool
    data: Path | None
    device: str
    jobs: int
    show: Path | None

    def __post_init__(self) -> None:
        if (self.name is None) == (self.show is None):
            raise UsageError(f"give one of {', '.join(STUDIES)}, or --show JSON")
        if self.jobs < 1:
            raise UsageError(f"--jobs must be at least 1, got {self.jobs}")


def study_as_asked(
    request: StudyRequest, *, command: str, tell: Callable[[str, float], None]
) -> list[Path]:
    """Run or show a study. Returns the files to look at.

    Args:
        request: which study, and how.
        command: the whole command line, for the record.
        tell: called with what is being done, and how much of all is done, from 0 to 1.
    """
    try:  # here, because only studies and training need Lightning Fabric
        from gradicon.experiments.run import run_study, show_study
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"{error.name} is not installed: pip install 'gradicon[training]'"
        ) from error
    if request.show is not None:
        return show_study(request.show, request.out)
    device = choose_device(request.device)
    with tempfile.TemporaryDirectory() as work:
        setting = Setting(Path(work), request.quick, device, request.data, request.jobs, tell)
        return [run_study(request.name or "", setting, request.out, command=command)]
