"""BatchNorm's statistics, over all processes where there are several: two small kernels instead of
two dozen.
"""

from dataclasses import dataclass
from math import prod

import torch
import torch.distributed
from torch import Tensor, nn

from gradicon.fast.fused import statistics_kernels
from gradicon.fast.fused.run import run


@dataclass(frozen=True)
class Statistics:
    """What BatchNorm normalises with: z * scale + shift.

    `count` is the number of values it was computed from, 0 in evaluation.
    """

    mean: Tensor
    rstd: Tensor
    scale: Tensor
    shift: Tensor
    count: int


@dataclass(frozen=True)
class Gradients:
    """Of gamma, of beta, of a bias before BatchNorm; and what the gradient before BatchNorm is made
    with: gain * (dn - m1 - z' * m2).
    """

    gamma: Tensor
    beta: Tensor
    bias: Tensor
    gain: Tensor
    m1: Tensor
    m2: Tensor


def batch_statistics(norm: nn.Module, sums: Tensor, shape: torch.Size) -> Statistics:
    """From the sums (P, 2, C) of values and of their squares; in evaluation, what `norm` remembers
    instead.

    While training, the running statistics are kept as BatchNorm keeps them.
    """
    assert isinstance(norm, nn.BatchNorm3d)
    total = sums[0].double() if not norm.training else sums.sum(0, dtype=torch.float64)
    count = (shape[0] * prod(shape[2:]) * _sum_over_processes(total)) if norm.training else 0
    finished = sums.new_empty((4, shape[1]))
    run(
        statistics_kernels.finish_statistics, (1,),
        total, norm.weight, norm.bias,
        norm.running_mean, norm.running_var, norm.num_batches_tracked,
        finished, max(count, 2), norm.eps, norm.momentum, C=shape[1], TRAINING=norm.training,
    )  # fmt: skip
    return Statistics(finished[0], finished[1], finished[2], finished[3], count)


def batch_gradients(
    gamma: Tensor, statistics: Statistics, sums: Tensor, shape: torch.Size
) -> Gradients:
    """From the sums (P, 2, C) of dn, the gradient after BatchNorm, and of dn times the standardised
    value.
    """
    own = sums.sum(0, dtype=torch.float64)
    total = own.clone()
    count = shape[0] * prod(shape[2:]) * (_sum_over_processes(total) if statistics.count else 1)
    finished = sums.new_empty((6, shape[1]))
    run(
        statistics_kernels.finish_gradients, (1,),
        own, total, gamma, statistics.rstd, finished, count,
        C=shape[1], TRAINING=statistics.count > 0,
    )  # fmt: skip
    return Gradients(*finished)


def _sum_over_processes(total: Tensor) -> int:
    """In place. Returns how many processes there are."""
    if (
        torch.distributed.is_available()
        and torch.distributed.is_initialized()
        and torch.distributed.get_world_size() > 1
    ):
        torch.distributed.all_reduce(total)
        return torch.distributed.get_world_size()
    return 1
