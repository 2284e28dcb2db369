"""Several folders of prepared images as one, so that one network learns from all of them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradicon.errors import GradiconError
from gradicon.files import folder_written_whole
from gradicon.models.typed import read_section
from gradicon.training.config import DataConfig
from gradicon.training.dataset import IMAGES, LABELS, LANDMARKS, Dataset
from gradicon.training.store import check_replaceable, complete

_SHARED = (
    "shape",
    "crop",
    "spacing_mm",
    "window",
    "percentiles",
    "order",
    "mask_outside",
)


def join(sources: Sequence[Path], out: Path, *, overwrite: bool = False) -> dict[str, Any]:
    """Copy prepared folders into one, `out`.

    A pair to train on is of one folder, and each folder's turn comes equally often. They must have
    been prepared on one grid. Labels are kept apart: the third of one folder is another than the
    third of the next. Returns what dataset.json says.
    """
    check_replaceable(out, overwrite=overwrite)
    datasets = [Dataset.open(source) for source in sources]
    config = _common_config(datasets)
    with folder_written_whole(out) as part:
        _copy(part, datasets)
        return complete(part, config, _metadata(datasets))


def _common_config(datasets: Sequence[Dataset]) -> DataConfig:
    if len(datasets) < 2:
        raise GradiconError("give at least two folders of prepared images to join")
    first, *others = datasets
    for other in others:
        for name in _SHARED:
            a = first.metadata["data"][name]
            b = other.metadata["data"][name]
            if a != b:
                raise GradiconError(
                    f"{other.folder}: prepared with {name} = {b}, but {first.folder} with "
                    f"{a}: prepare one of them again"
                )
    data = first.metadata["data"] | {"modality": "auto", "pairs": "joined"}  # each has its own
    return read_section(DataConfig, data, "data")


def _metadata(datasets: Sequence[Dataset]) -> dict[str, Any]:
    """Everything by its number in the new folder."""
    groups: list[dict[str, Any]] = []
    judged: list[list[int]] = []
    images: list[dict[str, Any]] = []
    labels: dict[str, int] = {}
    for dataset in datasets:
        start = len(images)
        name = dataset.folder.resolve().name
        for group in dataset.groups:
            pairs = [[start + a, start + b] for a, b in group.pairs]
            groups.append(
                {"name": name, "train": [start + i for i in group.images], "train_pairs": pairs}
            )
        judged += [[start + a, start + b] for a, b in dataset.validation_pairs]
        images += [
            image | {"name": f"{name}/{image['name']}"} for image in dataset.metadata["images"]
        ]
        if dataset.labels is not None:
            labels = labels or {"0": 0}
            first = len(labels)
            labels |= {
                f"{name}/{value}": first + i - 1
                for value, i in dataset.metadata["labels"].items()
                if i > 0
            }
    return {
        "train": [],
        "train_pairs": [],
        "groups": groups,
        "validation_pairs": judged,
        "images": images,
        "labels": labels,
    }


def _copy(part: Path, datasets: Sequence[Dataset]) -> None:
    """The arrays, one after the other."""
    count = sum(len(dataset.images) for dataset in datasets)
    shape = datasets[0].shape
    images = np.lib.format.open_memmap(
        part / IMAGES, mode="w+", dtype=np.float16, shape=(count, *shape)
    )
    highest = sum(dataset.label_count for dataset in datasets)
    labels = None
    if highest:
        kind = np.uint8 if highest < 256 else np.uint16
        labels = np.lib.format.open_memmap(
            part / LABELS, mode="w+", dtype=kind, shape=(count, *shape)
        )
    landmarks: list[list[list[float]] | None] = []
    start = above = 0
    for dataset in datasets:
        for i, image in enumerate(dataset.images):
            images[start + i] = image
            if labels is not None and dataset.labels is not None:
                own = np.array(dataset.labels[i]).astype(labels.dtype)
                labels[start + i] = np.where(own > 0, own + above, 0)
        landmarks += [
            None if points is None else points.mT.tolist() for points in dataset.landmarks
        ]
        start = start + len(dataset.images)
        above = above + dataset.label_count
    images.flush()
    if labels is not None:
        labels.flush()
    if any(points is not None for points in landmarks):
        (part / LANDMARKS).write_text(json.dumps(landmarks) + "\n", encoding="utf-8")
