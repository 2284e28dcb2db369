"""How a step is executed: the one place to make faster. Nothing here makes the host wait for the
device.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from gradicon.training.batches import Inputs
from gradicon.training.step import Scalars

_NEVER = 2**62


class Executor(Protocol):
    """Runs steps of training."""

    def run_step(self, step: int, inputs: Inputs, *, folds: bool = False) -> Scalars:
        """Forward, backward, update. What is returned lives on the device and may be overwritten by
        the next step.
        """
        ...

    def first_bad_step(self) -> Tensor:
        """The first step whose loss was not finite, as a number on the device; `is_bad` tells
        whether there was one.
        """
        ...


class EagerExecutor:
    """The plain way: one operation after the other, as torch runs them.

    Args:
        module: a `TrainingStep`, as it is or wrapped for several processes.
        optimizer: of its parameters.
        backward: what differentiates the loss.
        least: the least of a number over all processes; the number itself where there is one
            process.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        backward: Callable[[Tensor], object],
        least: Callable[[Tensor], Tensor] = torch.clone,
    ) -> None:
        self._module = module
        self._optimizer = optimizer
        self._backward = backward
        self._least = least
        device = next(module.parameters()).device
        self._first_bad = torch.full((), _NEVER, dtype=torch.int64, device=device)

    def run_step(self, step: int | Tensor, inputs: Inputs, *, folds: bool = False) -> Scalars:
        """Forward, backward, update; a loss that is not finite is remembered by its step, and on a
        CPU followed by no update.

        The number of the step may be a tensor on the device, so that a captured step can be
        replayed as another one.
        """
        self._optimizer.zero_grad(set_to_none=True)
        loss, scalars = self._module(inputs, folds=folds)
        first = torch.where(
            torch.isfinite(loss.detach()), self._first_bad, self._first_bad.clamp_max(step)
        )
        self._first_bad.copy_(first)
        if loss.is_cpu and is_bad(int(self._least(self._first_bad))):
            # on a CPU, torch's backward of an interpolation at NaN coordinates reads beyond memory
            return scalars
        self._backward(loss)
        self._optimizer.step()
        return scalars

    def first_bad_step(self) -> Tensor:
        """The first step whose loss was not finite."""
        return self._first_bad


def is_bad(first_bad_step: int) -> bool:
    """Whether an executor's `first_bad_step` is a step at all."""
    return first_bad_step < _NEVER
