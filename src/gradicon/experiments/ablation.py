"""Table 1 on real sets: backbone, resolutions, Stage2, augmentation and instance optimization, one
after the other.

Every network is trained for the same number of steps: with Stage2, half of them are Stage1's. Two
sets: cardiac, pairs of one heart at two times, and hippocampus, any two patients. Scores are of the
validation pairs on the prepared grid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean, stdev
from typing import TYPE_CHECKING

import numpy as np
import torch

from gradicon.core.metrics import dice
from gradicon.experiments.real_sets import SETS, prepared
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

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
_OPTIMISED = NETWORKS[4:]
_STAGE2: dict[str, object] = {"second": True}
_BOTH: dict[str, object] = {"second": True, "augmented": True}
_PARTS: tuple[tuple[str, dict[str, object], dict[str, object]], ...] = (
    (
        "the paper's U-Net for VoxelMorph's",
        {"backbone": "voxelmorph", "resolutions": 1},
        {"resolutions": 1},
    ),
    ("3 resolutions for 1", {"resolutions": 1}, {}),
    ("Stage2", {}, _STAGE2),
    ("augmentation", _STAGE2, _BOTH),
    ("instance optimization", _STAGE2, {**_STAGE2, "optimised": True}),
    ("instance optimization, augmented", _BOTH, {**_BOTH, "optimised": True}),
)  # what is looked at, without it and with it


@dataclass(frozen=True)
class Size:
    """Of the study."""

    steps: int
    batch_size: int
    learning_rate: float
    channels: tuple[tuple[int, ...], tuple[int, ...]]
    iterations: int


_FULL = Size(2000, 4, 3e-4, ((16, 32, 64, 256, 512), (16, 32, 64, 128, 256)), _ITERATIONS)
_QUICK = Size(30, 2, 1e-3, ((4, 8), (4, 8)), 2)


def run(setting: Setting) -> Numbers:
    """Train the six networks on both sets, then judge them, and the last two after instance
    optimization as well.
    """
    size = _QUICK if setting.quick else _FULL
    sets = {name: prepared(name, setting) for name in SETS}
    data = {name: folder for name, (folder, _) in sets.items()}
    recipes = {
        f"{where}, {network.name}": _recipe(network, config, size)
        for (where, (_, config)), network in product(sets.items(), NETWORKS)
    }
    judges = {
        f"{where}, {network.name}": Judging(
            LossConfig(),
            (0, size.iterations) if network in _OPTIMISED else (0,),
            setting.device.type,
        )
        for where, network in product(sets, NETWORKS)
    }
    folders = {name: data[name.split(", ")[0]] for name in recipes}
    trained = train_all(recipes, folders, setting, keep=False, judges=judges)
    rows: list[Numbers] = []
    for where, network in product(sets, NETWORKS):
        found = trained[f"{where}, {network.name}"]
        rows += [
            _row(where, network, scores) | {"minutes": found.minutes} for scores in found.judged
        ]
        rows[-len(found.judged)]["training_dissimilarity"] = fitted(
            found.rows
        )  # of the network as trained, not as optimised
    before = {where: _before(Dataset.open(folder, verify=False)) for where, folder in data.items()}
    return {
        "steps": size.steps,
        "batch_size": size.batch_size,
        "unregistered_dice": before,
        "rows": rows,
    }


def table(numbers: Numbers) -> str:
    """The paper's Table 1, then what each part added."""
    heads = "Dice | folds [%] | 1 - LNCC | of training pairs"
    lines = [
        f"| set | backbone | resolutions | Stage2 | optimised | augmented | {heads} |",
        "|---" * 10 + "|",
    ]
    for where, overlap in numbers["unregistered_dice"].items():
        lines.append(f"| {where} | unregistered | | | | | {overlap:.3f} | | | |")
        for row in (row for row in numbers["rows"] if row["set"] == where):
            ticks = " | ".join(
                "yes" if row[part] else "" for part in ("second", "optimised", "augmented")
            )
            overlap = f"{row['dice']:.3f} ± {row['dice_sd']:.3f} | {row['folds_percent']:.4f}"
            trained = (
                f"{row['training_dissimilarity']:.3f}" if "training_dissimilarity" in row else ""
            )
            unlike = f"{row['dissimilarity']:.3f} | {trained}"
            lines.append(
                f"| {where} | {row['backbone']} | {row['resolutions']} | {ticks} | "
                f"{overlap} | {unlike} |"
            )
    lines += ["", "| set | part | Dice without | with | difference | better in |", "|---" * 6 + "|"]
    for e in effects(numbers["rows"]):
        change = f"{e['with'] - e['without']:+.3f} | {e['better']} of {e['pairs']} pairs"
        lines.append(
            f"| {e['set']} | {e['part']} | {e['without']:.3f} | {e['with']:.3f} | {change} |"
        )
    return "\n".join(lines)


def draw(numbers: Numbers, figure: "Figure") -> None:
    """Dice of every row, one panel a set: its mean, and every pair."""
    figure.set_size_inches(11, 4.2)
    sets = list(numbers["unregistered_dice"])
    for axes, where in zip(np.atleast_1d(figure.subplots(1, len(sets))), sets, strict=True):
        rows = [row for row in numbers["rows"] if row["set"] == where]
        for place, row in enumerate(rows):
            overlaps = row["dice_of_pairs"]
            axes.plot(overlaps, [place] * len(overlaps), "|", color="0.6", markersize=7)
            axes.plot(row["dice"], place, "o", color="#c1272d" if row["optimised"] else "#0068b4")
        axes.axvline(numbers["unregistered_dice"][where], color="0.3", linestyle="--", linewidth=1)
        axes.set_yticks(range(len(rows)), [_short(row) for row in rows], fontsize=8)
        axes.invert_yaxis()
        axes.set(title=where, xlabel="Dice: mean, and every pair (dashed: unregistered)")
        axes.grid(axis="x", alpha=0.25)


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


def fitted(rows: Sequence[Row]) -> float:
    """The dissimilarity of training pairs over the last half of what was logged; the loss is of
    both directions.
    """
    return mean(row["similarity"] / 2 for row in rows[len(rows) // 2 :])


def _row(where: str, network: Network, scores: Numbers) -> Numbers:
    parts = {
        "backbone": network.backbone,
        "resolutions": network.resolutions,
        "second": network.second,
    }
    return {
        "set": where,
        **parts,
        "augmented": network.augmented,
        "optimised": scores["iterations"] > 0,
        **scores,
    }


@dataclass(frozen=True)
class Judging:
    """Scores of a trained network on its validation pairs, after each number of iterations of
    instance optimization.
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
        pairs = list[dict[str, float]]()
        for moving, fixed in shelf.dataset.validation_pairs:
            images = shelf.images([moving]), shelf.images([fixed])
            tuned = (
                refine(network, *images, steps=iterations, similarity=similarity)
                if iterations
                else network
            )
            pairs.append(judge(tuned, shelf, moving, fixed, similarity))
        overlaps = [pair["dice"] for pair in pairs]
        return {
            "dice": mean(overlaps),
            "dice_sd": stdev(overlaps),
            "dice_of_pairs": overlaps,
            "folds_percent": mean(pair["folds"] for pair in pairs),
            "dissimilarity": mean(pair["similarity"] for pair in pairs),
        }


def _before(dataset: Dataset) -> float:
    assert dataset.labels is not None
    overlaps = [
        dice(*(torch.from_numpy(np.array(dataset.labels[i]).astype(np.int32)) for i in pair))
        for pair in dataset.validation_pairs
    ]
    return mean(mean(overlap.values()) for overlap in overlaps)


def effects(rows: Sequence[Numbers]) -> list[Numbers]:
    """What one part added, everything else being equal, on average and in how many pairs."""
    base: Mapping[str, object] = {
        "backbone": "unet",
        "resolutions": 3,
        "second": False,
        "augmented": False,
        "optimised": False,
    }
    found: list[Numbers] = []
    for where in dict.fromkeys(row["set"] for row in rows):
        for part, without, having in _PARTS:
            before, after = (
                _row_of(rows, {"set": where, **base, **parts}) for parts in (without, having)
            )
            better = [
                y > x for x, y in zip(before["dice_of_pairs"], after["dice_of_pairs"], strict=True)
            ]
            told = {
                "without": before["dice"],
                "with": after["dice"],
                "better": sum(better),
                "pairs": len(better),
            }
            found.append({"set": where, "part": part, **told})
    return found


def _row_of(rows: Sequence[Numbers], parts: Mapping[str, object]) -> Numbers:
    return next(row for row in rows if all(row[name] == value for name, value in parts.items()))


def _short(row: Numbers) -> str:
    names = ("second", "Stage2"), ("augmented", "aug."), ("optimised", "opt.")
    return ", ".join(
        [
            str(row["backbone"]),
            f"{row['resolutions']} res.",
            *(short for part, short in names if row[part]),
        ]
    )
