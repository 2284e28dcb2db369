"""The real 3-D sets that studies train on: as scans, as prepared data, and small stand-ins for
them.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from gradicon.experiments.study import Setting
from gradicon.models import ModelConfig
from gradicon.training.config import DataConfig, LossConfig, Recipe, TrainingConfig
from gradicon.training.dataset import METADATA, Dataset
from gradicon.training.store import store_arrays

SETS: dict[str, DataConfig] = {
    "cardiac": DataConfig(
        shape=(96, 96, 96), crop="center", spacing_mm=(2.0, 2.0, 2.0), modality="mr", pairs="intra"
    ),
    "hippocampus": DataConfig(shape=(72, 104, 72), modality="mr"),
}
_LISTS = {"cardiac": "train_pairs.csv", "hippocampus": "train.csv"}
_SMALL = (8, 16, 16)


def prepared(name: str, setting: Setting) -> tuple[Path, DataConfig]:
    """The set as `gradicon prepare` writes it: made here, unless the data folder holds it in that
    form already.
    """
    config = SETS[name]
    if setting.quick:
        config = replace(config, shape=_SMALL)
        return _balls(setting.work / name, config), config
    folder = setting.real(name)
    if (folder / METADATA).exists():
        Dataset.open(folder).check_recipe(config)
        return folder, config
    from gradicon.training.prepare import (
        prepare,
    )  # reads scans, which a machine that only trains cannot

    recipe = Recipe(data=config, model=ModelConfig(), loss=LossConfig(), training=TrainingConfig())
    prepare(folder / _LISTS[name], recipe, setting.work / name, validation=folder / "val_pairs.csv")
    return setting.work / name, config


def _balls(out: Path, config: DataConfig, count: int = 6) -> Path:
    """Soft balls in noise, their labels, and two pairs to judge by."""
    rng = np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*(np.linspace(0, 1, n) for n in config.shape), indexing="ij"))
    centres = rng.uniform(0.4, 0.6, (count, 3, 1, 1, 1))
    radii = rng.uniform(0.2, 0.3, (count, 1, 1, 1))
    away = np.linalg.norm(grid - centres, axis=1)
    images = np.clip(
        1 / (1 + np.exp((away - radii) / 0.03)) + 0.02 * rng.standard_normal(away.shape), 0, 1
    )
    labels = (away < radii).astype(np.uint8)
    judged = [(4, 5), (5, 4)]
    if config.pairs == "inter":
        store_arrays(out, images, config, labels=labels, train=range(4), validation_pairs=judged)
    else:
        store_arrays(
            out,
            images,
            config,
            labels=labels,
            train_pairs=[(0, 1), (2, 3)],
            validation_pairs=judged,
        )
    return out
