"""One step's loss, as a module.

Both network calls are inside, so that one call is what processes share and graphs capture.
"""

from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from gradicon.core.jacobian import fold_percentage, magnitude
from gradicon.core.network import RegistrationNetwork
from gradicon.core.objective import (
    Penalty,
    bending_energy,
    diffusion,
    gradient_inconsistency,
    inconsistency,
    objective,
)
from gradicon.core.sampling import sample
from gradicon.core.similarity import SIMILARITIES, Similarity, lncc, squared_lncc
from gradicon.core.transform import Transform
from gradicon.training.batches import Inputs
from gradicon.training.config import LossConfig
from gradicon.training.finite import trust_images

Scalars = dict[str, Tensor]
"""Of a step, detached and on the device: loss, similarity, penalty, and what else was measured."""


class TrainingStep(nn.Module):
    """The recipe's loss of a network on a batch.

    Args:
        network: Phi; its weights are what is trained.
        loss: the recipe's choice of terms.
    """

    def __init__(self, network: RegistrationNetwork, loss: LossConfig) -> None:
        super().__init__()
        self.network = network
        self.loss = loss
        self._similarity = similarity_of(loss)
        trust_images(network)

    def forward(self, inputs: Inputs, *, folds: bool = False) -> tuple[Tensor, Scalars]:
        """The loss to differentiate, and its parts; with `folds`, which cost time, also the folds
        and the magnitude of the map.

        loss = similarity + weight penalty + label_weight labels + landmark_weight landmarks, where
        similarity is the sum and labels and landmarks are the mean over both directions.
        """
        penalty = penalty_of(self.loss, inputs.a.shape[2:])
        shape = inputs.a.shape[2:]
        found = objective(
            self.network,
            inputs.a,
            inputs.b,
            inputs.x,
            similarity=self._similarity,
            weight=self.loss.penalty_weight,
            penalty=penalty,
        )
        loss = found.loss
        scalars = {"similarity": found.similarity.detach(), "penalty": found.penalty.detach()}
        if (
            inputs.labels_a is not None
            and inputs.labels_b is not None
            and inputs.compared is not None
        ):
            a, b = (
                one_hot(labels, inputs.compared) for labels in (inputs.labels_a, inputs.labels_b)
            )
            unlike = (label_loss(found.phi_ab, a, b) + label_loss(found.phi_ba, b, a)) / 2
            loss = loss + self.loss.label_weight * unlike
            scalars["labels"] = unlike.detach()
        if inputs.landmarks_a is not None and inputs.landmarks_b is not None:
            far = landmark_loss(found.phi_ab, inputs.landmarks_b, inputs.landmarks_a, shape)
            far = (
                far + landmark_loss(found.phi_ba, inputs.landmarks_a, inputs.landmarks_b, shape)
            ) / 2
            loss = loss + self.loss.landmark_weight * far
            scalars["landmarks"] = far.detach()
        if folds:
            with torch.no_grad():
                phi = found.phi_ab.materialise(shape)
                scalars["folds"] = fold_percentage(phi, shape).mean().float()
                scalars["magnitude"] = magnitude(phi, shape).mean().float()
        return loss, {"loss": loss.detach(), **scalars}


def similarity_of(loss: LossConfig) -> Similarity:
    """The measure by name, with the recipe's window where it has one."""
    measure = SIMILARITIES[loss.similarity]
    return partial(measure, sigma=loss.sigma) if measure in (lncc, squared_lncc) else measure


def penalty_of(loss: LossConfig, shape: Sequence[int]) -> Penalty:
    """The regularizer by name. Those of a single map are taken of both maps and added."""
    match loss.regularizer:
        case "gradicon":
            return gradient_inconsistency
        case "icon":
            return inconsistency
        case "diffusion":
            return lambda ab, ba, _: diffusion(ab, shape) + diffusion(ba, shape)
        case "bending":
            return lambda ab, ba, _: bending_energy(ab, shape) + bending_energy(ba, shape)


def one_hot(labels: Tensor, compared: Int[Tensor, "b k"]) -> Float[Tensor, "b k *s"]:
    """Label maps (B, *S) as one image of 0 and 1 for each of some labels."""
    return (labels[:, None] == compared.reshape(*compared.shape, *[1] * (labels.ndim - 1))).float()


def label_loss(
    phi: Transform, moving: Float[Tensor, "b k *s"], fixed: Float[Tensor, "b k *s"]
) -> Tensor:
    """1 - soft Dice of moving o phi and fixed, 2 sum(a b) / sum(a + b) over voxels.

    The mean over the labels of a pair that either image has, then over the pairs.
    """
    warped = sample(moving, phi.on_grid(fixed.shape[2:]))
    both = (2 * warped * fixed).flatten(2).sum(-1)
    sizes = (warped + fixed).flatten(2).sum(-1)
    present = (sizes > 0).float()
    unlike = (1 - both / sizes.clamp_min(1e-6)) * present
    return (unlike.sum(1) / present.sum(1).clamp_min(1)).mean()


def landmark_loss(
    phi: Transform,
    fixed: Float[Tensor, "b d p"],
    moving: Float[Tensor, "b d p"],
    shape: Sequence[int],
) -> Tensor:
    """The mean squared distance of phi(fixed landmarks) from the moving ones, in voxels.

    Args:
        phi: the map, from the fixed to the moving image.
        fixed, moving: landmarks (B, D, P) on the unit cube; the same column is the same place.
        shape: of the grid whose voxels are meant.
    """
    off = phi(fixed) - moving
    return (
        torch.stack([(off[:, axis] * (n - 1)) ** 2 for axis, n in enumerate(shape)]).sum(0).mean()
    )
