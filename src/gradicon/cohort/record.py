"""What is known of one pair of a cohort, and the file that says it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from gradicon.cohort.key import Key, parse_key
from gradicon.files import written_whole

RECORD = "record.json"
"""In a pair's folder, written last: where it says that the pair is done, the rest is whole."""

Status = Literal["waiting", "done", "failed"]


@dataclass(frozen=True)
class Record:
    """One pair of a cohort.

    Args:
        pair: its name.
        status: whether it is waiting, done or failed.
        result: what was measured, as plain values; empty until it is done.
        error: why it failed, in one line.
        key: of which files it was made, and how; None if that is not known.
    """

    pair: str
    status: Status = "waiting"
    result: Mapping[str, Any] = field(default_factory=dict[str, Any])
    error: str = ""
    key: Key | None = None


def read_record(folder: Path) -> Record | None:
    """The record in a pair's folder; None if there is none that can be read."""
    try:
        values = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        key = None if values["key"] is None else parse_key(values["key"])
        return Record(
            values["pair"], values["status"], dict(values["result"]), values["error"], key
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def write_record(folder: Path, record: Record) -> None:
    """Write the record into the pair's folder, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "pair": record.pair,
        "status": record.status,
        "error": record.error,
        "result": dict(record.result),
        "key": None if record.key is None else record.key.as_dict(),
    }
    with written_whole(folder / RECORD) as part:
        part.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
