"""Transforms: immutable, callable values. Read this file first.

A transform is a batch of functions [0,1]^D -> R^D. It knows nothing of resolution, millimetres,
files or networks.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from gradicon.core.sampling import displace, unit_grid
from gradicon.errors import GradiconError


class Transform(ABC):
    """A batch of functions phi: [0,1]^D -> R^D, in the coordinates of `gradicon.core.sampling`."""

    @abstractmethod
    def __call__(self, x: Float[Tensor, "_ d *p"]) -> Float[Tensor, "_ d *p"]:
        """phi(x), at any coordinates: a grid or a list of points."""

    @abstractmethod
    def on_grid(self, shape: Sequence[int]) -> Float[Tensor, "_ d *s"]:
        """phi at every voxel of a grid, without interpolation where phi is stored on that very
        grid.
        """

    @abstractmethod
    def to(self, target: torch.device | torch.dtype | str) -> "Transform":
        """The same function on another device or in another precision."""

    def __matmul__(self, inner: "Transform") -> "Composition":
        """phi @ psi is x -> phi(psi(x))."""
        return Composition(self, inner)

    def materialise(self, shape: Sequence[int]) -> "DisplacementField":
        """phi as one displacement field on a grid: equal to phi at its voxels, interpolated between
        them.
        """
        on_grid = self.on_grid(shape)
        return DisplacementField(on_grid - unit_grid(shape, like=on_grid))


@final
@dataclass(frozen=True, eq=False)
class DisplacementField(Transform):
    """phi(x) = x + u(x), with u (B, D, *S) in unit-cube coordinates, read linearly and constant
    beyond the cube.
    """

    u: Float[Tensor, "b d *s"]

    def __post_init__(self) -> None:
        if self.u.ndim not in (4, 5) or self.u.shape[1] != self.u.ndim - 2:
            raise GradiconError(
                "a displacement field has shape (B, 2, H, W) or (B, 3, D, H, W), got "
                f"{tuple(self.u.shape)}"
            )
        _check_precision("a displacement field", self.u)

    def __call__(self, x: Float[Tensor, "_ d *p"]) -> Float[Tensor, "_ d *p"]:
        return displace(self.u, x)

    def on_grid(self, shape: Sequence[int]) -> Float[Tensor, "_ d *s"]:
        x = unit_grid(shape, like=self.u)
        return x + self.u if tuple(shape) == self.u.shape[2:] else self(x)

    def to(self, target: torch.device | torch.dtype | str) -> "DisplacementField":
        return DisplacementField(self.u.to(target))


@final
@dataclass(frozen=True, eq=False)
class Affine(Transform):
    """phi(x) = A x + t, with A (B, D, D) and t (B, D) in unit-cube coordinates."""

    matrix: Float[Tensor, "b d d"]
    offset: Float[Tensor, "b d"]

    def __post_init__(self) -> None:
        if (
            self.matrix.ndim != 3
            or self.matrix.shape[1] != self.matrix.shape[2]
            or self.offset.shape != self.matrix.shape[:2]
        ):
            shapes = f"{tuple(self.matrix.shape)} and {tuple(self.offset.shape)}"
            raise GradiconError(
                f"an affine has a matrix (B, D, D) and an offset (B, D), got {shapes}"
            )
        _check_precision("an affine matrix", self.matrix)

    def __call__(self, x: Float[Tensor, "_ d *p"]) -> Float[Tensor, "_ d *p"]:
        if x.shape[1] != self.matrix.shape[1]:
            raise GradiconError(
                f"a {self.matrix.shape[1]}-D affine needs {self.matrix.shape[1]} "
                f"components, got {tuple(x.shape)}"
            )
        linear = torch.matmul(self.matrix, x.flatten(2))
        return (linear + self.offset[..., None]).reshape(-1, *x.shape[1:])

    def on_grid(self, shape: Sequence[int]) -> Float[Tensor, "_ d *s"]:
        return self(unit_grid(shape, like=self.matrix))

    def to(self, target: torch.device | torch.dtype | str) -> "Affine":
        return Affine(self.matrix.to(target), self.offset.to(target))


@final
@dataclass(frozen=True, eq=False)
class Composition(Transform):
    """phi(x) = outer(inner(x))."""

    outer: Transform
    inner: Transform

    def __call__(self, x: Float[Tensor, "_ d *p"]) -> Float[Tensor, "_ d *p"]:
        return self.outer(self.inner(x))

    def on_grid(self, shape: Sequence[int]) -> Float[Tensor, "_ d *s"]:
        return self.outer(self.inner.on_grid(shape))

    def to(self, target: torch.device | torch.dtype | str) -> "Composition":
        return Composition(self.outer.to(target), self.inner.to(target))


def identity(
    dimension: int, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Affine:
    """The map x -> x."""
    matrix = torch.eye(dimension, dtype=dtype, device=device)[None]
    return Affine(matrix, torch.zeros_like(matrix[..., 0]))


def _check_precision(name: str, value: Tensor) -> None:
    if value.dtype not in (torch.float32, torch.float64):
        raise TypeError(
            f"{name} must be float32 or float64, got {value.dtype}: half precision near 1 "
            "is half a voxel wide"
        )


# So that torch.export takes a network whose answer is a transform.
for _class in (DisplacementField, Affine, Composition):
    torch.export.register_dataclass(_class)
