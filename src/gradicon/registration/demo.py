"""The demonstration: a network, fresh from its initialisation, optimised on the bundled pair."""

import json
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradicon.core.jacobian import fold_percentage
from gradicon.core.objective import Objective
from gradicon.core.sampling import sample
from gradicon.core.similarity import lncc
from gradicon.core.transform import Transform
from gradicon.evaluation.metrics import dice
from gradicon.models.build import ModelConfig, build
from gradicon.physical.images import read_volume
from gradicon.physical.intensity import mr_quantile
from gradicon.physical.volume import Volume
from gradicon.registration.figure import Panel, draw_registration
from gradicon.registration.initialise import unit_affine
from gradicon.registration.refine import refine

# Small enough for two cores and half a minute. The window of LNCC is 2 voxels, not the paper's 5: the images are 35 voxels wide.
CONFIG = ModelConfig(stage=1, down_channels=(16, 32, 64, 128), up_channels=(16, 32, 64, 128))
SIGMA, LEARNING_RATE, STEPS = 2, 1e-3, 60


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration found: Dice by label, folds in percent, and how it was run."""

    dice_before: dict[int, float]
    dice_after: dict[int, float]
    folds_percent: float
    seconds: float
    steps: int
    torch: str
    machine: str


@dataclass(frozen=True)
class _Pair:
    fixed: Volume
    moving: Volume
    fixed_labels: Volume
    moving_labels: Volume


def run_demo(out: Path, *, steps: int = STEPS, on_step: Callable[[int, Objective], None] | None = None) -> DemoResult:
    """Register the bundled pair and write `demo.png` and `demo.json` into `out`, an existing folder."""
    pair, start = _read_pair(), time.perf_counter()
    phi = _optimise(pair.moving, pair.fixed, steps, on_step)
    shape = pair.fixed.space.shape
    unmoved = unit_affine(np.eye(len(shape) + 1), pair.fixed.space, pair.moving.space)  # the pair as it was scanned
    before, after = (_read_labels(pair.moving_labels, transform.on_grid(shape)) for transform in (unmoved, phi))
    result = DemoResult(
        dice_before=dice(before, pair.fixed_labels.data),
        dice_after=dice(after, pair.fixed_labels.data),
        folds_percent=fold_percentage(phi, shape).item(),
        seconds=round(time.perf_counter() - start, 1),
        steps=steps,
        torch=torch.__version__,
        machine=f"{platform.machine()}, {torch.get_num_threads()} threads",
    )
    _draw(out / "demo.png", pair, unmoved, phi, result)
    (out / "demo.json").write_text(json.dumps(asdict(result), indent=2) + "\n")
    return result


def _read_pair() -> _Pair:
    folder = files("gradicon") / "sample"
    volumes: list[Volume] = []
    for name in ("fixed", "moving", "fixed_labels", "moving_labels"):
        with as_file(folder / f"{name}.nii.gz") as path:
            volumes.append(read_volume(path))
    return _Pair(mr_quantile(volumes[0]), mr_quantile(volumes[1]), volumes[2], volumes[3])


def _optimise(moving: Volume, fixed: Volume, steps: int, on_step: Callable[[int, Objective], None] | None) -> Transform:
    shape = fixed.space.shape
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = build(CONFIG)
    images = moving.resized(shape).data, fixed.data
    tuned = refine(
        network, *images, steps=steps, similarity=partial(lncc, sigma=SIGMA), learning_rate=LEARNING_RATE, on_step=on_step
    )
    with torch.no_grad():
        return tuned(*images).materialise(shape)


def _read_labels(labels: Volume, x: Tensor) -> Tensor:
    return sample(labels.data.float(), x, mode="nearest").to(labels.data.dtype)


def _draw(path: Path, pair: _Pair, unmoved: Transform, phi: Transform, result: DemoResult) -> None:
    shape, labels = pair.fixed.space.shape, pair.fixed_labels.data[0, 0]
    at = int((labels > 0).sum((1, 2)).argmax())  # the slice that shows the most of the hippocampus

    def panel(title: str, transform: Transform) -> Panel:
        x = transform.on_grid(shape)
        return Panel(title, sample(pair.moving.data, x, padding="zeros")[0, 0, at], _read_labels(pair.moving_labels, x)[0, 0, at])

    panels = [panel("moving", unmoved), Panel("fixed", pair.fixed.data[0, 0, at], labels[at]), panel("moving, warped", phi)]
    grid = Panel("fixed's grid in moving", pair.moving.resized(shape).data[0, 0, at])
    before, after = (sum(d.values()) / len(d) for d in (result.dice_before, result.dice_after))
    title = f"Dice {before:.2f} before, {after:.2f} after; folds {result.folds_percent:.3g} %"
    draw_registration(path, panels, grid, phi, shape, at, title=title)
