"""Triangles and circles: the paper's 2-D set that is drawn."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradicon.errors import GradiconError
from gradicon.training.config import DataConfig
from gradicon.training.store import store_arrays

Images = NDArray[np.float32]
"""(N, H, W), in [0,1]."""

COUNT = 2000
"""How many images the paper has."""
_EDGE = 40.0  # an outline is about 2 / _EDGE of the image wide, as in the ICON paper's images


def store_shapes(
    out: Path, config: DataConfig, count: int = COUNT, *, validation: int = 0, seed: int = 0
) -> dict[str, Any]:
    """Draw images, any two of which make a pair, and store them as `gradicon prepare` stores scans.

    Args:
        out: the folder of prepared data to make.
        config: the shape of the images, which is square, and pairs = "inter".
        count: how many images to train on.
        validation: how many pairs to judge by, of images that are not trained on.
        seed: other seeds make other images.

    Returns:
        What dataset.json says.
    """
    if config.pairs != "inter":
        raise GradiconError(
            'any two triangles and circles make a pair: say pairs = "inter" under [data], '
            f"not {config.pairs!r}"
        )
    if len(config.shape) != 2 or config.shape[0] != config.shape[1]:
        raise GradiconError(
            "triangles and circles are 2-D and square: [data] shape must be two equal numbers, "
            f"got {list(config.shape)}"
        )
    if count < 2:
        raise GradiconError(f"pairs of images need at least two of them, got {count}")
    size = config.shape[0]
    judged = triangles_and_circles(2 * validation, size, seed=(seed, 1))
    order = np.random.default_rng((seed, 2)).permutation(2 * validation)
    images = np.concatenate([triangles_and_circles(count, size, seed=seed), judged[order]])
    pairs = [(count + 2 * k, count + 2 * k + 1) for k in range(validation)]
    return store_arrays(out, images, config, train=range(count), validation_pairs=pairs)


def triangles_and_circles(count: int, size: int = 128, *, seed: int | Sequence[int] = 0) -> Images:
    """Hollow shapes (N, H, W), first triangles, then as many circles, as in the ICON paper.

    Centre, radius and rotation are random.

    The outline is 1 / cosh^2(40 d), with d the distance from the shape's edge in lengths of the
    image.
    """
    rng = np.random.default_rng(seed)
    centre = rng.uniform(0.4, 0.7, (2, count, 1, 1)).astype(np.float32)
    radius = rng.uniform(0.2, 0.4, (count, 1, 1)).astype(np.float32)
    angle = rng.uniform(0, 2 * np.pi, (count, 1, 1)).astype(np.float32)
    axis = np.linspace(0, 1, size, dtype=np.float32)
    half = count // 2
    y = axis[:, None] - centre[0]
    x = axis - centre[1]
    sides = [
        _line(y[:half], x[:half], angle[:half] + np.float32(turn), radius[:half])
        for turn in np.arange(3) * 2 * np.pi / 3
    ]
    distance = np.concatenate(
        [np.maximum.reduce(sides), np.hypot(y[half:], x[half:]) - radius[half:]]
    )
    return 1 - np.tanh(_EDGE * distance) ** 2


def _line(y: Images, x: Images, angle: Images, radius: Images) -> Images:
    """How far (y, x) is beyond a side of a triangle with corners at `radius`.

    It is radius / 2 from the centre. Inside, a point is beyond none of the three.
    """
    return (np.cos(angle) * y + np.sin(angle) * x - radius / 2).astype(np.float32)
