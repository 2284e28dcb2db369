"""Instance optimization: the paper's loss, minimised for one pair."""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gradicon.core.network import Displace, RegistrationNetwork
from gradicon.core.objective import Objective, objective
from gradicon.core.sampling import cells, one_per_cell
from gradicon.core.similarity import Similarity, lncc

Network = TypeVar("Network", bound=RegistrationNetwork)


def refine(
    network: Network,
    moving: Float[Tensor, "b c *s"],
    fixed: Float[Tensor, "b c *s"],
    *,
    steps: int = 50,
    similarity: Similarity = lncc,
    weight: float = 1.5,
    learning_rate: float = 2e-5,
    seed: int = 0,
    on_step: Callable[[int, Objective], None] | None = None,
) -> Network:
    """A copy of `network`, in evaluation mode, whose weights were optimised for one pair. `network`
    itself is left as it was.

    BatchNorm keeps its running statistics throughout, so that what was optimised is what is
    evaluated. `on_step` is called after every step, with its number from 1 and its objective.
    """
    tuned = deepcopy(network).eval()
    optimizer = torch.optim.Adam(tuned.parameters(), lr=learning_rate)
    generator = torch.Generator().manual_seed(seed)
    with _sparing(tuned, fixed.device):
        for step in range(1, steps + 1):
            x = random_points(fixed.shape[2:], generator, like=fixed)
            result = objective(tuned, moving, fixed, x, similarity=similarity, weight=weight)
            optimizer.zero_grad(set_to_none=True)
            result.loss.backward()
            optimizer.step()
            if on_step is not None:
                on_step(step, result)
    return tuned


@contextmanager
def _sparing(network: RegistrationNetwork, device: torch.device) -> Generator[None]:
    """On a GPU, spare its memory: convolutions in bfloat16, and computed again in the backward pass
    instead of being kept.
    """
    if device.type != "cuda":
        yield
        return
    steps = [module for module in network.modules() if isinstance(module, Displace)]
    for step in steps:
        step.dense = _Recomputed(step.dense)
    try:
        yield
    finally:
        for step in steps:
            if isinstance(step.dense, _Recomputed):
                step.dense = step.dense.dense


class _Recomputed(nn.Module):
    def __init__(self, dense: nn.Module) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, images: Tensor) -> Tensor:
        with torch.autocast(images.device.type, dtype=torch.bfloat16):
            return checkpoint(self.dense, images, use_reentrant=False)


def random_points(
    shape: Sequence[int], generator: torch.Generator, *, like: Tensor, cell: int = 2
) -> Float[Tensor, "1 d n"]:
    """A random sample of the unit cube: about voxels / cell^D points, one in each cell, with the
    dtype and device of `like`.
    """
    jitter = torch.rand((len(shape), *cells(shape, cell)), generator=generator, dtype=like.dtype)
    return one_per_cell(jitter.to(like.device))
