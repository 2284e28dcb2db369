"""The switch between plain and fast code, and what hangs on it."""

import pytest
import torch

from gradicon import ModelConfig, build
from gradicon.core.acceleration import (
    accelerated,
    is_recorded,
    is_wanted,
    plain,
    sparing_memory,
    weights_held_still,
)
from gradicon.core.network import Displace
from gradicon.core.unet import UNet
from gradicon.fast.capture import captured
from gradicon.fast.made import once
from gradicon.fast.operations import OPERATIONS
from gradicon.fast.precision import recomputed


def test_what_is_made_of_a_weight_is_made_once_while_weights_are_held_still():
    weight = torch.ones(2)
    other = torch.ones(2)
    made = []

    def make() -> int:
        made.append(1)
        return len(made)

    assert [once(weight, "half", make), once(weight, "half", make)] == [
        1,
        2,
    ]  # outside of a block, every time
    with weights_held_still():
        assert [once(weight, "half", make), once(weight, "half", make)] == [3, 3]
        assert once(weight, "blocked", make) == 4
        assert once(other, "half", make) == 5
    with weights_held_still():
        assert once(weight, "half", make) == 6  # the block before is forgotten


def test_faster_code_is_kept_away_in_a_plain_block_only():
    assert is_wanted()
    with plain():
        assert not is_wanted()
    assert is_wanted()


def test_the_switch_asks_the_fast_code_unless_it_is_kept_away(monkeypatch: pytest.MonkeyPatch):
    image = torch.rand(2, 2)
    monkeypatch.setitem(OPERATIONS, "sample", lambda image: 2 * image)
    assert torch.equal(accelerated("sample", image), 2 * image)
    with plain():
        assert accelerated("sample", image) is None
    monkeypatch.setattr("gradicon.core.acceleration._is_there", lambda: False)
    assert accelerated("sample", image) is None
    assert not is_wanted()


def test_nothing_is_recorded_on_a_cpu():
    assert not is_recorded(torch.rand(2))


def test_networks_that_compute_again_have_the_same_gradients_and_are_themselves_again():
    torch.manual_seed(0)
    dense = UNet(2, down=(4, 8), up=(4, 8)).eval()
    torch.nn.init.normal_(dense.last.weight, std=0.1)
    network = Displace(dense)
    a, b = torch.rand(2, 1, 1, 16, 20)

    def gradients() -> torch.Tensor:
        network.zero_grad()
        network(a, b).on_grid((16, 20)).square().sum().backward()
        return torch.cat([p.grad.flatten() for p in network.parameters()])

    want = gradients()
    with recomputed(network):
        assert network.dense is not dense
        found = gradients()
    assert network.dense is dense
    assert not torch.equal(found, want)  # it was in half precision
    assert (found - want).norm() < 0.02 * want.norm()
    with sparing_memory(network, torch.device("cpu")):
        assert network.dense is dense


def test_only_what_can_be_captured_is():
    network = build(ModelConfig(dimension=2, stage=1, down_channels=(4,), up_channels=(4,))).eval()
    with pytest.raises(ValueError, match="on a GPU"):
        captured(network, torch.rand(1, 1, 8, 8))
