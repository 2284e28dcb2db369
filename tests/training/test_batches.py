"""Which labels of a pair a step compares."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from gradicon.models import ModelConfig
from gradicon.training.batches import Batches, Shelf
from gradicon.training.config import DataConfig, LossConfig, Recipe, TrainingConfig
from gradicon.training.dataset import Dataset
from gradicon.training.join import join
from gradicon.training.pairs import Pairs
from gradicon.training.requirements import check_loss_has_data
from gradicon.training.store import store_arrays

SHAPE = (10, 8)


def stored(folder: Path, labels: list[list[int]]) -> Dataset:
    """An image for each list of labels, which it has one row of each."""
    maps = np.zeros((len(labels), *SHAPE), np.uint8)
    for each, values in zip(maps, labels, strict=True):
        each[: len(values)] = np.array(values)[:, None]
    images = np.random.default_rng(0).uniform(size=maps.shape)
    store_arrays(
        folder,
        images,
        DataConfig(shape=SHAPE),
        labels=maps if any(labels) else None,
        train=range(len(labels)),
    )
    return Dataset.open(folder)


def recipe(labels_at_once: int) -> Recipe:
    model = ModelConfig(
        dimension=2, stage=1, resolutions=1, down_channels=(4, 8), up_channels=(4, 8)
    )
    loss = LossConfig(label_weight=1, labels_at_once=labels_at_once)
    training = TrainingConfig(batch_size=3, stage1_steps=2, stage2_steps=0)
    return Recipe(data=DataConfig(shape=SHAPE), model=model, loss=loss, training=training)


def batches(dataset: Dataset, labels_at_once: int) -> Batches:
    return Batches(
        recipe(labels_at_once), Shelf(dataset, torch.device("cpu")), Pairs.of(dataset, 0), range(3)
    )


def test_all_labels_that_both_images_have_are_compared_if_there_is_room(tmp_path: Path):
    found = batches(stored(tmp_path / "data", [[1, 2, 3, 5], [2, 3, 4]]), 16).load(1)
    assert found.compared is not None
    assert [sorted(row) for row in found.compared.tolist()] == [[-1, -1, 2, 3]] * 3


def test_of_many_labels_each_has_its_turn_and_a_step_is_always_the_same(tmp_path: Path):
    made = batches(stored(tmp_path / "data", [list(range(1, 8))] * 2), 2)
    drawn = [made.load(step).compared for step in range(1, 30)]
    assert {
        value for each in drawn if each is not None for value in each.flatten().tolist()
    } == set(range(1, 8))
    assert all(len(set(row)) == 2 for each in drawn if each is not None for row in each.tolist())
    again = made.load(5).compared
    assert again is not None
    torch.testing.assert_close(again, drawn[4])


def test_a_joined_folder_without_labels_is_judged_by_its_images(tmp_path: Path):
    folders = [
        stored(tmp_path / "a", [[1, 2], [1, 2]]).folder,
        stored(tmp_path / "b", [[], []]).folder,
    ]
    join(folders, tmp_path / "both")
    joined = Dataset.open(tmp_path / "both")
    check_loss_has_data(recipe(16), joined)
    made = batches(joined, 16)
    rows = [tuple(sorted(row)) for step in range(20) for row in made.load(step).compared]  # type: ignore[union-attr]
    assert {tuple(map(int, row)) for row in rows} == {(1, 2), (-1, -1)}


def test_a_folder_with_some_labels_and_one_with_none_at_all_are_refused(tmp_path: Path):
    some = stored(tmp_path / "some", [[1], [1]])
    none = stored(tmp_path / "none", [[], []])
    some.metadata["images"][1]["labels"] = False
    for dataset in (some, none):
        with pytest.raises(ValueError, match="no labels, but the recipe says label_weight = 1"):
            check_loss_has_data(recipe(16), dataset)
    check_loss_has_data(replace(recipe(16), loss=LossConfig()), none)


def test_warps_and_contrasts_differ_between_the_images_of_a_pair_and_are_those_of_the_step(
    tmp_path: Path,
):
    made = batches(stored(tmp_path / "data", [[1, 2, 3, 4, 5, 6]] * 2), 16)
    how = replace(made.recipe.training, augment=True, augment_noise=0.0, flips=False)
    still = replace(made, recipe=replace(made.recipe, training=how)).load(1)
    bent = replace(
        made, recipe=replace(made.recipe, training=replace(how, augment_warp=0.05))
    ).load(1)
    coloured = replace(
        made, recipe=replace(made.recipe, training=replace(how, augment_contrast=0.3))
    ).load(1)
    again = replace(
        made, recipe=replace(made.recipe, training=replace(how, augment_warp=0.05))
    ).load(1)
    assert still.labels_a is not None
    assert bent.labels_a is not None
    assert bent.labels_b is not None
    assert coloured.labels_a is not None
    assert not torch.equal(bent.labels_a, still.labels_a)
    assert not torch.equal(
        bent.labels_a, bent.labels_b
    )  # the labels of all images are the same, so it is the warps that differ
    assert torch.equal(coloured.labels_a, still.labels_a)
    assert not torch.equal(coloured.a, still.a)
    torch.testing.assert_close(again.a, bent.a)
