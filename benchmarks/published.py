"""The paper's published numbers beside ours: the generated parts of a page, written anew.

    python benchmarks/published.py docs/results/published.json --ours docs/results/ours.json \
        -o docs/results/reproduce.md

A part stands between `<!-- table 2 OAI -->` and `<!-- end -->`: a table's number, and where the
table has several sets, which of them. All else on the page stays as it is. What we have of a row is
its entry in `ours.json`: found on the same data, on other data, or a reason why it cannot be had.
"""

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, final

from gradicon.errors import GradiconError

KINDS = ("same data", "other data", "cannot be had", "not yet")
_PART = re.compile(r"(<!-- table (\w+)(?: (\w+))? -->\n).*?(<!-- end -->)", re.DOTALL)
_HEADS = {"Dice": "Dice, %", "mTRE": "mTRE, mm", "folds": "folds, %"}
_ABOUT = ("method", "transform", "regularizer", "similarity")


@final
@dataclass(frozen=True, kw_only=True)
class Number:
    """A published number: a row of `published.json`.

    Args:
        table: of the paper, "text" for what is printed elsewhere, "DirLab" for the data set's own.
        place: where it stands.
        dataset, method: what was measured on what.
        transform, regularizer, similarity: of the method, where the table has them.
        learned: whether it is in the table's part of learning methods.
        measure, unit: what it is.
        printed, value: as printed, and as a number.
        reported_by: who measured it; None where the paper does not say.
        note: on a slip of the print.
    """

    table: str
    place: str
    dataset: str
    method: str
    measure: str
    unit: str
    printed: str
    value: float
    reported_by: str | None
    transform: str = ""
    regularizer: str = ""
    similarity: str = ""
    learned: bool | None = None
    note: str = ""

    @property
    def about(self) -> tuple[str, ...]:
        """What it is a number of: numbers that share it make one row of a table."""
        return (self.method, self.transform, self.regularizer, self.similarity)


@final
@dataclass(frozen=True, kw_only=True)
class Ours:
    """What we have of one or several rows of a table.

    Args:
        table: its number.
        dataset: of the rows; empty for all.
        methods: of the rows, as published; empty for all that no other entry names.
        kind: one of KINDS.
        says: the figure, or why there is none.
    """

    table: str
    dataset: str
    methods: tuple[str, ...]
    kind: str
    says: str


Row = TypeVar("Row", Number, Ours)


def read_numbers(path: Path) -> list[Number]:
    """The rows of `published.json`; a field that is missing or unknown is an error."""
    return [_made(Number, row) for row in json.loads(path.read_text(encoding="utf-8"))["rows"]]


def read_ours(path: Path) -> list[Ours]:
    """The entries of `ours.json`."""
    entries = json.loads(path.read_text(encoding="utf-8"))
    return [_made(Ours, entry | {"methods": tuple(entry["methods"])}) for entry in entries]


def find_ours(ours: Sequence[Ours], table: str, dataset: str, method: str) -> Ours:
    """What we have of a row: the entry that names its method, else the one for all others."""
    here = [it for it in ours if it.table == table and it.dataset in ("", dataset)]
    named = [it for it in here if method in it.methods] or [it for it in here if not it.methods]
    if len(named) != 1:
        raise GradiconError(
            f"table {table}, {dataset}, {method}: {len(named)} entries of ours, expected one"
        )
    return named[0]


def table(numbers: Sequence[Number], ours: Sequence[Ours]) -> str:
    """Numbers of one table and data set as Markdown: a row for each method, ours at the end."""
    measures = list(dict.fromkeys(number.measure for number in numbers))
    shown = [name for name in _ABOUT if any(getattr(number, name) for number in numbers)]
    header = [*shown, *(_HEADS.get(name, name) for name in measures), "reported by", "ours"]
    lines = [_line(header), _line(["---"] * len(header))]
    for about in dict.fromkeys(number.about for number in numbers):
        row = [number for number in numbers if number.about == about]
        first = row[0]
        found = find_ours(ours, first.table, first.dataset, first.method)
        cells = [getattr(first, name) for name in shown]
        cells += [_printed(row, measure) for measure in measures]
        lines.append(_line([*cells, first.reported_by or "", f"*{found.kind}*: {found.says}"]))
    return "\n".join(lines) + "\n"


def fill(page: str, numbers: Sequence[Number], ours: Sequence[Ours]) -> str:
    """The page with its generated parts as the numbers say."""

    def part(match: re.Match[str]) -> str:
        begin, which, dataset, end = match.groups()
        rows = [it for it in numbers if it.table == which and dataset in (None, it.dataset)]
        if not rows:
            raise GradiconError(f"the page asks for table {which} {dataset}: no such numbers")
        return begin + table(rows, ours) + end

    return _PART.sub(part, page)


def main() -> None:
    """Write the page anew."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("published", type=Path)
    parser.add_argument("--ours", type=Path, required=True)
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="PAGE")
    given = parser.parse_args()
    page = given.out.read_text(encoding="utf-8")
    filled = fill(page, read_numbers(given.published), read_ours(given.ours))
    given.out.write_text(filled, encoding="utf-8")


def _made(kind: type[Row], values: dict[str, Any]) -> Row:
    unknown = set(values) - {field.name for field in fields(kind)}
    if unknown:
        raise GradiconError(f"unknown fields {sorted(unknown)} in {values}")
    return kind(**values)


def _printed(row: Sequence[Number], measure: str) -> str:
    """The number as printed; with its unit where the head of the column has none."""
    for number in row:
        if number.measure == measure:
            with_unit = number.unit and measure not in _HEADS
            return f"{number.printed} {number.unit}" if with_unit else number.printed
    return ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
