"""What is wrong with a list's labels and landmarks, found by headers before anything slow runs."""

from collections.abc import Sequence
from pathlib import Path

from gradicon.errors import GradiconError
from gradicon.physical.images import read_space
from gradicon.physical.landmarks import Landmarks, read_landmarks
from gradicon.physical.lists import Item, Pair
from gradicon.physical.space import Space


def check_pairs(pairs: Sequence[Pair]) -> None:
    """Name the row whose labels lie on another grid than their image, or whose landmarks do not fit
    it or do not correspond. No voxel is read: what only voxels tell, the pair itself finds.
    """
    for pair in pairs:
        try:
            _check_pair(pair)
        except (GradiconError, OSError) as error:
            raise GradiconError(f"row {pair.number}: {error}") from error


def _check_pair(pair: Pair) -> None:
    fixed = _check_item(pair.fixed)
    moving = _check_item(pair.moving)
    if fixed is not None and moving is not None and len(fixed.labels) != len(moving.labels):
        counts = f"{len(fixed.labels)} and {len(moving.labels)}"
        raise GradiconError(
            f"{pair.fixed.landmarks} and {pair.moving.landmarks}: {counts} landmarks, "
            "but rows must correspond"
        )


def _check_item(item: Item) -> Landmarks | None:
    """An image and what came with it; its landmarks, if it has any."""
    space = read_space(item.image)
    if item.labels is not None:
        _check_labels(item.labels, space)
    if item.landmarks is None:
        return None
    landmarks = read_landmarks(item.landmarks)
    found = landmarks.points_mm.shape[1]
    expected = 3 if space is None else len(space.shape)
    if found != expected:
        raise GradiconError(f"{item.landmarks}: {found}-D landmarks for a {expected}-D image")
    return landmarks


def _check_labels(path: Path, space: Space | None) -> None:
    labels = read_space(path)
    if labels is None or space is None or labels.coincides(space):
        return
    sizes = " against ".join(str(each.shape[::-1]) for each in (labels, space))
    raise GradiconError(
        f"{path}: the labels lie on another grid than their image: {sizes} voxels, "
        "or elsewhere in space"
    )
