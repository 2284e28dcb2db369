"""Example cases as the paper shows them: source, target, warped, differences, map as a grid.

    python benchmarks/cases.py hippocampus/val_pairs.csv cardiac/val_pairs.csv -o cases.png

Of each list the first pairs are registered by `gradicon register` as it is, and drawn one to a row:
the middle slice of the target's content, across its shortest axis. Lists with labels show their
mean Dice.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gradicon.core.network import warp
from gradicon.evaluation.evaluate import judge
from gradicon.physical.images import read_image
from gradicon.physical.lists import Pair, read_pairs
from gradicon.registration.options import Options
from gradicon.registration.register import Registration, register
from gradicon.registration.result.scores import Extras, read_extras

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLES = ("source", "target", "warped", "difference before", "difference after", "map")
_LINES = 28  # of the grid along the longer side of a picture
_CONTENT = 0.1  # of the intensities: what is brighter is content


def show_case(axes: "list[Axes]", pair: Pair, *, first: bool) -> None:
    """Register a pair and draw it into a row."""
    fixed = read_image(pair.fixed.image)
    moving = read_image(pair.moving.image)
    found = register(fixed, moving, Options(device="cpu"))
    carried = read_extras(Extras(pair.fixed.labels, pair.moving.labels), fixed, moving)
    measures = judge(found, carried)
    with torch.no_grad():
        warped = warp(found.pair.moving, found.phi)
    axis, at = _shown(found)
    source, target, result = (
        image[0, 0].select(axis, at) for image in (found.pair.moving, found.pair.fixed, warped)
    )
    pictures = [source, target, result, source - target, result - target]
    length = [s for k, s in enumerate(found.pair.space.spacing_mm) if k != axis]
    for place, picture in zip(axes, pictures, strict=False):
        signed = bool(picture.min() < 0)
        place.imshow(
            picture.numpy(),
            cmap="RdBu" if signed else "gray",
            vmin=-1 if signed else 0,
            vmax=1,
            origin="lower",
            aspect=length[0] / length[1],
        )
    _draw_grid(axes[-1], found, axis, at, length[0] / length[1])
    for place, title in zip(axes, _TITLES, strict=True):
        place.set_axis_off()
        if first:
            place.set_title(title, fontsize=11)
    said = f"{pair.fixed.image.parent.parent.name}: {pair.moving.image.name.split('.')[0]}"
    if "mean_dice" in measures:
        said += f"\nDice {measures['mean_dice_before']:.2f} to {measures['mean_dice']:.2f}"
    said += f", folds {measures['folds_percent']:.3g} %"
    axes[0].text(0, -0.04, said, transform=axes[0].transAxes, va="top", fontsize=8)


def _shown(found: Registration) -> tuple[int, int]:
    """The axis across which a slice is shown, and which: the middle one of the content."""
    shape = found.pair.space.shape
    axis = shape.index(min(shape))
    bright = (found.pair.fixed[0, 0] > _CONTENT).movedim(axis, 0).flatten(1).any(1).nonzero()
    return axis, int(bright.double().mean()) if len(bright) else shape[axis] // 2


def _draw_grid(axes: "Axes", found: Registration, axis: int, at: int, aspect: float) -> None:
    """Where the map takes the lines of a grid over the target, in the plane of the slice."""
    shape = found.pair.space.shape
    others = [k for k in range(len(shape)) if k != axis]
    with torch.no_grad():
        places = found.phi.on_grid(shape)[0].cpu().select(axis + 1, at)
    rows, columns = (places[k] * (shape[k] - 1) for k in others)
    step = max(max(rows.shape) // _LINES, 1)
    lines: list[tuple[Tensor, Tensor]] = [
        *zip(rows[::step], columns[::step], strict=True),
        *zip(rows[:, ::step].T, columns[:, ::step].T, strict=True),
    ]
    for y, x in lines:
        axes.plot(x.numpy(), y.numpy(), color="#4477aa", linewidth=0.6)
    axes.set_xlim(0, rows.shape[1] - 1)
    axes.set_ylim(0, rows.shape[0] - 1)
    axes.set_aspect(aspect)


def main() -> None:
    """Register the pairs and write the picture."""
    from matplotlib.figure import Figure

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists", nargs="+", type=Path, metavar="PAIRS.csv")
    parser.add_argument("-o", "--out", type=Path, required=True)
    parser.add_argument("-n", "--each", type=int, default=2, help="pairs of each list")
    given = parser.parse_args()
    pairs = [pair for path in given.lists for pair in read_pairs(path)[: given.each]]
    figure = Figure(figsize=(2.1 * len(_TITLES), 2.3 * len(pairs)), layout="constrained")
    rows = figure.subplots(len(pairs), len(_TITLES), squeeze=False)
    for number, (row, pair) in enumerate(zip(rows, pairs, strict=True)):
        show_case(list(row), pair, first=number == 0)
        print(f"{number + 1} of {len(pairs)}", flush=True)
    figure.savefig(given.out, dpi=72)


if __name__ == "__main__":
    main()
