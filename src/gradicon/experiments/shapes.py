"""The two 2-D sets of the paper's Sec. 5.1, as its studies want them: judged on what is trained on.

Triangles and circles are drawn; the others are the vessel masks of DRIVE, and elastic deformations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradicon.errors import GradiconError, MissingPackageError
from gradicon.training.config import DataConfig
from gradicon.training.elastic import DRIVE, Deformation, elastic_set
from gradicon.training.store import Pairs, store_arrays
from gradicon.training.triangles import Images, triangles_and_circles

PACKED = "drive.npy"
DRIVE_SHAPE = (292, 282)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images, and which of them are trained on and judged by, by number.

    Without `train_pairs` any two are trained on.
    """

    images: Images
    train_pairs: Pairs
    validation_pairs: Pairs

    @property
    def config(self) -> DataConfig:
        """How a recipe describes these images."""
        height, width = self.images.shape[1:]
        return DataConfig(shape=(height, width), pairs="intra" if self.train_pairs else "inter")

    def store(self, out: Path) -> None:
        """Write the set as a folder of prepared data."""
        train = [] if self.train_pairs else range(len(self.images))
        pairs = self.train_pairs
        judged = self.validation_pairs
        store_arrays(
            out,
            self.images,
            self.config,
            train=list(train),
            train_pairs=pairs,
            validation_pairs=judged,
        )


def shape_set(count: int, size: int, judged: int, *, seed: int = 0) -> ImageSet:
    """Triangles and circles, any two of which make a pair.

    Args:
        count: of images.
        size: pixels along each axis.
        judged: how many random pairs of them are judged by.
        seed: of the drawing and of the pairs.
    """
    rng = np.random.default_rng(seed + 1)
    pairs = [
        (int(a), int((a + shift) % count))
        for a, shift in rng.integers((0, 1), (count, count), (judged, 2))
    ]
    return ImageSet(triangles_and_circles(count, size, seed=seed), (), pairs)


def warped_set(
    sources: Images,
    warps: int,
    judged: int,
    *,
    deformations: Sequence[Deformation] = DRIVE,
    seed: int = 0,
) -> ImageSet:
    """Images and random elastic deformations of them: every (source, deformed) is a pair.

    Args:
        sources: the images.
        warps: how many deformations of each.
        judged: how many of the pairs, spread over all sources, are judged by.
        deformations: how to deform.
        seed: of the deformations.
    """
    made = elastic_set(sources, warps, deformations=deformations, seed=seed)
    pairs = made.train_pairs
    spread = np.linspace(0, len(pairs) - 1, judged).astype(int)
    return ImageSet(made.images, pairs, [pairs[k] for k in spread])


def read_drive(folder: Path) -> Images:
    """The vessel masks (N, 292, 282) of DRIVE, in [0,1].

    They are prepared as `gradicon deform` does it, or read from the `drive.npy` that `pack_drive`
    made of them.
    """
    if (folder / PACKED).is_file():
        packed = np.load(folder / PACKED, allow_pickle=False)
        if packed.dtype != np.uint8 or packed.shape[1:] != DRIVE_SHAPE:
            raise GradiconError(
                f"{folder / PACKED}: expected bytes of the shape (N, 292, 282), got "
                f"{packed.dtype} {packed.shape}"
            )
        return packed.astype(np.float32) / 255
    try:
        from gradicon.training.scans import read_folder  # machines that train may have no SimpleITK
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"{folder}: reading images needs {error.name}: install it, or use {PACKED}"
        ) from error
    masks = read_folder(folder, DataConfig(shape=DRIVE_SHAPE, pairs="intra"))
    return np.stack([*masks.values()]).astype(np.float32)


def pack_drive(folder: Path, path: Path) -> None:
    """Write the masks of a folder as one array of bytes, for machines without file readers."""
    np.save(path, np.round(read_drive(folder) * 255).astype(np.uint8))
