"""The first pairs that a training on prepared 2-D images sees, as a picture: one pair a column."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.image import imsave

from gradicon.errors import GradiconError
from gradicon.training.dataset import Dataset
from gradicon.training.pairs import Pairs

GAP = 4


def draw(data: Path, out: Path, count: int = 8) -> None:
    dataset = Dataset.open(data)
    if len(dataset.shape) != 2:
        raise GradiconError(f"{data}: {len(dataset.shape)}-D images: this shows 2-D ones")
    pairs = Pairs.of(dataset, seed=0)
    columns = [dataset.images[list(pairs.draw(step, 0))] for step in range(1, count + 1)]
    margin = [(0, 0), (0, 0), (0, GAP), (0, GAP)]
    tiles = np.pad(np.stack(columns).astype(np.float32), margin, constant_values=1)
    picture = tiles.transpose(1, 2, 0, 3).reshape(2 * tiles.shape[2], -1)  # rows, then columns
    imsave(out, picture[:-GAP, :-GAP], cmap="gray", vmin=0, vmax=1)


if __name__ == "__main__":
    draw(Path(sys.argv[1]), Path(sys.argv[2]))
