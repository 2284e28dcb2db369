"""Lists say what they hold, row by row, and what is wrong with them."""

from pathlib import Path

import pytest

from gradicon.errors import GradiconError
from gradicon.physical.lists import Item, read_images, read_pairs


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.nii.gz", "b.nii.gz", "a.labels.nii", "b.csv"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_a_pair_and_what_came_with_it(folder: Path):
    header = "moving,fixed,fixed_labels,moving_landmarks,moving_mask,remark"
    text = f"\ufeff{header}\nb.nii.gz,a.nii.gz, a.labels.nii ,b.csv,,fine\nb.nii.gz,b.nii.gz\n"
    (folder / "pairs.csv").write_text(text, encoding="utf-8")
    first, second = read_pairs(folder / "pairs.csv")
    assert first.fixed == Item(folder / "a.nii.gz", labels=folder / "a.labels.nii")
    assert first.moving == Item(folder / "b.nii.gz", landmarks=folder / "b.csv")
    assert first.files == {
        "fixed": folder / "a.nii.gz",
        "fixed_labels": folder / "a.labels.nii",
        "moving": folder / "b.nii.gz",
        "moving_landmarks": folder / "b.csv",
    }
    assert (first.name, second.name) == ("0001_b_to_a", "0002_b_to_b")


def test_images(folder: Path):
    (folder / "images.csv").write_text("image,labels\na.nii.gz,a.labels.nii\nb.nii.gz,\n")
    first, second = read_images(folder / "images.csv")
    assert first == Item(folder / "a.nii.gz", labels=folder / "a.labels.nii")
    assert second == Item(folder / "b.nii.gz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fixed\na.nii.gz\n", "'moving' is missing: found fixed; it may also have fixed_labels, m"),
        (
            "fixed,moving\na.nii.gz,\n",
            "row 1: moving is empty: fixed and moving must both be given",
        ),
        ("fixed,moving,moving_mask\na.nii.gz,b.nii.gz,c.nii\n", "row 1: moving_mask .*c.nii does"),
    ],
)
def test_bad_lists(folder: Path, text: str, message: str):
    (folder / "pairs.csv").write_text(text)
    with pytest.raises(GradiconError, match=message):
        read_pairs(folder / "pairs.csv")
