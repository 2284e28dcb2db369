"""Instance optimization of one pair: of the network's weights, as published, against the fields themselves. Prints JSON.

    python benchmarks/refine.py                                    the bundled pair, on the working grid of `gradicon register`
    python benchmarks/refine.py --device cuda --random 175 --sigma 5

50 iterations of each, from one start: the answer of the paper's Stage2 with fresh weights, which is the identity.
"""

import argparse
import json
import platform
import sys
import time
from datetime import date
from functools import partial
from importlib.resources import files
from typing import Any

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


def _bundled_pair() -> tuple[Tensor, Tensor]:
    from gradicon.physical.images import read_image  # here: a machine with only a GPU may have no SimpleITK
    from gradicon.registration.options import Options
    from gradicon.registration.prepare import prepare

    fixed, moving = (read_image(str(files("gradicon") / "sample" / f"{name}.nii.gz")) for name in ("fixed", "moving"))
    pair = prepare(fixed, moving, (None, None), Options())
    return pair.moving, pair.fixed


def _wait(tensor: Tensor) -> None:
    if tensor.is_cuda:
        torch.cuda.synchronize()


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--random", type=int, help="a random cube of this width instead of the bundled pair")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--sigma", type=float, default=2)
    options = parser.parse_args()
    pairs: dict[str, tuple[Tensor, Tensor]] = {}
    if options.random:
        a, b = torch.rand(2, 1, 1, *[options.random] * 3)
        pairs["random"] = a, b
    else:
        pairs["bundled pair"] = _bundled_pair()
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
