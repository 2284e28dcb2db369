"""Several prepared folders as one: nothing is lost or mixed up, and pairs stay within
their folder.
"""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from gradicon.models import ModelConfig
from gradicon.training.config import DataConfig, LossConfig, Recipe, TrainingConfig
from gradicon.training.dataset import LABELS, Dataset
from gradicon.training.join import join
from gradicon.training.pairs import Pairs
from gradicon.training.prepare import prepare
from gradicon.training.store import store_arrays
from gradicon.training.trainer import train
from test_cli import assert_one_line_error, gradicon

SHAPE = (12, 10)


def made(
    folder: Path,
    count: int,
    *,
    pairs: bool = False,
    labels: int = 0,
    shape: tuple[int, ...] = SHAPE,
) -> Dataset:
    rng = np.random.default_rng(count)
    images = rng.uniform(size=(count, *shape))
    known = rng.integers(0, labels + 1, (count, *shape)).astype(np.uint8) if labels else None
    config = DataConfig(shape=shape, pairs="intra" if pairs else "inter", modality="mr")
    last = (count - 2, count - 1)
    if pairs:
        store_arrays(
            folder,
            images,
            config,
            labels=known,
            train_pairs=[(0, 1), (2, 3)],
            validation_pairs=[last],
        )
    else:
        store_arrays(
            folder, images, config, labels=known, train=range(count - 2), validation_pairs=[last]
        )
    return Dataset.open(folder)


@pytest.fixture
def three(tmp_path: Path) -> tuple[list[Dataset], Dataset]:
    sources = [
        made(tmp_path / "a", 6, labels=2),
        made(tmp_path / "b", 7),
        made(tmp_path / "c", 8, pairs=True, labels=3),
    ]
    join([source.folder for source in sources], tmp_path / "all")
    return sources, Dataset.open(tmp_path / "all")


def test_images_and_labels_are_those_of_the_folders(three: tuple[list[Dataset], Dataset]):
    sources, joined = three
    np.testing.assert_array_equal(
        joined.images, np.concatenate([source.images for source in sources])
    )
    assert joined.names[6] == "b/image 0"
    assert joined.label_count == 5
    assert joined.labels is not None
    np.testing.assert_array_equal(joined.labels[:6], np.load(sources[0].folder / LABELS))
    assert not joined.labels[6:13].any()
    own = np.load(sources[2].folder / LABELS)
    np.testing.assert_array_equal(joined.labels[13:], np.where(own > 0, own + 2, 0))
    assert joined.metadata["labels"] == {"0": 0, "a/1": 1, "a/2": 2, "c/1": 3, "c/2": 4, "c/3": 5}
    assert joined.validation_pairs == ((4, 5), (11, 12), (19, 20))
    assert [joined.has_labels(pair) for pair in joined.validation_pairs] == [True, False, True]


def test_pairs_stay_within_a_folder_and_each_has_its_turn(three: tuple[list[Dataset], Dataset]):
    _, joined = three
    pairs = Pairs.of(joined, seed=1)
    drawn = [pairs.draw(step, index) for step in range(300) for index in range(2)]
    allowed = {0: set(range(4)), 1: set(range(6, 11)), 2: set(range(13, 17))}
    turns = Counter(
        next(k for k, images in allowed.items() if set(pair) <= images) for pair in drawn
    )
    assert min(turns.values()) > 150
    assert {frozenset(pair) for pair in drawn if pair[0] >= 13} == {
        frozenset((13, 14)),
        frozenset((15, 16)),
    }
    assert {pair for pair in drawn if pair[0] >= 13} >= {(13, 14), (14, 13)}


def test_what_was_joined_can_be_joined_again(three: tuple[list[Dataset], Dataset], tmp_path: Path):
    sources, joined = three
    join([joined.folder, sources[1].folder], tmp_path / "more")
    more = Dataset.open(tmp_path / "more")
    assert [len(group.images) for group in more.groups] == [4, 5, 0, 5]
    assert more.groups[3].images == tuple(range(21, 26))


def test_a_network_is_trained_on_all_of_it(three: tuple[list[Dataset], Dataset], tmp_path: Path):
    _, joined = three
    recipe = Recipe(
        data=DataConfig(shape=SHAPE, pairs="joined"),
        model=ModelConfig(
            dimension=2, stage=1, resolutions=1, down_channels=(4, 8), up_channels=(4, 8)
        ),
        loss=LossConfig(sigma=2),
        training=TrainingConfig(batch_size=2, stage1_steps=3, stage2_steps=0, validate_every=3),
    )
    assert train(recipe, joined.folder, tmp_path / "run").step == 3
    with pytest.raises(ValueError, match="prepared with pairs = joined, but the recipe says inter"):
        joined.check_recipe(DataConfig(shape=SHAPE))


def test_what_does_not_fit_is_refused(tmp_path: Path):
    a = made(tmp_path / "a", 6)
    b = made(tmp_path / "b", 6, shape=(12, 12))
    told = gradicon("join", a.folder, b.folder, "-o", tmp_path / "out")
    assert_one_line_error(told, "prepared with shape = [12, 12], but")
    assert_one_line_error(
        gradicon("join", a.folder, "-o", tmp_path / "out"), "give at least two folders"
    )
    assert_one_line_error(
        gradicon("join", a.folder, tmp_path / "no", "-o", tmp_path / "out"), "no prepared data here"
    )
    assert not (tmp_path / "out").exists()
    told = gradicon("join", a.folder, made(tmp_path / "c", 7).folder, "-o", tmp_path / "out")
    assert (told.returncode, "13 images in 2 groups" in told.stdout) == (0, True), told.stderr
    assert_one_line_error(
        gradicon("join", a.folder, a.folder, "-o", tmp_path / "out"), "--overwrite"
    )


@pytest.mark.usefixtures("unhooked")
def test_scans_are_not_prepared_as_joined(tmp_path: Path):
    recipe = Recipe(
        data=DataConfig(shape=SHAPE, pairs="joined"),
        model=ModelConfig(dimension=2),
        loss=LossConfig(),
        training=TrainingConfig(),
    )
    with pytest.raises(ValueError, match="join them with `gradicon join`"):
        prepare(tmp_path / "list.csv", recipe, tmp_path / "out")
