"""Images of no anatomy: random smooth regions in random contrasts, warped at random.

A network that has seen many of them is not tied to one organ or scanner (the idea of SynthMorph,
Hoffmann et al. 2022). The two images of a pair are one picture, warped twice, each with its own
shading, gamma and noise: as alike as two scans by one kind of scanner.

The numbers of the generator are ours, not SynthMorph's, and have no other source: they were chosen
by eye, so that pictures look somewhat like scans and warps do not fold, and no study compares them
with others. Lengths are parts of the field of view, whatever the number of voxels. A seed gives the
same images for ever, so a number that changes here, or a draw that moves, changes everybody's data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from gradicon.core.sampling import box_mean, sample
from gradicon.core.transform import DisplacementField
from gradicon.errors import GradiconError
from gradicon.training.config import DataConfig
from gradicon.training.pairs import generator
from gradicon.training.store import OnPair, store_arrays

_LINEAR = {2: "bilinear", 3: "trilinear"}
_SQUARINGS = 6  # 64 small steps make a flow: none of them moves as far as its own length scale
# of a warp's velocity: (how smooth it is, how strong at most), one pair for each of its scales. The
# finer a scale, the weaker it must be, or the warp would fold.
_VELOCITIES = ((0.5, 0.06), (0.25, 0.025), (0.12, 0.006))


@dataclass(frozen=True)
class _Range:
    """A number that is drawn evenly between two ends."""

    low: float
    width: float

    def draw(self, source: torch.Generator) -> float:
        return self.low + self.width * _uniform(source)


# of the regions
_COUNT = _Range(4, 12)  # how many there are, rounded down
_REGION_SIZE = _Range(0.05, 0.25)  # how smooth the fields are, whose largest one is the region
_BODY_CHANCE = 0.5  # that there is nothing around a body, as in scans of heads, not of bellies
_BODY_RADIUS = _Range(0.6, 0.4)  # of the body, in half sides of the image
_BODY_BUMPS = (0.25, 0.3)  # of its outline: how smooth, and how high in half sides
# of the picture
_GRAIN = _Range(0.02, 0.05)  # how smooth the texture within regions is
_TEXTURE = _Range(0.0, 0.3)  # its strength, as a part of a region's shade
# of each image
_SHADING = (0.5, 0.2)  # as a coil leaves it: how smooth, and how strong, as a logarithm
_GAMMA = _Range(0.7, 0.6)
_NOISE = _Range(0.0, 0.05)  # as a part of the brightest voxel
_WINDOW = (0.01, 0.99)  # the quantiles that become 0 and 1


@dataclass(frozen=True, eq=False)
class Pair:
    """Two images (*S) in [0,1] and the label maps they were made of."""

    images: tuple[Float[Tensor, " *s"], Float[Tensor, " *s"]]
    labels: tuple[Int[Tensor, " *s"], Int[Tensor, " *s"]]


def store_synthetic(
    out: Path,
    config: DataConfig,
    count: int,
    *,
    validation: int = 0,
    seed: int = 0,
    device: torch.device | str = "cpu",
    on_pair: OnPair | None = None,
) -> dict[str, Any]:
    """Make pairs of images and store them as `gradicon prepare` stores scans.

    Args:
        out: the folder of prepared data to make.
        config: the shape of the images, and pairs = "intra".
        count: how many pairs to train on.
        validation: how many more to judge by.
        seed: other seeds make other images.
        device: where to make them. A GPU is faster, and its random numbers are others.
        on_pair: called after every pair.

    Returns:
        What dataset.json says.
    """
    if config.pairs != "intra":
        raise GradiconError(
            'synthetic images come in pairs: say pairs = "intra" under [data], '
            f"not {config.pairs!r}"
        )
    total = count + validation
    images = np.empty((2 * total, *config.shape), np.float16)
    labels = np.empty((2 * total, *config.shape), np.uint8)
    for k in range(total):
        pair = synthetic_pair(config.shape, seed=seed, number=k, device=device)
        for i in range(2):
            images[2 * k + i] = pair.images[i].cpu().numpy()
            labels[2 * k + i] = pair.labels[i].cpu().numpy()
        if on_pair is not None:
            on_pair(k + 1, total)
    pairs = [(2 * k, 2 * k + 1) for k in range(total)]
    return store_arrays(
        out,
        images,
        config,
        labels=labels,
        train_pairs=pairs[:count],
        validation_pairs=pairs[count:],
    )


def synthetic_pair(
    shape: Sequence[int],
    *,
    seed: int,
    number: int,
    device: torch.device | str = "cpu",
    strength: float = 1.0,
) -> Pair:
    """One pair of images: a function of its seed and number, and of nothing that came before.

    Args:
        shape: of the images, two or three axes.
        seed: of the set of pairs.
        number: of the pair in that set.
        device: where to make it; a GPU draws other numbers than a CPU.
        strength: scales the warps; with 0 both images lie on each other.
    """
    source = generator(seed, number, "synthetic", device=device)
    regions = _regions(shape, source)
    picture = _picture(regions, source)
    views = [
        _view(picture, regions, random_diffeomorphism(shape, source, strength=strength), source)
        for _ in range(2)
    ]
    (image_a, labels_a), (image_b, labels_b) = views
    return Pair((image_a, image_b), (labels_a, labels_b))


def random_diffeomorphism(
    shape: Sequence[int], source: torch.Generator, *, strength: float = 1.0
) -> DisplacementField:
    """The flow of a random stationary velocity v, by scaling and squaring: phi = exp(v).

    exp(v) = exp(v / 2) o exp(v / 2), down to a step so small that it is x + v / 64. A flow has an
    inverse, exp(-v), so the warp does not fold. Velocities are in unit-cube lengths, and so is
    what they move.
    """
    velocity = torch.zeros(1, len(shape), *shape, device=source.device)
    for part, most in _VELOCITIES:
        amplitude = most * strength * _uniform(source)
        velocity = velocity + amplitude * _smooth_noise(shape, len(shape), part, source)
    phi = DisplacementField(velocity / 2**_SQUARINGS)
    for _ in range(_SQUARINGS):
        phi = (phi @ phi).materialise(shape)
    return phi


def _regions(shape: Sequence[int], source: torch.Generator) -> Tensor:
    """A label map (*S) of values 1..K: at each voxel, which of K smooth random fields is largest.

    Often 0, for nothing, around a body in the middle: a bumpy ball.
    """
    count = int(_COUNT.draw(source))
    fields = _smooth_noise(shape, count, _REGION_SIZE.draw(source), source)[0]
    regions = fields.argmax(0) + 1
    if _uniform(source) < _BODY_CHANCE:
        axes = [torch.linspace(-1, 1, n, device=source.device) for n in shape]
        away = torch.stack(torch.meshgrid(*axes, indexing="ij")).norm(dim=0)
        part, height = _BODY_BUMPS
        bumpy = away + height * _smooth_noise(shape, 1, part, source)[0, 0]
        regions = regions * (bumpy < _BODY_RADIUS.draw(source))
    return regions


def _picture(regions: Tensor, source: torch.Generator) -> Tensor:
    """A shade in [0,1] and a texture for every region, and soft edges between them: (1, 1, *S)."""
    shades = torch.rand(int(regions.max()) + 1, generator=source, device=source.device)
    shades[0] = 0  # where there is nothing, it is dark
    texture = _smooth_noise(regions.shape, 1, _GRAIN.draw(source), source)
    picture = shades[regions][None, None] * (1 + _TEXTURE.draw(source) * texture)
    for axis in range(regions.ndim):
        picture = box_mean(picture, axis, 1)  # of three voxels, as voxels at an edge hold both
    return picture


def _view(
    picture: Tensor, regions: Tensor, phi: DisplacementField, source: torch.Generator
) -> tuple[Tensor, Tensor]:
    """An image (*S) in [0,1] and its label map: a picture, warped, as one scan would show it.

    The image is (picture o phi * shading)^gamma + noise, with noise only where there is something,
    then stretched between two quantiles, as scans are.
    """
    shape = regions.shape
    x = phi.on_grid(shape)
    image = sample(picture, x)[0, 0].clamp_min(0)
    labels = sample(regions[None, None].to(image.dtype), x, mode="nearest")[0, 0].round().long()
    part, strength = _SHADING
    shading = (strength * _smooth_noise(shape, 1, part, source)[0, 0]).exp()
    image = (image * shading) ** _GAMMA.draw(source)
    noise = torch.randn(shape, generator=source, device=source.device)
    image = image + _NOISE.draw(source) * image.amax() * noise * (image > 0)
    low, high = (torch.quantile(_thin(image), part) for part in _WINDOW)
    return ((image - low) / (high - low).clamp_min(1e-6)).clamp(0, 1), labels


def _smooth_noise(
    shape: Sequence[int], channels: int, part: float, source: torch.Generator
) -> Tensor:
    """Noise (1, channels, *S) of standard deviation 1 that varies over `part` of the field of view.

    Random values on a coarse grid, read linearly between them; box means smooth out the kinks.
    """
    # one value for each `part`, and some more so that the coarsest noise still varies
    coarse = [max(round(1 / part) + 3, 4)] * len(shape)
    noise = torch.randn(1, channels, *coarse, generator=source, device=source.device)
    fine = F.interpolate(noise, tuple(shape), mode=_LINEAR[len(shape)], align_corners=True)
    for axis, n in enumerate(shape):
        for _ in range(2):  # two boxes of about half a coarse cell are a triangle
            fine = box_mean(fine, axis, round(n * part / 4))
    return fine / fine.flatten(2).std(2).clamp_min(1e-6).reshape(1, channels, *[1] * len(shape))


def _thin(image: Tensor) -> Tensor:
    """Some hundred thousand values at most: torch's quantile takes no more than 16 million."""
    values = image.flatten()
    return values[:: max(len(values) // 200_000, 1)]


def _uniform(source: torch.Generator) -> float:
    """A number drawn evenly between 0 and 1."""
    return float(torch.rand((), generator=source, device=source.device))
