"""What the networks cost: parameters, operations, time and memory, by size (the paper's appendix on
model statistics).

Operations are those of convolutions, counted by torch on the plain path without computing anything:
`flops` takes a multiplication and an addition as two, `macs` as one. The paper's counter, thop,
does neither: it charges a transposed convolution for every input weight at every *output* voxel,
which is 2^3 times too much at stride 2, and each voxel of a BatchNorm with 4. `thop` counts so, to
compare with the paper. Its VoxelMorph halves odd sizes down, ours up, so there the numbers meet
only at multiples of 16.

Time is the median of warm runs. An inference is a network's map of one pair, on its grid; a
training step is both directions, LNCC, GradICON, backward and Adam. Plain is torch's own operations
in float32; fast is what `gradicon train` uses: on a GPU fused kernels, bfloat16 features and a
captured graph.
"""

import gc
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from gradicon.core.acceleration import plain
from gradicon.core.network import Displace
from gradicon.experiments.study import Numbers, Setting
from gradicon.experiments.workload import Work, inference, training_step, wait_for
from gradicon.models import Model, ModelConfig, build

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "What the networks cost"
NETWORKS: dict[str, ModelConfig] = {
    "VoxelMorph's U-Net": ModelConfig(stage=1, resolutions=1, backbone="voxelmorph"),
    "U-Net": ModelConfig(stage=1, resolutions=1),
    "Stage1": ModelConfig(stage=1),
    "Stage2": ModelConfig(stage=2),
}
PAPER: dict[str, dict[str, float | None]] = {
    "VoxelMorph's U-Net": {"parameters": 327_331, "thop": 397.878e9, "inference_mb": 4182},
    "U-Net": {"parameters": 17_670_229, "thop": 540.084e9, "inference_mb": 2244},
    "Stage1": {
        "parameters": 53_010_687,
        "thop": 618.592e9,
        "inference_ms": 88.24,
        "inference_mb": 2934,
        "training_ms": 727.77,
        "training_mb": 9384,
    },
    "Stage2": {
        "parameters": 70_680_916,
        "thop": 1.159e12,
        "inference_ms": 160.59,
        "inference_mb": 3122,
        "training_ms": 1162.54,
        "training_mb": 13482,
    },
}
PAPER_SIZE = 175


@dataclass(frozen=True)
class Effort:
    """How many runs are thrown away, and how many are timed."""

    warmup: int
    repeats: int


def run(setting: Setting) -> Numbers:
    """Count at the paper's size, then time every network at every size."""
    sizes = (
        [16, 24]
        if setting.quick
        else [64, 96, 128, 175, 192]
        if setting.device.type == "cuda"
        else [48, 64, 96]
    )
    effort = Effort(1, 1) if setting.quick else Effort(6, 10)
    rows: list[Numbers] = []
    for name, config in NETWORKS.items():
        for size in sizes:
            setting.tell(f"{name} at {size}^3", len(rows) / len(sizes) / len(NETWORKS))
            rows.append(
                {
                    "network": name,
                    "size": size,
                    **counted(config, size),
                    **_timed(config, size, setting.device, effort),
                }
            )
    counts = {name: counted(config, PAPER_SIZE) for name, config in NETWORKS.items()}
    return {
        "paper": {"size": PAPER_SIZE, "device": "RTX 3090", "networks": PAPER},
        "counts": counts,
        "rows": rows,
    }


def counted(config: ModelConfig, size: int) -> dict[str, int]:
    """Parameters and operations of one inference at size^D, by shapes alone: on torch's device of
    tensors without numbers.
    """
    with torch.device("meta"):
        network = build(config).eval()
        image = torch.empty(1, config.image_channels, *[size] * config.dimension)
    for module in network.modules():
        if isinstance(module, Displace):
            module.refuse_non_finite = False  # there are no numbers to look at
    flops, thop = operations(network, lambda: network(image, image).materialise(image.shape[2:]))
    return {
        "parameters": sum(p.numel() for p in network.parameters()),
        "flops": flops,
        "macs": flops // 2,
        "thop": thop,
    }


def operations(network: nn.Module, work: Work) -> tuple[int, int]:
    """What `work` does with `network`: floating point operations, and what thop would say.
    Functional calls it cannot see.
    """
    seen: list[int] = []

    def note(module: nn.Module, _: object, out: object) -> None:
        if not isinstance(out, Tensor):
            return
        if isinstance(module, nn.Conv2d | nn.Conv3d | nn.ConvTranspose2d | nn.ConvTranspose3d):
            seen.append(out.numel() * module.in_channels * module.weight.shape[2:].numel())
        elif isinstance(module, nn.BatchNorm2d | nn.BatchNorm3d):
            seen.append(4 * out.numel())

    hooks = [module.register_forward_hook(note) for module in network.modules()]
    with plain(), torch.no_grad(), FlopCounterMode(display=False) as counter:
        work()
    for hook in hooks:
        hook.remove()
    return counter.get_total_flops(), sum(seen)


def _timed(config: ModelConfig, size: int, device: torch.device, effort: Effort) -> Numbers:
    """Both paths, each task with a network of its own, so that no memory is another's. None where
    it does not fit.
    """
    found: Numbers = {}
    for path, fast in (("plain", False), ("fast", True)):
        for task, prepare in (("inference", _inference), ("training", _training)):
            try:
                with nullcontext() if fast else plain():
                    found[f"{task}_{path}"] = _measured(
                        lambda p=prepare, f=fast: p(config, size, device, fast=f), device, effort
                    )
            except torch.OutOfMemoryError:
                found[f"{task}_{path}"] = {"ms": None, "mb": None}
    return found


def _measured(
    prepare: Callable[[], Work], device: torch.device, effort: Effort
) -> dict[str, float | None]:
    """The median in milliseconds, and on a GPU the peak of what tensors take, in MB of
    10^6 bytes.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    work = prepare()
    times = list[float]()
    for _ in range(effort.warmup + effort.repeats):
        wait_for(device)
        start = time.perf_counter()
        work()
        wait_for(device)
        times.append(1000 * (time.perf_counter() - start))
    peak = torch.cuda.max_memory_allocated(device) / 1e6 if device.type == "cuda" else None
    return {
        "ms": round(statistics.median(times[effort.warmup :]), 3),
        "mb": None if peak is None else round(peak, 1),
    }


def _inference(config: ModelConfig, size: int, device: torch.device, *, fast: bool) -> Work:
    return inference(_network(config, device).eval(), [size] * config.dimension, device, fast=fast)


def _training(config: ModelConfig, size: int, device: torch.device, *, fast: bool) -> Work:
    return training_step(
        _network(config, device).train(), [size] * config.dimension, 1, device, fast=fast
    )


def _network(config: ModelConfig, device: torch.device) -> Model:
    with device:
        return build(config)


def table(numbers: Numbers) -> str:
    """Counts beside the paper's, then what was measured; the paper's own measurements last."""
    paper = numbers["paper"]["networks"]
    counts = numbers["counts"]
    size = numbers["paper"]["size"]
    lines = [
        (
            f"Counted at {size}^3. FLOPs take a multiplication and an addition as two, MACs "
            "as one; both are of convolutions."
        ),
        (
            "thop's count, which the paper gives, charges transposed convolutions 8 times "
            "what they do."
        ),
        "",
        "| network | parameters | the paper's | FLOPs | MACs | as thop counts | the paper's |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, found in counts.items():
        flops = " | ".join(f"{found[key] / 1e9:,.3f} G" for key in ("flops", "macs", "thop"))
        lines.append(
            f"| {name} | {found['parameters']:,} | {paper[name]['parameters']:,} | "
            f"{flops} | {paper[name]['thop'] / 1e9:,.3f} G |"
        )
    lines += ["", "Measured: milliseconds, and peak MB where it was a GPU.", ""]
    lines += [
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
    lines += ["", f"The paper's own, at {size}^3 on an {numbers['paper']['device']}:", ""]
    lines += ["| network | inference | step |", "|---|---|---|"]
    for name, given in paper.items():
        cells = [
            _cell({"ms": given.get(f"{task}_ms"), "mb": given.get(f"{task}_mb")})
            for task in ("inference", "training")
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(found: dict[str, float | None]) -> str:
    said = [
        f"{value:,.{digits}f} {unit}"
        for unit, digits in (("ms", 1), ("MB", 0))
        if (value := found[unit.lower()]) is not None
    ]
    return ", ".join(said) or "—"


def draw(numbers: Numbers, figure: "Figure") -> None:
    """Inference by size: time, and memory where it was measured, else operations. Dashed is plain;
    crosses are the paper's.
    """
    rows = numbers["rows"]
    paper = numbers["paper"]
    on_gpu = any(row["inference_plain"]["mb"] is not None for row in rows)
    left, right = figure.subplots(1, 2)
    for k, name in enumerate(numbers["counts"]):
        own = [row for row in rows if row["network"] == name]
        voxels = [row["size"] ** 3 for row in own]
        for path, style in (("plain", "--"), ("fast", "-")):
            label = name if path == "fast" else None
            left.plot(
                voxels,
                [row[f"inference_{path}"]["ms"] for row in own],
                style,
                marker="o",
                ms=3,
                color=f"C{k}",
                label=label,
            )
            if on_gpu:
                right.plot(
                    voxels,
                    [row[f"inference_{path}"]["mb"] for row in own],
                    style,
                    marker="o",
                    ms=3,
                    color=f"C{k}",
                )
        if not on_gpu:
            right.plot(voxels, [row["flops"] for row in own], marker="o", ms=3, color=f"C{k}")
        for axes, key in ((left, "inference_ms"), (right, "inference_mb")) if on_gpu else ():
            axes.plot([paper["size"] ** 3], [paper["networks"][name].get(key)], "x", color=f"C{k}")
    left.set_title("Inference, ms (dashed: plain)")
    right.set_title("Inference, peak MB" if on_gpu else "Inference, FLOPs")
    sizes = sorted({row["size"] for row in rows})
    for axes in (left, right):
        axes.set(xscale="log", yscale="log", xlabel="voxels along each axis")
        axes.set_xticks([size**3 for size in sizes], sizes)
        axes.minorticks_off()
    left.legend(fontsize=8)
