"""How a step is executed: the one place to make faster.

Nothing here makes the host wait for the device.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from gradicon.training.batches import Inputs
from gradicon.training.finite import LossWatch
from gradicon.training.step import Scalars


class Executor(Protocol):
    """Runs steps of training."""

    def run_step(self, step: int, inputs: Inputs, *, folds: bool = False) -> Scalars:
        """Forward, backward, update; the parts of the loss, and with `folds` the folds in percent.

        What is returned lives on the device and may be overwritten by the next step.
        """
        ...


class EagerExecutor:
    """The plain way: one operation after the other, as torch runs them.

    Args:
        module: a `TrainingStep`, as it is or wrapped for several processes.
        optimizer: of its parameters.
        backward: what differentiates the loss.
        watch: what is told of every loss; one of its own if nobody else asks it.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer,
        backward: Callable[[Tensor], object],
        watch: LossWatch | None = None,
    ) -> None:
        self._module = module
        self._optimizer = optimizer
        self._backward = backward
        self._watch = watch or LossWatch(next(module.parameters()).device)

    def run_step(self, step: int | Tensor, inputs: Inputs, *, folds: bool = False) -> Scalars:
        """Forward, backward, update, unless the watch forbids the update.

        The number of the step may be a tensor on the device, so that a captured step can be
        replayed as another one.
        """
        self._optimizer.zero_grad(set_to_none=True)
        loss, scalars = self._module(inputs, folds=folds)
        self._watch.note(step, loss)
        if self._watch.forbids_update():
            return scalars
        self._backward(loss)
        self._optimizer.step()
        return scalars
