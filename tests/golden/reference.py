"""Rebuilds the inputs of the golden cases from their seeds, as README.md here describes."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradicon.core.sampling import unit_grid

HERE = Path(__file__).parent
CASES = ["stage1_2d", "stage2_2d", "stage2_3d"]


@dataclass(frozen=True)
class Case:
    scalars: dict[str, Any]
    arrays: dict[str, Tensor]
    shape: tuple[int, ...]
    seed: int
    batch: int
    stage: int
    state_dict: dict[str, Tensor]

    @property
    def dimension(self) -> int:
        return len(self.shape)

    @property
    def images(self) -> tuple[Tensor, Tensor]:
        first, second = (
            torch.stack(
                [_image(self.seed * 10 + which + 2 * b, self.shape) for b in range(self.batch)]
            )[:, None]
            for which in (1, 2)
        )
        return first, second

    @property
    def noise(self) -> Tensor:
        values = np.random.RandomState(self.seed + 7).standard_normal(
            (1, self.dimension, *self.shape)
        )
        return torch.tensor(values, dtype=torch.float32)

    @property
    def points(self) -> Tensor:
        """The points of the reference's GradICON penalty."""
        jittered = unit_grid(self.shape, like=self.noise) + 2 * self.noise / self.shape[-1]
        return jittered[(..., *[slice(None, None, 2)] * self.dimension)]


@cache
def load_case(name: str) -> Case:
    case = json.loads((HERE / f"{name}.json").read_text())
    with np.load(HERE / f"{name}.npz") as arrays:
        tensors = {key: torch.from_numpy(value) for key, value in arrays.items()}
    state = {
        key: _weight(key, tuple(shape), case["seed"] * 100003 + k)
        for k, (key, shape) in enumerate(case["state_dict_keys"])
    }
    return Case(
        case["scalars"],
        tensors,
        tuple(case["shape"]),
        case["seed"],
        case["batch"],
        case["stage"],
        state,
    )


def _weight(name: str, shape: tuple[int, ...], seed: int) -> Tensor:
    if name.endswith("num_batches_tracked"):
        return torch.zeros(shape, dtype=torch.int64)
    x = np.random.RandomState(seed).standard_normal(shape)
    if name.endswith("running_var"):
        x = 1 + 0.1 * abs(x)
    elif "batchNorms" in name:
        x = 0.1 * x + (1 if name.endswith(".weight") else 0)
    elif name.endswith("lastConv.weight"):
        x = 0.004 * x
    else:
        x = 0.01 * x if name.endswith(".bias") else x / np.sqrt(np.prod(shape[1:]))
    return torch.tensor(x, dtype=torch.float32)


def _image(seed: int, shape: tuple[int, ...]) -> Tensor:
    random = np.random.RandomState(seed)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, n) for n in shape], indexing="ij"), -1)
    image = np.zeros(shape)
    for _ in range(12):
        frequency = random.uniform(-6, 6, size=len(shape))
        phase = random.uniform(0, 2 * np.pi)
        height = random.uniform(0.3, 1)
        image += height * np.cos(np.pi * (grid @ frequency) + phase)
    return torch.tensor((image - image.min()) / (image.max() - image.min()), dtype=torch.float32)
