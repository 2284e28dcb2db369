"""What labels and landmarks say of a registration, before and after."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradicon.core.metrics import dice
from gradicon.errors import GradiconError
from gradicon.physical.images import Image, as_image, from_sitk, same_grid
from gradicon.physical.landmarks import Landmarks, read_landmarks
from gradicon.physical.space import Matrix
from gradicon.physical.transforms import (
    ItkTransform,
    identity_transform,
    resample,
    transform_points,
)


@dataclass(frozen=True)
class Extras:
    """What may come with a pair besides the images.

    Args:
        fixed_labels, moving_labels: label maps on the grid of their image, to be scored.
        fixed_landmarks, moving_landmarks: files of points whose rows correspond, to be scored.
        also: other images of the moving scan, to be warped along.
    """

    fixed_labels: Path | None = None
    moving_labels: Path | None = None
    fixed_landmarks: Path | None = None
    moving_landmarks: Path | None = None
    also: tuple[Path, ...] = ()


@dataclass(frozen=True, eq=False)
class Carried:
    """Labels and landmarks, read and checked against their images before anything slow begins."""

    fixed_labels: Image | None
    moving_labels: Image | None
    fixed_landmarks: Landmarks | None
    moving_landmarks: Landmarks | None


@dataclass(frozen=True)
class Scores:
    """What labels and landmarks say; empty where nothing was given to score.

    Args:
        dice_before, dice_after: by label.
        landmarks_before_mm, landmarks_after_mm: the error of each landmark.
        warped_labels: moving's labels on fixed's grid, where there are any.
    """

    dice_before: dict[int, float]
    dice_after: dict[int, float]
    landmarks_before_mm: tuple[float, ...]
    landmarks_after_mm: tuple[float, ...]
    warped_labels: Image | None


def read_extras(extras: Extras, fixed: Image, moving: Image) -> Carried:
    """Read them all; labels on another grid than their image, or landmark files that do not
    correspond, are refused.
    """
    labels = [
        _read_labels(path, image)
        for path, image in ((extras.fixed_labels, fixed), (extras.moving_labels, moving))
    ]
    points = [
        None if path is None else read_landmarks(path)
        for path in (extras.fixed_landmarks, extras.moving_landmarks)
    ]
    for path, landmarks in zip(
        (extras.fixed_landmarks, extras.moving_landmarks), points, strict=True
    ):
        if landmarks is not None and landmarks.points_mm.shape[1] != fixed.GetDimension():
            raise GradiconError(
                f"{path}: {landmarks.points_mm.shape[1]}-D landmarks for a "
                f"{fixed.GetDimension()}-D image"
            )
    if (
        points[0] is not None
        and points[1] is not None
        and len(points[0].labels) != len(points[1].labels)
    ):
        counts = f"{len(points[0].labels)} and {len(points[1].labels)}"
        raise GradiconError(
            f"{extras.fixed_landmarks} and {extras.moving_landmarks}: {counts} landmarks, "
            "but rows must correspond"
        )
    return Carried(labels[0], labels[1], points[0], points[1])


def score(carried: Carried, transform: ItkTransform, grid: Image) -> Scores:
    """What labels and landmarks say, before and after.

    Args:
        carried: what came with the pair.
        transform: of points of fixed to points of moving.
        grid: an image on fixed's grid.
    """
    still = identity_transform(transform.GetDimension())
    warped = None
    dice_before: dict[int, float] = {}
    dice_after: dict[int, float] = {}
    if carried.moving_labels is not None:
        warped = resample(carried.moving_labels, grid, transform, "label")
        if carried.fixed_labels is not None:
            fixed = from_sitk(carried.fixed_labels).data
            unmoved = resample(carried.moving_labels, grid, still, "label")
            dice_before = dice(from_sitk(unmoved).data, fixed)
            dice_after = dice(from_sitk(warped).data, fixed)
    return Scores(
        dice_before,
        dice_after,
        landmark_errors_mm(carried, still),
        landmark_errors_mm(carried, transform),
        warped,
    )


def landmark_errors_mm(carried: Carried, transform: ItkTransform) -> tuple[float, ...]:
    """How far each landmark of fixed is carried from its counterpart in moving; empty if either has
    none.
    """
    if carried.fixed_landmarks is None or carried.moving_landmarks is None:
        return ()
    there: Matrix = transform_points(transform, carried.fixed_landmarks.points_mm)
    return tuple(
        float(d) for d in np.linalg.norm(there - carried.moving_landmarks.points_mm, axis=1)
    )


def _read_labels(path: Path | None, image: Image) -> Image | None:
    if path is None:
        return None
    labels = as_image(path)
    if "integer" not in str(labels.GetPixelIDTypeAsString()):
        values = from_sitk(labels).data
        if not bool((values == values.round()).all()):
            raise GradiconError(f"{path}: labels must be whole numbers")
    if not same_grid(labels, image):
        sizes = f"{labels.GetSize()} against {image.GetSize()} voxels, or elsewhere in space"
        raise GradiconError(f"{path}: the labels lie on another grid than their image: {sizes}")
    return labels
