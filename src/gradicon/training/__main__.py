"""`python -m gradicon.training`: training where neither SimpleITK nor the command line's packages
are installed.
"""

import argparse
import shlex
import sys
from pathlib import Path

from gradicon.ending import run_program, set_debug
from gradicon.threads import bound_threads, wait_passively

_PROGRAM = "python -m gradicon.training"


def main() -> None:
    """Parse, train, and say in one line what went wrong if something did."""
    wait_passively()
    run_program(_run)


def _run() -> None:
    arguments = vars(_parse_arguments())
    if arguments.pop("debug"):
        set_debug()
    from gradicon.training.command import TrainingRequest, progress_line, train_as_asked

    bound_threads()
    code = train_as_asked(
        TrainingRequest(**arguments),
        program=_PROGRAM,
        command=f"{_PROGRAM} {shlex.join(sys.argv[1:])}",
        on_log=lambda report: _say(progress_line(report)),
        say=_say,
    )
    sys.exit(code)


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=_PROGRAM, description=__doc__)
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
    parser.add_argument("--max-minutes", type=float, help="stop after so long")
    parser.add_argument("--debug", action="store_true", help="show the traceback of a mistake")
    return parser.parse_args()


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")


if __name__ == "__main__":
    main()
