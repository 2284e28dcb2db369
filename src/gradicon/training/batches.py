"""The inputs of a step, on the device: images, and labels and landmarks if the loss wants them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from torch import Tensor

from gradicon.core.transform import Affine, Composition
from gradicon.training.augment import (
    augmented,
    augmented_labels,
    augmented_points,
    control_values,
    draw,
    recoloured,
    to_unit_cube,
    warped,
)
from gradicon.training.config import Recipe
from gradicon.training.dataset import Dataset
from gradicon.training.pairs import Pairs, generator, points


class Inputs(NamedTuple):
    """A batch of B pairs, on a grid of shape S in D dimensions.

    Args:
        a, b: the images (B, 1, *S), in [0,1].
        x: the points (1, D, N) of the penalty, on the unit cube, the same for all pairs.
        labels_a, labels_b: (B, *S), if the loss compares labels.
        landmarks_a, landmarks_b: (B, D, P) on the unit cube, if the loss compares landmarks.
        compared: the labels (B, K) of each pair that count; -1, which no voxel has, fills up where
            a pair has fewer.
    """

    a: Float[Tensor, "b 1 *s"]
    b: Float[Tensor, "b 1 *s"]
    x: Float[Tensor, "1 d n"]
    labels_a: Tensor | None = None
    labels_b: Tensor | None = None
    landmarks_a: Float[Tensor, "b d p"] | None = None
    landmarks_b: Float[Tensor, "b d p"] | None = None
    compared: Int[Tensor, "b k"] | None = None


class Shelf:
    """Prepared images and labels at hand.

    On a GPU all of them are held there, to spare the copying in every step, if they take less than
    half of its free memory, images and labels each. Else they are read from the disk when wanted.
    """

    def __init__(self, dataset: Dataset, device: torch.device) -> None:
        self.dataset = dataset
        self.device = device
        self._held = _held(dataset.images, device)

    @cached_property
    def _held_labels(self) -> Tensor | None:
        return None if self.dataset.labels is None else _held(self.dataset.labels, self.device)

    @cached_property
    def present(self) -> list[frozenset[int]]:
        """The labels of every image, without the background."""
        if self.dataset.labels is None:
            return [frozenset()] * len(self.dataset.images)
        return [
            frozenset(np.bincount(labels.ravel()).nonzero()[0].tolist()) - {0}
            for labels in self.dataset.labels
        ]

    def images(self, numbers: Sequence[int]) -> Float[Tensor, "b 1 *s"]:
        """Images by number, float32, on the device."""
        if self._held is not None:
            return torch.stack([self._held[i] for i in numbers])[:, None].float()
        read = torch.from_numpy(np.stack([self.dataset.images[i] for i in numbers]))[
            :, None
        ].float()
        return read.to(self.device, non_blocking=True)

    def labels(self, numbers: Sequence[int]) -> Tensor:
        """Label maps by number, on the device."""
        assert self.dataset.labels is not None
        if self._held_labels is not None:
            return torch.stack([self._held_labels[i] for i in numbers])
        read = np.stack([self.dataset.labels[i] for i in numbers])
        return torch.from_numpy(_signed(read)).to(self.device, non_blocking=True)

    def landmarks(self, numbers: Sequence[int]) -> Float[Tensor, "b d p"]:
        """Landmarks by number, on the device."""
        found = [self.dataset.landmarks[i] for i in numbers]
        return torch.stack([points for points in found if points is not None]).to(
            self.device, non_blocking=True
        )


@dataclass(frozen=True, eq=False)
class Batches:
    """The samples of a step that this process computes, as the recipe wants them."""

    recipe: Recipe
    shelf: Shelf
    pairs: Pairs
    samples: range

    def load(self, step: int) -> Inputs:
        """The inputs of step `step`: a pure function of the recipe, the data and the step."""
        drawn = [self.pairs.draw(step, i) for i in self.samples]
        first = [a for a, _ in drawn]
        second = [b for _, b in drawn]
        shelf = self.shelf
        loss = self.recipe.loss
        how = self.recipe
        x = points(how.data.shape, how.training.seed, step, shelf.device, loss.points)
        inputs = Inputs(shelf.images(first), shelf.images(second), x)
        if loss.label_weight:
            compared = torch.stack(
                [
                    self._compared(step, i, *pair)
                    for i, pair in zip(self.samples, drawn, strict=True)
                ]
            )
            inputs = inputs._replace(
                labels_a=shelf.labels(first),
                labels_b=shelf.labels(second),
                compared=compared.to(shelf.device),
            )
        if loss.landmark_weight:
            inputs = inputs._replace(
                landmarks_a=shelf.landmarks(first), landmarks_b=shelf.landmarks(second)
            )
        return self._augmented(inputs, step) if self.recipe.augments else inputs

    def name_pairs(self, step: int) -> list[tuple[str, str]]:
        """The names of the images a and b of every sample of a step, of all processes."""
        names = self.shelf.dataset.names
        drawn = [self.pairs.draw(step, i) for i in range(self.recipe.training.batch_size)]
        return [(names[a], names[b]) for a, b in drawn]

    def _compared(self, step: int, sample: int, a: int, b: int) -> Int[Tensor, " k"]:
        """Some of the labels that both images of a pair have, by lot."""
        present = self.shelf.present
        most = self.recipe.loss.labels_at_once
        both = sorted(present[a] & present[b])
        chosen = torch.randperm(
            len(both), generator=generator(self.recipe.training.seed, step, sample, "labels")
        )[:most]
        compared = torch.full((min(most, max(map(len, present))),), -1, dtype=torch.int32)
        compared[: len(chosen)] = torch.tensor(both, dtype=torch.int32)[chosen]
        return compared

    def _augmented(self, inputs: Inputs, step: int) -> Inputs:
        how = self.recipe.training
        dimension = len(self.recipe.data.shape)
        device = self.shelf.device
        drawn = [
            draw(
                dimension,
                generator(how.seed, step, i, "augment"),
                noise=how.augment_noise,
                flips=how.flips,
            )
            for i in self.samples
        ]
        phi_a, phi_b = (
            to_unit_cube(torch.stack(each).to(device, non_blocking=True))
            for each in zip(*drawn, strict=True)
        )
        if how.augment_warp:
            phi_a = self._warped(phi_a, step, "a")
            phi_b = self._warped(phi_b, step, "b")
        return Inputs(
            self._recoloured(augmented(inputs.a, phi_a), step, "a"),
            self._recoloured(augmented(inputs.b, phi_b), step, "b"),
            inputs.x,
            None if inputs.labels_a is None else augmented_labels(inputs.labels_a, phi_a),
            None if inputs.labels_b is None else augmented_labels(inputs.labels_b, phi_b),
            None if inputs.landmarks_a is None else augmented_points(inputs.landmarks_a, phi_a),
            None if inputs.landmarks_b is None else augmented_points(inputs.landmarks_b, phi_b),
            inputs.compared,
        )

    def _warped(self, phi: Affine, step: int, image: str) -> Composition:
        how = self.recipe.training
        shape = self.recipe.data.shape
        drawn = [
            control_values(len(shape), len(shape), generator(how.seed, step, i, "warp", image))
            for i in self.samples
        ]
        return warped(
            phi,
            torch.stack(drawn).to(self.shelf.device, non_blocking=True),
            how.augment_warp,
            shape,
        )

    def _recoloured(self, images: Tensor, step: int, image: str) -> Tensor:
        how = self.recipe.training
        device = self.shelf.device
        if not how.augment_contrast:
            return images
        sources = [generator(how.seed, step, i, "contrast", image) for i in self.samples]
        bend = torch.cat([torch.randn(1, generator=source) for source in sources]).to(
            device, non_blocking=True
        )
        drawn = torch.stack([control_values(images.ndim - 2, 1, source) for source in sources]).to(
            device, non_blocking=True
        )
        return recoloured(images, bend, drawn, how.augment_contrast)


def _held(values: NDArray[Any], device: torch.device) -> Tensor | None:
    if device.type != "cuda" or values.nbytes > torch.cuda.mem_get_info(device)[0] // 2:
        return None
    return torch.from_numpy(_signed(np.array(values))).to(device)


def _signed(values: NDArray[Any]) -> NDArray[Any]:
    """As torch can have them: it has no arithmetic for uint16."""
    return values.astype(np.int32) if values.dtype == np.uint16 else values
