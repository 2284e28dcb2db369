"""The table and the figure of `noise`, from its numbers alone."""

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from gradicon.experiments.study import Numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_HEADS = {
    "n": "\\|n\\|",
    "gradient": "\\|grad n\\|",
    "ratio": "ratio",
    "periods": "periods",
    "dropped": "dropped / kept",
    "inverse error": "inverse error",
    "likeness": "n_ab like n_ba",
    "judged": "part judged",
}
# words for numbers, with lines drawn where a reader would
_MAGNITUDE = 10  # "an order of magnitude"
_WHITE = 0.1  # of correlations, at most
_EXACT = 0.1  # of the noise: inverses that are less exact tell little of it


def table(numbers: Numbers) -> str:
    """Every pair, then what the means say."""
    pairs: Sequence[dict[str, float]] = numbers["pairs"]
    average = {name: mean(pair[name] for pair in pairs) for name in pairs[0]}
    return "\n".join(
        [
            *_pairs(pairs, average),
            "",
            *_conclusions(average),
            "",
            *_weights(numbers["by weight"]),
            "",
            *_training(numbers),
        ]
    )


def _lags(pair: dict[str, float]) -> list[str]:
    return [name for name in pair if name.startswith("lag ")]


def _pairs(pairs: Sequence[dict[str, float]], average: dict[str, float]) -> list[str]:
    names = [*_HEADS, *_lags(average)]
    heads = [_HEADS.get(name, name) for name in names]
    lines = [f"| pair | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for label, row in [*((str(k), pair) for k, pair in enumerate(pairs)), ("mean", average)]:
        lines.append(f"| {label} | {' | '.join(f'{row[name]:.3g}' for name in names)} |")
    return lines


def _conclusions(average: dict[str, float]) -> list[str]:
    """The two hypotheses, |n| << |grad n| and grad n white, and how far to trust the numbers."""
    ratio = average["ratio"]
    large = "" if ratio >= _MAGNITUDE else "not "
    white = "" if max(abs(average[lag]) for lag in _lags(average)) < _WHITE else "not "
    off = average["inverse error"] / average["n"]
    warning = "." if off < _EXACT else ", so this means little."
    return [
        f"The gradient is {ratio:.1f} times the noise, {large}an order of magnitude above it;",
        f"a wave of {average['periods']:.1f} periods across the image has that ratio.",
        f"What the analysis drops is {100 * average['dropped']:.0f} % of what it keeps.",
        f"The gradient is {white}white: one voxel on, its correlation is {average['lag 1']:.2f}.",
        f"The inverses found are exact to {100 * off:.0f} % of the noise{warning}",
        "The estimate makes n_ab and n_ba alike, so it cannot say whether they are independent.",
    ]


def _weights(rows: Sequence[Numbers]) -> list[str]:
    return [
        "| weight of the inverses | \\|n\\| | \\|grad n\\| | inverse error |",
        "|---|---|---|---|",
        *(
            f"| {row['weight']:g} | {row['n']:.3g} | {row['gradient']:.3g} | "
            f"{row['inverse error']:.2g} |"
            for row in rows
        ),
    ]


def _training(numbers: Numbers) -> list[str]:
    trained = numbers["trained"]
    return [
        (
            f"Displacements are of {mean(numbers['displacement']):.2g}. The network reached, "
            "in training, 1 - LNCC both ways of"
        ),
        (
            f"{trained['similarity']:.3f}, GradICON of {trained['penalty']:.2e}, and folds of "
            f"{trained['folds']:.3f} %."
        ),
    ]


def draw(numbers: Numbers, figure: "Figure") -> None:
    """The noise and its gradient of one pair on one scale, and the ratio of every pair."""
    from matplotlib.colors import LogNorm

    figure.set_size_inches(11, 3.8)
    maps: dict[str, list[list[float | None]]] = numbers["maps"]
    left, middle, right = figure.subplots(1, 3)
    shown = {name: np.array(values, dtype=float) for name, values in maps.items()}
    values = np.concatenate([each[np.isfinite(each)] for each in shown.values()])
    norm = LogNorm(max(float(np.quantile(values, 0.02)), 1e-9), float(values.max()))
    for axes, name, title in ((left, "n", "$|n|$"), (middle, "gradient", "$|\\nabla n|$")):
        drawn = axes.imshow(shown[name], norm=norm, cmap="viridis")
        axes.set_title(title)
        axes.set_axis_off()
        figure.colorbar(drawn, ax=axes, shrink=0.8)
    ratios = [pair["ratio"] for pair in numbers["pairs"]]
    right.bar(range(len(ratios)), ratios)
    right.axhline(_MAGNITUDE, color="0.4", lw=1, ls="--")
    right.set(title="$|\\nabla n| \\, / \\, |n|$", xlabel="pair")
    right.xaxis.get_major_locator().set_params(integer=True)
