"""What step k sees.

Everything random is a function of (seed, step, sample), and of nothing that came before. So a run
resumes with no more than the number of its step, and a sample is the same whichever process draws
it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import torch
from jaxtyping import Float
from torch import Tensor

from gradicon.core.points import random_points, uniform_points
from gradicon.errors import GradiconError
from gradicon.training.config import Points
from gradicon.training.dataset import Dataset, Group


def generator(*key: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """A generator of random numbers that depends on every part of a key, and on nothing else.

    >>> [int(torch.randint(100, (), generator=generator(0, step, "pair"))) for step in (1, 2, 1)]
    [70, 36, 70]
    """
    digest = blake2b("/".join(map(str, key)).encode(), digest_size=8).digest()
    return torch.Generator(device).manual_seed(int.from_bytes(digest, "big") >> 1)


@dataclass(frozen=True)
class Pairs:
    """Which two images make a sample: of a group by lot, any two of its images or one of its pairs.

    A given pair comes in either order, since the loss is of both directions.
    """

    seed: int
    groups: tuple[Group, ...]

    @classmethod
    def of(cls, dataset: Dataset, seed: int) -> "Pairs":
        """The pairs of a set of prepared images."""
        return cls(seed, dataset.groups)

    def draw(self, step: int, index: int) -> tuple[int, int]:
        """The images a and b, by number."""
        source = generator(self.seed, step, index, "pair")
        group = self.groups[0]
        if len(self.groups) > 1:
            group = self.groups[int(torch.randint(len(self.groups), (), generator=source))]
        if group.pairs:
            pair = group.pairs[int(torch.randint(len(group.pairs), (), generator=source))]
            return pair if torch.rand((), generator=source) < 0.5 else (pair[1], pair[0])
        first = int(torch.randint(len(group.images), (), generator=source))
        other = int(torch.randint(len(group.images) - 1, (), generator=source))
        return group.images[first], group.images[other + (other >= first)]


def owned(batch_size: int, rank: int, processes: int) -> range:
    """The samples of a batch that one of several processes computes."""
    if batch_size % processes:
        raise GradiconError(
            f"a batch of {batch_size} cannot be shared by {processes} processes: make "
            "batch_size a multiple of them"
        )
    share = batch_size // processes
    return range(rank * share, (rank + 1) * share)


def points(
    shape: Sequence[int], seed: int, step: int, device: torch.device, how: Points = "spread"
) -> Float[Tensor, "1 d n"]:
    """The penalty's points of a step, on the unit cube: one at random in every cell of 2^D voxels.

    Each is uniform in its cell, so that all together are uniform in the unit cube, as the paper's
    are, but spread more evenly.

    Args:
        shape: of the images.
        seed: of the run.
        step: other steps have other points.
        device: where they are drawn; a GPU's numbers differ from a CPU's.
        how: "uniform" draws as many anywhere, as the paper does.
    """
    source = generator(seed, step, "points", device=device)
    draw = uniform_points if how == "uniform" else random_points
    return draw(shape, source, like=torch.empty((), device=device))
