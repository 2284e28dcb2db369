"""What files hold, by hash: each file is read once, and not again while it looks the same."""

import hashlib
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import final

_DATA_FILE = re.compile(
    r"^(?:ElementDataFile[ \t]*=|data ?file[ \t]*:)[ \t]*(.*?)[ \t\r]*$",
    re.IGNORECASE | re.MULTILINE,
)
_HEADER_BYTES = 1 << 20  # a header longer than this has its data in the same file


@dataclass(frozen=True)
class Stamp:
    """One file as it was: how large, when it was written, and the hash of its content."""

    path: str
    size: int
    mtime_ns: int
    sha256: str


@final
class Contents:
    """The stamps of files. A file whose path, size and time of writing are known is not read."""

    def __init__(self) -> None:
        self._hashes: dict[tuple[str, int, int], str] = {}

    def remember(self, stamps: Iterable[Stamp]) -> None:
        """Know these files, as they were when they were stamped."""
        for stamp in stamps:
            self._hashes[stamp.path, stamp.size, stamp.mtime_ns] = stamp.sha256

    def stamps(self, path: Path) -> tuple[Stamp, ...]:
        """Of all files that an image, or whatever else `path` names, is made of."""
        return tuple(self._stamp(file) for file in files_of(path))

    def _stamp(self, file: Path) -> Stamp:
        path = os.path.abspath(file)  # noqa: PTH100 (links stay: to resolve them costs a second)
        status = file.stat()  # before it is read: what is written meanwhile makes it look changed
        seen = (path, status.st_size, status.st_mtime_ns)
        if seen not in self._hashes:
            with file.open("rb") as stream:
                self._hashes[seen] = hashlib.file_digest(stream, "sha256").hexdigest()
        return Stamp(*seen, self._hashes[seen])


def files_of(path: Path) -> list[Path]:
    """The files that `path` stands for: all in a folder, a header and the data that it names, or
    just itself.
    """
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file())
    suffix = path.suffix.lower()
    if suffix in (".mhd", ".nhdr"):
        return [path, *(file for file in _data_files(path) if file.is_file())]
    if suffix in (".hdr", ".img"):
        both = [path.with_suffix(other) for other in (".hdr", ".img", ".img.gz")]
        return [path, *(file for file in both if file != path and file.is_file())]
    return [path]


def _data_files(header: Path) -> list[Path]:
    """Those that a header of MetaImage or NRRD names: one, a list, or a pattern with numbers."""
    with header.open("rb") as stream:
        text = stream.read(_HEADER_BYTES).decode("utf-8", errors="surrogateescape")
    line = _DATA_FILE.search(text)
    if line is None or line[1].upper() == "LOCAL":
        return []
    names = [line[1]]
    if line[1].upper().startswith("LIST"):
        names = [name.strip() for name in text[line.end() :].splitlines() if name.strip()]
    elif "%" in line[1]:
        with suppress(ValueError, TypeError):  # not a pattern then, but a name
            pattern, first, last, step = line[1].split()[:4]
            names = [pattern % i for i in range(int(first), int(last) + 1, int(step))]
    return [header.parent / name for name in names]
