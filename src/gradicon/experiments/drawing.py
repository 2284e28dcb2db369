"""A network as a picture, made from its configuration alone: its steps, and its U-Net."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from gradicon.core.network import Displace, Down, RegistrationNetwork, TwoStep
from gradicon.errors import GradiconError
from gradicon.files import written_whole
from gradicon.models import ModelConfig, build
from gradicon.registration.result.figure import check_drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE = "#4477aa"
_GREEN = "#228833"


@dataclass(frozen=True)
class Step:
    """One dense network of a registration network.

    Args:
        number: in the order in which they are asked, from 1.
        halvings: how often the images that it sees were halved.
        parameters: its weights.
    """

    number: int
    halvings: int
    parameters: int

    @property
    def name(self) -> str:
        """As the paper writes it."""
        return f"Ψ{self.number}"

    @property
    def resolution(self) -> str:
        """Of the images that it sees."""
        return "full resolution" if self.halvings == 0 else f"1/{2**self.halvings} resolution"


def steps_of(network: RegistrationNetwork) -> tuple[str, list[Step]]:
    """How a network is made of Down and TS, as the paper writes it, and its dense networks."""
    steps: list[Step] = []
    return _walk(network, 0, steps), steps


def _walk(network: RegistrationNetwork, halvings: int, steps: list[Step]) -> str:
    match network:
        case Displace():
            count = sum(parameter.numel() for parameter in network.parameters())
            steps.append(Step(len(steps) + 1, halvings, count))
            return steps[-1].name
        case Down():
            return f"Down{{{_walk(network.net, halvings + 1, steps)}}}"
        case TwoStep():
            first = _walk(network.first, halvings, steps)
            second = _walk(network.second, halvings, steps)
            again = f" {network.times} times" if network.times > 1 else ""
            return f"TS{{{first}, {second}{again}}}"
        case _:
            raise GradiconError(f"a {type(network).__name__} cannot be drawn")


def draw_network(config: ModelConfig, path: Path) -> None:
    """Write a PNG of the network that a configuration means."""
    check_drawing()
    from matplotlib.figure import Figure

    with torch.device("meta"):  # weights of no memory
        model = build(config)
    formula, steps = steps_of(model.net)
    figure = Figure(figsize=(11, 7.5), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=[1.1, 1])
    total = sum(step.parameters for step in steps)
    figure.suptitle(f"{config.title}, {config.dimension}-D: {formula}, {total:,} parameters")
    _draw_steps(above, steps)
    _draw_backbone(below, config)
    with written_whole(path) as part:
        figure.savefig(part, format="png", dpi=110)


def _draw_steps(axes: "Axes", steps: Sequence[Step]) -> None:
    """From left to right, each lower the coarser its images."""
    axes.set_title("Steps: each sees the fixed image, and the moving one warped by those before")
    deepest = max(step.halvings for step in steps)
    for step in steps:
        y = -step.halvings
        text = f"{step.name}\n{step.resolution}\n{step.parameters / 1e6:.2f} M weights"
        box = {"boxstyle": "round,pad=0.6", "facecolor": "white", "edgecolor": _BLUE}
        axes.text(step.number, y, text, ha="center", va="center", bbox=box, fontsize=10)
    for before, after in pairwise(steps):
        axes.annotate(
            "",
            xy=(after.number - 0.3, -after.halvings),
            xytext=(before.number + 0.3, -before.halvings),
            arrowprops={"arrowstyle": "->", "color": _GREEN, "lw": 2},
        )
        middle = ((before.number + after.number) / 2, -(before.halvings + after.halvings) / 2)
        axes.text(middle[0] - 0.04, middle[1] + 0.08, "warp", ha="right", color=_GREEN, fontsize=10)
    axes.set_xlim(0.4, len(steps) + 0.6)
    axes.set_ylim(-deepest - 0.6, 0.6)
    axes.axis("off")


def _draw_backbone(axes: "Axes", config: ModelConfig) -> None:
    """Channels of the dense network, in the order in which features are made."""
    counts = [2 * config.image_channels, *config.down_channels]
    # A U-Net's upward counts are given finest first; VoxelMorph's in their own order.
    upward = config.up_channels[:: -1 if config.backbone == "unet" else 1]
    counts += [*upward, config.dimension]
    colors = ["black", *[_BLUE] * len(config.down_channels), *[_GREEN] * len(upward), "black"]
    places = range(len(counts))
    bars = axes.bar(places, counts, color=colors, width=0.6)
    axes.bar_label(bars, fontsize=9)
    labels = ["images", *["down"] * len(config.down_channels), *["up"] * len(upward), "map"]
    axes.set_xticks(list(places), labels)
    axes.set_yscale("log", base=2)
    axes.set_ylabel("channels")
    name = {"unet": "the paper's U-Net", "voxelmorph": "VoxelMorph's U-Net"}[config.backbone]
    axes.set_title(f"Each Ψ: {name}; blue halves the resolution, green restores it")
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
