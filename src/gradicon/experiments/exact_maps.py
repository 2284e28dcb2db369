"""Pairs of maps of the unit square whose inverses are known exactly, and noise to add to them.

Everything is in double precision and in lengths of the unit square. Points x are (B, 2, *P).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import pi, sqrt
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from gradicon.core.sampling import unit_grid
from gradicon.core.transform import Transform

_WAVES = 32  # in a noise: two would have its covariance, more make one draw more like the next


@final
@dataclass(frozen=True, eq=False)
class Formula(Transform):
    """A map given by a formula, in the precision of the points it is asked at."""

    function: Callable[[Tensor], Tensor]

    def __call__(self, x: Float[Tensor, "_ d *p"]) -> Float[Tensor, "_ d *p"]:
        return self.function(x)

    def on_grid(self, shape: Sequence[int]) -> Float[Tensor, "_ d *s"]:
        return self(unit_grid(shape, like=torch.zeros((), dtype=torch.float64)))

    def to(self, target: torch.device | torch.dtype | str) -> "Formula":  # noqa: ARG002 (it has no precision)
        return self


@dataclass(frozen=True)
class Pair:
    """The maps phi_ab and phi_ba of two images a and b, one each way."""

    ab: Transform
    ba: Transform


def exact_pair(strength: float, seed: int) -> Pair:
    """Exact inverses of the unit square onto itself, the stronger the more they deform.

    Each axis is squeezed by x -> k x / (1 + (k - 1) x), which the same formula with 1/k undoes, and
    which leaves 0 and 1 where they are. The amount k varies along the other axis: log k is
    `strength` times a random wave of one and two periods. phi_ab squeezes the first axis, then
    the second; phi_ba undoes the second, then the first.
    """
    source = torch.Generator().manual_seed(seed)
    weights, phases = (torch.rand(2, 2, dtype=torch.float64, generator=source) for _ in range(2))

    def squeeze(x: Tensor, axis: int, sign: int) -> Tensor:
        along = [
            torch.sin(2 * pi * ((f + 1) * x[:, 1 - axis] + phases[axis, f])) * weights[axis, f]
            for f in range(2)
        ]
        k = torch.exp(sign * strength * (along[0] + along[1]))
        moved = k * x[:, axis] / (1 + (k - 1) * x[:, axis])
        return torch.stack([moved, x[:, 1]] if axis == 0 else [x[:, 0], moved], 1)

    return Pair(
        Formula(lambda x: squeeze(squeeze(x, 0, 1), 1, 1)),
        Formula(lambda x: squeeze(squeeze(x, 1, -1), 0, -1)),
    )


def white_gradient(frequency: float, seed: int) -> Callable[[Tensor], Tensor]:
    """A noise n whose gradient has uncorrelated components of variance 1.

    Each component of n is a sum of plane waves of `frequency` periods across the square, with
    random phases, so n itself deviates by sqrt(D) / (2 pi frequency), D = 2. The directions are
    spread evenly, from a random first one: fewer draws are needed than if each were random.
    """
    source = torch.Generator().manual_seed(seed)
    turn, phases = (torch.rand(2, n, dtype=torch.float64, generator=source) for n in (1, _WAVES))
    # half a circle of directions is enough: a wave goes both ways
    angles = pi * (torch.arange(_WAVES) + turn) / _WAVES
    phases = 2 * pi * phases
    k = 2 * pi * frequency * torch.stack([angles.cos(), angles.sin()], 1)  # component, axis, wave
    # a cosine has variance 1/2, and each derivative takes 1/D of k^2: hence 2 D / waves
    size = sqrt(2 * 2 / _WAVES) / (2 * pi * frequency)

    def noise(x: Tensor) -> Tensor:
        turns = (
            torch.einsum("iaw,bap->biwp", k.to(x.device), x.flatten(2))
            + phases.to(x.device)[..., None]
        )
        return (size * turns.cos().sum(2)).reshape(x.shape)

    return noise


def add_noise(pair: Pair, eps: float, frequency: float, seed: int) -> Pair:
    """What a network might return: phi_ab + eps n_ab and phi_ba + eps n_ba.

    The noises are independent, each of them a `white_gradient`. An odd seed has the noises of the
    even seed before it, n_ba with the other sign. What is linear in n_ba cancels in the mean of
    such two, so fewer draws are needed.

    Args:
        pair: the exact inverses.
        eps: the size of the gradients of the noises.
        frequency: periods of the noises across the square.
        seed: which draw.
    """
    n_ab, n_ba = (white_gradient(frequency, 2 * (seed // 2) + k) for k in range(2))
    sign = 1 - 2 * (seed % 2)
    return Pair(
        Formula(lambda x: pair.ab(x) + eps * n_ab(x)),
        Formula(lambda x: pair.ba(x) + sign * eps * n_ba(x)),
    )


def jacobian(phi: Callable[[Tensor], Tensor], x: Float[Tensor, "1 d n"]) -> Float[Tensor, "n d d"]:
    """grad phi at points, exactly: entry (i, j) of each matrix is d_j phi_i."""
    x = x.detach().requires_grad_()
    rows = [
        torch.autograd.grad(component.sum(), x, retain_graph=True)[0][0] for component in phi(x)[0]
    ]
    return torch.stack(rows).movedim(-1, 0)
