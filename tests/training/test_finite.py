"""What is done where a loss or a weight is not finite."""

import pytest
import torch
from lightning_fabric import Fabric

from gradicon.core.network import Displace
from gradicon.models import ModelConfig, build
from gradicon.training.batches import Batches
from gradicon.training.finite import (
    LossWatch,
    NonFiniteLossError,
    refuse_non_finite,
    trust_images,
)

CPU = torch.device("cpu")


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Batches:
    """Of one pair a step, with names."""
    monkeypatch.setattr(Batches, "name_pairs", lambda _, step: [(f"a{step}", f"b{step}")])
    return object.__new__(Batches)


def test_the_first_of_several_bad_steps_is_kept_and_good_ones_leave_it():
    watch = LossWatch(CPU)
    for step, loss in enumerate([1.0, torch.inf, 1.0, torch.nan], start=4):
        assert watch.forbids_update() == (step > 5)
        watch.note(step, torch.tensor(loss))
    assert watch.first_bad_step() == 5


def test_what_another_process_sees_counts_and_is_not_mistaken_for_ones_own(
    monkeypatch: pytest.MonkeyPatch,
):
    def reduce_with_seven(_: Fabric, value: torch.Tensor, reduce_op: str) -> torch.Tensor:
        assert reduce_op == "min"
        return value.clamp_max_(7)  # in place, as torch.distributed reduces

    monkeypatch.setattr(Fabric, "all_reduce", reduce_with_seven)
    watch = LossWatch(CPU, Fabric(accelerator="cpu", devices=1))
    assert watch.first_bad_step() == 7
    assert watch.forbids_update()
    watch.note(9, torch.tensor(torch.nan))
    assert watch.first_bad_step() == 7
    monkeypatch.setattr(Fabric, "all_reduce", lambda _, value, reduce_op: value)
    assert watch.first_bad_step() == 9


def test_a_run_is_stopped_by_a_loss_or_by_a_weight_if_they_are_looked_at(batches: Batches):
    watch = LossWatch(CPU)
    network = torch.nn.Linear(2, 2)
    refuse_non_finite(watch, batches, 3, network)
    network.bias.data[1] = torch.inf
    refuse_non_finite(watch, batches, 3)
    with pytest.raises(NonFiniteLossError, match="step 3: the network is .* after a3 and b3: look"):
        refuse_non_finite(watch, batches, 3, network)
    watch.note(2, torch.tensor(torch.nan))
    with pytest.raises(NonFiniteLossError, match="step 2: the loss is .* after a2 and b2: look"):
        refuse_non_finite(watch, batches, 3, network)


def test_images_are_looked_at_until_they_are_trusted():
    network = build(ModelConfig(dimension=2, stage=1, down_channels=(4, 8), up_channels=(4, 8)))
    parts = [module for module in network.modules() if isinstance(module, Displace)]
    assert len(parts) == 3
    assert all(part.refuse_non_finite for part in parts)
    trust_images(network)
    assert not any(part.refuse_non_finite for part in parts)
