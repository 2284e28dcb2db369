"""Dense networks by fast code on a CPU, against the plain code: value, gradient and statistics."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F

from gradicon.core.acceleration import plain
from gradicon.core.dense import DenseNetwork
from gradicon.core.unet import UNet
from gradicon.core.voxelmorph import VoxelMorphUNet
from gradicon.fast.dense import dense
from gradicon.fast.unet import doubled_by_products, rearranged_unet


def awake(net: DenseNetwork) -> DenseNetwork:
    """An untrained network would be the identity, and hide every mistake."""
    torch.nn.init.normal_(net.last.weight, std=0.1)
    return net


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda: UNet(3, 2, (4, 8, 8), (4, 8, 8)), (20, 21, 17)),
        (lambda: UNet(3, 2, (4, 8), (4, 4)), (16, 16, 16)),
        (lambda: VoxelMorphUNet(3, 2, (4, 8), (8, 8, 4)), (20, 21, 17)),
    ],
)
def test_large_volumes(make: object, shape: tuple[int, ...], training: bool):
    torch.manual_seed(0)
    net = awake(make()).train(training)
    other = deepcopy(net)
    images = torch.rand(1, 2, *shape)
    found = dense(net, images)
    assert found is not None
    with plain():
        want = other(images)
    torch.testing.assert_close(found, want)
    gradient = torch.rand_like(want)
    found.backward(gradient)
    want.backward(gradient)
    for (name, a), b in zip(net.named_parameters(), other.parameters(), strict=True):
        if not (training and name.startswith("up.") and name.endswith("bias")):
            assert (a.grad - b.grad).norm() <= 1e-4 * b.grad.norm(), name
    for a, b in zip(net.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("shape", [(9, 12), (4, 5, 6)], ids=str)
def test_small_images_are_left_to_the_plain_code_which_does_the_same_steps(shape: tuple[int, ...]):
    torch.manual_seed(0)
    net = awake(UNet(len(shape), 2, (4, 8), (4, 8))).eval()
    images = torch.rand(2, 2, *shape)
    assert dense(net, images) is None
    assert torch.equal(rearranged_unet(net, images), net.displacements(images))


def test_channels_of_zeros_change_nothing(monkeypatch: pytest.MonkeyPatch):
    """The last convolution of 6 channels over 16 x 16 rows of 16 voxels, with two of zeros."""
    torch.manual_seed(0)
    net = awake(UNet(3, 2, (4, 8), (4, 4))).eval()
    images = torch.rand(1, 2, 16, 16, 16)
    widths: list[int] = []
    convolve = F.conv3d
    monkeypatch.setattr("gradicon.fast.unet._ONEDNN", 7 * 16 * 16)

    def note(x: torch.Tensor, *rest: object, **others: object) -> torch.Tensor:
        widths.append(x.shape[1])
        return convolve(x, *rest, **others)

    monkeypatch.setattr(F, "conv3d", note)
    found = rearranged_unet(net, images)
    assert widths[-1] == 8
    torch.testing.assert_close(found, net.displacements(images))


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (8, 3), (7, 12)], ids=str)
def test_products_double_images_as_torch_does(shape: tuple[int, ...]):
    x = torch.rand(2, 3, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    expected = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
    torch.testing.assert_close(doubled_by_products(x), expected)
