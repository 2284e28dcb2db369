"""Whether prepared data have what a recipe's loss wants of them."""

from collections.abc import Sequence

from gradicon.errors import GradiconError
from gradicon.training.config import Recipe
from gradicon.training.dataset import Dataset


def check_loss_has_data(recipe: Recipe, dataset: Dataset) -> None:
    """Refuse weights of labels or landmarks that some training pair does not have.

    Of folders that were joined, some may have no labels at all: their pairs are judged by the
    images alone. The landmarks of a batch must be equally many, to be stacked.
    """
    folders = [
        list(dict.fromkeys((*group.images, *(i for pair in group.pairs for i in pair))))
        for group in dataset.groups
    ]
    if recipe.loss.label_weight:
        _check_labels(recipe, dataset, folders)
    if recipe.loss.landmark_weight:
        _check_landmarks(recipe, dataset, [i for folder in folders for i in folder])


def _check_labels(recipe: Recipe, dataset: Dataset, folders: Sequence[Sequence[int]]) -> None:
    """All images of a folder have labels, or none has; at least one folder has them."""
    images = dataset.metadata["images"]
    labelled = [folder for folder in folders if any(images[i]["labels"] for i in folder)]
    for i in (i for folder in labelled or folders for i in folder):
        if not images[i]["labels"]:
            raise GradiconError(
                f"{images[i]['name']}: no labels, but the recipe says label_weight = "
                f"{recipe.loss.label_weight:g}"
            )


def _check_landmarks(recipe: Recipe, dataset: Dataset, used: Sequence[int]) -> None:
    """Every image has landmarks, and as many as the others where they may meet.

    They meet in a pair of any two images, and in a batch of several pairs.
    """
    images = dataset.metadata["images"]
    meet = any(group.images for group in dataset.groups) or recipe.training.batch_size > 1
    want = images[used[0]]["landmarks"]
    for i in used:
        if not images[i]["landmarks"]:
            raise GradiconError(
                f"{images[i]['name']}: no landmarks, but the recipe says landmark_weight > 0"
            )
        if images[i]["landmarks"] != want and meet:
            raise GradiconError(
                f"{images[i]['name']}: {images[i]['landmarks']} landmarks, others "
                f"have {want}: they must correspond"
            )
