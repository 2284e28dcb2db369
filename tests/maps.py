"""Smooth maps of known form, to test against."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from gradicon.core.sampling import unit_grid
from gradicon.core.transform import DisplacementField, Transform


@dataclass(frozen=True, eq=False)
class Wave(Transform):
    """x_i + amplitude * sin(2 pi x_j + phase), with j the next axis: smooth, with a Jacobian of
    determinant not 1.
    """

    amplitude: float
    phase: float = 0.0
    dtype: torch.dtype = torch.float64

    def __call__(self, x: Tensor) -> Tensor:
        return x + self.amplitude * torch.sin(2 * math.pi * x.roll(1, 1) + self.phase + x)

    def on_grid(self, shape: Sequence[int]) -> Tensor:
        return self(unit_grid(shape, like=torch.zeros((), dtype=self.dtype)))

    def to(self, target: torch.device | torch.dtype | str) -> "Wave":
        raise NotImplementedError(target)


def smooth_field(
    shape: Sequence[int], seed: int, *, size: float = 0.05, dtype: torch.dtype = torch.float64
) -> DisplacementField:
    """A random displacement field of low frequency, whose components do not exceed `size`."""
    generator = torch.Generator().manual_seed(seed)
    x = unit_grid(shape, like=torch.zeros((), dtype=dtype))
    components = []
    for _ in shape:
        frequency = 2 * torch.rand(len(shape), generator=generator, dtype=dtype) - 1
        phase = 6 * torch.rand((), generator=generator, dtype=dtype)
        components.append(
            size * torch.sin(math.pi * torch.einsum("d,bd...->b...", frequency, x) + phase)
        )
    return DisplacementField(torch.stack(components, 1))


def blobs(shape: Sequence[int], seed: int, *, dtype: torch.dtype = torch.float32) -> Tensor:
    """An image (1, 1, *shape) in [0,1] with structure everywhere: a sum of random waves."""
    generator = torch.Generator().manual_seed(seed)
    x = unit_grid(shape, like=torch.zeros((), dtype=dtype))
    image = torch.zeros(1, *shape, dtype=dtype)
    for _ in range(12):
        frequency = 16 * torch.rand(len(shape), generator=generator, dtype=dtype) - 8
        phase = 6 * torch.rand((), generator=generator, dtype=dtype)
        image = image + torch.cos(math.pi * torch.einsum("d,bd...->b...", frequency, x) + phase)
    return ((image - image.min()) / (image.max() - image.min()))[:, None]
