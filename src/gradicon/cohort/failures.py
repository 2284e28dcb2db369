"""Failures of a pair, in one line each; a mistake of this program leaves its traceback, too."""

import traceback
from pathlib import Path

import torch

from gradicon.errors import GradiconError

ERROR = "error.txt"
"""The traceback of a mistake of ours, in the folder of the pair where it showed."""


def describe_failure(error: Exception, folder: Path) -> str:
    """One line on why a pair failed: what the user can put right, or where to read more."""
    text = " ".join(str(error).split()) or type(error).__name__
    if _is_out_of_memory(error):
        return "out of memory: take a smaller image, or a machine with more memory"
    if isinstance(error, GradiconError | OSError):
        return text
    said = f"a mistake of gradicon, not of yours: {type(error).__name__}: {text}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ERROR).write_text(
            "".join(traceback.format_exception(error)), encoding="utf-8", errors="replace"
        )
    except OSError:  # no place for it: the line has to do
        return said
    return f"{said}: see {folder / ERROR}, and please report it"


def _is_out_of_memory(error: Exception) -> bool:
    """Torch has an exception of its own for this on a GPU, and only a message on a CPU."""
    return isinstance(
        error, MemoryError | torch.OutOfMemoryError
    ) or "can't allocate memory" in str(error)
