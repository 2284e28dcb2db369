"""Images of no anatomy: random smooth label maps in random contrasts, warped by random
diffeomorphisms.

A network that has seen many of them is not tied to one organ or scanner (as in SynthMorph, Hoffmann
et al. 2022). The two images of a pair are one picture, warped twice, each with its own shading,
gamma and noise: as alike as two scans by one kind of scanner.
"""

from collections.abc import Callable, Sequence
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
from gradicon.training.store import store_arrays

OnPair = Callable[[int, int], None]
"""Called after every pair with its number and how many there are."""

_LINEAR = {2: "bilinear", 3: "trilinear"}
_SQUARINGS = 6


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
    """Make `count` pairs to train on and `validation` more to judge by, and store them as `gradicon
    prepare` stores scans.
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
            images[2 * k + i], labels[2 * k + i] = (
                pair.images[i].cpu().numpy(),
                pair.labels[i].cpu().numpy(),
            )
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
    """Pair `number`: a function of it and of the seed. `strength` scales the warps; with 0 both
    images lie on each other.
    """
    source = generator(seed, number, "synthetic", device=device)
    regions = _regions(shape, source)
    picture = _picture(regions, source)
    found = [
        _seen(picture, regions, random_diffeomorphism(shape, source, strength=strength), source)
        for _ in range(2)
    ]
    (image_a, labels_a), (image_b, labels_b) = found
    return Pair((image_a, image_b), (labels_a, labels_b))


def random_diffeomorphism(
    shape: Sequence[int], source: torch.Generator, *, strength: float = 1.0
) -> DisplacementField:
    """The flow of a random stationary velocity, of a few scales at once: scaling and squaring."""
    velocity = torch.zeros(1, len(shape), *shape, device=source.device)
    for part, most in (
        (0.5, 0.06),
        (0.25, 0.025),
        (0.12, 0.006),
    ):  # of the field of view: how smooth, and how strong at most
        amplitude = most * strength * _uniform(source)
        velocity = velocity + amplitude * _smooth_noise(shape, len(shape), part, source)
    phi = DisplacementField(velocity / 2**_SQUARINGS)
    for _ in range(_SQUARINGS):
        phi = (phi @ phi).materialise(shape)
    return phi


def _regions(shape: Sequence[int], source: torch.Generator) -> Tensor:
    """A label map (*S): the largest of some smooth random fields, and often nothing around a body
    in the middle.
    """
    count = 4 + int(12 * _uniform(source))
    fields = _smooth_noise(shape, count, 0.05 + 0.25 * _uniform(source), source)[0]
    regions = fields.argmax(0) + 1
    if _uniform(source) < 0.5:
        axes = [torch.linspace(-1, 1, n, device=source.device) for n in shape]
        away = torch.stack(torch.meshgrid(*axes, indexing="ij")).norm(dim=0)
        body = away + 0.3 * _smooth_noise(shape, 1, 0.25, source)[0, 0] < 0.6 + 0.4 * _uniform(
            source
        )
        regions = regions * body
    return regions


def _picture(regions: Tensor, source: torch.Generator) -> Tensor:
    """A contrast and a texture for every region: (1, 1, *S)."""
    shades = torch.rand(int(regions.max()) + 1, generator=source, device=source.device)
    shades[0] = 0
    texture = _smooth_noise(regions.shape, 1, 0.02 + 0.05 * _uniform(source), source)
    picture = shades[regions][None, None] * (1 + 0.3 * _uniform(source) * texture)
    for axis in range(regions.ndim):
        picture = box_mean(picture, axis, 1)
    return picture


def _seen(
    picture: Tensor, regions: Tensor, phi: DisplacementField, source: torch.Generator
) -> tuple[Tensor, Tensor]:
    """A warped picture with its own shading, gamma and noise, and its label map."""
    shape = regions.shape
    x = phi.on_grid(shape)
    image = sample(picture, x)[0, 0].clamp_min(0)
    labels = sample(regions[None, None].to(image.dtype), x, mode="nearest")[0, 0].round().long()
    shading = (0.2 * _smooth_noise(shape, 1, 0.5, source)[0, 0]).exp()
    image = (image * shading) ** (0.7 + 0.6 * _uniform(source))
    noise = torch.randn(shape, generator=source, device=source.device)
    image = image + 0.05 * _uniform(source) * image.amax() * noise * (image > 0)
    low, high = (torch.quantile(_thinned(image), part) for part in (0.01, 0.99))
    return ((image - low) / (high - low).clamp_min(1e-6)).clamp(0, 1), labels


def _smooth_noise(
    shape: Sequence[int], channels: int, part: float, source: torch.Generator
) -> Tensor:
    """Noise (1, channels, *S) of standard deviation about 1 that varies over `part` of the field of
    view.
    """
    coarse = [max(round(1 / part) + 3, 4)] * len(shape)
    noise = torch.randn(1, channels, *coarse, generator=source, device=source.device)
    fine = F.interpolate(noise, tuple(shape), mode=_LINEAR[len(shape)], align_corners=True)
    for axis, n in enumerate(shape):
        for _ in range(2):
            fine = box_mean(fine, axis, round(n * part / 4))
    return fine / fine.flatten(2).std(2).clamp_min(1e-6).reshape(1, channels, *[1] * len(shape))


def _thinned(image: Tensor) -> Tensor:
    """Some hundred thousand values at most: torch's quantile takes no more than 16 million."""
    values = image.flatten()
    return values[:: max(len(values) // 200_000, 1)]


def _uniform(source: torch.Generator) -> float:
    return float(torch.rand((), generator=source, device=source.device))
