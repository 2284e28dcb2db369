import torch

from gradicon.training.batches import Inputs
from gradicon.training.execute import EagerExecutor, is_bad


class Planned(torch.nn.Module):
    """A loss that follows a plan."""

    def __init__(self, plan: list[float]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))
        self.plan = iter(plan)

    def forward(
        self, inputs: Inputs, *, folds: bool = False
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss = self.weight * next(self.plan)
        return loss, {"loss": loss.detach()}


def test_the_first_bad_step_is_remembered():
    module = Planned([1.0, 2.0, torch.inf, 1.0, torch.nan])
    executor = EagerExecutor(
        module, torch.optim.SGD(module.parameters(), lr=0.1), lambda loss: loss.backward()
    )
    image = torch.zeros(1, 1, 8, 8)
    inputs = Inputs(image, image, torch.zeros(1, 2, 1))
    for step in (11, 12):
        executor.run_step(step, inputs)
    assert not is_bad(int(executor.first_bad_step()))
    for step in (13, 14, 15):
        executor.run_step(step, inputs)
    assert is_bad(int(executor.first_bad_step()))
    assert executor.first_bad_step() == 13
    assert torch.isfinite(module.weight)
