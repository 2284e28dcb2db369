"""What is timed, by the study of what networks cost and by `benchmarks/step.py`: one training step
and one inference, plain or as `gradicon train` runs them, on random images.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gradicon.core.acceleration import is_wanted, use_half_precision
from gradicon.models import Model
from gradicon.training.batches import Inputs
from gradicon.training.config import LossConfig
from gradicon.training.execute import EagerExecutor, Executor
from gradicon.training.pairs import points
from gradicon.training.stages import adam
from gradicon.training.step import TrainingStep

Work = Callable[[], object]


def training_step(
    model: Model, shape: Sequence[int], batch: int, device: torch.device, *, fast: bool
) -> Work:
    """One step of the paper's protocol on fixed random pairs; on a GPU, fast is fused kernels,
    bfloat16 and a captured graph.
    """
    if fast:
        use_half_precision(model, device)
        optimizer = adam(model, 5e-5)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-5)
    eager = EagerExecutor(TrainingStep(model, LossConfig()), optimizer, Tensor.backward)
    executor: Executor = eager
    if fast and device.type == "cuda" and is_wanted():
        from gradicon.training.graphs import GraphedExecutor  # here: it needs gradicon.fast

        executor = GraphedExecutor(eager)
    a, b = torch.rand(2, batch, model.config.image_channels, *shape, device=device)
    numbers = iter(range(10**9))

    def step() -> None:
        number = next(numbers)
        executor.run_step(number, Inputs(a, b, points(shape, 0, number, device)))

    return step


def inference(model: Model, shape: Sequence[int], device: torch.device, *, fast: bool) -> Work:
    """One pair to one map, without gradients; on a GPU, fast is a captured graph in bfloat16."""
    a, b = torch.rand(2, 1, model.config.image_channels, *shape, device=device)
    if fast and device.type == "cuda" and is_wanted():
        from gradicon.fast.capture import captured

        use_half_precision(model, device)
        replay = captured(model, a)
        return lambda: replay(a, b)

    @torch.no_grad()
    def infer() -> None:
        model(a, b).materialise(shape)

    return infer


def wait_for(device: torch.device) -> None:
    """Until the device has done all it was told to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
