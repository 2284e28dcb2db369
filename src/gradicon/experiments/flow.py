"""The gradient flow of a penalty (appendix A.1): how fast a wave in the composition decays.

Two maps start as exact inverses, but for a wave that is put into their composition: psi = phi_ab o
phi_ba - Id = a e, e a product of cosines. Then both maps go down the gradient of the library's own
penalty: phi_ab + v_ab and phi_ba + v_ba, where the v are fields on a grid, read linearly.

With both maps moving, d psi / dt = -(B B* + C C*) dL / d psi, where B v = v o phi_ba and C v = grad
phi_ab(phi_ba) v. So for exact inverses with R = grad phi_ab(phi_ba) the paper's flows read

    d psi / dt = M 2 Laplace psi (GradICON),   M = det R + R R^T,

and M is 2 for the identity. ICON's is 8 psi there, since it counts both compositions. In the mean
square as metric, so nothing depends on the voxels.
"""

from dataclasses import dataclass
from itertools import pairwise
from math import ceil, cos, pi, prod, tan

import torch
from jaxtyping import Float
from torch import Tensor

from gradicon.core.objective import Penalty, gradient_inconsistency, inconsistency
from gradicon.core.points import one_per_cell
from gradicon.core.sampling import sample, unit_grid
from gradicon.core.transform import Transform
from gradicon.experiments.exact_maps import Formula, Pair, jacobian

STEP = 1e-3  # of the penalty's finite differences: the library's
_STEEPNESS = 1e-2  # |grad psi| at the start: small, so that the flow is linear
_STEPS = 20  # of a run, at least, so that it is a flow


@dataclass(frozen=True)
class Wave:
    """A product of cosines, flat at both ends of the image along each axis.

    Args:
        halves: half periods across the image along each axis.
    """

    halves: tuple[int, ...]

    @property
    def squared(self) -> float:
        """|omega|^2, omega = 2 pi / period along each axis, in lengths of the unit cube."""
        return sum((pi * half) ** 2 for half in self.halves)

    def squared_on(self, shape: tuple[int, ...]) -> float:
        """|omega|^2 as a grid has it: what slopes in the middles of its cells make of the wave.

        Along each axis omega is 2 (n - 1) sin(omega / 2 (n - 1)), and the cosines along the other
        axes are averaged over two voxels.
        """
        angles = [pi * half / 2 / (n - 1) for half, n in zip(self.halves, shape, strict=True)]
        average = prod(cos(angle) ** 2 for angle in angles)
        slopes = [2 * (n - 1) * tan(angle) for angle, n in zip(angles, shape, strict=True)]
        return average * sum(slope**2 for slope in slopes)

    def at(self, x: Float[Tensor, "1 d *p"]) -> Float[Tensor, "1 1 *p"]:
        """The wave at points."""
        along = [torch.cos(pi * half * x[:, axis]) for axis, half in enumerate(self.halves)]
        return torch.stack(along).prod(0)[:, None]


@dataclass(frozen=True)
class Flow:
    """A penalty, where it is measured, and what is known of the rates of its flow.

    Args:
        penalty: of two maps at points.
        points: (1, D, *P), spread over the cube.
        share: how many points a voxel has to itself, (1, 1, *S): its weight in the metric.
        fastest: the largest rate that the grid can hold, near the identity.
    """

    penalty: Penalty
    points: Tensor
    share: Tensor
    fastest: float

    @property
    def grid(self) -> Tensor:
        """The places of the voxels, (1, D, *S)."""
        return unit_grid(self.share.shape[2:], like=self.share)


def gradicon_flow(shape: tuple[int, ...]) -> Flow:
    """GradICON, with one point in the middle of each cell between voxels."""
    cells = [n - 1 for n in shape]
    middles = torch.full((len(shape), *cells), 0.5, dtype=torch.float64)
    share = torch.ones(1, 1, *shape, dtype=torch.float64)
    for axis in range(2, share.ndim):  # a voxel at the border has half a cell along that axis
        share.narrow(axis, 0, 1).mul_(0.5)
        share.narrow(axis, -1, 1).mul_(0.5)

    def penalty(ab: Transform, ba: Transform, x: Tensor) -> Tensor:
        return gradient_inconsistency(ab, ba, x, step=STEP)

    points = one_per_cell(middles) - STEP / 2  # so that a difference is about the middle
    return Flow(penalty, points, share, 4 * sum(4.0 * n**2 for n in cells))


def icon_flow(shape: tuple[int, ...]) -> Flow:
    """ICON, with one point at each voxel."""
    share = torch.ones(1, 1, *shape, dtype=torch.float64)
    return Flow(inconsistency, unit_grid(shape, like=share), share, 8.0)


def expected_rate(pair: Pair, wave: Wave, x: Tensor) -> float:
    """GradICON's rate of a wave along the first component, at the start: 2 |omega|^2 <e, M e>.

    The mean over the points x stands for the integrals; it is 4 |omega|^2 for the identity.
    """
    r = jacobian(pair.ab, pair.ba(x.flatten(2)))
    m = torch.linalg.det(r) + (r[:, 0] ** 2).sum(1)
    weight = wave.at(x).flatten() ** 2
    return 2 * wave.squared * float((m * weight).sum() / weight.sum())


def decay(flow: Flow, pair: Pair, wave: Wave, guess: float, loss: float) -> list[float]:
    """Go down the penalty. Returns its rate of the wave, -d log(amplitude) / dt, at every step.

    Args:
        flow: the penalty, and where it is measured.
        pair: the exact inverses at the start.
        wave: what is put into the first component of their composition.
        guess: the rate, about, from which the time step and the number of steps follow.
        loss: of the logarithm of the wave's amplitude, about, when the run ends.
    """
    v = torch.zeros(2, *flow.grid.shape, dtype=torch.float64)
    v[0, :, :1] = _STEEPNESS / wave.squared**0.5 * wave.at(pair.ab(flow.grid))
    dt = min(loss / _STEPS / guess, 0.25 / flow.fastest)
    amplitudes = [_amplitude(_moved(pair, v), flow.grid, wave)]
    for _ in range(ceil(loss / guess / dt)):
        v = _descend(flow, pair, v, dt)
        amplitudes.append(_amplitude(_moved(pair, v), flow.grid, wave))
    # 1 - after / before, not the logarithm: Euler's steps are then without an error of their own
    return [(1 - after / before) / dt for before, after in pairwise(amplitudes)]


def _descend(flow: Flow, pair: Pair, v: Tensor, dt: float) -> Tensor:
    """One step of steepest descent, in the metric in which a voxel weighs what its points do."""
    v = v.detach().requires_grad_()
    # The penalty is a mean over points and components: its gradient at one voxel is the smaller,
    # the more there are.
    count = flow.points.numel()
    maps = _moved(pair, v)
    slope = torch.autograd.grad(count * flow.penalty(maps.ab, maps.ba, flow.points), v)[0]
    return (v - dt * slope / flow.share).detach()


def _moved(pair: Pair, v: Tensor) -> Pair:
    return Pair(
        Formula(lambda x: pair.ab(x) + sample(v[0], x)),
        Formula(lambda x: pair.ba(x) + sample(v[1], x)),
    )


def _amplitude(maps: Pair, x: Tensor, wave: Wave) -> float:
    """Of the wave in the first component of psi."""
    e = wave.at(x)
    psi = maps.ab(maps.ba(x)) - x
    return float((psi[:, :1] * e).sum() / (e**2).sum())
