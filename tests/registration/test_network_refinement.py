import pytest
import torch

from gradicon.core.jacobian import Side, jacobian_determinant
from gradicon.core.network import warp
from gradicon.core.objective import Objective
from gradicon.core.similarity import mse
from gradicon.core.transform import DisplacementField
from gradicon.models import Model, ModelConfig, build
from gradicon.registration.solve.barrier import fold_barrier
from gradicon.registration.solve.network import refine
from maps import blobs, smooth_field

CONFIG = ModelConfig(dimension=2, stage=1, down_channels=(16, 32, 64), up_channels=(16, 32, 64))


def network() -> Model:
    torch.manual_seed(0)
    return build(CONFIG)


def test_a_known_smooth_warp_is_recovered_to_under_half_a_voxel():
    shape = (48, 44)
    truth = smooth_field(shape, 4, size=0.06, dtype=torch.float32)
    moving = blobs(shape, 1)
    fixed = warp(moving, truth)
    tuned = refine(
        network(), moving, fixed, steps=150, similarity=mse, weight=0.2, learning_rate=1e-3
    )
    with torch.no_grad():
        found = tuned(moving, fixed).materialise(shape).u
    voxels = torch.tensor([n - 1.0 for n in shape])[:, None, None]
    inside = (..., slice(5, -5), slice(5, -5))  # what left the image cannot be known
    before, after = (((u * voxels).norm(dim=1)[inside]).mean() for u in (truth.u, truth.u - found))
    assert before > 1.5
    assert after < 0.5


def test_the_network_that_was_given_stays_bit_identical():
    net = network().train()
    state = {name: value.clone() for name, value in net.state_dict().items()}
    tuned = refine(net, blobs((30, 32), 1), blobs((30, 32), 2), steps=3, learning_rate=1e-2)
    assert all(torch.equal(net.state_dict()[name], value) for name, value in state.items())
    assert net.training
    assert all(parameter.grad is None for parameter in net.parameters())
    assert any(not torch.equal(tuned.state_dict()[name], value) for name, value in state.items())


def test_the_same_input_gives_the_same_output_bit_for_bit():
    moving = blobs((30, 32), 1)
    fixed = blobs((30, 32), 2)
    first, second = (
        refine(network(), moving, fixed, steps=3, learning_rate=1e-2) for _ in range(2)
    )
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True)
    )


def test_every_step_is_reported():
    seen: list[tuple[int, float]] = []

    def note(step: int, result: Objective) -> None:
        seen.append((step, result.loss.item()))

    refine(
        network(), blobs((30, 32), 1), blobs((30, 32), 2), steps=4, learning_rate=1e-3, on_step=note
    )
    assert [step for step, _ in seen] == [1, 2, 3, 4]
    assert seen[-1][1] < seen[0][1]


@pytest.mark.parametrize(
    ("shape", "sides"),
    [
        ((9, 10, 11), ["backward"] * 3),
        ((9, 10, 11), ["forward", "backward", "forward"]),
        ((14, 12), ["backward", "forward"]),
    ],
)
def test_the_barrier_is_felt_below_the_margin_only_and_as_if_all_voxels_were_differentiated(
    shape: tuple[int, ...], sides: list[Side]
):
    u = (
        torch.randn(2, len(shape), *shape, generator=torch.Generator().manual_seed(0)) * 0.05
    ).requires_grad_()
    everywhere = torch.relu(
        0.2 - jacobian_determinant(DisplacementField(u), shape, difference=sides)
    ).mean()
    barrier = fold_barrier(DisplacementField(u), shape, sides, 0.2)
    torch.testing.assert_close(barrier, everywhere)
    torch.testing.assert_close(
        torch.autograd.grad(barrier, u)[0], torch.autograd.grad(everywhere, u)[0]
    )
    still = torch.zeros(1, len(shape), *shape, requires_grad=True)
    untouched = fold_barrier(DisplacementField(still), shape, sides, 0.2)
    assert untouched == 0
    assert not torch.autograd.grad(untouched, still)[0].any()
