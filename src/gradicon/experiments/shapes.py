"""The two 2-D sets of the paper's Sec. 5.1: triangles and circles, and vessels of the retina.

The first are drawn. The second are the masks of DRIVE, and random warps of them.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from gradicon.core.jacobian import jacobian_determinant
from gradicon.core.network import warp
from gradicon.core.transform import DisplacementField
from gradicon.errors import GradiconError, MissingFileError
from gradicon.training.config import DataConfig
from gradicon.training.store import Pairs, store_arrays

Images = NDArray[np.float32]
"""(N, H, W), in [0,1]."""

PACKED = "drive.npy"
DRIVE_SHAPE = (292, 282)
_DRIVE_SCAN = (584, 565)  # of the masks as they are published
_EDGE = 40.0  # an outline is about 2 / _EDGE of the image wide, as in the ICON paper's images
_POINTS = 3  # control points along each axis
_SPREAD = 0.06  # the standard deviation of a control point's displacement, in lengths of the image
_LEAST_VOLUME = 0.05  # the smallest Jacobian determinant that a random warp may have: none folds


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


def triangles_and_circles(count: int, size: int = 128, *, seed: int = 0) -> Images:
    """Hollow shapes (N, H, W), first triangles, then as many circles, as in the ICON paper.

    Centre, radius and rotation are random.

    The outline is 1 / cosh^2(40 d), with d the distance from the shape's edge in lengths of the
    image.
    """
    rng = np.random.default_rng(seed)
    centre = rng.uniform(0.4, 0.7, (2, count, 1, 1)).astype(np.float32)
    radius = rng.uniform(0.2, 0.4, (count, 1, 1)).astype(np.float32)
    angle = rng.uniform(0, 2 * np.pi, (count, 1, 1)).astype(np.float32)
    axis = np.linspace(0, 1, size, dtype=np.float32)
    half = count // 2
    y = axis[:, None] - centre[0]
    x = axis - centre[1]
    sides = [
        _line(y[:half], x[:half], angle[:half] + np.float32(turn), radius[:half])
        for turn in np.arange(3) * 2 * np.pi / 3
    ]
    distance = np.concatenate(
        [np.maximum.reduce(sides), np.hypot(y[half:], x[half:]) - radius[half:]]
    )
    return 1 - np.tanh(_EDGE * distance) ** 2


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


def warped_set(sources: Images, warps: int, judged: int, *, seed: int = 0) -> ImageSet:
    """Images and random elastic deformations of them: every (source, warped source) is a pair.

    Args:
        sources: the images.
        warps: how many deformations of each.
        judged: how many of the pairs, spread over all sources, are judged by.
        seed: of the deformations.
    """
    rng = np.random.default_rng(seed)
    warped = [_warped(source, elastic_maps(warps, source.shape, rng)) for source in sources]
    count = len(sources) * warps
    pairs = [(k // warps, len(sources) + k) for k in range(count)]
    images = np.concatenate([sources, *warped]).clip(0, 1)
    return ImageSet(
        images, pairs, [pairs[k] for k in np.linspace(0, count - 1, judged).astype(int)]
    )


def elastic_maps(count: int, shape: tuple[int, ...], rng: np.random.Generator) -> DisplacementField:
    """Smooth random maps: 3 x 3 control points move at random, with parabolas between them.

    Displacements are Gaussian. Those that fold, or come near it, are drawn again.
    """
    weights = [torch.from_numpy(_parabolas(n)) for n in shape]
    kept = torch.empty(0, 2, *shape)
    while len(kept) < count:
        control = torch.from_numpy(
            rng.normal(0, _SPREAD, (count, 2, _POINTS, _POINTS)).astype(np.float32)
        )
        drawn = torch.einsum("bdij,hi,wj->bdhw", control, *weights)
        volume = jacobian_determinant(DisplacementField(drawn), shape).flatten(1).amin(1)
        kept = torch.cat([kept, drawn[volume > _LEAST_VOLUME]])
    return DisplacementField(kept[:count])


def read_drive(folder: Path) -> Images:
    """The vessel masks (N, 292, 282) of DRIVE, in [0,1].

    They are read from its `*_manual1.gif`, or from the `drive.npy` that `pack_drive` made of them.
    """
    if (folder / PACKED).is_file():
        packed = np.load(folder / PACKED, allow_pickle=False)
        if packed.dtype != np.uint8 or packed.shape[1:] != DRIVE_SHAPE:
            raise GradiconError(
                f"{folder / PACKED}: expected bytes of the shape (N, 292, 282), got "
                f"{packed.dtype} {packed.shape}"
            )
        return packed.astype(np.float32) / 255
    files = sorted(folder.glob("*_manual1.gif"))
    if not files:
        raise MissingFileError(
            f"{folder}: neither *_manual1.gif nor {PACKED} here: this is no folder of DRIVE"
        )
    return np.stack([shrink_area(_read_gif(file), DRIVE_SHAPE) for file in files])


def pack_drive(folder: Path, path: Path) -> None:
    """Write the masks of a folder as one array of bytes, for machines that cannot read GIF."""
    np.save(path, np.round(read_drive(folder) * 255).astype(np.uint8))


def shrink_area(image: Images, shape: tuple[int, int]) -> Images:
    """An image (H, W) at a smaller size: every new pixel is the mean of the area it covers."""
    rows, columns = (_coverage(n, m) for n, m in zip(image.shape, shape, strict=True))
    return (rows @ image @ columns.T).astype(np.float32)


def _line(y: Images, x: Images, angle: Images, radius: Images) -> Images:
    """How far (y, x) is beyond a side of a triangle with corners at `radius`.

    It is radius / 2 from the centre. Inside, a point is beyond none of the three.
    """
    return (np.cos(angle) * y + np.sin(angle) * x - radius / 2).astype(np.float32)


def _coverage(n: int, m: int) -> NDArray[np.float64]:
    """(m, n): how much of each of m new pixels each of n old ones is."""
    low = np.arange(m)[:, None] * n / m
    high = np.arange(1, m + 1)[:, None] * n / m
    old = np.arange(n)[None]
    return (np.minimum(high, old + 1) - np.maximum(low, old)).clip(0) * m / n


def _parabolas(n: int) -> Images:
    """(n, 3): the weights of values at 0, 1/2 and 1 in the parabola through them.

    They are for n places from 0 to 1.
    """
    x = np.linspace(0, 1, n)
    return np.stack([(1 - x) * (1 - 2 * x), 4 * x * (1 - x), x * (2 * x - 1)], 1).astype(np.float32)


def _warped(source: Images, phi: DisplacementField) -> Images:
    image = torch.from_numpy(source)[None, None]
    return warp(image.expand(len(phi.u), -1, -1, -1), phi)[:, 0].numpy()


def _read_gif(path: Path) -> Images:
    try:
        from PIL import Image  # comes with the extra `figures`
    except ImportError as error:
        raise GradiconError(
            f"{path}: reading GIF needs Pillow: pip install 'gradicon[figures]', or use {PACKED}"
        ) from error
    with Image.open(path) as image:
        mask = np.asarray(image.convert("L"), dtype=np.float32)
    if mask.shape != _DRIVE_SCAN:
        raise GradiconError(
            f"{path}: a mask of DRIVE has {_DRIVE_SCAN[0]} x {_DRIVE_SCAN[1]} pixels, got "
            f"{mask.shape}"
        )
    return (mask > 127).astype(np.float32)
