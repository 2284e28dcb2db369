"""`python -m gradicon.training`: training where neither SimpleITK nor the command line's packages
are installed.
"""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from gradicon.training.processes import Machine, is_first_process
from gradicon.training.recipe import read_recipe
from gradicon.training.runlog import Report
from gradicon.training.trainer import Outcome, resume, train


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gradicon.training", description=__doc__)
    parser.add_argument("recipe", nargs="?", type=Path)
    parser.add_argument("--data", type=Path, help="the folder that `gradicon prepare` wrote")
    parser.add_argument("-o", "--out", type=Path, help="the folder of the run")
    parser.add_argument(
        "--start",
        type=Path,
        metavar="MODEL",
        help="a trained model to start from, instead of fresh weights",
    )
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with this run")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--devices", type=int, default=1, help="processes on this machine")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--max-minutes", type=float)
    given = parser.parse_args()
    started = given.recipe is not None and given.data is not None and given.out is not None
    if started == (given.resume is not None) or (
        given.resume is not None and (given.recipe or given.out or given.start)
    ):
        parser.error(
            "give RECIPE --data DATA -o RUN to start, or --resume RUN [--data DATA] to go on"
        )
    return given


def _tell(report: Report) -> None:
    values = ", ".join(f"{name} {value:.4g}" for name, value in report.values.items())
    sys.stderr.write(
        f"stage {report.stage}, step {report.step} of {report.steps}, "
        f"{report.steps_per_second:.3g}/s: {values}\n"
    )


def _run(given: argparse.Namespace) -> Outcome:
    machine = Machine(given.device, given.devices, given.nodes)
    command = f"python -m gradicon.training {shlex.join(sys.argv[1:])}"
    common: dict[str, Any] = {
        "machine": machine,
        "max_minutes": given.max_minutes,
        "command": command,
        "on_log": _tell,
    }
    if given.resume is not None:
        return resume(given.resume, data=given.data, **common)
    return train(read_recipe(given.recipe), given.data, given.out, start=given.start, **common)


def main() -> None:
    """Parse, train, and say in one line what went wrong if something did."""
    given = _arguments()
    try:
        outcome = _run(given)
    except (ValueError, OSError) as error:
        sys.exit(f"gradicon: {' '.join(str(error).split())}")
    if outcome.stopped and is_first_process():
        sys.stderr.write(
            f"stopped at step {outcome.step} of {outcome.steps}: go on with --resume "
            f"{given.resume or given.out}\n"
        )
    sys.exit(130 if outcome.stopped == "interrupted" else 0)


if __name__ == "__main__":
    main()
