"""What the networks cost: parameters, operations, time and memory, by size.

This is the paper's appendix on model statistics.

Operations are those of convolutions, counted by torch on the plain path without computing anything:
`flops` takes a multiplication and an addition as two, `macs` as one. The paper's counter, thop,
does neither: it charges a transposed convolution for every input weight at every *output* voxel,
which is 2^3 times too much at stride 2, and each voxel of a BatchNorm with 4. `thop` counts so, to
compare with the paper. Its VoxelMorph rounds odd sizes down when it halves them, ours up, so there
the numbers meet only at multiples of 16.

Time is the median of warm runs. An inference is a network's map of one pair, on its grid; a
training step is both directions, LNCC, GradICON, backward and Adam, of ICON's network too. Plain is
torch's own operations in float32; fast is what `gradicon train` uses: on a GPU fused kernels,
bfloat16 features and a captured graph.
"""

import gc
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from gradicon.core.acceleration import plain
from gradicon.core.network import Displace
from gradicon.experiments.statistics_report import draw, table
from gradicon.experiments.study import Numbers, Setting
from gradicon.experiments.workload import Work, inference, training_step, wait_for
from gradicon.models import Model, ModelConfig, build

__all__ = ["TITLE", "draw", "run", "table"]

TITLE = "What the networks cost"
NETWORKS: dict[str, ModelConfig] = {
    "VoxelMorph's U-Net": ModelConfig(stage=1, resolutions=1, backbone="voxelmorph"),
    "U-Net": ModelConfig(stage=1, resolutions=1),
    "ICON": ModelConfig(composition="icon"),
    "Stage1": ModelConfig(stage=1),
    "Stage2": ModelConfig(stage=2),
}
# the paper's own numbers, of its appendix, at PAPER_SIZE^3
PAPER: dict[str, dict[str, float | None]] = {
    "VoxelMorph's U-Net": {"parameters": 327_331, "thop": 397.878e9, "inference_mb": 4182},
    "U-Net": {"parameters": 17_670_229, "thop": 540.084e9, "inference_mb": 2244},
    "ICON": {
        "parameters": 53_010_687,
        "thop": 678.513e9,
        "inference_ms": 96.36,
        "inference_mb": 2918,
        "training_ms": 573.57,
        "training_mb": 8082,
    },
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
    """How many runs are thrown away, and how many are timed.

    The first ones compile kernels, choose algorithms and capture graphs.
    """

    warmup: int
    repeats: int


def run(setting: Setting) -> Numbers:
    """Count at the paper's size, then time every network at every size."""
    sizes = _sizes(setting)
    effort = Effort(1, 1) if setting.quick else Effort(6, 10)
    rows: list[Numbers] = []
    for name, config in NETWORKS.items():
        for size in sizes:
            setting.tell(f"{name} at {size}^3", len(rows) / len(sizes) / len(NETWORKS))
            cost = count_cost(config, size)
            measured = _timed(config, size, setting.device, effort)
            rows.append({"network": name, "size": size, **cost, **measured})
    counts = {name: count_cost(config, PAPER_SIZE) for name, config in NETWORKS.items()}
    return {
        "paper": {"size": PAPER_SIZE, "device": "RTX 3090", "networks": PAPER},
        "counts": counts,
        "rows": rows,
    }


def _sizes(setting: Setting) -> list[int]:
    """Voxels along each axis: from small to what the device can do in minutes."""
    if setting.quick:
        return [16, 24]
    return [64, 96, 128, PAPER_SIZE, 192] if setting.device.type == "cuda" else [48, 64, 96]


def count_cost(config: ModelConfig, size: int) -> dict[str, int]:
    """Parameters and operations of one inference at size^D.

    They follow from shapes alone, so nothing is computed: "meta" is torch's device of tensors
    without numbers, and a size that no memory holds can be counted.
    """
    with torch.device("meta"):
        network = build(config).eval()
        image = torch.empty(1, config.image_channels, *[size] * config.dimension)
    for module in network.modules():
        if isinstance(module, Displace):
            module.refuse_non_finite = False  # there are no numbers to look at
    flops, thop = count_operations(
        network, lambda: network(image, image).materialise(image.shape[2:])
    )
    return {
        "parameters": sum(p.numel() for p in network.parameters()),
        "flops": flops,
        "macs": flops // 2,
        "thop": thop,
    }


def count_operations(network: nn.Module, work: Work) -> tuple[int, int]:
    """What `work` does with `network`: floating point operations, and what thop would say.

    The hooks count as thop does, by modules, so they do not see what no module does.
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
    """Time and memory of inference and training, plain and fast; None where memory is too small.

    Each has a network of its own, so that no memory is another's.
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
    """The median in milliseconds, and on a GPU the peak of tensors in MB of 10^6 bytes."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    work = prepare()
    times: list[float] = []
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
