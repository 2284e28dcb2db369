"""BatchNorm over the batches of all processes together, so that they train as one would.

It works on any device; torch's own needs GPUs. Names and values of parameters and buffers are those
of the plain modules.
"""

from typing import final

import torch
import torch.distributed as dist
from torch import Tensor, nn


@final
class _SharedBatchNorm2d(nn.BatchNorm2d):
    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's name)
        return _shared(self, input) if self.training else super().forward(input)


@final
class _SharedBatchNorm3d(nn.BatchNorm3d):
    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 (torch's name)
        return _shared(self, input) if self.training else super().forward(input)


def share_statistics(network: nn.Module) -> None:
    """Replace every BatchNorm of a network by one with the statistics of all processes' batches."""
    for name, module in list(network.named_modules()):
        if not isinstance(module, nn.BatchNorm2d | nn.BatchNorm3d):
            continue
        kind = _SharedBatchNorm2d if isinstance(module, nn.BatchNorm2d) else _SharedBatchNorm3d
        shared = kind(
            module.num_features,
            module.eps,
            module.momentum,
            module.affine,
            module.track_running_stats,
        )
        shared.load_state_dict(module.state_dict())
        parent, _, child = name.rpartition(".")
        setattr(network.get_submodule(parent), child, shared.to(module.weight.device))


def _shared(norm: nn.BatchNorm2d | nn.BatchNorm3d, x: Tensor) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias, where mean and var are over all processes.

    The mean of means is the mean, because the batch of every process is equally large.
    """
    axes = [0, *range(2, x.ndim)]
    processes = dist.get_world_size()
    values = x.float()
    mean = _sum(values.mean(axes)) / processes
    centred = values - _per_channel(mean, x)
    variance = _sum((centred**2).mean(axes)) / processes
    _update(norm, mean.detach(), variance.detach(), processes * x.numel() // x.shape[1])
    scaled = centred * _per_channel(norm.weight / (variance + norm.eps).sqrt(), x)
    return (scaled + _per_channel(norm.bias, x)).to(x.dtype)


@torch.no_grad()
def _update(
    norm: nn.BatchNorm2d | nn.BatchNorm3d, mean: Tensor, variance: Tensor, count: int
) -> None:
    """Running statistics as torch keeps them: the variance is the unbiased one."""
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    norm.num_batches_tracked += 1
    momentum = norm.momentum or 0.0
    norm.running_mean.lerp_(mean, momentum)
    norm.running_var.lerp_(variance * (count / max(count - 1, 1)), momentum)


class _SumOverProcesses(torch.autograd.Function):
    """A sum over processes, whose gradient is the sum of theirs.

    Torch's own is deprecated, and its successor private.
    """

    @staticmethod
    def forward(ctx: object, value: Tensor) -> Tensor:  # type: ignore[override]
        del ctx
        return _total(value)

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:  # type: ignore[override]
        del ctx
        return _total(grad)


def _total(value: Tensor) -> Tensor:
    total = value.clone()
    dist.all_reduce(total)
    return total


def _sum(value: Tensor) -> Tensor:
    return _SumOverProcesses.apply(value)


def _per_channel(values: Tensor, like: Tensor) -> Tensor:
    return values.reshape(1, -1, *[1] * (like.ndim - 2))
