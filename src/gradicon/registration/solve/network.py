"""Instance optimization: the paper's loss, minimised for one pair."""

from collections.abc import Callable
from contextlib import nullcontext
from copy import deepcopy
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from gradicon.core.acceleration import sparing_memory
from gradicon.core.network import RegistrationNetwork
from gradicon.core.objective import Objective, objective
from gradicon.core.points import random_points
from gradicon.core.similarity import Similarity, lncc, penalty_weight
from gradicon.registration.presets import PRESETS

Network = TypeVar("Network", bound=RegistrationNetwork)


def refine(
    network: Network,
    moving: Float[Tensor, "b c *s"],
    fixed: Float[Tensor, "b c *s"],
    *,
    steps: int,
    similarity: Similarity = lncc,
    weight: float = penalty_weight("lncc"),
    learning_rate: float = PRESETS.answer.learning_rate,
    half_precision: bool = True,
    seed: int = 0,
    on_step: Callable[[int, Objective], None] | None = None,
) -> Network:
    """A copy of `network`, in evaluation mode, whose weights were optimised for one pair.

    `network` itself is left as it was. BatchNorm keeps its running statistics throughout, so that
    what was optimised is what is evaluated.

    Args:
        network: Phi.
        moving, fixed: the pair, on the network's grid.
        steps: of Adam.
        similarity: what is compared, both ways.
        weight: of the GradICON penalty, the paper's lambda.
        learning_rate: Adam's.
        half_precision: on a GPU, compute features in bfloat16 and keep none, which needs a part of
            the memory.
        seed: of the points of the penalty.
        on_step: called after every step with its number from 1 and its objective.
    """
    tuned = deepcopy(network).eval()
    optimizer = torch.optim.Adam(tuned.parameters(), lr=learning_rate)
    generator = torch.Generator().manual_seed(seed)
    spared = sparing_memory(tuned, fixed.device) if half_precision else nullcontext()
    with spared:
        for step in range(1, steps + 1):
            x = random_points(fixed.shape[2:], generator, like=fixed)
            result = objective(tuned, moving, fixed, x, similarity=similarity, weight=weight)
            optimizer.zero_grad(set_to_none=True)
            result.loss.backward()
            optimizer.step()
            if on_step is not None:
                on_step(step, result)
    return tuned
