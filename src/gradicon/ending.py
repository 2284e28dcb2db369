"""How our programs end: what a person can put right is one line, and a mistake of ours says so."""

import os
import platform
import shlex
import sys
import tempfile
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path

from gradicon.errors import GradiconError, UsageError

DEBUG = "GRADICON_DEBUG"
"""The environment variable that stands for --debug."""

FAILED = 1
WRONG_USAGE = 2
MISTAKE_OF_OURS = 70  # "internal software error" in the exit codes of BSD
INTERRUPTED = 130  # what a shell says of a program that Ctrl-C ended


def run_program(program: Callable[[], None]) -> None:
    """Run a program, and end the process if it fails: with one line on standard error, and an exit
    code that says whose mistake it was.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # a terminal that cannot show a character must not end the work
            stream.reconfigure(errors="replace")
    try:
        program()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        sys.exit(_tell(error))


def set_debug() -> None:
    """From now on a mistake of ours shows its traceback."""
    os.environ[DEBUG] = "1"


def explain(error: Exception) -> str | None:
    """One line for an error that a person can put right, or None: then it is a mistake of ours."""
    if _out_of_memory(error):
        return "out of memory: take a smaller image, or a machine with more memory"
    if isinstance(error, GradiconError):
        return _on_one_line(error)
    if isinstance(error, ModuleNotFoundError) and not str(error.name).startswith("gradicon"):
        return f"{error.name} is not installed: install gradicon with all the packages it needs"
    if isinstance(error, OSError) and error.errno is not None:  # what the system says
        where = "" if error.filename is None else f"{error.filename}: "
        return f"{where}{error.strerror}"
    return None


def describe_mistake(error: Exception) -> str:
    """All that helps to find a mistake of ours: the command, the versions, the traceback."""
    import gradicon

    torch = sys.modules.get("torch")
    torch_version = getattr(torch, "__version__", "not imported")
    lines = [
        f"command: {shlex.join(sys.argv)}",
        f"folder: {Path.cwd()}",
        f"gradicon {gradicon.__version__}, torch {torch_version}",
        f"Python {platform.python_version()}, {platform.platform()}",
        "",
        "".join(traceback.format_exception(error)),
    ]
    return "\n".join(lines)


def _tell(error: Exception) -> int:
    """Say what went wrong. Returns the exit code."""
    reason = explain(error)
    if reason is not None:
        sys.stderr.write(f"gradicon: {reason}\n")
        return WRONG_USAGE if isinstance(error, UsageError) else FAILED
    if os.environ.get(DEBUG, "0") not in ("", "0"):
        sys.stderr.write(describe_mistake(error))
        return MISTAKE_OF_OURS
    what = f"{type(error).__name__}: {_on_one_line(error)}"
    try:
        file = _write_mistake(describe_mistake(error))
        where = f"the traceback is in {file}"
    except OSError:
        where = "the same command with --debug shows the traceback"
    sys.stderr.write(f"gradicon: this is a mistake of gradicon, not yours: {what[:300]}; {where}\n")
    return MISTAKE_OF_OURS


def _write_mistake(text: str) -> Path:
    """Write to a new file here, or where temporary files go if nothing can be written here."""
    beginning = f"gradicon-mistake-{datetime.now(UTC):%Y%m%d-%H%M%S}-"
    try:
        number, name = tempfile.mkstemp(".txt", beginning, Path.cwd())
    except OSError:
        number, name = tempfile.mkstemp(".txt", beginning)
    with open(number, "w", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 (a number)
        file.write(text)
    return Path(name)


def _on_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _out_of_memory(error: Exception) -> bool:
    """Torch has an exception of its own for this on a GPU, and only a message on a CPU."""
    torch = sys.modules.get("torch")  # not imported here: that takes a second
    kinds = (MemoryError,) if torch is None else (MemoryError, torch.OutOfMemoryError)
    return isinstance(error, kinds) or (
        isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
    )
