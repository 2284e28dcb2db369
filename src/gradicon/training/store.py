"""A folder of prepared images, written whole or not at all; and arrays in memory put into one."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradicon.errors import FileInTheWayError, GradiconError
from gradicon.files import folder_written_whole, sha256_of
from gradicon.training.config import DataConfig
from gradicon.training.dataset import FILES, FORMAT, IMAGES, LABELS, METADATA

Pairs = Sequence[tuple[int, int]]
OnPair = Callable[[int, int], None]
"""Called after every pair that is made with its number and how many there are."""


def store_arrays(
    out: Path,
    images: NDArray[Any],
    config: DataConfig,
    *,
    labels: NDArray[np.uint8] | None = None,
    names: Sequence[str] = (),
    train: Sequence[int] = (),
    train_pairs: Pairs = (),
    validation_pairs: Pairs = (),
) -> dict[str, Any]:
    """Store images that are in memory as `gradicon prepare` stores scans. A voxel is one mm long.

    Args:
        out: the folder to make.
        images: (N, *shape), in [0,1].
        config: what their shape and their pairs are.
        labels: (N, *shape) of 0..K, 0 for the background.
        names: of the images; left out, they are counted.
        train: numbers of images, any two of which make a pair to train on.
        train_pairs: or (moving, fixed) numbers of pairs to train on.
        validation_pairs: (moving, fixed) numbers of pairs to judge by.

    Returns:
        What dataset.json says.
    """
    if images.shape[1:] != config.shape or (labels is not None and labels.shape != images.shape):
        found = images.shape if labels is None else (images.shape, labels.shape)
        raise GradiconError(f"images and labels must be of the shape {config.shape}, got {found}")
    check_replaceable(out, overwrite=False)
    geometry = np.eye(len(config.shape) + 1).tolist()
    described = [
        {
            "name": names[i] if names else f"image {i}",
            "sha256": "",
            "modality": config.modality,
            "labels": labels is not None,
            "landmarks": 0,
            "index_to_mm": geometry,
        }
        for i in range(len(images))
    ]
    with folder_written_whole(out) as part:
        np.save(part / IMAGES, images.astype(np.float16))
        if labels is not None:
            np.save(part / LABELS, labels)
        metadata = {
            "train": list(train),
            "train_pairs": [list(pair) for pair in train_pairs],
            "validation_pairs": [list(pair) for pair in validation_pairs],
            "images": described,
            "labels": {} if labels is None else {str(k): k for k in range(int(labels.max()) + 1)},
        }
        return complete(part, config, metadata)


def complete(part: Path, config: DataConfig, metadata: dict[str, Any]) -> dict[str, Any]:
    """Write dataset.json, with the hashes of what is there. Returns what it says."""
    data = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in asdict(config).items()
    }
    files = {
        name: {"bytes": (part / name).stat().st_size, "sha256": sha256_of(part / name)}
        for name in FILES
        if (part / name).exists()
    }
    whole = {"format": FORMAT, "data": data, **metadata, "files": files}
    (part / METADATA).write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    return whole


def check_replaceable(out: Path, *, overwrite: bool) -> None:
    """Refuse a place that is taken, unless by a prepared folder that may be overwritten."""
    if not out.exists():
        return
    if not (out / METADATA).is_file():
        raise FileInTheWayError(
            f"{out} exists and is no folder of prepared data: choose another place"
        )
    if not overwrite:
        raise FileInTheWayError(f"{out} exists: choose another place, or say --overwrite")
