"""The GPU's kernels against the plain code, value and gradient, in Triton's interpreter and
float32: rounding hides no mistake.
"""

import sys
from copy import deepcopy

import pytest
import torch
from torch import Tensor, nn

from gradicon.core.acceleration import use_half_precision
from gradicon.core.sampling import sample
from gradicon.core.unet import UNet

if sys.platform != "linux":
    pytest.skip("Triton runs on Linux only", allow_module_level=True)

from gradicon.fast.availability import kernels_apply
from gradicon.fast.fused.sampling import fused_sample
from gradicon.fast.fused.unet import can_be_fused, fused_forward
from gradicon.fast.fused.weights import blocked_down, blocked_up, in_blocks


def relative(found: Tensor, expected: Tensor) -> float:
    return float(((found - expected).norm() / expected.norm().clamp_min(1e-12)).detach())


def trained_looking(in_channels: int, down: tuple[int, ...], up: tuple[int, ...]) -> UNet:
    """A U-Net none of whose parameters is at its neutral value."""
    torch.manual_seed(0)
    net = UNet(3, in_channels, down, up)
    nn.init.normal_(net.last.weight, std=0.1)
    nn.init.normal_(net.last.bias, std=0.1)
    for norm in net.norm:
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias)
        norm.running_mean.normal_()
        norm.running_var.uniform_(0.5, 2)
    return net


@pytest.mark.parametrize(
    ("shape", "batch", "in_channels", "down", "up", "training"),
    [
        ((9, 11, 13), 1, 2, (4, 8, 8), (4, 8, 8), True),
        ((8, 10, 7), 2, 2, (4, 8), (4, 4), True),
        ((9, 8, 13), 2, 2, (4, 8, 8), (4, 8, 8), False),
        ((7, 8, 9), 1, 4, (4, 6), (8, 4), True),
        ((5, 6, 7), 1, 2, (8,), (8,), True),
    ],
)
def test_a_unet(
    shape: tuple[int, ...],
    batch: int,
    in_channels: int,
    down: tuple[int, ...],
    up: tuple[int, ...],
    training: bool,
):
    net = trained_looking(in_channels, down, up).train(training)
    assert can_be_fused(net)
    other = deepcopy(net)
    images = torch.randn(batch, in_channels, *shape)
    images, again = images.clone().requires_grad_(), images.clone().requires_grad_()
    expected = net(images)
    found = fused_forward(other, again, torch.float32)
    gradient = torch.randn_like(expected)
    expected.backward(gradient)
    found.backward(gradient)
    assert relative(found, expected) < 1e-5
    assert relative(again.grad, images.grad) < 1e-4
    for (name, a), b in zip(net.named_parameters(), other.parameters(), strict=True):
        if training and name.startswith("up.") and name.endswith("bias"):
            assert (
                not b.grad.any()
            )  # BatchNorm takes a bias before it away: its gradient is rounding, and zero here
        else:
            assert relative(b.grad, a.grad) < 1e-4, name
    for (name, a), b in zip(net.named_buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5, msg=name)


@pytest.mark.parametrize(
    ("images", "points", "channels", "displaced", "shape"),
    [
        (1, 1, 3, True, (50,)),
        (2, 2, 3, False, (4, 5, 6)),
        (1, 2, 1, False, (30,)),
        (2, 1, 3, True, (5, 4, 3)),
        (2, 2, 2, False, (7,)),
    ],
)
def test_reading_an_image_at_points(
    images: int, points: int, channels: int, displaced: bool, shape: tuple[int, ...]
):
    torch.manual_seed(0)
    image = torch.randn(images, channels, 5, 6, 7)
    x = torch.rand(points, 3, *shape) * 1.4 - 0.2  # some beyond the cube
    x[:, 0, :2] = 1
    found = []
    expected = []
    for answers, read in (
        (expected, sample),
        (found, lambda i, x: fused_sample(i, x, displaced=displaced)),
    ):
        i = image.clone().requires_grad_()
        at = x.clone().requires_grad_()
        values = read(i, at)
        values = values + at if displaced and read is sample else values
        values.backward(torch.linspace(-1, 1, values.numel()).reshape(values.shape))
        answers += [values, i.grad, at.grad]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_a_field_that_lies_ready_is_not_copied_and_its_room_is_ignored():
    buffer = torch.randn(1, 4, 5, 6, 4)
    buffer[..., 3] = float("nan")
    u = buffer[..., :3].movedim(-1, 1).requires_grad_()
    x = torch.rand(1, 3, 20).requires_grad_()
    values = fused_sample(u, x)
    torch.testing.assert_close(values, sample(u, x))
    dx = torch.autograd.grad(values.sum(), x)[0]
    torch.testing.assert_close(
        dx, torch.autograd.grad(sample(u, x).sum(), x)[0], rtol=1e-4, atol=1e-4
    )


def test_convolutions_over_blocks():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 6, 5, 7)
    down = torch.randn(4, 3, 3, 3, 3)
    up = torch.randn(3, 4, 4, 4, 4)
    blocks = nn.functional.conv3d(nn.functional.pad(in_blocks(x), [1, 0] * 3), blocked_down(down))
    torch.testing.assert_close(
        blocks, nn.functional.conv3d(x, down, stride=2, padding=1), rtol=1e-4, atol=1e-4
    )
    whole = nn.functional.conv_transpose3d(x, up, stride=2, padding=1)
    blocks = nn.functional.conv3d(x, blocked_up(up), padding=1)
    torch.testing.assert_close(blocks, in_blocks(whole), rtol=1e-4, atol=1e-4)


def test_on_a_cpu_nothing_changes():
    net = trained_looking(2, (4, 8), (4, 8))
    images = torch.rand(1, 2, 9, 8, 7)
    before = net(images)
    use_half_precision(net, torch.device("cpu"))
    assert not net.half_precision
    use_half_precision(net, torch.device("cuda"))
    assert net.half_precision
    torch.testing.assert_close(net(images), before)
    assert not kernels_apply(images)


def test_what_cannot_be_fused():
    assert not can_be_fused(UNet(2))
    assert not can_be_fused(UNet(3, 2, (6, 12), (6, 12)))
    assert not can_be_fused(UNet(3, 2, (4, 8), (4, 16)))
    assert can_be_fused(UNet(3))
