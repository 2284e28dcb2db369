"""The real 3-D sets that studies train on, as scans or prepared already, and small stand-ins."""

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
_SMALL = (8, 16, 16)  # the grid of the stand-ins


def prepare_set(name: str, setting: Setting) -> tuple[Path, DataConfig]:
    """The folder of a set as `gradicon prepare` writes it, and how it was prepared.

    A data folder that holds the set in that form already is taken as it is, since a machine that
    only trains cannot read scans. A quick run has soft balls in noise instead.
    """
    config = SETS[name]
    if setting.quick:
        config = replace(config, shape=_SMALL)
        return _balls(setting.work / name, config), config
    folder = setting.real(name)
    if (folder / METADATA).exists():
        Dataset.open(folder).check_recipe(config)
        return folder, config
    from gradicon.training.prepare import prepare  # needs SimpleITK, to read scans

    recipe = Recipe(data=config, model=ModelConfig(), loss=LossConfig(), training=TrainingConfig())
    prepare(folder / _LISTS[name], recipe, setting.work / name, validation=folder / "val_pairs.csv")
    return setting.work / name, config


def _balls(out: Path, config: DataConfig, count: int = 6) -> Path:
    """Soft balls in noise, their labels, and two pairs to judge by; sizes chosen by eye."""
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
