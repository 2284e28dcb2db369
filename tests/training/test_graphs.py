"""Which step is run how. That a captured step computes the same needs a GPU; here a stand-in
counts.
"""

from collections.abc import Callable

import pytest
import torch

from gradicon.training import graphs
from gradicon.training.batches import Inputs
from gradicon.training.execute import EagerExecutor
from gradicon.training.graphs import GraphedExecutor
from training.test_execute import Planned


def test_steps_are_warmed_up_then_replayed_and_counting_folds_is_left_to_the_plain_way(
    monkeypatch: pytest.MonkeyPatch,
):
    done: list[tuple[str, int]] = []
    module = Planned([1.0] * 20)
    eager = EagerExecutor(
        module, torch.optim.SGD(module.parameters(), lr=0.1), lambda loss: loss.backward()
    )
    run_step = eager.run_step

    def run_and_note(step: int, inputs: Inputs, *, folds: bool = False) -> dict[str, torch.Tensor]:
        done.append(("eager", step))
        return run_step(step, inputs, folds=folds)

    def stand_in(_: EagerExecutor, __: Inputs) -> Callable[[int, Inputs], dict[str, torch.Tensor]]:
        done.append(("capture", 0))
        return lambda step, inputs: done.append(("replay", step)) or {}

    monkeypatch.setattr(eager, "run_step", run_and_note)
    monkeypatch.setattr(graphs, "_capture", stand_in)
    monkeypatch.setattr(graphs, "on_side_stream", lambda run: run())
    executor = GraphedExecutor(eager)
    image = torch.zeros(1, 1, 8, 8)
    for step in range(1, 7):
        executor.run_step(step, Inputs(image, image, torch.zeros(1, 2, 1)), folds=step == 5)
    assert done == [
        ("eager", 1),
        ("eager", 2),
        ("eager", 3),
        ("capture", 0),
        ("replay", 4),
        ("eager", 5),
        ("replay", 6),
    ]
