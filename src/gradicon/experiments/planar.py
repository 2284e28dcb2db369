"""What the 2-D studies share: sizes, two sets, and how networks are trained and judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from gradicon.experiments.shapes import (
    ImageSet,
    read_drive,
    shape_set,
    warped_set,
)
from gradicon.experiments.study import Setting
from gradicon.experiments.trainings import Trained, train_all
from gradicon.models import ModelConfig
from gradicon.training.config import DataConfig, LossConfig, Recipe, Regularizer, TrainingConfig
from gradicon.training.elastic import DRIVE, Deformation
from gradicon.training.triangles import triangles_and_circles

REGULARIZERS: tuple[Regularizer, ...] = ("gradicon", "icon", "diffusion", "bending")
LABELS = {
    "gradicon": "GradICON",
    "icon": "ICON",
    "diffusion": "diffusion",
    "bending": "bending energy",
}
TITLES = {"shapes": "Triangles and Circles", "drive": "DRIVE", "warped": "warped shapes"}

# The middle of each sweep: the paper's weight of GradICON, and of the others one for about as many
# folds in short trainings on small shapes. ICON penalises lengths on the unit square, not slopes,
# and bending energy curvatures.
LAMBDA0: dict[Regularizer, float] = {
    "gradicon": 1.5,
    "icon": 500.0,
    "diffusion": 1.0,
    "bending": 0.02,
}
_STAGE1 = ModelConfig(dimension=2, stage=1)


@dataclass(frozen=True)
class Size:
    """How large the data and the trainings are.

    Args:
        shapes, pixels: how many triangles and circles, and the length of their sides.
        warps: how many times each mask of DRIVE is deformed.
        deformations: how.
        judged: pairs of the training set that a trained network is judged by.
        shapes_batch, drive_batch: pairs per step.
        shapes_rate, drive_rate: Adam's learning rate: ten and four times the paper's 5e-5, since
            trainings are short. At 5e-4 trainings on DRIVE with light penalties diverge.
        exponents, search: of 2, in the sweep of all weights and in the search for ICON's.
        steps: of a training in the sweep.
        long_steps, log_every: of a training whose curve is looked at.
        model: the network, Stage1.
    """

    shapes: int = 2000
    pixels: int = 128
    warps: int = 20
    deformations: tuple[Deformation, ...] = DRIVE
    judged: int = 100
    shapes_batch: int = 16
    drive_batch: int = 4
    shapes_rate: float = 5e-4
    drive_rate: float = 2e-4
    exponents: tuple[int, ...] = tuple(range(-6, 7))
    search: tuple[int, ...] = (-4, -2, 0, 2, 4)
    steps: int = 1000
    long_steps: int = 2000
    log_every: int = 5
    model: ModelConfig = _STAGE1


FULL = Size()
QUICK = Size(
    shapes=32,
    pixels=32,
    warps=4,
    deformations=(Deformation(3, 1.5), Deformation(6, 0.5)),  # of images a ninth as long
    judged=4,
    shapes_batch=4,
    drive_batch=4,
    drive_rate=5e-4,
    exponents=(-2, 2),
    search=(-2, 2),
    steps=20,
    long_steps=40,
    log_every=2,
    model=ModelConfig(
        dimension=2, stage=1, resolutions=2, down_channels=(8, 16), up_channels=(8, 16)
    ),
)


class Task(NamedTuple):
    """One training: on which set, with which regularizer, at which weight."""

    images: str
    regularizer: Regularizer
    weight: float


@dataclass(frozen=True)
class Prepared:
    """A set of images on the disk, ready to train on."""

    folder: Path
    data: DataConfig
    batch_size: int
    learning_rate: float


def set_names(setting: Setting) -> tuple[str, ...]:
    """The two sets of a run. A quick one takes warped shapes for DRIVE, and reads no data."""
    return ("shapes", "warped") if setting.quick else ("shapes", "drive")


def size_of(setting: Setting) -> Size:
    """The size of a run."""
    return QUICK if setting.quick else FULL


def prepared_sets(setting: Setting) -> dict[str, Prepared]:
    """The two sets, made and stored."""
    size = size_of(setting)
    sources = (
        triangles_and_circles(8, size.pixels)
        if setting.quick
        else read_drive(setting.real("drive"))
    )
    shapes, warped = (setting.work / "data" / name for name in set_names(setting))
    return {
        shapes.name: _prepared(
            shape_set(size.shapes, size.pixels, size.judged),
            shapes,
            size.shapes_batch,
            size.shapes_rate,
        ),
        warped.name: _prepared(
            warped_set(sources, size.warps, size.judged, deformations=size.deformations),
            warped,
            size.drive_batch,
            size.drive_rate,
        ),
    }


def train_tasks(
    tasks: Sequence[Task], setting: Setting, *, steps: int, log_every: int
) -> dict[Task, Trained]:
    """Train Stage1 for every task, with the paper's similarity, and judge it once, at the end.

    Only numbers are kept.

    Args:
        tasks: what to train.
        setting: how the study is run.
        steps: of each training.
        log_every: steps between the points of a curve.
    """
    sets = prepared_sets(setting)
    model = size_of(setting).model
    named = {f"{task.images}-{task.regularizer}-{task.weight:g}": task for task in tasks}
    recipes = {
        name: _recipe(task, sets[task.images], model, steps, log_every)
        for name, task in named.items()
    }
    trained = train_all(
        recipes,
        {name: sets[task.images].folder for name, task in named.items()},
        setting,
        keep=False,
    )
    return {task: trained[name] for name, task in named.items()}


def summarise(task: Task, trained: Trained) -> dict[str, Any]:
    """What a trained network is: its task, and what it reached on the pairs it is judged by.

    `dissimilarity` is 1 - LNCC, `folds_percent` the pixels that fold.
    """
    return {
        "set": task.images,
        "regularizer": task.regularizer,
        "weight": task.weight,
        "dissimilarity": round(trained.last["validation_similarity"], 5),
        "folds_percent": round(trained.last["validation_folds"], 6),
    }


def _recipe(
    task: Task, prepared: Prepared, model: ModelConfig, steps: int, log_every: int
) -> Recipe:
    training = TrainingConfig(
        batch_size=prepared.batch_size,
        learning_rate=prepared.learning_rate,
        stage1_steps=steps,
        stage2_steps=0,
        log_every=log_every,
        checkpoint_every=steps,
        image_every=steps,
        validate_every=steps,
    )
    loss = LossConfig(regularizer=task.regularizer, weight=task.weight)
    return Recipe(data=prepared.data, model=model, loss=loss, training=training)


def _prepared(images: ImageSet, folder: Path, batch_size: int, learning_rate: float) -> Prepared:
    images.store(folder)
    return Prepared(folder, images.config, batch_size, learning_rate)
