"""The cost of one training step and of one inference, against image size, for the paper's networks. Prints JSON.

    python benchmarks/step.py                                   on this machine's GPU, or its CPU if it has none
    python benchmarks/step.py --device cpu --shapes 64x64x64 --stages 2 --repeats 3

A training step is the objective with LNCC (sigma 5) and the paper's number of random points, its gradient, and one step of Adam, at
batch 1 on random images. An inference is the map of one pair on its grid. Times are medians in milliseconds, after warm-up.
"""

import argparse
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import date
from typing import Any

import torch

from gradicon import ModelConfig, build, lncc, objective
from gradicon.models import Model

Shape = tuple[int, ...]


def measure(work: Callable[[], object], device: torch.device, warmup: int, repeats: int) -> dict[str, float]:
    """Median milliseconds of `work`, the spread, and on a GPU the peak memory in GB."""
    for _ in range(warmup):
        work()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    times: list[float] = []
    for _ in range(repeats):
        _wait(device)
        start = time.perf_counter()
        work()
        _wait(device)
        times.append(1000 * (time.perf_counter() - start))
    result = {"median_ms": statistics.median(times), "min_ms": min(times), "max_ms": max(times)}
    if device.type == "cuda":
        result["peak_gb"] = torch.cuda.max_memory_allocated() / 1e9
    return {name: round(value, 3) for name, value in result.items()}


def training_step(model: Model, shape: Shape, device: torch.device) -> Callable[[], object]:
    """One step of the paper's protocol on a fixed random pair."""
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-5)
    a, b = torch.rand(2, 1, 1, *shape, device=device)
    count = a.numel() // 2 ** len(shape)

    def step() -> None:
        x = torch.rand(1, len(shape), count, device=device)
        optimizer.zero_grad(set_to_none=True)
        objective(model, a, b, x, similarity=lncc).loss.backward()
        optimizer.step()

    return step


def inference(model: Model, shape: Shape, device: torch.device) -> Callable[[], object]:
    """One pair to one map, without gradients."""
    a, b = torch.rand(2, 1, 1, *shape, device=device)

    @torch.no_grad()
    def infer() -> None:
        model(a, b).on_grid(shape)

    return infer


def run(device: torch.device, shapes: list[Shape], stages: list[int], warmup: int, repeats: int) -> dict[str, Any]:
    """Every stage at every shape."""
    rows: list[dict[str, Any]] = []
    for stage in stages:
        for shape in shapes:
            torch.manual_seed(0)
            model = build(ModelConfig(stage=stage, dimension=len(shape))).to(device)
            row: dict[str, Any] = {"stage": stage, "shape": list(shape)}
            row["training_step"] = measure(training_step(model.train(), shape, device), device, warmup, repeats)
            row["inference"] = measure(inference(model.eval(), shape, device), device, warmup, repeats)
            rows.append(row)
            print(f"stage {stage} {shape}: {row['training_step']} {row['inference']}", file=sys.stderr, flush=True)
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"{platform.machine()}, {torch.get_num_threads()} threads"
    command = f"python benchmarks/step.py {' '.join(sys.argv[1:])}".strip()
    return {"command": command, "date": date.today().isoformat(), "device": name, "torch": torch.__version__, "rows": rows}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def _shape(text: str) -> Shape:
    return tuple(int(n) for n in text.split("x"))


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--shapes", type=_shape, nargs="+", default=[(35, 51, 35), (64, 64, 64), (96, 96, 96)], metavar="DxHxW")
    parser.add_argument("--stages", type=int, nargs="+", choices=[1, 2], default=[1, 2])
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    print(json.dumps(run(torch.device(options.device), options.shapes, options.stages, options.warmup, options.repeats), indent=2))


if __name__ == "__main__":
    main()
