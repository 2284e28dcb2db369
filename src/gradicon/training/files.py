"""Files written whole or not at all, and their hashes."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from gradicon.errors import UnwritableError


def write_whole(path: Path, write: Callable[[BinaryIO], object], *, advice: str) -> None:
    """Let `write` fill a file beside `path`, which takes its place once it is safely on the disk.

    `advice` ends the one-line error of a disk that is full.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise UnwritableError(
            f"{path}: could not be written ({error.strerror or error}): {advice}"
        ) from error
    finally:
        part.unlink(missing_ok=True)


def sha256_of(path: Path) -> str:
    """The hash of a file, or of all files of a folder by name."""
    digest = hashlib.sha256()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()
