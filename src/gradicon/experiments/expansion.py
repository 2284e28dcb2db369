"""The expansion of GradICON's penalty in the size of a noise (Sec. 3.3), term by term.

Maps phi_ab and phi_ba undo each other exactly; a network returns phi_ab + eps n_ab and phi_ba + eps
n_ba. With A = grad phi_ba, so that grad phi_ab(phi_ba) = A^-1, the chain rule gives

    grad(composition) - I = eps (K + T) + O(eps^2),
    K = grad n_ab(phi_ba) A + A^-1 grad n_ba,       which the paper keeps (Eq. 7),
    T = (grad^2 phi_ab(phi_ba) n_ba) A,             which it drops, since |n| << |grad n|.

Everything is in double precision. Both sides are taken at the same points, so the remainders are of
the expansion alone; nothing is taken in expectation.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from gradicon.experiments.exact_maps import Pair, add_noise, jacobian, white_gradient
from gradicon.experiments.implicit import exact_penalty
from gradicon.experiments.study import Numbers

Map = Callable[[Tensor], Tensor]
# what is expanded: where the paper has it, the order of what is left as it says, and Taylor's order
REMAINDERS: dict[str, tuple[str, str, int]] = {
    "grad ab(ba + eps n), no term in n": ("Eq. 6", "above 1", 1),
    "grad ab(ba + eps n), with it": ("Eq. 5", "above 1", 2),
    "grad n_ab(ba + eps n)": ("A.1", "1", 1),
    "inverse of ab + eps n": ("A.1", "above 1", 2),
    "penalty, no term in n": ("Eq. 7", "above 2", 2),
    "penalty, with it": ("A.1", "above 2", 3),
    "penalty, with it, mean of n and -n": ("A.1", "above 2", 4),
}


def directional_jacobian(phi: Map, x: Tensor, direction: Tensor) -> Tensor:
    """grad^2 phi(x) n: how the Jacobian at each point changes along a direction, exactly.

    Entry (i, j) of each matrix is sum_k d_k d_j phi_i n_k.
    """
    x = x.detach().requires_grad_()
    rows = [
        torch.autograd.grad(component.sum(), x, create_graph=True)[0][0] for component in phi(x)[0]
    ]
    changes = [
        torch.stack([_change(entry, x, direction) for entry in row.unbind(0)]) for row in rows
    ]
    return torch.stack(changes).movedim(-1, 0)


def _change(values: Tensor, x: Tensor, direction: Tensor) -> Tensor:
    """The derivative of each point's value along a direction."""
    if not values.requires_grad:  # the same at all points
        return torch.zeros_like(values)
    slope = torch.autograd.grad(values.sum(), x, retain_graph=True, materialize_grads=True)[0]
    return (slope * direction)[0].sum(0)


def first_order(pair: Pair, frequency: float, seed: int, x: Tensor) -> tuple[Tensor, Tensor]:
    """K, which the paper keeps, and T, which it drops: matrices (N, D, D) at the points."""
    y = pair.ba(x)
    n_ab, n_ba = noises(frequency, seed)
    a = jacobian(pair.ba, x)
    kept = jacobian(n_ab, y) @ a + jacobian(pair.ab, y) @ jacobian(n_ba, x)
    return kept, directional_jacobian(pair.ab, y, n_ba(x)) @ a


def noises(frequency: float, seed: int) -> tuple[Map, Map]:
    """n_ab and n_ba, as `add_noise` adds them for an even seed."""
    return white_gradient(frequency, 2 * (seed // 2)), white_gradient(
        frequency, 2 * (seed // 2) + 1
    )


def measure_remainders(
    pair: Pair, frequency: float, seed: int, x: Tensor, sizes: list[float]
) -> dict[str, list[float]]:
    """What each expansion leaves, by its name in `REMAINDERS`, for each eps of `sizes`.

    The remainders of maps and matrices are root mean squares, those of the penalty (as printed: the
    squared Frobenius norm, integrated) are absolute values.

    Args:
        pair: the exact inverses.
        frequency: periods of the noises across the square.
        seed: of the noises; an even number.
        x: the points (1, 2, N).
        sizes: the eps, the sizes of the gradients of the noises.
    """
    kept, dropped = first_order(pair, frequency, seed, x)
    paper = float((kept**2).sum((1, 2)).mean())
    full = float(((kept + dropped) ** 2).sum((1, 2)).mean())
    found: dict[str, list[float]] = {name: [] for name in REMAINDERS}
    for eps in sizes:
        two = [_penalty(add_noise(pair, sign * eps, frequency, seed), x) for sign in (1, -1)]
        left = [
            *_remainders_of_maps(pair, frequency, seed, x, eps),
            abs(two[0] - eps**2 * paper),
            abs(two[0] - eps**2 * full),
            abs(sum(two) / 2 - eps**2 * full),
        ]
        for name, value in zip(REMAINDERS, left, strict=True):
            found[name].append(value)
    return found


def _remainders_of_maps(
    pair: Pair, frequency: float, seed: int, x: Tensor, eps: float
) -> list[float]:
    n_ab, n_ba = noises(frequency, seed)
    y = pair.ba(x)
    there = y + eps * n_ba(x)
    bend = jacobian(pair.ab, there) - jacobian(pair.ab, y)
    inverse = y - eps * _apply(jacobian(pair.ba, x), n_ab(y))  # to first order, the paper's
    off = pair.ab(inverse) + eps * n_ab(inverse) - x
    return [
        root_mean_square(bend),
        root_mean_square(bend - eps * directional_jacobian(pair.ab, y, n_ba(x))),
        root_mean_square(jacobian(n_ab, there) - jacobian(n_ab, y)),
        root_mean_square(off[0].T[..., None]),
    ]


def measure_dropped(pair: Pair, frequency: float, seed: int, x: Tensor) -> Numbers:
    """How large what the paper drops is beside what it keeps, for noise of some periods.

    - noise: |n| / |grad n|, which the paper takes to be small.
    - term: |T| / |K|, root mean squares.
    - penalty: what T adds to the penalty, (|K + T|^2 - |K|^2) / |K|^2, at the order eps^2.
    """
    kept, dropped = first_order(pair, frequency, seed, x)
    _, n = noises(frequency, seed)
    without = (kept**2).sum((1, 2)).mean()
    return {
        "frequency": frequency,
        "noise": root_mean_square(n(x)[0].T[..., None]) / root_mean_square(jacobian(n, x)),
        "term": root_mean_square(dropped) / root_mean_square(kept),
        "penalty": float(((kept + dropped) ** 2).sum((1, 2)).mean() / without - 1),
    }


def measure_correlation(seed: int, voxels: int) -> float:
    """How far apart both sides of Eq. 11 are, as a part of them, for a random field psi.

    The equation is sum |psi(x + d) - psi(x)|^2 / d^2 = 2 |psi|^2 / d^2 (1 - <psi, psi(. + d)> /
    |psi|^2), d one voxel, for fields on a grid that goes round; summed over its two axes.
    """
    source = torch.Generator().manual_seed(seed)
    psi = torch.rand(2, voxels, voxels, dtype=torch.float64, generator=source)
    ahead = [psi.roll(-1, axis) for axis in (1, 2)]
    square = (psi**2).sum()
    left = torch.stack([((each - psi) ** 2).sum() for each in ahead]).sum()
    right = torch.stack([2 * square * (1 - (psi * each).sum() / square) for each in ahead]).sum()
    return float((left / right - 1).abs())


def root_mean_square(matrices: Tensor) -> float:
    """The root of the mean squared Frobenius norm of matrices (N, i, j)."""
    return float((matrices**2).sum((1, 2)).mean().sqrt())


def _penalty(maps: Pair, x: Tensor) -> float:
    """As printed: the sum over components, where the library takes their mean."""
    return x.shape[1] * exact_penalty(maps, x)


def _apply(matrices: Tensor, vectors: Tensor) -> Tensor:
    """Each point's matrix (N, D, D) times its vector (1, D, N)."""
    return torch.einsum("nij,bjn->bin", matrices, vectors)
