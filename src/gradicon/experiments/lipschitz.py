"""Maps near the identity, Id + v (appendix A.1): how steep may v be before the map folds?

The paper: if |v(x) - v(y)| <= L |x - y| with L < 1, then Id + v is injective; for a smooth v that
is |grad v(x)| <= L everywhere (the spectral norm), and Id + v is a diffeomorphism. So

    |phi(x) - phi(y)| >= (1 - L) |x - y|   and   det grad phi >= (1 - L)^D.

Fields are formulas on the unit cube, in double precision, and their Jacobians exact. The
largest norm is searched for on a grid and between its points; folds are those of the grid.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, pi, sqrt

import torch
from torch import Tensor

from gradicon.core.objective import gradient_inconsistency, inconsistency
from gradicon.core.points import one_per_cell
from gradicon.core.transform import identity
from gradicon.experiments.exact_maps import Formula, jacobian
from gradicon.experiments.study import Numbers

Field = Callable[[Tensor], Tensor]
_WAVES = 8  # in a random field
_SHORTEST = 1e-4  # of the distances between pairs of points, which go up to the cube's size
# of the search for the steepest place: halvings of the grid, and places that are kept
_ROUNDS, _PEAKS = 16, 10
_STEEP = 1.5  # of fields that fold somewhere, though their penalty may be small


def random_field(dimension: int, frequency: float, seed: int) -> Field:
    """A sum of plane waves with random directions, phases and amplitudes: smooth, of any size.

    Args:
        dimension: D.
        frequency: periods of each wave across the cube, along its own direction.
        seed: which field.
    """
    source = torch.Generator().manual_seed(seed)
    size, turn = (
        torch.randn(dimension, _WAVES, dtype=torch.float64, generator=source) for _ in range(2)
    )
    k = 2 * pi * frequency * turn / turn.norm(dim=0)
    phases = 2 * pi * torch.rand(_WAVES, dtype=torch.float64, generator=source)

    def field(x: Tensor) -> Tensor:
        turns = torch.einsum("aw,bap->bwp", k, x.flatten(2)) + phases[:, None]
        return torch.einsum("iw,bwp->bip", size, turns.cos()).reshape(x.shape)

    return field


def squeezing_wave(dimension: int, frequency: float) -> Field:
    """A wave along its own direction, of slope 1: it brings places nearer to each other."""
    return _wave(dimension, frequency, component=0)


def shearing_wave(dimension: int, frequency: float) -> Field:
    """A wave across its direction, of slope 1: it moves places past each other."""
    return _wave(dimension, frequency, component=1)


def _wave(dimension: int, frequency: float, *, component: int) -> Field:
    axis = torch.eye(dimension, dtype=torch.float64)[component][:, None]
    k = 2 * pi * frequency
    return lambda x: axis * torch.sin(k * x[:, :1]) / k


@dataclass(frozen=True)
class Steepness:
    """What is known of a field v, so that s v is known for any s.

    Args:
        slopes: grad v on a grid, (N, D, D).
        steepest: grad v where its spectral norm is largest, (D, D), sought between the grid's
            points.
        apart: x - y of pairs of points, (D, M).
        changes: v(x) - v(y) of the same, (D, M).
        size: the root mean square of |v|.
    """

    slopes: Tensor
    steepest: Tensor
    apart: Tensor
    changes: Tensor
    size: float

    @property
    def constant(self) -> float:
        """The Lipschitz constant: the largest spectral norm of grad v."""
        return float(torch.linalg.matrix_norm(self.steepest, 2))

    @property
    def frobenius(self) -> float:
        """The largest Frobenius norm of grad v on the grid."""
        return float(self.slopes.norm(dim=(1, 2)).max())

    @property
    def stretch(self) -> float:
        """The largest |v(x) - v(y)| / |x - y| over the pairs."""
        return float((self.changes.norm(dim=0) / self.apart.norm(dim=0)).max())

    @property
    def fold(self) -> float | None:
        """The s at which Id + s v begins to fold: -1 over the least real eigenvalue of grad v.

        None where it never folds.
        """
        values = torch.linalg.eigvals(self.slopes)
        nothing = 1e-9 * self.constant
        least = float(values.real.where(values.imag.abs() < nothing, 0).min())
        return -1 / least if least < -nothing else None

    def scaled_map(self, s: float) -> Numbers:
        """Of Id + s v: the least determinant, the folds in per cent, the least |phi(x) - phi(y)| /
        |x - y| over pairs of points, those that lie infinitely near each other included.
        """
        gradient = torch.eye(len(self.apart), dtype=torch.float64) + s * self.slopes
        determinants = torch.linalg.det(gradient)
        ratios = (self.apart + s * self.changes).norm(dim=0) / self.apart.norm(dim=0)
        near = torch.linalg.matrix_norm(gradient, -2).min()
        return {
            "determinant": float(determinants.min()),
            "folds": 100 * float((determinants <= 0).double().mean()),
            "ratio": min(float(ratios.min()), float(near)),
        }


def measure_field(v: Field, dimension: int, *, cells: int, pairs: int) -> Steepness:
    """Look at a field on a grid, and at pairs of points.

    Args:
        v: the field.
        dimension: D.
        cells: of the grid, along each axis; v is seen in their middles.
        pairs: how many pairs of points, at all distances.
    """
    x = one_per_cell(torch.full((dimension, *[cells] * dimension), 0.5, dtype=torch.float64))
    source = torch.Generator().manual_seed(0)
    ends, other = (
        torch.rand(1, dimension, pairs, dtype=torch.float64, generator=source) for _ in range(2)
    )
    # Between two points of the cube, at distances of all magnitudes, so inside of it.
    part = torch.exp(log(_SHORTEST) * torch.rand(pairs, dtype=torch.float64, generator=source))
    starts = ends + part * (other - ends)
    slopes = jacobian(v, x)
    return Steepness(
        slopes,
        _climb(v, x, slopes, 1 / cells),
        (starts - ends)[0],
        (v(starts) - v(ends))[0],
        sqrt(float((v(x) ** 2).sum(1).mean())),
    )


def _climb(v: Field, x: Tensor, slopes: Tensor, width: float) -> Tensor:
    """grad v where it is steepest: the steepest points of a grid, and then finer and finer grids
    about them.
    """
    dimension = x.shape[1]
    offsets = 2 * one_per_cell(torch.full((dimension, *[5] * dimension), 0.5).double()) - 1
    for _ in range(_ROUNDS):
        best = torch.linalg.matrix_norm(slopes, 2).topk(_PEAKS).indices
        around = x[..., best, None] + width * offsets[..., None, :]
        x = torch.cat([x[..., best], around.flatten(2).clamp(0, 1)], 2)
        slopes = jacobian(v, x)
        width /= 2
    return slopes[torch.linalg.matrix_norm(slopes, 2).argmax()]


def sweep_constant(seen: Steepness, constants: Sequence[float]) -> list[Numbers]:
    """The maps Id + v, with v scaled to each Lipschitz constant."""
    return [
        {"constant": constant, **seen.scaled_map(constant / seen.constant)}
        for constant in constants
    ]


def bounds(constant: float, dimension: int) -> Numbers:
    """What the statement gives for a Lipschitz constant: nothing from 1 on."""
    ratio = max(1 - constant, 0.0)
    return {"ratio": ratio, "determinant": ratio**dimension}


def small_but_steep(name: str, length: float, cells: int) -> Numbers:
    """Both penalties of Id + v on the square, where v is small but has a slope of 1.5 somewhere.

    Args:
        name: "wave", fast, or "dent", narrow.
        length: the period of the wave, or the width of the dent.
        cells: along each axis, with one point of the penalties in each.
    """
    v = _steep_wave(length) if name == "wave" else _dent(length)
    jitter = torch.rand(
        2, cells, cells, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    x = one_per_cell(jitter)
    phi = Formula(lambda p: p + v(p))
    still = identity(2, dtype=torch.float64)
    determinants = torch.linalg.det(jacobian(phi, x))
    return {
        "field": name,
        "length": length,
        "icon": float(inconsistency(phi, still, x)),
        "gradicon": float(gradient_inconsistency(phi, still, x, step=1e-6)),
        "determinant": float(determinants.min()),
        "folds": 100 * float((determinants <= 0).double().mean()),
    }


def _steep_wave(length: float) -> Field:
    wave = squeezing_wave(2, 1 / length)
    return lambda x: _STEEP * wave(x)


def _dent(width: float) -> Field:
    """Places near the middle come nearer to each other along the first axis."""
    axis = torch.tensor([1.0, 0.0], dtype=torch.float64)[:, None]

    def field(x: Tensor) -> Tensor:
        z = (x - 0.5) / width
        return -_STEEP * width * axis * z[:, :1] * torch.exp(-(z**2).sum(1, keepdim=True) / 2)

    return field
