"""The noise of a trained network: is |n| << |grad n|, and is grad n white (the paper's appendix on
its analysis)?

From what a network says of a pair of images, both ways, the closest exact inverses are estimated in
L2, as in the paper; the rest is the noise n. They are sought among all fields on the grid, tied to
each other by a weight that is raised until what is left of their inverse error is small beside n.
Flows of stationary velocities would be a more elegant family, but free ones fit by becoming rough,
where flows on a grid are inverses no longer: n then seems smaller and whiter than it is.

Lengths are of the unit cube, and |grad n| is a Frobenius norm. A plane wave of f periods across the
image has |grad n| = 2 pi f |n|, so the ratio tells how fast the noise is: "an order of magnitude"
is less than two periods. What the analysis drops is grad phi_ab(phi_ba + n_ba) - grad
phi_ab(phi_ba), which is measured too, beside the grad n_ba that is kept.

The estimate is biased. Near the identity, where inverses are u and -u, the closest pair takes up
(n_ab - n_ba) / 2, and what is left of either noise is (n_ab + n_ba) / 2: less than there was, by
sqrt(2) if they were independent, and the same in both maps.
"""

from dataclasses import dataclass
from math import ceil, isnan, pi
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gradicon.core.sampling import sample
from gradicon.experiments.inverses import (
    WEIGHTS,
    Inverses,
    autocorrelation,
    closest_inverses,
    gradient,
    region,
    rms,
)
from gradicon.experiments.shapes import triangles_and_circles
from gradicon.experiments.study import Numbers, Setting
from gradicon.experiments.trainings import train_all
from gradicon.models import ModelConfig, load
from gradicon.training.config import DataConfig, LossConfig, Recipe, TrainingConfig
from gradicon.training.store import store_arrays

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "The noise of a trained network"
LAGS = (1, 2, 4, 8)
_SHOWN = 64  # voxels along each axis of the maps that are kept for the figure, at most


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    voxels: int
    images: int
    pairs: int
    model: ModelConfig
    training: TrainingConfig
    iterations: int


_FULL = Size(
    128,
    2000,
    16,
    ModelConfig(dimension=2, stage=1),
    TrainingConfig(
        batch_size=16, learning_rate=5e-4, stage1_steps=2000, stage2_steps=0, image_every=10**9
    ),
    200,
)
_QUICK = Size(
    32,
    40,
    3,
    ModelConfig(dimension=2, stage=1, resolutions=2, down_channels=(8, 16), up_channels=(8, 16)),
    TrainingConfig(
        batch_size=8, learning_rate=2e-3, stage1_steps=60, stage2_steps=0, image_every=10**9
    ),
    50,
)


def run(setting: Setting) -> Numbers:
    """Train on triangles and circles, ask about pairs it has not seen, and take apart
    what it says.
    """
    size = _QUICK if setting.quick else _FULL
    shape = (size.voxels, size.voxels)
    validation = [(size.images + 2 * k, size.images + 2 * k + 1) for k in range(size.pairs)]
    count = size.images + 2 * size.pairs
    images = triangles_and_circles(count, size.voxels)[np.random.default_rng(0).permutation(count)]
    recipe = Recipe(
        data=DataConfig(shape=shape), model=size.model, loss=LossConfig(), training=size.training
    )
    store_arrays(
        setting.work / "shapes",
        images,
        recipe.data,
        train=range(size.images),
        validation_pairs=validation,
    )
    trained = train_all({"noise": recipe}, setting.work / "shapes", setting, share=0.6)["noise"]
    network = load(trained.model).to(setting.device)
    a, b = (
        torch.from_numpy(images[[pair[k] for pair in validation], None]).to(setting.device)
        for k in range(2)
    )
    with torch.no_grad():
        ab, ba = (network(*pair).materialise(shape).to(torch.float64) for pair in ((a, b), (b, a)))
    setting.tell("the closest inverses", 0.7)
    said = ab, ba
    found = closest_inverses(*said, iterations=size.iterations)
    judged = [_judged(said, near) for near in found]
    noise = (said[0].u - found[-1][0].u).where(region(*said), torch.nan)
    by_weight = [
        {name: mean(pair[name] for pair in pairs) for name in ("n", "gradient", "inverse error")}
        for pairs in judged
    ]
    return {
        "voxels": size.voxels,
        "trained": {name: trained.last[name] for name in ("similarity", "penalty", "folds")},
        "displacement": rms(said[0].u.where(region(*said), torch.nan)).tolist(),
        "by weight": [
            {"weight": weight, **row} for weight, row in zip(WEIGHTS, by_weight, strict=True)
        ],
        "pairs": judged[-1],
        "maps": {
            name: _map(values) for name, values in (("n", noise), ("gradient", gradient(noise)))
        },
    }


def _judged(said: Inverses, near: Inverses) -> list[Numbers]:
    """What is to be known of the noises, pair by pair."""
    judged = region(*said)
    n_ab, n_ba = (
        (s.u - exact.u).where(judged, torch.nan) for s, exact in zip(said, near, strict=True)
    )
    size = rms(n_ab)
    steepness = rms(gradient(n_ab))
    slope = gradient(near[0].on_grid(near[0].u.shape[2:]))
    dropped = sample(slope, said[1].on_grid(slope.shape[2:])) - sample(
        slope, near[1].on_grid(slope.shape[2:])
    )
    back = (near[0] @ near[1]).materialise(near[0].u.shape[2:])
    columns: dict[str, Tensor] = {
        "n": size,
        "gradient": steepness,
        "ratio": steepness / size,
        "periods": steepness / size / (2 * pi),
        "dropped": rms(dropped + 0 * gradient(n_ba)) / rms(gradient(n_ba)),
        "inverse error": rms(back.u.where(judged, torch.nan)),
        "likeness": (n_ab * n_ba).sum(1).flatten(1).nanmean(1) / (rms(n_ab) * rms(n_ba)),
        "judged": judged.flatten(1).double().mean(1),
        **{f"lag {lag}": autocorrelation(gradient(n_ab), lag) for lag in LAGS},
    }
    return [{name: float(values[k]) for name, values in columns.items()} for k in range(len(size))]


def _map(values: Tensor) -> list[list[float | None]]:
    """The norm at every voxel of the first pair, coarser where there are many; None where it is not
    judged.
    """
    norms = values[0].norm(dim=0)
    every = ceil(max(norms.shape) / _SHOWN)
    return [
        [None if isnan(value) else float(f"{value:.4g}") for value in row]
        for row in norms[::every, ::every].tolist()
    ]


def table(numbers: Numbers) -> str:
    """Every pair, then what the means say."""
    pairs: list[dict[str, float]] = numbers["pairs"]
    average = {name: mean(pair[name] for pair in pairs) for name in pairs[0]}
    names = [
        "n",
        "gradient",
        "ratio",
        "periods",
        "dropped",
        "inverse error",
        "likeness",
        "judged",
        *[f"lag {lag}" for lag in LAGS],
    ]
    heads = [
        "\\|n\\|",
        "\\|grad n\\|",
        "ratio",
        "periods",
        "dropped / kept",
        "inverse error",
        "n_ab like n_ba",
        "part judged",
        *names[8:],
    ]
    lines = [f"| pair | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for label, row in [*((str(k), pair) for k, pair in enumerate(pairs)), ("mean", average)]:
        lines.append(f"| {label} | {' | '.join(f'{row[name]:.3g}' for name in names)} |")
    ratio = average["ratio"]
    lag = average["lag 1"]
    off = average["inverse error"] / average["n"]
    white = max(abs(average[f"lag {lag}"]) for lag in LAGS) < 0.1
    said = [
        (
            f"The gradient is {ratio:.1f} times the noise, {'' if ratio >= 10 else 'not '}an "
            "order of magnitude above it;"
        ),
        f"a wave of {average['periods']:.1f} periods across the image has that ratio.",
        f"What the analysis drops is {100 * average['dropped']:.0f} % of what it keeps.",
        (
            f"The gradient is {'' if white else 'not '}white: one voxel on, its correlation "
            f"is {lag:.2f}."
        ),
        (
            f"The inverses found are exact to {100 * off:.0f} % of the "
            f"noise{'.' if off < 0.1 else ', so this means little.'}"
        ),
        "The estimate makes n_ab and n_ba alike, so it cannot say whether they are independent.",
    ]
    lines += [
        "",
        *said,
        "",
        "| weight of the inverses | \\|n\\| | \\|grad n\\| | inverse error |",
        "|---|---|---|---|",
    ]
    for row in numbers["by weight"]:
        lines.append(
            f"| {row['weight']:g} | {row['n']:.3g} | {row['gradient']:.3g} | "
            f"{row['inverse error']:.2g} |"
        )
    trained = numbers["trained"]
    lines += [
        "",
        (
            f"Displacements are of {mean(numbers['displacement']):.2g}. The network reached, "
            "in training, 1 - LNCC both ways of"
        ),
    ]
    lines += [
        (
            f"{trained['similarity']:.3f}, GradICON of {trained['penalty']:.2e}, and folds of "
            f"{trained['folds']:.3f} %."
        )
    ]
    return "\n".join(lines)


def draw(numbers: Numbers, figure: "Figure") -> None:
    """The noise and its gradient of one pair on one scale, and the ratio of every pair."""
    from matplotlib.colors import LogNorm

    figure.set_size_inches(11, 3.8)
    maps: dict[str, list[list[float | None]]] = numbers["maps"]
    left, middle, right = figure.subplots(1, 3)
    shown = {name: np.array(values, dtype=float) for name, values in maps.items()}
    values = np.concatenate([each[np.isfinite(each)] for each in shown.values()])
    norm = LogNorm(max(float(np.quantile(values, 0.02)), 1e-9), float(values.max()))
    for axes, name, title in ((left, "n", "$|n|$"), (middle, "gradient", "$|\\nabla n|$")):
        drawn = axes.imshow(shown[name], norm=norm, cmap="viridis")
        axes.set_title(title)
        axes.set_axis_off()
        figure.colorbar(drawn, ax=axes, shrink=0.8)
    ratios = [pair["ratio"] for pair in numbers["pairs"]]
    right.bar(range(len(ratios)), ratios)
    right.axhline(10, color="0.4", lw=1, ls="--")
    right.set(title="$|\\nabla n| \\, / \\, |n|$", xlabel="pair")
    right.xaxis.get_major_locator().set_params(integer=True)
