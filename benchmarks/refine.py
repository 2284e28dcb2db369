"""Instance optimization of one pair: of the network's weights, as published, against the fields.

    python benchmarks/refine.py
    python benchmarks/refine.py --pairs val_pairs.csv --first 2 --model run/best.safetensors
    python benchmarks/refine.py --device cuda --random 175 --sigma 5

The first takes the bundled pair, on the working grid of `gradicon register`. 50 iterations of each,
from one start: the answer of a trained model, or without one of the paper's Stage2 with fresh
weights, which is the identity. Prints JSON.
"""

import argparse
import json
import platform
import sys
import time
from collections.abc import Iterator
from datetime import date
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gradicon import ModelConfig, Transform, build, fold_percentage, lncc, warp
from gradicon.core.network import RegistrationNetwork
from gradicon.core.similarity import Similarity
from gradicon.models import load
from gradicon.registration.plan import FieldPlan, Level
from gradicon.registration.solve.fields import optimise_fields
from gradicon.registration.solve.network import refine
from gradicon.registration.solve.resolution import Images


def compare(
    network: RegistrationNetwork, moving: Tensor, fixed: Tensor, steps: int, similarity: Similarity
) -> dict[str, Any]:
    """Both kinds of refinement, from the network's answer."""
    shape = tuple(fixed.shape[2:])
    with torch.no_grad():
        start = network(moving, fixed).materialise(shape), network(fixed, moving).materialise(shape)
    if fixed.is_cuda:
        torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    tuned = refine(network, moving, fixed, steps=steps, similarity=similarity)
    _wait(fixed)
    network_s = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated() / 1e9 if fixed.is_cuda else None
    began = time.perf_counter()
    half = tuple((n + 1) // 2 for n in shape)
    level = Level(shape, half, shape, steps, cell=2)
    plan = FieldPlan((level,), (1.0,) * len(shape), 0.1, 1.5, 30.0)
    phi, _ = optimise_fields(Images(moving, fixed), start, plan, similarity)
    _wait(fixed)
    fields_s = time.perf_counter() - began
    with torch.no_grad():
        maps: dict[str, Transform] = {
            "start": start[0],
            "network": tuned(moving, fixed),
            "fields": phi,
        }
        unlike = {
            name: similarity(warp(moving, found), fixed).item() for name, found in maps.items()
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


def _pairs(options: argparse.Namespace) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Names, and moving and fixed as the network sees them."""
    if options.random:
        a, b = torch.rand(2, 1, 1, *[options.random] * 3)
        yield "random", a, b
        return
    from gradicon.physical.lists import read_pairs
    from gradicon.registration.options import Options  # a GPU's machine may lack SimpleITK
    from gradicon.registration.register import register

    sample = Path(str(files("gradicon") / "sample"))
    found = [("bundled pair", sample / "fixed.nii.gz", sample / "moving.nii.gz")]
    if options.pairs:
        found = [
            (pair.name, pair.fixed.image, pair.moving.image)
            for pair in read_pairs(options.pairs)[: options.first]
        ]
    for name, fixed, moving in found:
        pair = register(fixed, moving, Options(model="none", refine=1)).pair
        yield name, pair.moving, pair.fixed


def _wait(tensor: Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--random", type=int, help="a random cube of this width instead of scans")
    parser.add_argument("--pairs", type=Path, help="a list of pairs instead of the bundled one")
    parser.add_argument("--first", type=int, default=1, help="how many of them")
    parser.add_argument("--model", help="a checkpoint to start from")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--sigma", type=float, default=2)
    options = parser.parse_args()
    similarity = partial(lncc, sigma=options.sigma)
    rows: dict[str, Any] = {}
    for name, moving, fixed in _pairs(options):
        torch.manual_seed(0)
        network = (
            load(options.model)
            if options.model
            else build(ModelConfig(stage=2, dimension=fixed.ndim - 2))
        )
        images = moving.to(options.device), fixed.to(options.device)
        rows[name] = compare(network.to(options.device).eval(), *images, options.steps, similarity)
        print(name, rows[name], file=sys.stderr, flush=True)
    machine = (
        torch.cuda.get_device_name()
        if options.device == "cuda"
        else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )
    command = f"python benchmarks/refine.py {' '.join(sys.argv[1:])}"
    print(
        json.dumps(
            {
                "command": command,
                "date": date.today().isoformat(),
                "device": machine,
                "torch": torch.__version__,
                "pairs": rows,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
