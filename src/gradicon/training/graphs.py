"""Steps as one captured CUDA graph.

The host launches a thousand kernels once, and from then on replays them all with one call.
"""

from collections.abc import Callable

import torch

from gradicon.fast.capture import on_side_stream, side_stream
from gradicon.training.batches import Inputs
from gradicon.training.execute import EagerExecutor
from gradicon.training.step import Scalars

_WARM_UP = 3  # steps before the capture: kernels are compiled, and cuDNN makes its choices


class GraphedExecutor:
    """The same steps as `eager`, replayed from a graph once they are warm, for inputs of one shape.

    Args:
        eager: how a step is run. Its optimizer must be `capturable`. Steps that count folds are
            left to it.
    """

    def __init__(self, eager: EagerExecutor) -> None:
        self._eager = eager
        self._warm = 0
        self._replay: Callable[[int, Inputs], Scalars] | None = None

    def run_step(self, step: int, inputs: Inputs, *, folds: bool = False) -> Scalars:
        """Forward, backward, update: as they come until warm, then from the graph."""
        if self._warm < _WARM_UP:
            self._warm += 1
            return on_side_stream(lambda: self._eager.run_step(step, inputs, folds=folds))
        if folds:
            return self._eager.run_step(step, inputs, folds=True)
        if self._replay is None:
            self._replay = _capture(self._eager, inputs)
        return self._replay(step, inputs)


def _capture(eager: EagerExecutor, like: Inputs) -> Callable[[int, Inputs], Scalars]:
    """A step that reads buffers of its own, which a replay fills first. Capturing runs nothing."""
    buffers = Inputs._make(None if value is None else value.clone() for value in like)
    number = torch.zeros((), dtype=torch.int64, device=like.a.device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side_stream()):
        scalars = eager.run_step(number, buffers)

    def replay(step: int, inputs: Inputs) -> Scalars:
        for buffer, value in zip(buffers, inputs, strict=True):
            if buffer is not None and value is not None:
                buffer.copy_(value)
        number.fill_(step)
        graph.replay()
        return scalars

    return replay
