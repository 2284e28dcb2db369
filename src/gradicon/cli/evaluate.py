"""`gradicon evaluate`: how good a registration is, on a list of pairs."""

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import torch
import typer

import gradicon
from gradicon.cli.choices import registers
from gradicon.cli.common import optimisation_progress, stdout, table, this_command
from gradicon.cohort.runner import read_pairs
from gradicon.errors import GradiconError
from gradicon.evaluation.compare import Difference
from gradicon.evaluation.compare import compare as compare_tables
from gradicon.evaluation.evaluate import Record, check_pairs
from gradicon.evaluation.evaluate import evaluate as evaluate_pairs
from gradicon.evaluation.table import MARKDOWN, read_table, rows, write_table
from gradicon.registration.options import Options
from gradicon.registration.register import OnStep


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
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(metavar="A.json B.json", help="Compare two tables instead."),
    ] = None,
) -> None:
    """Register every pair of a list and judge it by labels, landmarks and the map itself.

    Measured are Dice, HD95, landmark error, folds, SD log Jacobian, inverse consistency, time and
    memory. Columns: as for `gradicon batch`. OUT/table.csv, table.json and table.md are written; a
    pair that fails is counted and listed. Run it again, and pairs whose files and options are the
    same are not done anew.

    Example: `gradicon evaluate pairs.csv --model run/model.safetensors --refine 0 -o table`

    Example: `gradicon evaluate --compare before/table.json after/table.json`
    """
    if compare is not None:
        _compare(*compare)
        return
    if pairs is None or out is None:
        raise typer.BadParameter("give PAIRS.csv -o OUT, or --compare A.json B.json")
    options = choose()
    listed = read_pairs(pairs)
    check_pairs(listed)
    with ExitStack() as bars:

        def bar(number: int, name: str) -> OnStep:
            bars.close()
            return bars.enter_context(optimisation_progress(f"{number} of {len(listed)}, {name}"))

        records = evaluate_pairs(listed, options, out, again=again, on_pair=bar)
    _write(out, records, options)


def _write(out: Path, records: list[Record], options: Options) -> None:
    machine = (
        torch.cuda.get_device_name()
        if options.torch_device.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads"
    )
    about = {
        "command": this_command(),
        "date": datetime.now(UTC).date().isoformat(),
        "hardware": machine,
    }
    result = write_table(
        out, records, about | {"gradicon": gradicon.__version__, "torch": torch.__version__}
    )
    title = f"{result['pairs']} pairs, {result['failed_pairs']} failed"
    stdout.print(table(title, ["measure", "before", "mean ± sd"], rows(result["summary"])))
    if result["failed"]:
        raise GradiconError(
            f"{len(result['failed'])} of {len(records)} pairs failed: see {out / MARKDOWN}"
        )


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
