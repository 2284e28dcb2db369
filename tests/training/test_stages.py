"""The optimizer: its learning rate, and its state from another device."""

import torch

from gradicon import ModelConfig, build
from gradicon.training.stages import adam, restore, set_learning_rate

TINY = ModelConfig(dimension=2, stage=1, resolutions=1, down_channels=(4,), up_channels=(4,))


def stepped() -> tuple[torch.nn.Module, torch.optim.Adam]:
    torch.manual_seed(0)
    model = build(TINY)
    optimizer = adam(model, 0.01)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    return model, optimizer


def test_a_state_from_a_gpu_goes_on_here_with_its_moments():
    _, optimizer = stepped()
    state = optimizer.state_dict()
    for group in state["param_groups"]:  # as a GPU's optimizer says it
        group["capturable"] = True
        group["lr"] = torch.tensor(0.5)
    model, other = stepped()
    restore(other, state)
    group = other.param_groups[0]
    assert (group["lr"], group["capturable"]) == (0.01, False)
    for parameter in model.parameters():
        torch.testing.assert_close(
            other.state[parameter]["exp_avg"], torch.full_like(parameter, 0.1)
        )
        parameter.grad = torch.ones_like(parameter)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    other.step()
    for parameter, was in zip(model.parameters(), before, strict=True):
        torch.testing.assert_close(parameter.detach(), was - 0.01, rtol=0, atol=1e-6)


def test_a_learning_rate_in_a_tensor_keeps_its_place():
    model = build(TINY)
    rate = torch.tensor(0.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, fused=True)
    set_learning_rate(optimizer, 0.25)
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate == 0.25
    plain = torch.optim.Adam(model.parameters(), lr=0.5)
    set_learning_rate(plain, 0.25)
    assert plain.param_groups[0]["lr"] == 0.25
