"""The table and the figure of `implicit`, from its numbers alone."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gradicon.experiments.study import Numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def table(numbers: Numbers) -> str:
    """Measured over predicted in every sweep, then what GradICON does not see."""
    return "\n".join(
        [
            *_summary(numbers),
            "",
            *_ratios(numbers["by eps"], "eps", "noise eps (frequency 32)"),
            "",
            *_ratios(numbers["by frequency"], "frequency", "periods of the noise (eps 0.01)"),
            "",
            (
                "Fewer periods mean |n| is no longer small beside |grad n|, on which the "
                "prediction rests."
            ),
            "",
            *_translations(numbers["translations"]),
            "",
            *_waves(numbers["waves"]),
        ]
    )


def _summary(numbers: Numbers) -> list[str]:
    rows = numbers["by strength"]
    ratios = [row["ratio, exact"] for row in rows]
    return [
        (
            f"{len(rows)} pairs of maps, {numbers['draws']} draws each: measured / predicted "
            f"is {min(ratios):.3f}..{max(ratios):.3f}."
        ),
        (
            f"Regression of measured on predicted: slope {numbers['slope']:.4f}, correlation "
            f"{numbers['correlation']:.5f}."
        ),
        f"The penalty grows as eps to the power {numbers['exponent']:.4f} up to eps = 0.01.",
    ]


def _ratios(rows: Sequence[Numbers], key: str, head: str) -> list[str]:
    """One sweep: measured over predicted, exactly and by finite differences, by `key`."""
    names = [name for name in rows[0] if name.startswith("ratio, ")]
    heads = [name.replace("ratio", "measured / predicted") for name in names]
    lines = [f"| {head} | {' | '.join(heads)} | standard error |", "|---" * 5 + "|"]
    for row in rows:
        cells = " | ".join(f"{row[name]:.4f}" for name in names)
        lines.append(f"| {row[key]:g} | {cells} | {row['error']:.4f} |")
    return lines


def _translations(rows: Sequence[Numbers]) -> list[str]:
    return [
        "| translation, voxels | GradICON | ICON | GradICON, inner map off |",
        "|---|---|---|---|",
        *(
            f"| {row['voxels']:g} | {row['gradicon']:.2e} | {row['icon']:.2e} | "
            f"{row['gradicon, inner']:.2e} |"
            for row in rows
        ),
    ]


def _waves(rows: Sequence[Numbers]) -> list[str]:
    return [
        "| periods of an error of one size | GradICON | ICON |",
        "|---|---|---|",
        *(f"| {row['frequency']} | {row['gradicon']:.3e} | {row['icon']:.3e} |" for row in rows),
    ]


def draw(numbers: Numbers, figure: "Figure") -> None:
    """Measured by predicted; both penalties by translation; both by frequency."""
    figure.set_size_inches(11, 3.8)
    left, middle, right = figure.subplots(1, 3)
    predicted = [row["predicted"] for row in numbers["by strength"]]
    ends = [min(predicted), max(predicted)]
    left.plot(ends, ends, color="0.6", lw=1)  # where both are equal
    left.plot(predicted, [row["measured"] for row in numbers["by strength"]], "o", ms=4)
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
