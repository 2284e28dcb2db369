"""Cohorts of tiny files, and work that registers nothing."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from gradicon.cohort.key import How
from gradicon.cohort.record import Record
from gradicon.cohort.work import Work
from gradicon.physical.lists import Pair, read_pairs
from gradicon.registration.options import Options
from gradicon.registration.register import OnStep


def listed(folder: Path, count: int) -> list[Pair]:
    """Pairs of files that are no images."""
    for i in range(count + 1):
        (folder / f"scan{i}.nii").write_text(f"scan {i:06d}")
    with (folder / "pairs.csv").open("w", newline="") as file:
        rows = [[f"scan{i}.nii", f"scan{i + 1}.nii"] for i in range(count)]
        csv.writer(file).writerows([["fixed", "moving"], *rows])
    return read_pairs(folder / "pairs.csv")


@dataclass(frozen=True)
class Stub(Work):
    """Leaves a file, and counts what it is asked for."""

    act: Callable[[Pair], None] = lambda pair: None
    done: list[str] = field(default_factory=list)
    summaries: list[list[str]] = field(default_factory=list)

    kind: ClassVar[str] = "stub 1"

    def folder(self, pair: Pair) -> Path:
        return self.out / pair.name

    def has_results(self, folder: Path) -> bool:
        return (folder / "result").exists()

    def do(self, pair: Pair, on_step: OnStep | None) -> dict[str, Any]:
        self.act(pair)
        self.folder(pair).mkdir(parents=True, exist_ok=True)
        (self.folder(pair) / "result").write_text("")
        self.done.append(pair.name)
        return {"number": pair.number}

    def summarise(self, records: Sequence[Record], how: How) -> None:
        self.summaries.append([record.status for record in records])


def stub(
    out: Path, changed: Options | None = None, *, act: Callable[[Pair], None] = lambda pair: None
) -> Stub:
    return Stub(changed or Options(model="none"), out, act)
