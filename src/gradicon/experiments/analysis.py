"""The paper's mathematical analysis, statement by statement: the expansion behind Eq. 10, Eq. 11,
and in appendix A.1 the gradient flow of the penalty and the maps near the identity.

Nothing is trained; maps are formulas, in double precision. `implicit` has what the expansion comes
to in expectation, `noise` what a trained network's noise is like.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import mean, median

import torch
from torch import Tensor

from gradicon.core.points import one_per_cell
from gradicon.core.transform import identity
from gradicon.experiments import expansion, flow, lipschitz
from gradicon.experiments.analysis_report import draw, table
from gradicon.experiments.exact_maps import Pair, exact_pair
from gradicon.experiments.powers import interval, power
from gradicon.experiments.study import Numbers, Setting

__all__ = ["TITLE", "draw", "run", "table"]

TITLE = "The analysis, measured"
_SIZES = tuple(10 ** -(2.5 + k / 4) for k in range(9))  # eps: small enough that one order rules
_PERIODS = 4  # of the noises whose size varies: slow enough that the paper's term in n counts
_BENT, _GENTLE = 0.5, 0.3  # the strengths of exact pairs: of the expansion, and of the flow
_LONG, _SHORT = 0.25, 0.02  # of the logarithm of a wave, taken away by a flow
_FREQUENCIES = (1, 2, 4, 8)  # of random fields; in three dimensions the two slowest
_CONSTANTS = (0.25, 0.5, 0.75, 0.9, 0.99, 1.01, 1.1, 1.25, 1.5, 2.0, 3.0)


@dataclass(frozen=True)
class Size:
    """How much of everything.

    Args:
        seeds: pairs of maps and noises of the expansion.
        cells: along each axis, with one point each, where noises of several periods are compared.
        periods: of these noises.
        flat, solid: the voxels along each axis of a flow's fields, in two and three dimensions.
        halves: half periods of the flows' waves; of `solid` the slowest only.
        pairs: exact pairs that a flow starts from.
        fields: random fields of each dimension and frequency.
        views: the cells along each axis in which they are seen, in two and three dimensions, and
            the pairs of points.
    """

    seeds: int
    cells: int
    periods: tuple[int, ...]
    flat: int
    solid: int
    halves: tuple[int, ...]
    pairs: int
    fields: int
    views: tuple[int, int, int]


_FULL = Size(8, 128, (2, 4, 8, 16, 32), 97, 25, (2, 4, 8, 16), 4, 8, (128, 32, 100_000))
_QUICK = Size(3, 32, (2, 4, 8), 33, 9, (2, 4, 8), 3, 3, (64, 16, 10_000))


def run(setting: Setting) -> Numbers:
    """The three parts, one after the other, on the CPU whatever the device."""
    size = _QUICK if setting.quick else _FULL
    setting.tell("the expansion", 0.0)
    expanded = measure_expansion(size)
    setting.tell("the gradient flow from the identity", 0.2)
    still = flow_from_identity(size)
    setting.tell("the gradient flow from other maps", 0.6)
    pairs = flow_from_pairs(size)
    setting.tell("maps near the identity", 0.8)
    return {
        "expansion": expanded,
        "flow": {"identity": still, "pairs": pairs, **fit_rates(still, pairs)},
        "lipschitz": measure_lipschitz(size),
    }


def measure_expansion(size: Size) -> Numbers:
    """The order of what each expansion leaves, and what is dropped against the noise's periods."""
    found = [
        expansion.measure_remainders(
            exact_pair(_BENT, k), _PERIODS, 2 * k, _points(32, k), list(_SIZES)
        )
        for k in range(size.seeds)
    ]
    rows: list[Numbers] = []
    for name, (where, paper, taylor) in expansion.REMAINDERS.items():
        each = [one[name] for one in found]
        orders = interval([power(_SIZES, values) for values in each])
        left = [_middle(values) for values in zip(*each, strict=True)]
        row = {"name": name, "where": where, "paper": paper, "taylor": taylor}
        rows.append({**row, **orders, "left": left})
    dropped = [
        [
            expansion.measure_dropped(exact_pair(_BENT, k), f, 2 * k, _points(size.cells, k))
            for f in size.periods
        ]
        for k in range(size.seeds)
    ]
    return {
        "seeds": size.seeds,
        "periods": _PERIODS,
        "eps": list(_SIZES),
        "orders": rows,
        "dropped": [_mean_row(list(same)) for same in zip(*dropped, strict=True)],
        "dropped, power": interval(
            [power(size.periods, [row["term"] for row in one]) for one in dropped]
        ),
        "Eq. 11": max(expansion.measure_correlation(seed, 32) for seed in range(size.seeds)),
    }


def flow_from_identity(size: Size) -> list[Numbers]:
    """Waves along one axis and along all of them, in two and three dimensions, long enough to see
    that they decay exponentially.
    """
    waves = [(half, 0) for half in size.halves] + [(half, half) for half in size.halves[:-1]]
    solid = [(half, *rest) for half in size.halves[:2] for rest in ((0, 0), (half, half))]
    return [
        *(_flow_row(_still(2), halves, size.flat, _LONG) for halves in waves),
        *(_flow_row(_still(3), halves, size.solid, _LONG) for halves in solid),
    ]


def flow_from_pairs(size: Size) -> list[Numbers]:
    """The same waves in the composition of exact inverses that are not the identity."""
    return [
        {"seed": k, **_flow_row(exact_pair(_GENTLE, k), (half, 0), size.flat, _SHORT)}
        for k in range(size.pairs)
        for half in size.halves
    ]


def _flow_row(pair: Pair, halves: tuple[int, ...], voxels: int, loss: float) -> Numbers:
    """The rates of one wave under both penalties, at the start and at the end of the run."""
    wave = flow.Wave(halves)
    shape = (voxels,) * len(halves)
    gradicon, icon = flow.gradicon_flow(shape), flow.icon_flow(shape)
    expected = flow.expected_rate(pair, wave, gradicon.points)
    row: Numbers = {
        "dimension": len(halves),
        "halves": list(halves),
        "squared": wave.squared,
        "on the grid": expected * wave.squared_on(shape) / wave.squared,
    }
    for name, chosen, guess in (("gradicon", gradicon, expected), ("icon", icon, icon.fastest)):
        rates = flow.decay(chosen, pair, wave, guess, loss)
        row |= {name: rates[0], f"{name}, end": rates[-1]}
    return row


def fit_rates(still: Sequence[Numbers], pairs: Sequence[Numbers]) -> Numbers:
    """The powers of |omega|^2 by which the rates grow: from the identity in 2-D, and over pairs."""
    flat = [row for row in still if row["dimension"] == 2]
    seeds = sorted({row["seed"] for row in pairs})
    starts = [[row for row in pairs if row["seed"] == seed] for seed in seeds]
    return {
        f"power, {name}": {
            "identity": _rate_power(flat, name),
            **interval([_rate_power(rows, name) for rows in starts]),
        }
        for name in ("gradicon", "icon")
    }


def _rate_power(rows: Sequence[Numbers], name: str) -> float:
    return power([row["squared"] for row in rows], [row[name] for row in rows])


def measure_lipschitz(size: Size) -> Numbers:
    """Random fields and two special ones, made steeper until they fold."""
    kinds = [(2, f) for f in _FREQUENCIES] + [(3, f) for f in _FREQUENCIES[:2]]
    fields = [
        {"dimension": dimension, "frequency": f, **_judge_field(size, dimension, f, seed)}
        for number, (dimension, f) in enumerate(kinds)
        for seed in range(number * size.fields, (number + 1) * size.fields)
    ]
    special = {
        name: _sweep(lipschitz.measure_field(wave(2, 2), 2, cells=128, pairs=size.views[2]))
        for name, wave in (
            ("squeezing", lipschitz.squeezing_wave),
            ("shearing", lipschitz.shearing_wave),
        )
    }
    return {
        "fields": fields,
        "waves": special,
        "bounds": [
            {"constant": constant, "dimension": dimension, **lipschitz.bounds(constant, dimension)}
            for constant in _CONSTANTS
            for dimension in (2, 3)
        ],
        "folds from": median(row["fold"] for row in fields),
        "size, power": interval(_size_powers(fields)),
        "small": [
            *(lipschitz.small_but_steep("wave", 1 / f, 256) for f in (2, 8, 32)),
            *(lipschitz.small_but_steep("dent", width, 256) for width in (0.1, 0.05, 0.025)),
        ],
    }


def _judge_field(size: Size, dimension: int, frequency: float, seed: int) -> Numbers:
    """One field: the constant from which on it folds, its size there, and the sweep."""
    field = lipschitz.random_field(dimension, frequency, seed)
    cells = size.views[dimension - 2]
    seen = lipschitz.measure_field(field, dimension, cells=cells, pairs=size.views[2])
    scale = seen.fold or 0.0  # a sum of random waves folds somewhere
    return {
        "fold": scale * seen.constant,
        "size": scale * seen.size,
        "stretch": seen.stretch / seen.constant,
        "frobenius": seen.frobenius / seen.constant,
        "sweep": _sweep(seen),
    }


def _sweep(seen: lipschitz.Steepness) -> list[Numbers]:
    return lipschitz.sweep_constant(seen, _CONSTANTS)


def _size_powers(fields: Sequence[Numbers]) -> list[float]:
    """How the size at which a plane field folds depends on its periods: a power from the first
    field of each frequency, one from the second of each, and so on.
    """
    flat = [row for row in fields if row["dimension"] == 2]
    by_frequency = [[r["size"] for r in flat if r["frequency"] == f] for f in _FREQUENCIES]
    return [power(_FREQUENCIES, sizes) for sizes in zip(*by_frequency, strict=True)]


def _still(dimension: int) -> Pair:
    return Pair(*(identity(dimension, dtype=torch.float64) for _ in range(2)))


def _points(cells: int, seed: int) -> Tensor:
    source = torch.Generator().manual_seed(seed)
    return one_per_cell(torch.rand(2, cells, cells, dtype=torch.float64, generator=source))


def _middle(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(mean(log(value) for value in values))


def _mean_row(rows: list[Numbers]) -> Numbers:
    return {name: mean(row[name] for row in rows) for name in rows[0]}
