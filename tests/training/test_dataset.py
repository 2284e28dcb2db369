from pathlib import Path

import pytest

from gradicon.training.dataset import Dataset
from training.scans_on_disk import prepared, recipe_of


@pytest.mark.parametrize("name", ["images.npy", "labels.npy", "landmarks.json"])
def test_a_change_of_any_byte_is_found(tmp_path: Path, name: str):
    data = prepared(tmp_path)
    Dataset.open(data)
    content = bytearray((data / name).read_bytes())
    content[-2] ^= 1
    (data / name).write_bytes(content)
    with pytest.raises(
        ValueError, match=f"{name} has changed since it was prepared: prepare it again"
    ):
        Dataset.open(data)
    (data / name).write_bytes(content[:-1])
    with pytest.raises(ValueError, match=f"{name} has changed since it was prepared"):
        Dataset.open(data, verify=False)
    (data / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"{name} is missing"):
        Dataset.open(data)


def test_what_is_no_prepared_data(tmp_path: Path):
    with pytest.raises(
        FileNotFoundError, match="no prepared data here: make it with `gradicon prepare`"
    ):
        Dataset.open(tmp_path)
    for text, message in (
        ("{", "cannot be read"),
        ('{"format": "gradicon-data-0"}', "this version reads gradicon-data-2"),
    ):
        (tmp_path / "dataset.json").write_text(text)
        with pytest.raises(ValueError, match=message):
            Dataset.open(tmp_path)


def test_a_recipe_that_prepares_otherwise_is_refused(tmp_path: Path):
    data = Dataset.open(prepared(tmp_path))
    data.check_recipe(recipe_of().data)
    with pytest.raises(
        ValueError, match=r"prepared with shape = \[24, 16\], but the recipe says \[24, 24\]"
    ):
        data.check_recipe(recipe_of(("[24, 16]", "[24, 24]")).data)
