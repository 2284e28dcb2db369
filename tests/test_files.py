import os
from pathlib import Path

import pytest

from gradicon.errors import UnwritableError
from gradicon.files import folder_written_whole, sha256_of, written_whole


def test_a_file_is_replaced_never_rewritten(tmp_path: Path):
    """Whoever has the old file open goes on reading it whole: at no moment has a half-written file
    the name.
    """
    path = tmp_path / "file"
    link = tmp_path / "link"
    with written_whole(path) as part:
        part.write_bytes(b"old")
    os.link(path, link)
    with written_whole(path) as part:
        part.write_bytes(b"new")
    assert (path.read_bytes(), link.read_bytes()) == (b"new", b"old")


def write_half(path: Path, error: BaseException) -> None:
    with written_whole(path, advice="buy a larger disk") as part:
        part.write_bytes(b"half")
        raise error


def fill_half(folder: Path, error: BaseException) -> None:
    with folder_written_whole(folder) as part:
        (part / "a").write_text("half")
        raise error


def test_a_file_that_fails_changes_nothing(tmp_path: Path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    message = r"file: could not be written \(No space left on device\): buy a larger disk$"
    with pytest.raises(UnwritableError, match=message):
        write_half(path, OSError(28, "No space left on device"))
    with pytest.raises(KeyboardInterrupt):
        write_half(path, KeyboardInterrupt())
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"


def test_a_missing_folder_is_named(tmp_path: Path):
    with (
        pytest.raises(UnwritableError, match="none/file: the folder .*none does not exist"),
        written_whole(tmp_path / "none" / "file"),
    ):
        pass


def test_a_folder_takes_the_place_of_the_old_one_at_once(tmp_path: Path):
    folder = tmp_path / "new" / "folder"
    with folder_written_whole(folder) as part:
        (part / "a").write_text("1")
        assert not folder.exists()
    before = sha256_of(folder)
    with folder_written_whole(folder) as part:
        (part / "b").write_text("2")
        assert sha256_of(folder) == before
    assert [entry.name for entry in folder.iterdir()] == ["b"]
    assert [entry.name for entry in folder.parent.iterdir()] == ["folder"]


def test_a_folder_that_fails_changes_nothing(tmp_path: Path):
    folder = tmp_path / "new" / "folder"
    with pytest.raises(UnwritableError, match="No space left"):
        fill_half(folder, OSError(28, "No space left on device"))
    assert list(tmp_path.iterdir()) == []
    folder.mkdir(parents=True)
    (folder / "a").write_text("1")
    with pytest.raises(KeyboardInterrupt):
        fill_half(folder, KeyboardInterrupt())
    assert (folder / "a").read_text() == "1"
    assert [entry.name for entry in folder.parent.iterdir()] == ["folder"]


def test_a_file_in_the_way_of_a_folder_stays(tmp_path: Path):
    (tmp_path / "file").write_text("precious")
    with (
        pytest.raises(FileExistsError, match="file is a file"),
        folder_written_whole(tmp_path / "file"),
    ):
        pass
    assert (tmp_path / "file").read_text() == "precious"
