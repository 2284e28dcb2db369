"""Every file that an image is made of counts, and only what is in it."""

import os
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import SimpleITK as sitk

from gradicon.cohort.contents import Contents, files_of

IMAGE = sitk.GetImageFromArray(np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6))


@pytest.mark.parametrize(
    ("name", "others"),
    [
        ("a.nii.gz", []),
        ("a.mha", []),
        ("a.nrrd", []),
        ("a.mhd", ["a.raw"]),
        ("a.nhdr", ["a.raw"]),
        ("a.hdr", ["a.img"]),
        ("a.img", ["a.hdr"]),
    ],
)
def test_a_header_and_its_data(tmp_path: Path, name: str, others: list[str]):
    """As ITK writes them: all that was written is found."""
    sitk.WriteImage(IMAGE, str(tmp_path / name))
    assert files_of(tmp_path / name) == [tmp_path / name, *(tmp_path / each for each in others)]
    assert {path.name for path in tmp_path.iterdir()} == {name, *others}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.mhd", "NDims = 3\nElementDataFile = LIST\ns1.raw\ns2.raw\n"),
        ("a.mhd", "NDims = 3\nElementDataFile = s%d.raw 1 2 1\n"),
        ("a.nhdr", "NRRD0004\r\ntype: short\r\ndata file: LIST\r\ns1.raw\r\ns2.raw\r\n"),
        ("a.nhdr", "NRRD0004\ndatafile: s%d.raw 1 2 1\n"),
    ],
)
def test_several_data_files(tmp_path: Path, name: str, text: str):
    for other in ("s1.raw", "s2.raw", "s3.raw"):
        (tmp_path / other).write_text(other)
    (tmp_path / name).write_bytes(text.encode())
    assert [path.name for path in files_of(tmp_path / name)] == [name, "s1.raw", "s2.raw"]


@pytest.mark.parametrize("text", ["ElementDataFile = LOCAL\n\x00\x01", "", "ElementDataFile = %s"])
def test_headers_that_name_no_other_file(tmp_path: Path, text: str):
    (tmp_path / "a.mhd").write_text(text)
    assert files_of(tmp_path / "a.mhd") == [tmp_path / "a.mhd"]


def test_a_folder_is_all_its_files(tmp_path: Path):
    for name in ("2.dcm", "1.dcm"):
        (tmp_path / name).write_text(name)
    contents = Contents()
    before = contents.stamps(tmp_path)
    assert [Path(stamp.path).name for stamp in before] == ["1.dcm", "2.dcm"]
    (tmp_path / "3.dcm").write_text("3")
    assert len(contents.stamps(tmp_path)) == 3
    assert contents.stamps(tmp_path)[:2] == before


def test_files_that_look_the_same_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file = tmp_path / "a.nii"
    file.write_text("one")
    before = Contents().stamps(file)
    contents = Contents()
    contents.remember(before)
    monkeypatch.setattr("hashlib.file_digest", Mock(side_effect=AssertionError("read again")))
    assert contents.stamps(file) == before


def test_a_touched_file_has_its_hash_and_a_changed_one_another(tmp_path: Path):
    file = tmp_path / "a.nii"
    file.write_text("one")
    contents = Contents()
    (before,) = contents.stamps(file)
    os.utime(file, ns=(1, 1))
    (touched,) = contents.stamps(file)
    assert touched.mtime_ns != before.mtime_ns
    assert touched.sha256 == before.sha256
    file.write_text("two")
    os.utime(file, ns=(2, 2))
    (changed,) = contents.stamps(file)
    assert changed.size == before.size
    assert changed.sha256 != before.sha256
