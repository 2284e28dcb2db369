"""Models of several sizes, judged on the validation pairs of prepared folders, without refinement.

    python benchmarks/sizes.py a.safetensors b.safetensors --data sets/hippocampus sets/brain

All are asked on the grid of the folders: Dice there, or dissimilarity (LNCC, sigma 5) where a
folder has no labels. Prints JSON.
"""

import argparse
import json
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from gradicon.core.network import RegistrationNetwork
from gradicon.core.similarity import lncc
from gradicon.models import load
from gradicon.models.checkpoint import read_header
from gradicon.training.batches import Shelf
from gradicon.training.dataset import Dataset
from gradicon.training.validate import validate


def measure(path: Path, shelves: dict[str, Shelf], device: torch.device) -> dict[str, Any]:
    """A model's size, what it was trained with, and what it reaches on each folder."""
    network = load(path).to(device).eval()
    header = read_header(path)
    return {
        "model": path.stem,
        "down_channels": header.config.down_channels,
        "up_channels": header.config.up_channels,
        "million_weights": round(sum(p.numel() for p in network.parameters()) / 1e6, 2),
        "megabytes": round(path.stat().st_size / 1e6, 1),
        "answer_ms": round(_answer_ms(network, next(iter(shelves.values()))), 2),
        "recipe": "" if header.training is None else header.training.recipe,
        "scores": {name: validate(network, shelf, lncc) for name, shelf in shelves.items()},
    }


@torch.no_grad()
def _answer_ms(network: RegistrationNetwork, shelf: Shelf, repeats: int = 10) -> float:
    """The median time of an answer, one way."""
    (moving, fixed) = shelf.dataset.validation_pairs[0]
    times = list[float]()
    a = shelf.images([moving])
    b = shelf.images([fixed])
    for _ in range(repeats + 2):
        began = time.perf_counter()
        network(a, b).materialise(a.shape[2:]).u.sum().item()  # waits for the device
        times.append(time.perf_counter() - began)
    return 1e3 * sorted(times[2:])[repeats // 2]


def main() -> None:
    """All models on all folders."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="+", type=Path, metavar="MODEL")
    parser.add_argument("--data", nargs="+", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    device = torch.device(given.device)
    shelves = {folder.name: Shelf(Dataset.open(folder), device) for folder in given.data}
    name = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"{platform.machine()}, {torch.get_num_threads()} threads"
    )
    result = {
        "command": f"python benchmarks/sizes.py {' '.join(sys.argv[1:])}",
        "date": datetime.now(UTC).date().isoformat(),
        "hardware": name,
        "torch": torch.__version__,
        "models": [measure(path, shelves, device) for path in given.models],
    }
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
