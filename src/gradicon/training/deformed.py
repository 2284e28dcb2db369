"""Pairs of an image and an elastic deformation of it, from a folder of images: DRIVE's way."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradicon.errors import GradiconError
from gradicon.training.config import DataConfig
from gradicon.training.elastic import DRIVE, EACH, Deformation, elastic_set
from gradicon.training.scans import read_folder
from gradicon.training.store import OnPair, check_replaceable, store_arrays


def store_deformed(
    folder: Path,
    config: DataConfig,
    out: Path,
    *,
    each: int = EACH,
    validation: int = 0,
    deformations: Sequence[Deformation] = DRIVE,
    seed: int = 0,
    on_pair: OnPair | None = None,
) -> dict[str, Any]:
    """Bring a folder's images to the recipe's grid, deform them, and store the pairs.

    Args:
        folder: of images, all of one size.
        config: the shape of the prepared images, and pairs = "intra".
        out: the folder of prepared data to make.
        each: how many deformations of each image to train on.
        validation: how many more pairs to judge by, spread over the images.
        deformations: how to deform, one after the other; pixels are those of `config.shape`.
        seed: other seeds make other deformations.
        on_pair: called after every pair.

    Returns:
        What dataset.json says.
    """
    if config.pairs != "intra":
        raise GradiconError(
            'an image and its deformation make a pair: say pairs = "intra" under [data], '
            f"not {config.pairs!r}"
        )
    check_replaceable(out, overwrite=False)
    sources = read_folder(folder, config)
    made = elastic_set(
        np.stack([*sources.values()]).astype(np.float32),
        each,
        validation=validation,
        deformations=deformations,
        seed=seed,
        on_pair=on_pair,
    )
    names = list(sources)
    pairs = [*made.train_pairs, *made.validation_pairs]
    return store_arrays(
        out,
        made.images,
        config,
        names=[*names, *(f"{names[i]}, deformation {n}" for n, (i, _) in enumerate(pairs, 1))],
        train_pairs=made.train_pairs,
        validation_pairs=made.validation_pairs,
    )
