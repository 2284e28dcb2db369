"""Random elastic deformations: control points that move at random, cubic B-splines between them.

They are those of the package ElasticDeform, which the paper names for DRIVE: the outermost control
points lie on the image's border, the spline goes through all displacements, and those beyond the
border are mirrored. Here an image is read once, linearly, whatever the number of deformations.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from gradicon.core.jacobian import fold_percentage
from gradicon.core.sampling import inside, sample
from gradicon.core.transform import Composition, DisplacementField, Transform
from gradicon.errors import GradiconError
from gradicon.training.pairs import generator
from gradicon.training.store import OnPair

_FEWEST_POINTS = 2  # with one there is nothing to interpolate between
_TRIES = 100  # to draw a map that does not fold; with DRIVE's numbers the first nearly always does


@dataclass(frozen=True)
class Deformation:
    """How control points move.

    Args:
        points: how many there are along each axis.
        sigma: the standard deviation of what they move by along each axis, in pixels.
    """

    points: int
    sigma: float

    def __post_init__(self) -> None:
        if self.points < _FEWEST_POINTS:
            raise GradiconError(
                f"points must be at least {_FEWEST_POINTS}: a spline goes from one control point "
                f"to the next, got {self.points}"
            )
        if not isfinite(self.sigma) or self.sigma <= 0:
            raise GradiconError(f"sigma must be positive, got {self.sigma:g}")


DRIVE = (Deformation(3, 12.5), Deformation(6, 6.0))
"""DRIVE's, one after the other.

The paper prints no numbers. The authors' published code (`get_dataset_retina` of the ICON
repository) moves 3 x 3 control points by 25 pixels, then 6 x 6 by 12, on masks of the full size,
and halves them afterwards. The paper halves first, and there it is half as many pixels.
"""
EACH = 20
"""Pairs of each image, in the paper."""


@dataclass(frozen=True, eq=False)
class ElasticSet:
    """Images (N, *S), first the sources, and (source, deformed) pairs of them, by number."""

    images: NDArray[np.float32]
    train_pairs: list[tuple[int, int]]
    validation_pairs: list[tuple[int, int]]


def elastic_set(
    sources: NDArray[np.float32],
    each: int = EACH,
    *,
    validation: int = 0,
    deformations: Sequence[Deformation] = DRIVE,
    seed: int = 0,
    on_pair: OnPair | None = None,
) -> ElasticSet:
    """Pairs of an image and an elastic deformation of it.

    Args:
        sources: the images (N, *S), in [0,1].
        each: how many deformations of each to train on.
        validation: how many more pairs to judge by, spread over the sources.
        deformations: how to deform, one after the other.
        seed: other seeds make other deformations.
        on_pair: called after every pair.
    """
    count = len(sources)
    trained = [(i, k) for i in range(count) for k in range(each)]
    judged = [(k * count // validation, each + k) for k in range(validation)]
    images = np.empty((count + len(trained) + validation, *sources.shape[1:]), np.float32)
    images[:count] = sources
    for done, (i, k) in enumerate((*trained, *judged)):
        phi = elastic_map(sources.shape[1:], deformations, generator(seed, i, k, "elastic"))
        images[count + done] = deform(torch.from_numpy(images[i])[None, None], phi)[0, 0].numpy()
        if on_pair is not None:
            on_pair(done + 1, len(trained) + validation)
    pairs = [(i, count + done) for done, (i, _) in enumerate((*trained, *judged))]
    return ElasticSet(images, pairs[: len(trained)], pairs[len(trained) :])


def elastic_map(
    shape: Sequence[int], deformations: Sequence[Deformation], source: torch.Generator
) -> DisplacementField:
    """phi_1 o phi_2 o ...: I o phi is the image, deformed by the first, and then by the next.

    A map that folds is drawn again: it has no inverse that a network could find.
    """
    for _ in range(_TRIES):
        phi: Transform = _drawn(shape, deformations[0], source)
        for deformation in deformations[1:]:
            phi = Composition(phi, _drawn(shape, deformation, source))
        field = phi.materialise(shape)
        if float(fold_percentage(field, shape)) == 0:
            return field
    wanted = ", then ".join(f"sigma {each.sigma:g} of {each.points}" for each in deformations)
    raise GradiconError(
        f"{wanted} control points: {_TRIES} deformations of {tuple(shape)} pixels folded: "
        "take a smaller sigma, or fewer points"
    )


def deform(image: Float[Tensor, "b c *s"], phi: Transform) -> Float[Tensor, "b c *s"]:
    """I o phi, with zeros beyond the border."""
    x = phi.on_grid(image.shape[2:])
    return sample(image, x) * inside(x)


def spline_weights(count: int, points: int) -> NDArray[np.float64]:
    """(count, points): how much of each of `points` values a cubic B-spline through them has.

    It is read at `count` places, from the first value to the last. The spline is B c with B^-1 of
    its own nodes before it, so that it goes through the values and not by them.
    """
    places = np.linspace(0, points - 1, count)
    through = np.linalg.inv(_basis(np.arange(points, dtype=np.float64), points))
    return _basis(places, points) @ through


def _drawn(shape: Sequence[int], how: Deformation, source: torch.Generator) -> DisplacementField:
    """One deformation, as displacements in lengths of the unit cube."""
    dimension = len(shape)
    u = how.sigma * torch.randn(1, dimension, *[how.points] * dimension, generator=source)
    for axis, n in enumerate(shape):
        weights = torch.from_numpy(spline_weights(n, how.points)).float()
        u = (u.movedim(axis + 2, -1) @ weights.T).movedim(-1, axis + 2)
        u[:, axis] /= n - 1
    return DisplacementField(u)


def _basis(x: NDArray[np.float64], points: int) -> NDArray[np.float64]:
    """(len(x), points): the cubic B-splines about 0, 1, .. at x; mirrored beyond both ends."""
    away = np.abs(x[:, None] - np.arange(-1, points + 1))
    near = 2 / 3 - away**2 + away**3 / 2
    values = np.where(away < 1, near, np.clip(2 - away, 0, None) ** 3 / 6)
    basis = values[:, 1:-1].copy()
    basis[:, 1] += values[:, 0]  # -1 is the mirror image of 1
    basis[:, -2] += values[:, -1]
    return basis
