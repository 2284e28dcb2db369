"""What a study is: numbers first, and from the numbers alone a table and a figure."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args, runtime_checkable

import torch

from gradicon.errors import GradiconError, MissingFileError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Numbers = dict[str, Any]
"""All that a study found, as plain values, ready for JSON."""

Name = Literal[
    "regularizers", "convergence", "ablation", "statistics", "noise", "implicit", "analysis"
]
STUDIES: tuple[Name, ...] = get_args(Name)


@dataclass(frozen=True)
class Setting:
    """How a study is run.

    Args:
        work: a folder for what is made on the way: data, runs.
        quick: a size that a CPU finishes in minutes, to see that everything works; its numbers mean
            little.
        device: where networks are trained and asked.
        data: the folder of real data sets, for the studies that need one.
        jobs: trainings at a time, where a study trains many small networks.
        tell: called with what is being done, and how much of all is done, from 0 to 1.
        kept: a folder for trainings that are done, so that a study that was interrupted does not do
            them again.
    """

    work: Path
    quick: bool
    device: torch.device
    data: Path | None
    jobs: int
    tell: Callable[[str, float], None]
    kept: Path | None = None

    def real(self, name: str) -> Path:
        """The folder of a real data set."""
        if self.data is None:
            raise GradiconError(
                f"this study reads the {name} set: say where the data sets are with "
                "--data, or take --quick"
            )
        if not (self.data / name).is_dir():
            raise MissingFileError(f"{self.data / name}: no such data set")
        return self.data / name


@runtime_checkable
class Study(Protocol):
    """A file of `gradicon.experiments`."""

    TITLE: str

    def run(self, setting: Setting) -> Numbers:
        """Make the data, train, measure."""
        ...

    def table(self, numbers: Numbers) -> str:
        """The numbers as Markdown."""
        ...

    def draw(self, numbers: Numbers, figure: "Figure") -> None:
        """The numbers as a picture, on an empty figure."""
        ...


def load_study(name: str) -> Study:
    """Import the file of a study; only the one that is asked for."""
    if name not in STUDIES:
        raise GradiconError(f"unknown experiment {name!r}: expected one of {', '.join(STUDIES)}")
    return cast("Study", import_module(f"gradicon.experiments.{name}"))
