"""Table 1 on real sets: what each part of the method adds.

The parts are backbone, resolutions, Stage2, augmentation and instance optimization, one after the
other. Every network is trained for the same number of steps: with Stage2, half of them are
Stage1's. Two sets: cardiac, pairs of one heart at two times, and hippocampus, any two patients.
Scores are of the validation pairs on the prepared grid.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import torch

from gradicon.core.metrics import dice
from gradicon.experiments.ablation_report import draw, table
from gradicon.experiments.real_sets import SETS, prepare_set
from gradicon.experiments.study import Numbers, Setting
from gradicon.experiments.trainings import Row, train_all
from gradicon.models import Model, ModelConfig, load
from gradicon.models.build import Backbone
from gradicon.registration.solve.network import refine
from gradicon.training.batches import Shelf
from gradicon.training.config import DataConfig, LossConfig, Recipe, TrainingConfig
from gradicon.training.dataset import Dataset
from gradicon.training.step import similarity_of
from gradicon.training.validate import judge

__all__ = ["TITLE", "draw", "run", "table"]

TITLE = "What each part of the method adds"
_ITERATIONS = 50  # of instance optimization, the paper's


@dataclass(frozen=True)
class Network:
    """A network of the table, by what it has."""

    backbone: Backbone
    resolutions: int
    second: bool = False
    augmented: bool = False

    @property
    def name(self) -> str:
        """What sets it apart."""
        parts = [self.backbone, f"{self.resolutions} resolution{'s' * (self.resolutions > 1)}"]
        return ", ".join([*parts, *["Stage2"] * self.second, *["augmented"] * self.augmented])


NETWORKS = (
    Network("voxelmorph", 1),
    Network("unet", 1),
    Network("unet", 3),
    Network("unet", 3, augmented=True),
    Network("unet", 3, second=True),
    Network("unet", 3, second=True, augmented=True),
)
_OPTIMISED = NETWORKS[4:]  # those that are judged after instance optimization as well


@dataclass(frozen=True)
class Size:
    """How large the networks and the trainings are.

    Args:
        steps: of training, both stages together.
        batch_size: pairs per step.
        learning_rate: Adam's, at the start; it falls to zero within each stage.
        channels: of the U-Net's levels, down and up.
        iterations: of instance optimization.
    """

    steps: int
    batch_size: int
    learning_rate: float
    channels: tuple[tuple[int, ...], tuple[int, ...]]
    iterations: int


# twelve trainings that fit on one GPU in half an hour: far fewer steps than the paper's, so larger
# batches and a higher rate, which falls to zero to make the most of them
_FULL = Size(2000, 4, 3e-4, ((16, 32, 64, 256, 512), (16, 32, 64, 128, 256)), _ITERATIONS)
_QUICK = Size(30, 2, 1e-3, ((4, 8), (4, 8)), 2)


def run(setting: Setting) -> Numbers:
    """Train the six networks on both sets and judge them, the last two once more when optimised."""
    size = _QUICK if setting.quick else _FULL
    sets = {name: prepare_set(name, setting) for name in SETS}
    tasks = {f"{where}, {net.name}": (where, net) for where, net in product(sets, NETWORKS)}
    trained = train_all(
        {name: _recipe(net, sets[where][1], size) for name, (where, net) in tasks.items()},
        {name: sets[where][0] for name, (where, _) in tasks.items()},
        setting,
        keep=False,
        judges={name: _judge_of(net, size, setting) for name, (_, net) in tasks.items()},
    )
    rows: list[Numbers] = []
    for name, (where, network) in tasks.items():
        done = trained[name]
        own = [_row(where, network, scores) | {"minutes": done.minutes} for scores in done.judged]
        # of the network as trained, which the first row is of, not as optimised
        own[0]["training_dissimilarity"] = mean_dissimilarity(done.rows)
        rows += own
    return {
        "steps": size.steps,
        "batch_size": size.batch_size,
        "unregistered_dice": {
            where: _unregistered_dice(Dataset.open(folder, verify=False))
            for where, (folder, _) in sets.items()
        },
        "rows": rows,
    }


def _judge_of(network: Network, size: Size, setting: Setting) -> "Judging":
    iterations = (0, size.iterations) if network in _OPTIMISED else (0,)
    return Judging(LossConfig(), iterations, setting.device.type)


def _recipe(network: Network, data: DataConfig, size: Size) -> Recipe:
    down, up = size.channels if network.backbone == "unet" else ((), ())
    stage2 = size.steps // 2 if network.second else 0
    return Recipe(
        data=data,
        model=ModelConfig(
            dimension=3,
            stage=2 if network.second else 1,
            resolutions=network.resolutions,
            backbone=network.backbone,
            down_channels=down,
            up_channels=up,
        ),
        loss=LossConfig(),
        training=TrainingConfig(
            batch_size=size.batch_size,
            learning_rate=size.learning_rate,
            schedule="cosine",
            stage1_steps=size.steps - stage2,
            stage2_steps=stage2,
            precision="bf16-mixed",
            augment=network.augmented,
            log_every=max(size.steps // 10, 1),
            validate_every=size.steps,
            checkpoint_every=size.steps,
            image_every=size.steps,
        ),
    )


def mean_dissimilarity(rows: Sequence[Row]) -> float:
    """1 - LNCC of training pairs, the mean over the last half of what was logged.

    What is logged is the sum over both directions, hence the half.
    """
    return mean(row["similarity"] / 2 for row in rows[len(rows) // 2 :])


def _row(where: str, network: Network, scores: Numbers) -> Numbers:
    return {
        "set": where,
        "backbone": network.backbone,
        "resolutions": network.resolutions,
        "second": network.second,
        "augmented": network.augmented,
        "optimised": scores["iterations"] > 0,
        **scores,
    }


@dataclass(frozen=True)
class Judging:
    """Scores a trained network on its validation pairs, as it is and after instance optimization.

    Args:
        loss: whose similarity instance optimization takes.
        iterations: of instance optimization, one judgement each; 0 is the network as it is.
        device: where to do it, by name.
    """

    loss: LossConfig
    iterations: tuple[int, ...]
    device: str

    def __call__(self, model: Path, data: Path) -> list[Numbers]:
        shelf = Shelf(Dataset.open(data, verify=False), torch.device(self.device))
        network = load(model).to(shelf.device).eval()
        return [
            {"iterations": iterations, **self._scores(network, shelf, iterations)}
            for iterations in self.iterations
        ]

    def _scores(self, network: Model, shelf: Shelf, iterations: int) -> Numbers:
        similarity = similarity_of(self.loss)
        pairs: list[dict[str, float]] = []
        for moving, fixed in shelf.dataset.validation_pairs:
            tuned = network
            if iterations:
                a = shelf.images([moving])
                b = shelf.images([fixed])
                tuned = refine(network, a, b, steps=iterations, similarity=similarity)
            pairs.append(judge(tuned, shelf, moving, fixed, similarity))
        overlaps = [pair["dice"] for pair in pairs]
        return {
            "dice": mean(overlaps),
            "dice_sd": stdev(overlaps),
            "dice_of_pairs": overlaps,
            "folds_percent": mean(pair["folds"] for pair in pairs),
            "dissimilarity": mean(pair["similarity"] for pair in pairs),
        }


def _unregistered_dice(dataset: Dataset) -> float:
    """The mean Dice of the validation pairs as they are: the identity for a map."""
    assert dataset.labels is not None
    overlaps = [
        dice(*(torch.from_numpy(np.array(dataset.labels[i]).astype(np.int32)) for i in pair))
        for pair in dataset.validation_pairs
    ]
    return mean(mean(overlap.values()) for overlap in overlaps)
