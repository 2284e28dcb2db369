"""Instance optimization of one pair: of the network's weights, as published, against the fields themselves. Prints JSON.

    python benchmarks/refine.py --pairs scratch/pairs.npz          the same 50 iterations of both, on a CPU, from one start
    python benchmarks/refine.py --device cuda --random 175         time and peak memory of 50 network iterations on a GPU

The npz file holds arrays `NAME_moving` and `NAME_fixed` in [0,1], of one shape per pair. The network is the paper's Stage2, with
fresh weights.
"""

import argparse
import json
import platform
import sys
import time
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gradicon import DisplacementField, ModelConfig, build, fold_percentage, lncc, warp
from gradicon.core.similarity import Similarity
from gradicon.registration.fields import FieldSettings, optimise_fields
from gradicon.registration.refine import refine


def compare(moving: Tensor, fixed: Tensor, steps: int, similarity: Similarity) -> dict[str, Any]:
    """Both kinds of refinement from an untrained network's answer, which is the identity."""
    shape = tuple(fixed.shape[2:])
    torch.manual_seed(0)
    network = build(ModelConfig(stage=2, dimension=len(shape))).to(fixed.device)
    if fixed.is_cuda:
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    tuned = refine(network, moving, fixed, steps=steps, similarity=similarity)
    _wait(fixed)
    network_s = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() / 1e9 if fixed.is_cuda else None
    began = time.perf_counter()
    still = DisplacementField(torch.zeros(1, len(shape), *shape, device=fixed.device))
    phi, _ = optimise_fields(moving, fixed, (still, still), [shape], FieldSettings(similarity, (steps,), learning_rate=0.1))
    _wait(fixed)
    fields_s = time.perf_counter() - began
    with torch.no_grad():
        by_network = tuned(moving, fixed)
        unlike = {
            name: similarity(image, fixed).item()
            for name, image in (("start", moving), ("network", warp(moving, by_network)), ("fields", warp(moving, phi)))
        }
    return {
        "shape": list(shape),
        "network_seconds": round(network_s, 2),
        "fields_seconds": round(fields_s, 2),
        "network_over_fields": round(network_s / fields_s, 1),
        "dissimilarity": {name: round(value, 4) for name, value in unlike.items()},
        "fields_folds_percent": fold_percentage(phi, shape).item(),
        "network_peak_gb": peak,
    }


def _wait(tensor: Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", type=Path)
    parser.add_argument("--random", type=int, help="the width of a random cube")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--sigma", type=float, default=2)
    options = parser.parse_args()
    pairs: dict[str, tuple[Tensor, Tensor]] = {}
    if options.random:
        a, b = torch.rand(2, 1, 1, *[options.random] * 3)
        pairs["random"] = a, b
    if options.pairs:
        with np.load(options.pairs) as arrays:
            for name in sorted({key.rsplit("_", 1)[0] for key in arrays}):
                moving, fixed = (
                    torch.from_numpy(arrays[f"{name}_{which}"].astype(np.float32))[None, None] for which in ("moving", "fixed")
                )
                pairs[name] = moving, fixed
    similarity = partial(lncc, sigma=options.sigma)
    rows: dict[str, Any] = {}
    for name, (moving, fixed) in pairs.items():
        rows[name] = compare(moving.to(options.device), fixed.to(options.device), options.steps, similarity)
        print(name, rows[name], file=sys.stderr, flush=True)
    machine = (
        torch.cuda.get_device_name() if options.device == "cuda" else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )
    command = f"python benchmarks/refine.py {' '.join(sys.argv[1:])}"
    print(
        json.dumps(
            {"command": command, "date": date.today().isoformat(), "device": machine, "torch": torch.__version__, "pairs": rows},
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
