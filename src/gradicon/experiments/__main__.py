"""`python -m gradicon.experiments`: the studies without the command line's packages."""

import argparse
import shlex
import sys
from pathlib import Path

from gradicon.ending import run_program, set_debug
from gradicon.threads import bound_threads, wait_passively

_PROGRAM = "python -m gradicon.experiments"


def main() -> None:
    """Parse, run, and say in one line what went wrong if something did."""
    wait_passively()
    run_program(_run)


def _run() -> None:
    from gradicon.experiments.command import StudyRequest, study_as_asked
    from gradicon.experiments.study import STUDIES

    bound_threads()
    arguments = vars(_parse_arguments(STUDIES))
    if arguments.pop("debug"):
        set_debug()
    command = f"{_PROGRAM} {shlex.join(sys.argv[1:])}"
    study_as_asked(StudyRequest(**arguments), command=command, tell=_tell_progress)


def _parse_arguments(studies: tuple[str, ...]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=_PROGRAM, description=__doc__)
    parser.add_argument("name", nargs="?", choices=studies)
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="a size for a CPU")
    parser.add_argument("--data", type=Path, help="the folder of real data sets")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time")
    parser.add_argument(
        "--show",
        type=Path,
        metavar="JSON",
        help="write the table and the figure of a result, and run nothing",
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of a mistake")
    return parser.parse_args()


def _tell_progress(what: str, part: float) -> None:
    sys.stderr.write(f"{100 * part:3.0f} %  {what}\n")


if __name__ == "__main__":
    main()
