"""Sec. 5.4: how fast ICON and GradICON learn, at weights that make maps about as regular."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from gradicon.experiments.planar import (
    LABELS,
    LAMBDA0,
    TITLES,
    Task,
    set_names,
    size_of,
    summarise,
    train_tasks,
)
from gradicon.experiments.study import Numbers, Setting
from gradicon.experiments.trainings import Row, Trained

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Convergence of ICON and GradICON"
PARTS = (0.5, 0.75, 0.9, 0.95)  # of the way from the first dissimilarity to the last of both
_POINTS = 100  # of a curve, at most
_COLOURS = {"gradicon": "#c1272d", "icon": "#0068b4"}

Curve = dict[str, list[float]]
"""step, dissimilarity and folds_percent, each a mean over some logged steps."""


def run(setting: Setting) -> Numbers:
    """Train GradICON at the paper's weight and ICON at several, and compare equally regular ones.

    Equally regular: the ICON that `choose_as_regular` chooses by folds.
    """
    size = size_of(setting)
    names = set_names(setting)
    tasks = [Task(name, "gradicon", LAMBDA0["gradicon"]) for name in names]
    tasks += [Task(name, "icon", LAMBDA0["icon"] * 2.0**i) for name in names for i in size.search]
    trained = train_tasks(tasks, setting, steps=size.long_steps, log_every=size.log_every)
    found = [_compare(name, trained) for name in names]
    return {"steps": size.long_steps, "pairs": size.judged, "sets": found}


def choose_as_regular(candidates: Sequence[dict[str, Any]], folds_percent: float) -> dict[str, Any]:
    """Of what was tried, the one with the most folds that has not more than `folds_percent`.

    Of equal ones the most similar. If all have more folds, the one with the fewest.
    """
    allowed = [each for each in candidates if each["folds_percent"] <= folds_percent]
    if not allowed:
        return min(candidates, key=lambda each: each["folds_percent"])
    return max(allowed, key=lambda each: (each["folds_percent"], -each["dissimilarity"]))


def make_curve(rows: Sequence[Row]) -> Curve:
    """What was logged, in at most 100 means over equally many steps.

    The logged similarity is the sum over both directions, hence the half.
    """
    width = ceil(len(rows) / _POINTS)
    blocks = [rows[i : i + width] for i in range(0, len(rows), width)]

    def means(name: str, scale: float = 1.0) -> list[float]:
        return [round(scale * float(np.mean([row[name] for row in block])), 5) for block in blocks]

    return {
        "step": means("step"),
        "dissimilarity": means("similarity", 0.5),
        "folds_percent": means("folds"),
    }


def find_step(curve: Curve, level: float) -> float | None:
    """The step at which a curve first comes down to a dissimilarity; None if it never does.

    The curve is linear between its points.
    """
    steps = curve["step"]
    values = curve["dissimilarity"]
    for i, value in enumerate(values):
        if value <= level:
            if i == 0:
                return steps[0]
            part = (values[i - 1] - level) / (values[i - 1] - value)
            return round(steps[i - 1] + part * (steps[i] - steps[i - 1]), 1)
    return None


def compare_speed(gradicon: Curve, icon: Curve) -> list[dict[str, Any]]:
    """Steps to the same dissimilarities, and how many times as many ICON needs.

    They are some parts of the way from where the worse one begins to the best that both reach.
    """
    start = max(gradicon["dissimilarity"][0], icon["dissimilarity"][0])
    end = max(min(gradicon["dissimilarity"]), min(icon["dissimilarity"]))
    found: list[dict[str, Any]] = []
    for part in PARTS:
        level = round(start - part * (start - end), 5)
        ours = find_step(gradicon, level)
        theirs = find_step(icon, level)
        ratio = None if not ours or theirs is None else round(theirs / ours, 2)
        found.append(
            {"part": part, "dissimilarity": level, "gradicon": ours, "icon": theirs, "ratio": ratio}
        )
    return found


def table(numbers: Numbers) -> str:
    """The chosen networks, their speed, and what the search for ICON's weight saw."""
    lines = [
        (
            f"1 - LNCC and folds on {numbers['pairs']} pairs of the training set, after "
            f"{numbers['steps']} steps, one training each."
        ),
        "",
        "| set | regularizer | weight | 1 - LNCC | folds % | |",
        "|---|---|---:|---:|---:|---|",
    ]
    for each in numbers["sets"]:
        lines.append(_format_network(each["gradicon"], "compared"))
        lines += [
            _format_network(tried, "compared" if tried == each["icon"] else "")
            for tried in each["icon_tried"]
        ]
    lines += [
        "",
        "Steps until the training loss comes down to a dissimilarity.",
        "",
        "| set | 1 - LNCC | GradICON | ICON | ratio |",
        "|---|---:|---:|---:|---:|",
    ]
    for each in numbers["sets"]:
        for row in each["speed"]:
            shown = " | ".join(
                "not reached" if row[name] is None else f"{row[name]:.4g}"
                for name in ("gradicon", "icon", "ratio")
            )
            lines.append(f"| {TITLES[each['set']]} | {row['dissimilarity']:.4f} | {shown} |")
    return "\n".join(lines)


def draw(numbers: Numbers, figure: "Figure") -> None:
    """One row for each set: dissimilarity on the left, folds on the right."""
    sets = numbers["sets"]
    figure.set_size_inches(8, 3.2 * len(sets))
    for row, each in zip(figure.subplots(len(sets), 2, squeeze=False), sets, strict=True):
        left: Axes = row[0]
        right: Axes = row[1]
        for name in ("icon", "gradicon"):
            curve = each["curves"][name]
            label = f"{LABELS[name]}, $\\lambda$ = {each[name]['weight']:.4g}"
            for axes, what in ((left, "dissimilarity"), (right, "folds_percent")):
                axes.plot(
                    curve["step"], curve[what], color=_COLOURS[name], linewidth=1.5, label=label
                )
        left.set(title=TITLES[each["set"]], xlabel="step", ylabel="dissimilarity, 1 - LNCC")
        right.set(title=TITLES[each["set"]], xlabel="step", ylabel="folds, % of pixels")
        right.set_yscale("symlog", linthresh=1e-3)
        right.set_ylim(bottom=0)
        for axes in (left, right):
            axes.grid(alpha=0.25)
        left.legend(fontsize=8)


def _compare(name: str, trained: Mapping[Task, Trained]) -> dict[str, Any]:
    ours = next(task for task in trained if task.images == name and task.regularizer == "gradicon")
    gradicon = summarise(ours, trained[ours])
    tried = [
        summarise(task, run)
        for task, run in trained.items()
        if task.images == name and task.regularizer == "icon"
    ]
    icon = choose_as_regular(tried, gradicon["folds_percent"])
    curves = {
        "gradicon": make_curve(trained[ours].rows),
        "icon": make_curve(trained[Task(name, "icon", icon["weight"])].rows),
    }
    return {
        "set": name,
        "gradicon": gradicon,
        "icon": icon,
        "icon_tried": tried,
        "speed": compare_speed(curves["gradicon"], curves["icon"]),
        "curves": curves,
    }


def _format_network(network: Mapping[str, Any], note: str) -> str:
    numbers = (
        f"{network['weight']:.4g} | {network['dissimilarity']:.4f} | {network['folds_percent']:.4f}"
    )
    return f"| {TITLES[network['set']]} | {LABELS[network['regularizer']]} | {numbers} | {note} |"
