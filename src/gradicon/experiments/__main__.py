"""`python -m gradicon.experiments`: the studies without the command line's packages."""

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

import torch

from gradicon.experiments.run import run_study, show_study
from gradicon.experiments.study import STUDIES, Setting


def _tell(what: str, part: float) -> None:
    sys.stderr.write(f"{100 * part:3.0f} %  {what}\n")


def main() -> None:
    """Parse, run, and say in one line what went wrong if something did."""
    parser = argparse.ArgumentParser(prog="python -m gradicon.experiments", description=__doc__)
    parser.add_argument("name", nargs="?", choices=STUDIES)
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
    given = parser.parse_args()
    on_gpu = given.device != "cpu" and torch.cuda.is_available()
    try:
        if given.show is not None:
            show_study(given.show, given.out)
        elif given.name is None:
            parser.error(f"give one of {', '.join(STUDIES)}, or --show JSON")
        else:
            with tempfile.TemporaryDirectory() as work:
                setting = Setting(
                    Path(work),
                    given.quick,
                    torch.device("cuda" if on_gpu else "cpu"),
                    given.data,
                    given.jobs,
                    _tell,
                )
                run_study(
                    given.name,
                    setting,
                    given.out,
                    command=f"python -m gradicon.experiments {shlex.join(sys.argv[1:])}",
                )
    except (ValueError, OSError) as error:
        sys.exit(f"gradicon: {' '.join(str(error).split())}")


if __name__ == "__main__":
    main()
