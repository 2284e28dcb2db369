import torch

from gradicon.training.batches import Inputs
from gradicon.training.execute import EagerExecutor
from gradicon.training.finite import LossWatch


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
    watch = LossWatch(torch.device("cpu"))
    executor = EagerExecutor(
        module, torch.optim.SGD(module.parameters(), lr=0.1), lambda loss: loss.backward(), watch
    )
    image = torch.zeros(1, 1, 8, 8)
    inputs = Inputs(image, image, torch.zeros(1, 2, 1))
    for step in (11, 12):
        executor.run_step(step, inputs)
    assert watch.first_bad_step() is None
    before = float(module.weight.detach())
    for step in (13, 14, 15):
        executor.run_step(step, inputs)
    assert watch.first_bad_step() == 13
    assert float(module.weight.detach()) == before, "on a CPU, no update follows a bad loss"
