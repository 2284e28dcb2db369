"""`gradicon` and `python -m gradicon`: the command line."""

from gradicon.ending import run_program
from gradicon.threads import wait_passively


def main() -> None:
    """Run the command line. Torch is imported only after it is said how its threads wait."""
    wait_passively()
    run_program(_run)


def _run() -> None:
    from gradicon.cli import run

    run()


if __name__ == "__main__":
    main()
