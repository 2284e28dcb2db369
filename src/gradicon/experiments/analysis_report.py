"""The table and the figure of `analysis`, from its numbers alone."""

from collections.abc import Sequence
from statistics import mean
from typing import TYPE_CHECKING

from gradicon.experiments.study import Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN = {  # of the remainders, in the figure
    "penalty, no term in n": "Eq. 7: no term in $n$",
    "penalty, with it": "with the term in $n$",
    "penalty, with it, mean of n and -n": "with it, mean of $n$ and $-n$",
}


def table(numbers: Numbers) -> str:
    """The expansion, then the flow, then maps near the identity."""
    return "\n".join(
        [
            *_expansion(numbers["expansion"]),
            "",
            *_flow(numbers["flow"]),
            "",
            *_lipschitz(numbers["lipschitz"]),
        ]
    )


def _expansion(found: Numbers) -> list[str]:
    lines = [
        f"## The expansion: {found['seeds']} pairs of maps, noises of {found['periods']} periods",
        "",
        "| what is left of | where | order in eps, the paper | measured | 95 % interval |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['name']} | {row['where']} | {row['paper']} | {_with_interval(row)} |"
        for row in found["orders"]
    ]
    lines += [
        "",
        "| periods of the noise | noise / gradient | dropped / kept | in the penalty |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {row['frequency']} | {row['noise']:.4f} | {row['term']:.3f} | {row['penalty']:+.2%} |"
        for row in found["dropped"]
    ]
    power = found["dropped, power"]
    return [
        *lines,
        "",
        f"Dropped / kept goes with the periods to the power {_in_words(power)}.",
        f"Both sides of Eq. 11 agree to {found['Eq. 11']:.0e}.",
    ]


def _flow(found: Numbers) -> list[str]:
    lines = [
        "## The gradient flow: how fast a wave decays",
        "",
        "| start | half periods | omega^2 | GradICON / omega^2 | at the end | on the grid | ICON |",
        "|---|---|---|---|---|---|---|",
    ]
    lines += [_flow_line("identity", row) for row in found["identity"]]
    lines += [_flow_line(f"pair {row['seed']}", row) for row in found["pairs"]]
    lines += ["", "| power of omega^2 | from the identity | from pairs | 95 % interval |"]
    lines += ["|---|---|---|---|"]
    for name, title in (("gradicon", "GradICON"), ("icon", "ICON")):
        power = found[f"power, {name}"]
        lines.append(f"| {title} | {power['identity']:.4f} | {_with_interval(power)} |")
    for name, rows in (("the identity", found["identity"]), ("pairs", found["pairs"])):
        ratios = [row["gradicon"] / row["on the grid"] for row in rows]
        ends = f"{min(ratios):.4f} to {max(ratios):.4f}"
        text = (
            f"From {name}, GradICON's rates at the start are {ends} of those expected on the grid."
        )
        lines += ["", text]
    return lines


def _flow_line(start: str, row: Numbers) -> str:
    halves = " x ".join(str(half) for half in row["halves"])
    names = ("gradicon", "gradicon, end", "on the grid")
    by_square = " | ".join(f"{row[name] / row['squared']:.3f}" for name in names)
    return f"| {start} | {halves} | {row['squared']:.1f} | {by_square} | {row['icon']:.3f} |"


def _lipschitz(found: Numbers) -> list[str]:
    fields = found["fields"]
    lines = [
        f"## Maps near the identity: {len(fields)} random fields v, Id + v",
        "",
        "| slope of v | D | fields that fold | least determinant | bound | least ratio | bound |",
        "|---|---|---|---|---|---|---|",
        *(_lipschitz_line(fields, bound) for bound in found["bounds"]),
    ]
    folds = [field["fold"] for field in fields]
    power = found["size, power"]
    lines += [
        "",
        (
            f"They begin to fold at a slope of {min(folds):.2f} to {max(folds):.2f}, "
            f"{found['folds from']:.2f} in the median."
        ),
        (
            "The largest Frobenius norm is "
            f"{mean(field['frobenius'] for field in fields):.2f} times the largest spectral norm."
        ),
        f"The size at which they fold goes with their periods to the power {_in_words(power)}.",
        "",
        "| steep but small | length | ICON | GradICON | least determinant | folds, % |",
        "|---|---|---|---|---|---|",
    ]
    return lines + [
        f"| {row['field']} | {row['length']:.3g} | {row['icon']:.1e} | {row['gradicon']:.1e} | "
        f"{row['determinant']:.2f} | {row['folds']:.2f} |"
        for row in found["small"]
    ]


def _lipschitz_line(fields: Sequence[Numbers], bound: Numbers) -> str:
    """All fields of one dimension at one Lipschitz constant."""
    rows = [
        row
        for field in fields
        for row in field["sweep"]
        if (field["dimension"], row["constant"]) == (bound["dimension"], bound["constant"])
    ]
    folded = sum(row["determinant"] <= 0 for row in rows)
    cells = " | ".join(
        f"{min(row[name] for row in rows):.4f} | {bound[name]:.4f}"
        for name in ("determinant", "ratio")
    )
    return f"| {bound['constant']:g} | {bound['dimension']} | {folded} of {len(rows)} | {cells} |"


def _in_words(power: Numbers) -> str:
    return f"{power['mean']:.2f} ({power['low']:.2f} to {power['high']:.2f})"


def _with_interval(row: Numbers) -> str:
    return f"{row['mean']:.3f} | {row['low']:.3f} to {row['high']:.3f}"


def draw(numbers: Numbers, figure: "Figure") -> None:
    """Remainders by eps; rates by frequency; the least ratio by the Lipschitz constant."""
    figure.set_size_inches(13, 4.4)
    left, middle, right = figure.subplots(1, 3)
    _draw_remainders(left, numbers["expansion"])
    _draw_rates(middle, numbers["flow"])
    _draw_ratios(right, numbers["lipschitz"])
    left.legend(fontsize=8)
    middle.legend(fontsize=8, loc="lower right", bbox_to_anchor=(1, 0.1))
    right.legend(fontsize=8)


def _draw_remainders(axes: "Axes", found: Numbers) -> None:
    for row in found["orders"]:
        if row["name"] in _SHOWN:
            label = f"{_SHOWN[row['name']]}: order {row['mean']:.2f}"
            axes.plot(found["eps"], row["left"], marker="o", ms=4, label=label)
    axes.set(
        title="What the expansion leaves of the penalty",
        xlabel="size of the noise's gradient, eps",
        ylabel="|penalty $-$ expansion|, a mean over the square",
        xscale="log",
        yscale="log",
    )


def _draw_rates(axes: "Axes", found: Numbers) -> None:
    flat, solid = (
        [row for row in found["identity"] if row["dimension"] == dimension] for dimension in (2, 3)
    )
    ends = sorted(row["squared"] for row in flat + solid)
    axes.plot(ends, [4 * each for each in ends], color="0.7", lw=1, label=r"$4\,|\omega|^2$")
    axes.plot(ends, [8 for _ in ends], color="0.7", lw=1, ls="--", label="8")
    kinds: list[tuple[Sequence[Numbers], str, str]] = [
        (flat, "o", "2-D, identity"),
        (solid, "s", "3-D, identity"),
        (found["pairs"], "x", "2-D, other maps"),
    ]
    for key, title, colour in (("gradicon", "GradICON", "C0"), ("icon", "ICON", "C1")):
        for rows, marker, start in kinds:
            axes.plot(
                [row["squared"] for row in rows],
                [row[key] for row in rows],
                marker,
                ms=5,
                color=colour,
                mfc="none",
                label=f"{title}, {start}",
            )
    axes.set(
        title="How fast a wave decays",
        xlabel=r"$|\omega|^2$ (radians per image width, squared)",
        ylabel="rate of decay, per unit of the flow's time",
        xscale="log",
        yscale="log",
    )


def _draw_ratios(axes: "Axes", found: Numbers) -> None:
    fields = found["fields"]
    for number, field in enumerate(fields):
        label = f"{len(fields)} random fields" if number == 0 else None
        _plot_sweep(axes, field["sweep"], "0.75", label)
    _plot_sweep(axes, found["waves"]["shearing"], "C2", "a shearing wave")
    _plot_sweep(axes, found["waves"]["squeezing"], "C3", "a squeezing wave")
    axes.plot([0, 1, 3], [1, 0, 0], "k--", lw=1, label="the bound, 1 $-$ L")
    axes.axvline(1, color="k", lw=0.5)
    axes.set(
        title="How near a map brings two places",
        xlabel="Lipschitz constant L of the displacement",
        ylabel=r"least $|\phi(x)-\phi(y)|\,/\,|x-y|$",
        xlim=(0, 3),
        ylim=(-0.03, 1),
    )


def _plot_sweep(axes: "Axes", rows: Sequence[Numbers], colour: str, label: str | None) -> None:
    x, y = ([row[name] for row in rows] for name in ("constant", "ratio"))
    axes.plot(x, y, marker="o", ms=3, lw=1, color=colour, label=label)
