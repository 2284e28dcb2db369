"""Scores of a registration, as plain functions."""

from collections.abc import Sequence

import torch
from torch import Tensor

from gradicon.errors import GradiconError


def dice(a: Tensor, b: Tensor) -> dict[int, float]:
    """2 |A n B| / (|A| + |B|) for every label but 0 that either map has.

    >>> dice(torch.tensor([0, 1, 1, 2]), torch.tensor([1, 1, 0, 0]))
    {1: 0.5, 2: 0.0}
    """
    if a.shape != b.shape:
        raise GradiconError(
            f"label maps to compare must have one shape, got {tuple(a.shape)} and {tuple(b.shape)}"
        )
    labels = sorted(
        int(label) for label in torch.cat([a.unique(), b.unique()]).unique() if label != 0
    )
    return {label: _overlap(a == label, b == label) for label in labels}


def lowest_mean(values: Sequence[float], share: float = 0.3) -> float:
    """The mean of the lowest `share` of some values, of one at least: how bad it gets, where a mean
    says how good it is.

    >>> lowest_mean([0.9, 0.5, 0.8, 0.6, 0.7, 0.9, 0.9, 0.9, 0.9, 0.9])
    0.6
    """
    if not values:
        raise GradiconError("the lowest of no values")
    count = max(round(share * len(values)), 1)
    return sum(sorted(values)[:count]) / count


def _overlap(a: Tensor, b: Tensor) -> float:
    return 2 * int((a & b).sum()) / int(a.sum() + b.sum())
