"""What a command does with each pair of a cohort, for the runner that they share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from gradicon.cohort.key import How
from gradicon.cohort.record import Record
from gradicon.physical.lists import Pair
from gradicon.registration.options import Options
from gradicon.registration.register import OnStep
from gradicon.registration.result.scores import Extras

Progress = Callable[[Pair], AbstractContextManager[OnStep | None]]
"""Entered for each pair that is registered; what it gives is told of the optimisation's steps."""


@dataclass(frozen=True)
class Work(ABC):
    """One kind of work.

    Args:
        options: how pairs are registered.
        out: the folder for all that is written.
    """

    options: Options
    out: Path

    kind: ClassVar[str]
    """What is done, with a number that changes when its records hold something else."""

    @abstractmethod
    def folder(self, pair: Pair) -> Path:
        """The pair's own folder, for its record and whatever else it leaves."""

    @abstractmethod
    def has_results(self, folder: Path) -> bool:
        """Whether results stand in a pair's folder, wherever they are from."""

    @abstractmethod
    def do(self, pair: Pair, on_step: OnStep | None) -> dict[str, Any]:
        """Register a pair, leave what there is to leave in its folder, and return the measures as
        plain values.
        """

    @abstractmethod
    def summarise(self, records: Sequence[Record], how: How) -> None:
        """Write the summary of all pairs, whole, from these records alone."""


def extras_of(pair: Pair) -> Extras:
    """What came with a pair's images, to be scored."""
    fixed = pair.fixed
    moving = pair.moving
    return Extras(fixed.labels, moving.labels, fixed.landmarks, moving.landmarks)
