"""What GradICON regularizes (Sec. 3.3), measured on maps whose inverses are known exactly.

Let phi_ab and phi_ba be exact inverses, and let a network return phi_ab + eps n_ab and phi_ba + eps
n_ba, where the gradients of the independent noises are white: E[d_j n_i d_l n_k] = 1 if (i, j) =
(k, l), else 0. With the points x of the penalty uniform in the unit cube, to first order in eps and
with |n| << |grad n|, the gradient of the composition is off by

    eps (N_ab A + A^-1 N_ba),   A = grad phi_ba,   N = grad n.

As E|N A|^2 = E|A N|^2 = D |A|^2 (Frobenius), and as `gradient_inconsistency` takes the mean over
the D components where the paper takes their sum, the two factors D and 1/D cancel:

    E[penalty] = eps^2 (integral |A|^2 + integral |A^-1|^2)
               = eps^2 (|| [grad phi_ab]^-1 sqrt(det grad phi_ab) ||^2 + || [grad phi_ba]^-1 ||^2),

the paper's form with a constant of exactly 1; the first integral was moved to the other image by y
= phi_ba(x), for maps of the cube onto itself. Only the noise's covariance at a point enters, so a
sum of plane waves of one length in all directions will do.
"""

from math import log, pi, sqrt
from statistics import correlation, linear_regression, mean, stdev

import torch
from torch import Tensor

from gradicon.core.objective import gradient_inconsistency, inconsistency
from gradicon.core.points import one_per_cell
from gradicon.experiments.exact_maps import Formula, Pair, add_noise, exact_pair, jacobian
from gradicon.experiments.implicit_report import draw, table
from gradicon.experiments.study import Numbers, Setting

__all__ = ["TITLE", "draw", "run", "table"]

TITLE = "What GradICON regularizes"
# along each axis of the grid whose voxels translations are told in, and whose cells have one point
# each
VOXELS = 128
# of finite differences in the penalty: what the library takes, and one too small to matter
_STEPS = {"library": 1e-3, "small step": 1e-5}
# the sweeps: from where the prediction holds to where it cannot
_EPS = (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
_FREQUENCIES = (1, 2, 4, 8, 16, 32, 64)
_STRENGTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
_QUICK_STRENGTHS = (0.0, 0.3, 0.6)
_TRANSLATIONS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# what is held while the other varies: small enough in size and fast enough for the prediction
_USUAL_EPS = 1e-2
_USUAL_FREQUENCY = 32


def exact_penalty(pair: Pair, x: Tensor) -> float:
    """`gradient_inconsistency` without its finite differences: mean |grad(ab o ba) - I|^2 / D."""
    off = jacobian(lambda p: pair.ab(pair.ba(p)), x) - torch.eye(
        x.shape[1], dtype=x.dtype, device=x.device
    )
    return float((off**2).sum((1, 2)).mean()) / x.shape[1]


def predict_penalty(pair: Pair, x: Tensor) -> float:
    """The paper's regularizer over eps^2, the mean over the points x for the integral.

    It is || [grad phi_ab]^-1 sqrt(det grad phi_ab) ||^2 + || [grad phi_ba]^-1 ||^2.
    """
    ab = jacobian(pair.ab, x)
    ba = jacobian(pair.ba, x)
    first = (torch.linalg.inv(ab) ** 2).sum((1, 2)) * torch.linalg.det(ab)
    return float((first + (torch.linalg.inv(ba) ** 2).sum((1, 2))).mean())


def measure_noise(pair: Pair, eps: float, frequency: float, x: Tensor, draws: range) -> Numbers:
    """The mean penalty over draws of the noises, over eps^2, beside the prediction.

    It is measured exactly, and by the library with each of two steps of its finite differences;
    `error` is the standard error of the exact one, as a part of the prediction.

    Args:
        pair: the exact inverses.
        eps: the size of the gradients of the noises.
        frequency: periods of the noises across the square.
        x: the points (1, 2, N) of the penalty.
        draws: the seeds. An even one and the next odd one share their noises, so they are taken
            two by two.
    """
    measured: dict[str, list[float]] = {"exact": []} | {name: [] for name in _STEPS}
    for seed in draws:
        maps = add_noise(pair, eps, frequency, seed)
        measured["exact"].append(exact_penalty(maps, x) / eps**2)
        for name, step in _STEPS.items():
            measured[name].append(
                float(gradient_inconsistency(maps.ab, maps.ba, x, step=step)) / eps**2
            )
    expected = predict_penalty(pair, x)
    exact = measured["exact"]
    independent = [mean(two) for two in zip(exact[::2], exact[1::2], strict=True)]
    return {
        "eps": eps,
        "frequency": frequency,
        "predicted": expected,
        "measured": mean(exact),
        "error": stdev(independent) / sqrt(len(independent)) / expected,
        **{f"ratio, {name}": mean(values) / expected for name, values in measured.items()},
    }


def measure_translation(pair: Pair, voxels: float, x: Tensor) -> Numbers:
    """Both penalties where phi_ab o phi_ba is a translation along the first axis.

    GradICON also where it is the inner map, phi_ba, that is off: that is no translation any more.
    """
    shift = torch.tensor([voxels / (VOXELS - 1), 0.0], dtype=x.dtype, device=x.device)[:, None]
    outer = Formula(lambda p: pair.ab(p) + shift)
    inner = Formula(lambda p: pair.ba(p) + shift)
    return {
        "voxels": voxels,
        "gradicon": float(gradient_inconsistency(outer, pair.ba, x)),
        "icon": float(inconsistency(outer, pair.ba, x)),
        "gradicon, inner": float(gradient_inconsistency(pair.ab, inner, x)),
    }


def measure_wave(pair: Pair, frequency: int, x: Tensor, *, size: float = 1e-3) -> Numbers:
    """Both penalties where phi_ab o phi_ba is off by a wave, along both axes.

    Args:
        pair: the exact inverses.
        frequency: periods of the wave across the square.
        x: the points (1, 2, N) of the penalty.
        size: the amplitude, the same for all frequencies, in lengths of the square.
    """
    outer = Formula(lambda p: (y := pair.ab(p)) + size * torch.sin(2 * pi * frequency * y.flip(1)))
    gradicon = gradient_inconsistency(outer, pair.ba, x, step=_STEPS["small step"])
    icon = inconsistency(outer, pair.ba, x)
    return {"frequency": frequency, "gradicon": float(gradicon), "icon": float(icon)}


def run(setting: Setting) -> Numbers:
    """All sweeps; nothing is trained."""
    draws = 8 if setting.quick else 64
    source = torch.Generator().manual_seed(0)
    jitter = torch.rand(2, VOXELS // 2, VOXELS // 2, dtype=torch.float64, generator=source)
    x = one_per_cell(jitter).to(setting.device)
    middle = exact_pair(0.5, 0)
    seeds = range(draws)
    setting.tell("size of the noise", 0.0)
    by_eps = [measure_noise(middle, eps, _USUAL_FREQUENCY, x, seeds) for eps in _EPS]
    setting.tell("frequency of the noise", 0.2)
    by_frequency = [measure_noise(middle, _USUAL_EPS, f, x, seeds) for f in _FREQUENCIES]
    by_strength = _sweep_strengths(setting, x, draws)
    predicted = [row["predicted"] for row in by_strength]
    measured = [row["measured"] for row in by_strength]
    return {
        "draws": draws,
        "by eps": by_eps,
        "by frequency": by_frequency,
        "by strength": by_strength,
        "exponent": _exponent([row for row in by_eps if row["eps"] <= 0.01]),
        "slope": linear_regression(predicted, measured).slope,
        "correlation": correlation(predicted, measured),
        "translations": [measure_translation(middle, t, x) for t in _TRANSLATIONS],
        "waves": [measure_wave(middle, f, x) for f in (1, 2, 4, 8, 16, 32)],
    }


def _sweep_strengths(setting: Setting, x: Tensor, draws: int) -> list[Numbers]:
    """Several pairs of maps of each strength, each with noises of its own."""
    strengths = _QUICK_STRENGTHS if setting.quick else _STRENGTHS
    pairs = 2 if setting.quick else 4
    rows: list[Numbers] = []
    for strength in strengths:
        done = len(rows) / len(strengths) / pairs
        setting.tell(f"deformations of strength {strength}", 0.3 + 0.6 * done)
        for k in range(pairs):
            begin = draws * (1 + len(rows))  # the first `draws` seeds are those of other sweeps
            seeds = range(begin, begin + draws)
            row = measure_noise(exact_pair(strength, k), _USUAL_EPS, _USUAL_FREQUENCY, x, seeds)
            rows.append({"strength": strength, **row})
    return rows


def _exponent(rows: list[Numbers]) -> float:
    """The p of penalty ~ eps^p: the slope of a line through logarithms of both."""
    eps = [log(row["eps"]) for row in rows]
    penalty = [log(row["measured"] * row["eps"] ** 2) for row in rows]
    return linear_regression(eps, penalty).slope
