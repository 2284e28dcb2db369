import os
from pathlib import Path
from typing import BinaryIO

import pytest

from gradicon.training.files import write_whole


def test_a_file_is_replaced_never_rewritten(tmp_path: Path):
    """Whoever has the old file open goes on reading it whole: at no moment has a half-written file
    the name.
    """
    path = tmp_path / "file"
    link = tmp_path / "link"
    write_whole(path, lambda file: file.write(b"old"), advice="")
    os.link(path, link)
    write_whole(path, lambda file: file.write(b"new"), advice="")
    assert (path.read_bytes(), link.read_bytes()) == (b"new", b"old")


def test_what_fails_changes_nothing(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail(file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(
        OSError, match=r"file: could not be written \(No space left on device\): make room"
    ):
        write_whole(path, fail, advice="make room")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"
