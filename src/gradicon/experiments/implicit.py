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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, pi, sqrt
from statistics import correlation, linear_regression, mean, stdev
from typing import TYPE_CHECKING, final

import torch
from jaxtyping import Float
from torch import Tensor

from gradicon.core.objective import gradient_inconsistency, inconsistency
from gradicon.core.points import one_per_cell
from gradicon.core.sampling import unit_grid
from gradicon.core.transform import Transform
from gradicon.experiments.study import Numbers, Setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "What GradICON regularizes"
# along each axis of the grid whose voxels translations are told in, and whose cells have one point
# each
VOXELS = 128
_WAVES = 32  # of a noise
_STEPS = {"library": 1e-3, "small step": 1e-5}


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
    """phi_ab and phi_ba."""

    ab: Transform
    ba: Transform


def exact_pair(strength: float, seed: int) -> Pair:
    """Inverses of each other, of the unit square onto itself: each axis is squeezed by an amount
    that varies along the other one.

    Along one axis, x -> k x / (1 + (k - 1) x), which 1/k undoes; log k is a random wave of two
    frequencies times `strength`.
    """
    source = torch.Generator().manual_seed(seed)
    weights, phases = (torch.rand(2, 2, dtype=torch.float64, generator=source) for _ in range(2))

    def squeezed(x: Tensor, axis: int, sign: int) -> Tensor:
        along = [
            torch.sin(2 * pi * ((f + 1) * x[:, 1 - axis] + phases[axis, f])) * weights[axis, f]
            for f in range(2)
        ]
        k = torch.exp(sign * strength * (along[0] + along[1]))
        moved = k * x[:, axis] / (1 + (k - 1) * x[:, axis])
        return torch.stack([moved, x[:, 1]] if axis == 0 else [x[:, 0], moved], 1)

    return Pair(
        Formula(lambda x: squeezed(squeezed(x, 0, 1), 1, 1)),
        Formula(lambda x: squeezed(squeezed(x, 1, -1), 0, -1)),
    )


def white_gradient(frequency: float, seed: int) -> Callable[[Tensor], Tensor]:
    """A noise n whose gradient's components are uncorrelated and of variance 1, while n's deviate
    by sqrt(D) / (2 pi frequency).

    Directions are spread evenly, from a random first one: fewer draws are needed than if each were
    random.
    """
    source = torch.Generator().manual_seed(seed)
    turn, phases = (torch.rand(2, n, dtype=torch.float64, generator=source) for n in (1, _WAVES))
    # half a circle: a wave goes both ways
    angles = pi * (torch.arange(_WAVES) + turn) / _WAVES
    phases = 2 * pi * phases
    k = 2 * pi * frequency * torch.stack([angles.cos(), angles.sin()], 1)  # component, axis, wave
    size = sqrt(2 * 2 / _WAVES) / (2 * pi * frequency)

    def noise(x: Tensor) -> Tensor:
        turns = (
            torch.einsum("iaw,bap->biwp", k.to(x.device), x.flatten(2))
            + phases.to(x.device)[..., None]
        )
        return (size * turns.cos().sum(2)).reshape(x.shape)

    return noise


def noisy(pair: Pair, eps: float, frequency: float, seed: int) -> Pair:
    """What a network might return: both maps off by independent noises. An odd seed turns round one
    noise of the seed before it.
    """
    n_ab, n_ba = (white_gradient(frequency, 2 * (seed // 2) + k) for k in range(2))
    sign = 1 - 2 * (seed % 2)
    return Pair(
        Formula(lambda x: pair.ab(x) + eps * n_ab(x)),
        Formula(lambda x: pair.ba(x) + sign * eps * n_ba(x)),
    )


def jacobian(phi: Callable[[Tensor], Tensor], x: Float[Tensor, "1 d n"]) -> Float[Tensor, "n d d"]:
    """grad phi at points, exactly."""
    x = x.detach().requires_grad_()
    rows = [
        torch.autograd.grad(component.sum(), x, retain_graph=True)[0][0] for component in phi(x)[0]
    ]
    return torch.stack(rows).movedim(-1, 0)


def exact_penalty(pair: Pair, x: Tensor) -> float:
    """`gradient_inconsistency` without its finite differences."""
    off = jacobian(lambda p: pair.ab(pair.ba(p)), x) - torch.eye(
        x.shape[1], dtype=x.dtype, device=x.device
    )
    return float((off**2).sum((1, 2)).mean()) / x.shape[1]


def predicted(pair: Pair, x: Tensor) -> float:
    """The paper's regularizer over eps^2: || [grad phi_ab]^-1 sqrt(det grad phi_ab) ||^2 + || [grad
    phi_ba]^-1 ||^2.
    """
    ab = jacobian(pair.ab, x)
    ba = jacobian(pair.ba, x)
    first = (torch.linalg.inv(ab) ** 2).sum((1, 2)) * torch.linalg.det(ab)
    return float((first + (torch.linalg.inv(ba) ** 2).sum((1, 2))).mean())


def measure(pair: Pair, eps: float, frequency: float, x: Tensor, draws: range) -> Numbers:
    """The mean penalty over draws of the noises, exactly and by the library with two steps, over
    eps^2, with the prediction.
    """
    found: dict[str, list[float]] = {"exact": []} | {name: [] for name in _STEPS}
    for seed in draws:
        maps = noisy(pair, eps, frequency, seed)
        found["exact"].append(exact_penalty(maps, x) / eps**2)
        for name, step in _STEPS.items():
            found[name].append(
                float(gradient_inconsistency(maps.ab, maps.ba, x, step=step)) / eps**2
            )
    expected = predicted(pair, x)
    ratios: dict[str, float] = {
        f"ratio, {name}": mean(values) / expected for name, values in found.items()
    }
    independent = [mean(two) for two in zip(found["exact"][::2], found["exact"][1::2], strict=True)]
    error = stdev(independent) / sqrt(len(independent)) / expected
    return {
        "eps": eps,
        "frequency": frequency,
        "predicted": expected,
        "measured": mean(found["exact"]),
        "error": error,
        **ratios,
    }


def translated(pair: Pair, voxels: float, x: Tensor) -> Numbers:
    """Both penalties where phi_ab o phi_ba is a translation along the first axis; GradICON also
    where phi_ba is off by it.
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


def waved(pair: Pair, frequency: int, x: Tensor, *, size: float = 1e-3) -> Numbers:
    """Both penalties where phi_ab o phi_ba is off by a wave of one size, along both axes, of more
    or fewer periods.
    """
    outer = Formula(lambda p: (y := pair.ab(p)) + size * torch.sin(2 * pi * frequency * y.flip(1)))
    penalties = (
        gradient_inconsistency(outer, pair.ba, x, step=1e-5),
        inconsistency(outer, pair.ba, x),
    )
    return {"frequency": frequency, "gradicon": float(penalties[0]), "icon": float(penalties[1])}


def run(setting: Setting) -> Numbers:
    """All sweeps; nothing is trained."""
    draws, pairs = (8, 2) if setting.quick else (64, 4)
    strengths = [0.0, 0.3, 0.6] if setting.quick else [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]
    source = torch.Generator().manual_seed(0)
    jitter = torch.rand(2, VOXELS // 2, VOXELS // 2, dtype=torch.float64, generator=source)
    x = one_per_cell(jitter).to(setting.device)
    middle = exact_pair(0.5, 0)
    setting.tell("size of the noise", 0.0)
    by_eps = [
        measure(middle, eps, 32, x, range(draws))
        for eps in (1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
    ]
    setting.tell("frequency of the noise", 0.2)
    by_frequency = [measure(middle, 1e-2, f, x, range(draws)) for f in (1, 2, 4, 8, 16, 32, 64)]
    by_strength: list[Numbers] = []
    for strength in strengths:
        setting.tell(
            f"deformations of strength {strength}",
            0.3 + 0.6 * len(by_strength) / len(strengths) / pairs,
        )
        for k in range(pairs):
            begin = draws * (1 + len(by_strength))  # noises of its own
            found = measure(exact_pair(strength, k), 1e-2, 32, x, range(begin, begin + draws))
            by_strength.append({"strength": strength, **found})
    small = [row for row in by_eps if row["eps"] <= 0.01]
    exponent = linear_regression(
        [log(r["eps"]) for r in small], [log(r["measured"] * r["eps"] ** 2) for r in small]
    ).slope
    told = [row["predicted"] for row in by_strength], [row["measured"] for row in by_strength]
    return {
        "draws": draws,
        "by eps": by_eps,
        "by frequency": by_frequency,
        "by strength": by_strength,
        "exponent": exponent,
        "slope": linear_regression(*told).slope,
        "correlation": correlation(*told),
        "translations": [translated(middle, t, x) for t in (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)],
        "waves": [waved(middle, f, x) for f in (1, 2, 4, 8, 16, 32)],
    }


def table(numbers: Numbers) -> str:
    """Measured over predicted in every sweep, then what GradICON does not see."""
    rows = numbers["by strength"]
    ratios = [row["ratio, exact"] for row in rows]
    lines = [
        (
            f"{len(rows)} pairs of maps, {numbers['draws']} draws each: measured / predicted "
            f"is {min(ratios):.3f}..{max(ratios):.3f}."
        ),
        (
            f"Regression of measured on predicted: slope {numbers['slope']:.4f}, correlation "
            f"{numbers['correlation']:.5f}."
        ),
        f"The penalty grows as eps to the power {numbers['exponent']:.4f} up to eps = 0.01.",
        "",
    ]
    heads = [f"measured / predicted, {name}" for name in ("exact", *_STEPS)]
    for key, told in (
        ("eps", "noise eps (frequency 32)"),
        ("frequency", "periods of the noise (eps 0.01)"),
    ):
        lines += [f"| {told} | {' | '.join(heads)} | standard error |", "|---|---|---|---|---|"]
        for row in numbers[f"by {key}"]:
            cells = [f"{row[f'ratio, {name}']:.4f}" for name in ("exact", *_STEPS)]
            lines.append(f"| {row[key]:g} | {' | '.join(cells)} | {row['error']:.4f} |")
        lines.append("")
    lines += [
        "Fewer periods mean |n| is no longer small beside |grad n|, on which the prediction rests.",
        "",
    ]
    lines += [
        "| translation, voxels | GradICON | ICON | GradICON, inner map off |",
        "|---|---|---|---|",
    ]
    for row in numbers["translations"]:
        lines.append(
            f"| {row['voxels']:g} | {row['gradicon']:.2e} | {row['icon']:.2e} | "
            f"{row['gradicon, inner']:.2e} |"
        )
    lines += ["", "| periods of an error of one size | GradICON | ICON |", "|---|---|---|"]
    lines += [
        f"| {row['frequency']} | {row['gradicon']:.3e} | {row['icon']:.3e} |"
        for row in numbers["waves"]
    ]
    return "\n".join(lines)


def draw(numbers: Numbers, figure: "Figure") -> None:
    """Measured by predicted; both penalties by translation; both by frequency."""
    figure.set_size_inches(11, 3.8)
    left, middle, right = figure.subplots(1, 3)
    told = [row["predicted"] for row in numbers["by strength"]]
    left.plot([min(told), max(told)], [min(told), max(told)], color="0.6", lw=1)
    left.plot(told, [row["measured"] for row in numbers["by strength"]], "o", ms=4)
    left.set(
        title="Noisy inverses",
        xlabel="predicted penalty / eps$^2$",
        ylabel="measured penalty / eps$^2$",
    )
    for axes, key, name in ((middle, "translations", "voxels"), (right, "waves", "frequency")):
        for penalty, label in (("gradicon", "GradICON"), ("icon", "ICON")):
            axes.plot(
                [row[name] for row in numbers[key]],
                [row[penalty] for row in numbers[key]],
                marker="o",
                ms=4,
                label=label,
            )
    middle.set(title="Off by a translation", xlabel="voxels", ylabel="penalty")
    right.set(title="Off by a wave of one size", xlabel="periods", xscale="log", yscale="log")
    middle.legend()
