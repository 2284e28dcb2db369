"""The table and the figure of `statistics`, from its numbers alone."""

from typing import TYPE_CHECKING

from gradicon.experiments.study import Numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def table(numbers: Numbers) -> str:
    """Counts beside the paper's, then what was measured; the paper's own measurements last."""
    return "\n".join([*_counts(numbers), "", *_measurements(numbers), "", *_papers(numbers)])


def _counts(numbers: Numbers) -> list[str]:
    paper = numbers["paper"]["networks"]
    lines = [
        (
            f"Counted at {numbers['paper']['size']}^3. FLOPs take a multiplication and an addition "
            "as two, MACs as one; both are of convolutions."
        ),
        (
            "thop's count, which the paper gives, charges transposed convolutions 8 times "
            "what they do."
        ),
        "",
        "| network | parameters | the paper's | FLOPs | MACs | as thop counts | the paper's |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, count in numbers["counts"].items():
        operations = " | ".join(f"{count[key] / 1e9:,.3f} G" for key in ("flops", "macs", "thop"))
        lines.append(
            f"| {name} | {count['parameters']:,} | {paper[name]['parameters']:,} | "
            f"{operations} | {paper[name]['thop'] / 1e9:,.3f} G |"
        )
    return lines


def _measurements(numbers: Numbers) -> list[str]:
    lines = [
        "Measured: milliseconds, and peak MB where it was a GPU.",
        "",
        "| network | size | inference, plain | inference, fast | step, plain | step, fast |",
        "|---|---|---|---|---|---|",
    ]
    for row in numbers["rows"]:
        cells = [
            _cell(row[f"{task}_{path}"])
            for task in ("inference", "training")
            for path in ("plain", "fast")
        ]
        lines.append(f"| {row['network']} | {row['size']}^3 | {' | '.join(cells)} |")
    return lines


def _papers(numbers: Numbers) -> list[str]:
    paper = numbers["paper"]
    lines = [
        f"The paper's own, at {paper['size']}^3 on an {paper['device']}:",
        "",
        "| network | inference | step |",
        "|---|---|---|",
    ]
    for name, given in paper["networks"].items():
        cells = [
            _cell({"ms": given.get(f"{task}_ms"), "mb": given.get(f"{task}_mb")})
            for task in ("inference", "training")
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def _cell(measured: dict[str, float | None]) -> str:
    """Such as "3.0 ms, 40 MB"; a dash where nothing is known."""
    parts = [
        f"{value:,.{digits}f} {unit}"
        for unit, digits in (("ms", 1), ("MB", 0))
        if (value := measured[unit.lower()]) is not None
    ]
    return ", ".join(parts) or "—"


def draw(numbers: Numbers, figure: "Figure") -> None:
    """Inference by size: time on the left, on the right memory where it was measured, else FLOPs.

    Dashed lines are plain, crosses the paper's. A network that was only counted is left out.
    """
    on_gpu = any(row["inference_plain"]["mb"] is not None for row in numbers["rows"])
    left, right = figure.subplots(1, 2)
    for k, name in enumerate(dict.fromkeys(row["network"] for row in numbers["rows"])):
        rows = [row for row in numbers["rows"] if row["network"] == name]
        papers = numbers["paper"]["networks"][name]
        paper_voxels = numbers["paper"]["size"] ** 3
        _plot_paths(left, rows, "ms", f"C{k}", name)
        if on_gpu:
            _plot_paths(right, rows, "mb", f"C{k}", name)
            left.plot([paper_voxels], [papers.get("inference_ms")], "x", color=f"C{k}")
            right.plot([paper_voxels], [papers.get("inference_mb")], "x", color=f"C{k}")
        else:
            voxels = [row["size"] ** 3 for row in rows]
            right.plot(voxels, [row["flops"] for row in rows], marker="o", ms=3, color=f"C{k}")
    left.set_title("Inference, ms (dashed: plain)")
    right.set_title("Inference, peak MB" if on_gpu else "Inference, FLOPs")
    sizes = sorted({row["size"] for row in numbers["rows"]})
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="voxels along each axis")
        axes.set_xticks([size**3 for size in sizes], sizes)
        axes.minorticks_off()
    left.legend(fontsize=8)


def _plot_paths(axes: "Axes", rows: list[Numbers], unit: str, colour: str, name: str) -> None:
    """One network's inferences by voxels, plain and fast; the fast line has the name."""
    voxels = [row["size"] ** 3 for row in rows]
    for path, style in (("plain", "--"), ("fast", "-")):
        values = [row[f"inference_{path}"][unit] for row in rows]
        label = name if path == "fast" else None
        axes.plot(voxels, values, style, marker="o", ms=3, color=colour, label=label)
