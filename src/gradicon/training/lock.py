"""One process at a time trains a run: two that write the same checkpoints would ruin it."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from gradicon.errors import GradiconError
from gradicon.training.state import RECIPE

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@contextmanager
def only_here(run: Path) -> Generator[None]:
    """Within this block no other process trains in the folder `run`; one that tries is refused.

    The lock is on the run's recipe, and the system's own: it ends with the process, however that
    ends.
    """
    with (run / RECIPE).open("r+b") as file:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise GradiconError(
                    f"{run}: another process is training this run: wait for it, or stop it first"
                ) from error
            except OSError:  # a file system without locks
                pass
        yield
