"""The table and the figure of `ablation`, from its numbers alone, and what each part added."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from gradicon.experiments.study import Numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BASE: Mapping[str, object] = {
    "backbone": "unet",
    "resolutions": 3,
    "second": False,
    "augmented": False,
    "optimised": False,
}
_STAGE2: dict[str, object] = {"second": True}
_BOTH: dict[str, object] = {"second": True, "augmented": True}
# what is looked at: a network without it and one with it, both by what differs from _BASE
_PARTS: tuple[tuple[str, dict[str, object], dict[str, object]], ...] = (
    (
        "the paper's U-Net for VoxelMorph's",
        {"backbone": "voxelmorph", "resolutions": 1},
        {"resolutions": 1},
    ),
    ("3 resolutions for 1", {"resolutions": 1}, {}),
    ("Stage2", {}, _STAGE2),
    ("augmentation", _STAGE2, _BOTH),
    ("instance optimization", _STAGE2, {**_STAGE2, "optimised": True}),
    ("instance optimization, augmented", _BOTH, {**_BOTH, "optimised": True}),
)


def table(numbers: Numbers) -> str:
    """The paper's Table 1, then what each part added."""
    return "\n".join([*_networks(numbers), "", *_effects(numbers["rows"])])


def _networks(numbers: Numbers) -> list[str]:
    lines = [
        (
            "| set | backbone | resolutions | Stage2 | optimised | augmented | Dice | folds [%] "
            "| 1 - LNCC | of training pairs |"
        ),
        "|---" * 10 + "|",
    ]
    for where, dice in numbers["unregistered_dice"].items():
        lines.append(f"| {where} | unregistered | | | | | {dice:.3f} | | | |")
        lines += [_network(row) for row in numbers["rows"] if row["set"] == where]
    return lines


def _network(row: Numbers) -> str:
    trained = row.get("training_dissimilarity")
    cells = [
        row["set"],
        row["backbone"],
        str(row["resolutions"]),
        *("yes" if row[part] else "" for part in ("second", "optimised", "augmented")),
        f"{row['dice']:.3f} ± {row['dice_sd']:.3f}",
        f"{row['folds_percent']:.4f}",
        f"{row['dissimilarity']:.3f}",
        "" if trained is None else f"{trained:.3f}",
    ]
    return f"| {' | '.join(cells)} |"


def _effects(rows: Sequence[Numbers]) -> list[str]:
    lines = ["| set | part | Dice without | with | difference | better in |", "|---" * 6 + "|"]
    for e in compare_parts(rows):
        change = f"{e['with'] - e['without']:+.3f} | {e['better']} of {e['pairs']} pairs"
        lines.append(
            f"| {e['set']} | {e['part']} | {e['without']:.3f} | {e['with']:.3f} | {change} |"
        )
    return lines


def draw(numbers: Numbers, figure: "Figure") -> None:
    """Dice of every row, one panel a set: its mean, and every pair."""
    figure.set_size_inches(11, 4.2)
    sets = list(numbers["unregistered_dice"])
    for axes, where in zip(np.atleast_1d(figure.subplots(1, len(sets))), sets, strict=True):
        rows = [row for row in numbers["rows"] if row["set"] == where]
        for place, row in enumerate(rows):
            overlaps = row["dice_of_pairs"]
            axes.plot(overlaps, [place] * len(overlaps), "|", color="0.6", markersize=7)
            axes.plot(row["dice"], place, "o", color="#c1272d" if row["optimised"] else "#0068b4")
        axes.axvline(numbers["unregistered_dice"][where], color="0.3", linestyle="--", linewidth=1)
        axes.set_yticks(range(len(rows)), [_label(row) for row in rows], fontsize=8)
        axes.invert_yaxis()
        axes.set(title=where, xlabel="Dice: mean, and every pair (dashed: unregistered)")
        axes.grid(axis="x", alpha=0.25)


def compare_parts(rows: Sequence[Numbers]) -> list[Numbers]:
    """What one part added, everything else being equal: mean Dice, and how many pairs are better.

    A pair is better where its Dice is higher with the part than without it.
    """
    effects: list[Numbers] = []
    for where in dict.fromkeys(row["set"] for row in rows):
        for part, without, having in _PARTS:
            before = _find_row(rows, {"set": where, **_BASE, **without})
            after = _find_row(rows, {"set": where, **_BASE, **having})
            pairs = list(zip(before["dice_of_pairs"], after["dice_of_pairs"], strict=True))
            effects.append(
                {
                    "set": where,
                    "part": part,
                    "without": before["dice"],
                    "with": after["dice"],
                    "better": sum(y > x for x, y in pairs),
                    "pairs": len(pairs),
                }
            )
    return effects


def _find_row(rows: Sequence[Numbers], parts: Mapping[str, object]) -> Numbers:
    return next(row for row in rows if all(row[name] == value for name, value in parts.items()))


def _label(row: Numbers) -> str:
    names = ("second", "Stage2"), ("augmented", "aug."), ("optimised", "opt.")
    return ", ".join(
        [
            str(row["backbone"]),
            f"{row['resolutions']} res.",
            *(short for part, short in names if row[part]),
        ]
    )
