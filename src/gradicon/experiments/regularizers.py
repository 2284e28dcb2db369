"""Sec. 5.3: what four regularizers cost in similarity, for how regular they make the maps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradicon.experiments.planar import (
    LABELS,
    LAMBDA0,
    REGULARIZERS,
    TITLES,
    Task,
    set_names,
    size_of,
    summarise,
    train_tasks,
)
from gradicon.experiments.study import Numbers, Setting

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Similarity against regularity, for four regularizers"
LEVELS = (0.01, 0.1, 1.0)  # percent of folds at which the regularizers are compared
FLOOR = 1e-4  # percent: fewer folds than this count as this, since a logarithm has no zero
_STYLES = {
    "gradicon": ("#c1272d", "o"),
    "icon": ("#0068b4", "s"),
    "diffusion": ("#2e8b3d", "^"),
    "bending": ("#8a5a00", "D"),
}

Row = dict[str, Any]
"""Of one trained network: set, regularizer, weight, dissimilarity, folds_percent."""


def run(setting: Setting) -> Numbers:
    """Train Stage1 with every regularizer at every weight, on both sets, and judge it there.

    The pairs it is judged on are of its training set.
    """
    size = size_of(setting)
    tasks = [
        Task(name, regularizer, LAMBDA0[regularizer] * 2.0**i)
        for name in set_names(setting)
        for regularizer in REGULARIZERS
        for i in size.exponents
    ]
    trained = train_tasks(tasks, setting, steps=size.steps, log_every=size.steps)
    rows = [summarise(task, trained[task]) for task in tasks]
    return {
        "steps": size.steps,
        "pairs": size.judged,
        "rows": rows,
        "equal_folds": compare_at_equal_folds(rows),
    }


def compare_at_equal_folds(rows: Sequence[Row], levels: Sequence[float] = LEVELS) -> list[Row]:
    """Each regularizer's dissimilarity with at most `levels` percent of folds; whose is least."""
    found: list[Row] = []
    for name in dict.fromkeys(row["set"] for row in rows):
        for level in levels:
            at = {each: dissimilarity_at(_points(rows, name, each), level) for each in REGULARIZERS}
            known = {each: value for each, value in at.items() if value is not None}
            least = min(known, key=lambda each: known[each]) if known else None
            found.append({"set": name, "folds_percent": level, "dissimilarity": at, "least": least})
    return found


def dissimilarity_at(points: Sequence[tuple[float, float]], level: float) -> float | None:
    """The least dissimilarity with at most `level` percent of folds.

    `points` are (folds in percent, dissimilarity) of some networks.

    A network counts unless another has no more folds and is no less similar. Between those that
    count, dissimilarity is linear in the logarithm of folds. None if all have more folds than that.

    >>> dissimilarity_at([(0.01, 0.5), (1.0, 0.3), (0.5, 0.9)], 0.1)
    0.4
    """
    seen = sorted((max(folds, FLOOR), value) for folds, value in points)
    if not seen or seen[0][0] > level:
        return None
    front = [seen[0]]
    for folds, value in seen[1:]:
        if value < front[-1][1]:
            front.append((folds, value))
    folds, values = zip(*front, strict=True)
    return round(float(np.interp(np.log(level), np.log(folds), values)), 5)


def table(numbers: Numbers) -> str:
    """Dissimilarity at equal folds, then every network."""
    names = " | ".join(LABELS[each] for each in REGULARIZERS)
    lines = [
        (
            f"1 - LNCC and folds on {numbers['pairs']} pairs of the training set, after "
            f"{numbers['steps']} steps, one training each."
        ),
        "",
        (
            "1 - LNCC with at most so many folds, between the networks below. "
            f"{_verdict(numbers['equal_folds'])}"
        ),
        "",
        f"| set | folds %, at most | {names} | least |",
        f"|---|---:|{'---:|' * len(REGULARIZERS)}---|",
    ]
    for row in numbers["equal_folds"]:
        values = [row["dissimilarity"][each] for each in REGULARIZERS]
        shown = " | ".join(
            "more folds at any weight" if value is None else f"{value:.4f}" for value in values
        )
        least = "-" if row["least"] is None else LABELS[row["least"]]
        lines.append(f"| {TITLES[row['set']]} | {row['folds_percent']:g} | {shown} | {least} |")
    lines += ["", "| set | regularizer | weight | 1 - LNCC | folds % |", "|---|---|---:|---:|---:|"]
    for row in numbers["rows"]:
        cells = f"{row['weight']:.4g} | {row['dissimilarity']:.4f} | {row['folds_percent']:.4f}"
        lines.append(f"| {TITLES[row['set']]} | {LABELS[row['regularizer']]} | {cells} |")
    return "\n".join(lines)


def draw(numbers: Numbers, figure: "Figure") -> None:
    """One panel for each set, one line for each regularizer, along its weights."""
    names = list(dict.fromkeys(row["set"] for row in numbers["rows"]))
    panels: list[Axes] = list(figure.subplots(1, len(names), squeeze=False)[0])
    for axes, name in zip(panels, names, strict=True):
        for regularizer in REGULARIZERS:
            folds, values = zip(*_points(numbers["rows"], name, regularizer), strict=True)
            colour, marker = _STYLES[regularizer]
            shown = [max(each, FLOOR) for each in folds]
            axes.plot(
                shown,
                values,
                color=colour,
                marker=marker,
                markersize=5,
                linewidth=1.4,
                label=LABELS[regularizer],
            )
        axes.set(
            title=TITLES[name], xlabel="folds, % of pixels", xscale="log", xlim=(FLOOR * 0.6, 100)
        )
        axes.axvline(FLOOR, color="0.6", linestyle=":", linewidth=1)
        axes.text(
            FLOOR * 1.15,
            0.99,
            f"$\\leq$ {FLOOR:g} %",
            transform=axes.get_xaxis_transform(),
            color="0.4",
            fontsize=8,
            va="top",
        )
        axes.grid(alpha=0.25)
    panels[0].set_ylabel("dissimilarity, 1 - LNCC")
    panels[-1].legend(fontsize=8)


def _points(rows: Sequence[Row], name: str, regularizer: str) -> list[tuple[float, float]]:
    """(folds, dissimilarity) of one regularizer's networks on one set, in the order of weights."""
    chosen = [row for row in rows if row["set"] == name and row["regularizer"] == regularizer]
    return [
        (row["folds_percent"], row["dissimilarity"])
        for row in sorted(chosen, key=lambda row: row["weight"])
    ]


def _verdict(compared: Sequence[Row]) -> str:
    """How often GradICON is the most similar, of all sets and levels."""
    won = sum(row["least"] == "gradicon" for row in compared)
    return f"GradICON is the most similar in {won} of {len(compared)} comparisons."
