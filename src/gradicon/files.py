"""Files and folders written whole or not at all, and their hashes."""

import hashlib
import os
import shutil
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from gradicon.errors import FileInTheWayError, GradiconError, UnwritableError

_ADVICE = "make room, or choose another place"


@contextmanager
def written_whole(path: str | Path, *, advice: str = _ADVICE) -> Generator[Path]:
    """A path beside `path`, with the same extension, to write to.

    What is written there takes the place of `path` when the block has ended well, and is removed
    when it has not.

    `advice` ends the one-line error of a disk that is full.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise UnwritableError(f"{path}: the folder {path.parent} does not exist")
    part = path.with_name(f".part{os.getpid()}-{path.name}")
    try:
        with _one_line_error(path, advice):
            yield part
            _flush_to_disk([part])
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


@contextmanager
def folder_written_whole(path: str | Path, *, advice: str = _ADVICE) -> Generator[Path]:
    """A new folder beside `path` to write into.

    It takes the place of `path`, which may be a folder already, when the block has ended well;
    otherwise nothing stays behind.
    """
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise FileInTheWayError(f"{path} is a file: the results need a folder")
    part = path.with_name(f".part{os.getpid()}-{path.name}")
    made = [folder for folder in path.absolute().parents if not folder.exists()]
    try:
        with _one_line_error(path, advice):
            part.mkdir(parents=True)
            yield part
            _flush_to_disk(file for file in part.rglob("*") if file.is_file())
            _replace_folder(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)
        with suppress(OSError):  # a folder that is not empty stays
            for folder in made:
                folder.rmdir()


def sha256_of(path: Path) -> str:
    """The hash of a file, or of all files of a folder by name."""
    digest = hashlib.sha256()
    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        if file.is_file():
            with file.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    return digest.hexdigest()


@contextmanager
def _one_line_error(path: Path, advice: str) -> Generator[None]:
    try:
        yield
    except GradiconError:  # it says already what is wrong
        raise
    except OSError as error:
        why = error.strerror or error
        raise UnwritableError(f"{path}: could not be written ({why}): {advice}") from error


def _flush_to_disk(files: Iterable[Path]) -> None:
    """A disk that is full may say so only now; after a power cut the new file is there, whole."""
    for file in files:
        with file.open("rb+") as stream:
            os.fsync(stream.fileno())


def _replace_folder(part: Path, path: Path) -> None:
    """Put `part` in the place of `path`: a folder that is not empty cannot be replaced in one
    step, so the old one steps aside, and comes back if the new one cannot take its place.
    """
    old = path.with_name(f".old{os.getpid()}-{path.name}")
    had_one = path.exists()
    if had_one:
        path.rename(old)
    try:
        part.rename(path)
    except OSError:
        if had_one:
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)
