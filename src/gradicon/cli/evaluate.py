"""`gradicon evaluate`: how good a registration is, on a list of pairs."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import torch
import typer

import gradicon
from gradicon.cli.batch import cohort_progress, print_note
from gradicon.cli.choices import registers
from gradicon.cli.common import stdout, table, this_command
from gradicon.cohort.record import Record
from gradicon.cohort.runner import run, take_stock
from gradicon.errors import GradiconError
from gradicon.evaluation.check import check_pairs
from gradicon.evaluation.compare import Difference
from gradicon.evaluation.compare import compare as compare_tables
from gradicon.evaluation.evaluate import Evaluation, table_rows
from gradicon.evaluation.named_labels import Names, read_names
from gradicon.evaluation.table import MARKDOWN, read_table, rows, summarise
from gradicon.physical.lists import read_pairs
from gradicon.registration.options import Options


@registers
def evaluate(
    choose: Callable[[], Options],
    pairs: Annotated[
        Path | None,
        typer.Argument(help="A CSV file of pairs, with labels or landmarks.", show_default=False),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", help="The folder for the table.", show_default=False),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Register pairs that are done already, too.")
    ] = False,
    labels: Annotated[
        Path | None,
        typer.Option(help="A TOML file with the labels that count in the table, and their names."),
    ] = None,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A.json B.json", help="Compare two tables instead."),
    ] = None,
) -> None:
    """Register every pair of a list and judge it by labels, landmarks and the map itself.

    Measured are Dice, HD95, landmark error, folds, SD log Jacobian, inverse consistency, time and
    memory. Columns: as for `gradicon batch`. OUT/table.csv, table.json and table.md are written; a
    pair that fails is counted and listed. Run it again, and it goes on where it was; pairs whose
    files, model or algorithm changed are done anew.

    Example: `gradicon evaluate pairs.csv --model run/model.safetensors --refine 0 -o table`

    Example: `gradicon evaluate --compare before/table.json after/table.json`
    """
    if compare is not None:
        _compare(*compare)
        return
    if pairs is None or out is None:
        raise typer.BadParameter("give PAIRS.csv -o OUT, or --compare A.json B.json")
    options = choose()
    names = None if labels is None else read_names(labels)
    listed = read_pairs(pairs)
    stock = take_stock(Evaluation(options, out, _about(options), names), listed, again=again)
    check_pairs(stock.waiting)
    print_note(stock)
    _show(out, run(stock, cohort_progress(listed)), names)


def _about(options: Options) -> dict[str, str]:
    """What the table says of this run."""
    machine = (
        torch.cuda.get_device_name()
        if options.torch_device.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads"
    )
    return {
        "command": this_command(),
        "date": datetime.now(UTC).date().isoformat(),
        "hardware": machine,
        "gradicon": gradicon.__version__,
        "torch": torch.__version__,
    }


def _show(out: Path, records: list[Record], names: Names | None) -> None:
    failed = sum(record.status == "failed" for record in records)
    summary = summarise(table_rows(records, names))
    if names is not None and "mean_dice" not in summary:
        typer.echo("warning: no pair has any of the labels of --labels", err=True)
    title = f"{len(records)} pairs, {failed} failed"
    stdout.print(table(title, ["measure", "before", "mean ± sd"], rows(summary)))
    if failed:
        raise GradiconError(f"{failed} of {len(records)} pairs failed: see {out / MARKDOWN}")


def _compare(a: Path, b: Path) -> None:
    header = ["measure", "pairs", "A", "B", "B - A", "95 % interval", "B better in"]
    stdout.print(
        table("", header, [_told(found) for found in compare_tables(read_table(a), read_table(b))])
    )


def _told(found: Difference) -> list[str]:
    form = found.measure.form
    interval = f"{found.low:+{form}} to {found.high:+{form}}"
    numbers = [f"{found.a:{form}}", f"{found.b:{form}}", f"{found.mean:+{form}}", interval]
    return [found.measure.title, str(found.pairs), *numbers, f"{found.better} of {found.pairs}"]
