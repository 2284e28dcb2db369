"""How good a network is on pairs it was not trained on, and what that looks like."""

from collections.abc import Iterable
from statistics import mean

import torch
from torch import Tensor

from gradicon.core.jacobian import fold_percentage
from gradicon.core.metrics import dice
from gradicon.core.network import RegistrationNetwork, warp
from gradicon.core.sampling import sample
from gradicon.core.similarity import Similarity
from gradicon.core.transform import Transform
from gradicon.training.batches import Shelf

_GRID_LINES = 8  # voxels between the lines of the grid that shows a map


@torch.no_grad()
def validate(
    network: RegistrationNetwork, shelf: Shelf, similarity: Similarity
) -> dict[str, float]:
    """Means over the validation pairs of what `judge` finds, by name.

    A score that some pairs lack, as those without labels do, is the mean over the others. The
    network is asked in evaluation mode, and left in the mode it was in. Empty if there are no
    pairs.
    """
    training = network.training
    network.eval()
    rows = [
        judge(network, shelf, moving, fixed, similarity)
        for moving, fixed in shelf.dataset.validation_pairs
    ]
    network.train(training)
    names = dict.fromkeys(name for row in rows for name in row)
    return {f"validation_{name}": mean(row[name] for row in rows if name in row) for name in names}


@torch.no_grad()
def judge(
    network: RegistrationNetwork, shelf: Shelf, moving: int, fixed: int, similarity: Similarity
) -> dict[str, float]:
    """The scores of one pair: similarity, folds, and where it has them dice, landmark_error_mm.

    `similarity` is what the loss minimises, so less is better; folds are in percent of voxels.

    Args:
        network: in evaluation mode.
        shelf: the images.
        moving, fixed: numbers of images.
        similarity: the measure.
    """
    dataset = shelf.dataset
    shape = shelf.dataset.shape
    a = shelf.images([moving])
    b = shelf.images([fixed])
    phi = network(a, b)
    found = {
        "similarity": float(similarity(warp(a, phi), b)),
        "folds": float(fold_percentage(phi, shape)),
    }
    if dataset.has_labels([moving, fixed]):
        labels_a = shelf.labels([moving])
        labels_b = shelf.labels([fixed])
        warped = sample(labels_a[:, None].float(), phi.on_grid(shape), mode="nearest")[:, 0].to(
            labels_b.dtype
        )
        overlaps: Iterable[float] = dice(warped, labels_b).values()
        found["dice"] = mean(overlaps)
    if dataset.landmarks[moving] is not None and dataset.landmarks[fixed] is not None:
        found["landmark_error_mm"] = _error_mm(phi, shelf, moving, fixed)
    return found


def score(found: dict[str, float]) -> float | None:
    """One number, higher is better, by which the best network is kept.

    Dice if there are labels, else landmark error, else dissimilarity, both with a minus.
    """
    if "validation_dice" in found:
        return found["validation_dice"]
    for name in ("validation_landmark_error_mm", "validation_similarity"):
        if name in found:
            return -found[name]
    return None


@torch.no_grad()
def pictures(
    network: RegistrationNetwork, shelf: Shelf, pair: tuple[int, int]
) -> dict[str, Tensor]:
    """The middle slices of moving, fixed, warped, and a grid seen through the map."""
    training = network.training
    network.eval()
    moving, fixed = (shelf.images([i]) for i in pair)
    phi = network(moving, fixed)
    network.train(training)
    found = {
        "moving": moving,
        "fixed": fixed,
        "warped": warp(moving, phi),
        "grid": warp(_grid(moving), phi),
    }
    return {name: _middle(image[0, 0]) for name, image in found.items()}


def _error_mm(phi: Transform, shelf: Shelf, moving: int, fixed: int) -> float:
    off = (phi(shelf.landmarks([fixed])) - shelf.landmarks([moving]))[0]
    return float((shelf.dataset.unit_to_mm(moving).to(off.device) @ off).norm(dim=0).mean())


def _grid(like: Tensor) -> Tensor:
    lines = torch.zeros_like(like)
    for axis in range(
        like.ndim - 2, like.ndim
    ):  # of a volume, the two axes that its middle slice shows
        lines.index_fill_(
            axis, torch.arange(0, like.shape[axis], _GRID_LINES, device=like.device), 1
        )
    return lines


def _middle(image: Tensor) -> Tensor:
    return image if image.ndim == 2 else image[image.shape[0] // 2]
