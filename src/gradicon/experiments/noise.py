"""The noise of a trained network: is |n| << |grad n|, and is grad n white?

The paper's appendix on its analysis says so. From what a network says of a pair of images, both
ways, the closest exact inverses are estimated in L2, as in the paper; the rest is the noise n. They
are sought among all fields on the grid, tied to each other by a weight that is raised until what is
left of their inverse error is small beside n. Flows of stationary velocities would be a more
elegant family, but free ones fit by becoming rough, where flows on a grid are inverses no longer: n
then seems smaller and whiter than it is.

Lengths are of the unit cube, and |grad n| is a Frobenius norm. A plane wave of f periods across the
image has |grad n| = 2 pi f |n|, so the ratio tells how fast the noise is: "an order of magnitude"
is less than two periods. What the analysis drops is grad phi_ab(phi_ba + n_ba) - grad
phi_ab(phi_ba), which is measured too, beside the grad n_ba that is kept.

The estimate is biased. Near the identity, where inverses are u and -u, the closest pair takes up
(n_ab - n_ba) / 2, and what is left of either noise is (n_ab + n_ba) / 2: less than there was, by
sqrt(2) if they were independent, and the same in both maps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isnan, pi
from statistics import mean

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
from gradicon.experiments.noise_report import draw, table
from gradicon.experiments.study import Numbers, Setting
from gradicon.experiments.trainings import Trained, train_all
from gradicon.models import Model, ModelConfig, load
from gradicon.training.config import DataConfig, LossConfig, Recipe, TrainingConfig
from gradicon.training.store import store_arrays
from gradicon.training.triangles import Images, triangles_and_circles

__all__ = ["TITLE", "draw", "run", "table"]

TITLE = "The noise of a trained network"
_LAGS = (1, 2, 4, 8)  # voxels, of the correlation of grad n with itself
_SHOWN = 64  # voxels along each axis of the maps that are kept for the figure, at most


@dataclass(frozen=True)
class Size:
    """How much of everything.

    Args:
        voxels: along each axis of an image.
        images: to train on.
        pairs: to judge, of images that were not trained on.
        model, training: what is trained, and how.
        iterations: of the search for the closest inverses, with each weight.
    """

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
    """Train on triangles and circles, ask about new pairs, and take apart what the network says."""
    size = _QUICK if setting.quick else _FULL
    pairs = [(size.images + 2 * k, size.images + 2 * k + 1) for k in range(size.pairs)]
    count = size.images + 2 * size.pairs
    # shuffled, since triangles come before circles
    images = triangles_and_circles(count, size.voxels)[np.random.default_rng(0).permutation(count)]
    trained = _train(images, pairs, size, setting)
    network = load(trained.model).to(setting.device)
    maps = _ask(network, images, pairs, setting.device)
    setting.tell("the closest inverses", 0.7)
    inverses = closest_inverses(*maps, iterations=size.iterations)
    judged = [_judge(maps, exact) for exact in inverses]
    seen = region(*maps)
    noise = (maps[0].u - inverses[-1][0].u).where(seen, torch.nan)
    return {
        "voxels": size.voxels,
        "trained": {name: trained.last[name] for name in ("similarity", "penalty", "folds")},
        "displacement": rms(maps[0].u.where(seen, torch.nan)).tolist(),
        "by weight": [
            {"weight": weight, **_average(pairs)}
            for weight, pairs in zip(WEIGHTS, judged, strict=True)
        ],
        "pairs": judged[-1],
        "maps": {"n": _thin_map(noise), "gradient": _thin_map(gradient(noise))},
    }


def _train(
    images: Images, pairs: Sequence[tuple[int, int]], size: Size, setting: Setting
) -> Trained:
    """Store all images, train on the first `size.images` of them, and validate on the pairs."""
    data = DataConfig(shape=(size.voxels, size.voxels))
    recipe = Recipe(data=data, model=size.model, loss=LossConfig(), training=size.training)
    folder = setting.work / "shapes"
    store_arrays(folder, images, data, train=range(size.images), validation_pairs=pairs)
    return train_all({"noise": recipe}, folder, setting, share=0.6)["noise"]


@torch.no_grad()
def _ask(
    network: Model, images: Images, pairs: Sequence[tuple[int, int]], device: torch.device
) -> Inverses:
    """phi_ab and phi_ba of all pairs as one batch of fields, in double precision."""
    a, b = (
        torch.from_numpy(images[list(numbers), None]).to(device)
        for numbers in zip(*pairs, strict=True)
    )
    shape = images.shape[1:]
    return (
        network(a, b).materialise(shape).to(torch.float64),
        network(b, a).materialise(shape).to(torch.float64),
    )


def _average(pairs: Sequence[Numbers]) -> Numbers:
    return {name: mean(pair[name] for pair in pairs) for name in ("n", "gradient", "inverse error")}


def _judge(maps: Inverses, exact: Inverses) -> list[Numbers]:
    """What is to be known of the noises n = maps - exact, pair by pair.

    - n, gradient, ratio: |n| and |grad n| of n_ab as root mean squares, and the second over the
      first; periods: of the plane wave with that ratio.
    - dropped: what the analysis drops over what it keeps, grad ab(ba + n_ba) - grad ab(ba) over
      grad n_ba, of the exact ab and ba.
    - inverse error: |ab o ba - Id| of the exact maps, which are exact up to that.
    - likeness: the correlation of n_ab and n_ba.
    - judged: the part of the image that all this is of.
    - lag k: the correlation of grad n_ab with itself k voxels on.
    """
    judged = region(*maps)
    n_ab, n_ba = (
        (phi.u - near.u).where(judged, torch.nan) for phi, near in zip(maps, exact, strict=True)
    )
    shape = n_ab.shape[2:]
    size = rms(n_ab)
    steepness = rms(gradient(n_ab))
    kept = gradient(n_ba)
    slope = gradient(exact[0].on_grid(shape))
    inner = slope.shape[2:]
    dropped = sample(slope, maps[1].on_grid(inner)) - sample(slope, exact[1].on_grid(inner))
    back = (exact[0] @ exact[1]).materialise(shape)
    columns: dict[str, Tensor] = {
        "n": size,
        "gradient": steepness,
        "ratio": steepness / size,
        "periods": steepness / size / (2 * pi),
        "dropped": rms(dropped + 0 * kept) / rms(kept),  # + 0: NaN in one is NaN in both
        "inverse error": rms(back.u.where(judged, torch.nan)),
        "likeness": (n_ab * n_ba).sum(1).flatten(1).nanmean(1) / (rms(n_ab) * rms(n_ba)),
        "judged": judged.flatten(1).double().mean(1),
        **{f"lag {lag}": autocorrelation(gradient(n_ab), lag) for lag in _LAGS},
    }
    return [{name: float(values[k]) for name, values in columns.items()} for k in range(len(size))]


def _thin_map(field: Tensor) -> list[list[float | None]]:
    """The norm at the voxels of the first pair, some where they are many, None where not judged."""
    norms = field[0].norm(dim=0)
    every = ceil(max(norms.shape) / _SHOWN)
    return [
        [None if isnan(value) else float(f"{value:.4g}") for value in row]
        for row in norms[::every, ::every].tolist()
    ]
