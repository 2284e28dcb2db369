"""Bringing two fields of view together before anything is deformed."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from gradicon.core.sampling import inside, sample, shrink, unit_grid
from gradicon.core.similarity import Similarity, ncc
from gradicon.core.transform import Affine
from gradicon.errors import GradiconError
from gradicon.physical.space import Matrix, Space
from gradicon.physical.volume import Volume

Init = Literal["auto", "none", "center", "moments", "affine"]
INITS = ("auto", "none", "center", "moments", "affine")
_WIDTH = 32  # voxels along the longest axis of the images that are compared here
_LEAST_OVERLAP = 0.2
_ALIGNED = 0.2  # a dissimilarity (1 - correlation) below which the headers are believed
_WORTHWHILE = 0.01  # a change of alignment must improve the similarity by this much


@dataclass(frozen=True, eq=False)
class Start:
    """Where registration starts: the affine map of fixed's mm to moving's mm, and in words how it
    was found.
    """

    matrix: Matrix
    method: str
    note: str


def initialise(fixed: Volume, moving: Volume, how: Init, similarity: Similarity) -> Start:
    """The affine start. `auto` believes headers that fit; else it takes the best start, then an
    affine if it helps.
    """
    if how not in INITS:
        raise GradiconError(f"unknown initialisation {how!r}: expected one of {', '.join(INITS)}")
    pair = _Pair(fixed, moving, similarity)
    candidates = {
        "none": np.eye(len(fixed.space.shape) + 1),
        "center": pair.centers(),
        "moments": pair.masses(),
    }
    if how in candidates:
        if pair.overlap(candidates[how]) == 0:
            raise GradiconError(
                f"the fields of view do not overlap with --init {how}: use --init auto, "
                "center or moments"
            )
        return Start(candidates[how], how, f"initialised by {how!r}, as asked")
    scores = {name: pair.score(matrix) for name, matrix in candidates.items()}
    if how == "auto" and similarity is ncc and scores["none"] < _ALIGNED:
        return Start(
            candidates["none"],
            "none",
            f"the scans lie together as their headers say: correlation {1 - scores['none']:.2f}",
        )
    best = min(scores, key=lambda name: scores[name] - (_WORTHWHILE if name == "none" else 0))
    affine = pair.best_affine(candidates[best])
    told = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
    if how == "affine" or pair.score(affine) < scores[best] - _WORTHWHILE:
        note = (
            f"an affine map was found by optimisation from {best!r}: dissimilarity "
            f"{pair.score(affine):.3f} (before: {told})"
        )
        return Start(affine, "affine", note)
    return Start(
        candidates[best],
        best,
        f"started from {best!r}, the best of dissimilarities {told}; no affine map was better",
    )


def unit_affine(matrix: Matrix, fixed: Space, moving: Space) -> Affine:
    """An affine map in mm as a map of fixed's unit cube to moving's, rounded: it is the same
    however the world is turned.
    """
    unit = torch.from_numpy(
        np.round(np.linalg.inv(moving.unit_to_mm) @ matrix @ fixed.unit_to_mm, 12)
    ).float()
    return Affine(unit[None, :-1, :-1], unit[None, :-1, -1])


class _Pair:
    """Two images, small, and how alike they are under an affine map in mm."""

    def __init__(self, fixed: Volume, moving: Volume, similarity: Similarity) -> None:
        self.fixed = _small(fixed)
        self.moving = _small(moving)
        self.similarity = similarity

    def centers(self) -> Matrix:
        middle = np.full((1, len(self.fixed.space.shape)), 0.5)
        return _translation(self.moving.space.to_mm(middle)[0] - self.fixed.space.to_mm(middle)[0])

    def masses(self) -> Matrix:
        return _translation(_center_of_mass(self.moving) - _center_of_mass(self.fixed))

    def overlap(self, matrix: Matrix) -> float:
        """The part of the fixed image that falls inside the moving one."""
        x = unit_affine(matrix, self.fixed.space, self.moving.space).on_grid(self.fixed.space.shape)
        return float(inside(x).mean())

    def score(self, matrix: Matrix) -> float:
        with torch.no_grad():
            return float(self._unlike(unit_affine(matrix, self.fixed.space, self.moving.space)))

    def best_affine(self, start: Matrix, steps: int = 100) -> Matrix:
        """Adam on the D x (D+1) entries of an affine map around the centre of the fixed image, in
        its unit cube.
        """
        dimension = len(self.fixed.space.shape)
        change = torch.zeros(dimension, dimension + 1, requires_grad=True)
        optimizer = torch.optim.Adam([change], lr=0.01)
        outer = unit_affine(start, self.fixed.space, self.moving.space)
        for _ in range(steps):
            loss = self._unlike(Affine(*_around_center(change, outer)))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        matrix, offset = _around_center(change.detach(), outer)
        unit = np.eye(dimension + 1)
        unit[:-1, :-1] = matrix[0].double().numpy()
        unit[:-1, -1] = offset[0].double().numpy()
        return self.moving.space.unit_to_mm @ unit @ np.linalg.inv(self.fixed.space.unit_to_mm)

    def _unlike(self, phi: Affine) -> Tensor:
        x = phi.on_grid(self.fixed.space.shape)
        mask = inside(x.detach())
        if mask.mean() < _LEAST_OVERLAP:
            return x.sum() * 0 + 10.0
        return self.similarity(sample(self.moving.data, x), self.fixed.data, mask=mask)


def _around_center(change: Tensor, outer: Affine) -> tuple[Tensor, Tensor]:
    """outer o (x -> c + (I + M)(x - c) + t), as a matrix and an offset."""
    inner = torch.eye(change.shape[0]) + change[:, :-1]
    center = torch.full((change.shape[0],), 0.5)
    offset = center - inner @ center + change[:, -1]
    return outer.matrix @ inner, (outer.matrix @ offset[:, None])[..., 0] + outer.offset


def _small(volume: Volume) -> Volume:
    longest = max(n * s for n, s in zip(volume.space.shape, volume.space.spacing_mm, strict=True))
    size = longest / _WIDTH
    shape = tuple(
        max(min(n, round(n * s / size)), min(n, 4))
        for n, s in zip(volume.space.shape, volume.space.spacing_mm, strict=True)
    )
    return Volume(shrink(volume.data, shape), volume.space.resized(shape))


def _center_of_mass(volume: Volume) -> Matrix:
    grid = unit_grid(volume.space.shape, like=volume.data)
    center = (grid * volume.data).flatten(2).sum(-1) / volume.data.sum().clamp_min(1e-6)
    return volume.space.to_mm(center.double().numpy())[0]


def _translation(shift: Matrix) -> Matrix:
    matrix = np.eye(len(shift) + 1)
    matrix[:-1, -1] = shift
    return matrix
