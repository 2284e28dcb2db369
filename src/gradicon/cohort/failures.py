"""Failures of a pair, in one line each; a mistake of this program leaves its traceback, too."""

from pathlib import Path

from gradicon.ending import describe_mistake, explain

ERROR = "error.txt"
"""The traceback of a mistake of ours, in the folder of the pair where it showed."""


def describe_failure(error: Exception, folder: Path) -> str:
    """One line on why a pair failed: what the user can put right, or where to read more."""
    reason = explain(error)
    if reason is not None:
        return reason
    text = " ".join(str(error).split())
    said = f"a mistake of gradicon, not of yours: {type(error).__name__}: {text}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        content = describe_mistake(error)
        (folder / ERROR).write_text(content, encoding="utf-8", errors="replace")
    except OSError:  # no place for it: the line has to do
        return said
    return f"{said}: see {folder / ERROR}, and please report it"
