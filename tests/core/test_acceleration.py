import pytest
import torch

from gradicon import ModelConfig, build
from gradicon.core.acceleration import is_wanted, once, plain, weights_held_still
from gradicon.core.capture import captured


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


def test_only_what_can_be_captured_is():
    network = build(ModelConfig(dimension=2, stage=1, down_channels=(4,), up_channels=(4,))).eval()
    with pytest.raises(ValueError, match="on a GPU"):
        captured(network, torch.rand(1, 1, 8, 8))
