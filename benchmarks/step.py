"""One training step, and one inference, of the paper's networks: plain, and as `gradicon train`
runs them. Prints JSON.

    python benchmarks/step.py                                                      this machine,
    small volumes python benchmarks/step.py --device cuda --shapes 175x175x175 --batches 1 4
    --repeats 20

A step is both directions, LNCC (sigma 5) + 1.5 GradICON on voxels / 8 random points, backward,
Adam; on random images. Plain is torch's own operations in float32, one by one; fast is what
training uses: on a GPU fused kernels, bfloat16 features and a captured graph. An inference is the
map of one pair on its grid. Times are medians in milliseconds, after warm-up; memory is the peak of
what tensors take.
"""

import argparse
import gc
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from datetime import date
from itertools import product
from typing import Any

import torch

from gradicon import ModelConfig, build
from gradicon.core.acceleration import plain
from gradicon.experiments.workload import inference, training_step, wait_for

Shape = tuple[int, ...]


def measure(
    work: Callable[[], object], device: torch.device, warmup: int, repeats: int
) -> dict[str, float]:
    """Median milliseconds of `work`, the spread, and on a GPU the peak memory in GB."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for _ in range(warmup):
        work()
    times: list[float] = []
    for _ in range(repeats):
        wait_for(device)
        start = time.perf_counter()
        work()
        wait_for(device)
        times.append(1000 * (time.perf_counter() - start))
    result = {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times)}
    if device.type == "cuda":
        result["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
    return {name: round(value, 3) for name, value in result.items()}


def row(
    stage: int,
    shape: Shape,
    batch: int,
    device: torch.device,
    warmup: int,
    repeats: int,
    *,
    fast: bool,
) -> dict[str, Any]:
    """One network, one size, one way."""
    torch.manual_seed(0)
    model = build(ModelConfig(stage=stage, dimension=len(shape))).to(device).train()
    found: dict[str, Any] = {
        "stage": stage,
        "shape": list(shape),
        "batch": batch,
        "path": "fast" if fast else "plain",
    }
    with nullcontext() if fast else plain():
        found["training_step"] = measure(
            training_step(model, shape, batch, device, fast=fast), device, warmup, repeats
        )
        if batch == 1:
            found["inference"] = measure(
                inference(model.eval(), shape, device, fast=fast), device, warmup, repeats
            )
    print(f"{found}", file=sys.stderr, flush=True)
    return found


def run(
    device: torch.device,
    shapes: list[Shape],
    stages: list[int],
    batches: list[int],
    warmup: int,
    repeats: int,
) -> dict[str, Any]:
    """Every stage at every shape and batch, plain and fast, one after the other."""
    rows: list[dict[str, Any]] = []
    for stage, shape, batch, fast in product(stages, shapes, batches, (False, True)):
        rows.append(row(stage, shape, batch, device, warmup, repeats, fast=fast))
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
    name = (
        torch.cuda.get_device_name()
        if device.type == "cuda"
        else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )
    command = f"python benchmarks/step.py {' '.join(sys.argv[1:])}".strip()
    return {
        "command": command,
        "date": date.today().isoformat(),
        "device": name,
        "torch": torch.__version__,
        "rows": rows,
    }


def _shape(text: str) -> Shape:
    return tuple(int(n) for n in text.split("x"))


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument(
        "--shapes",
        type=_shape,
        nargs="+",
        default=[(35, 51, 35), (64, 64, 64), (96, 96, 96)],
        metavar="DxHxW",
    )
    parser.add_argument("--stages", type=int, nargs="+", choices=[1, 2], default=[1, 2])
    parser.add_argument("--batches", type=int, nargs="+", default=[1])
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    chosen = options.shapes, options.stages, options.batches, options.warmup, options.repeats
    print(json.dumps(run(torch.device(options.device), *chosen), indent=2))


if __name__ == "__main__":
    main()
