import subprocess
import sys
from functools import partial

import pytest
import torch

from gradicon.core.network import (
    Displace,
    Down,
    RegistrationNetwork,
    TwoStep,
    multiresolution,
    refined,
    two_at_half_resolution,
    warp,
)
from gradicon.core.sampling import halve, unit_grid
from gradicon.core.transform import Affine
from gradicon.core.unet import UNet
from gradicon.core.voxelmorph import VoxelMorphUNet
from maps import blobs

SMALL = partial(UNet, down=(4, 8, 8), up=(4, 8, 8))


def awake(net: torch.nn.Module, seed: int = 0) -> torch.nn.Module:
    """Weights as after training: an untrained network would be the identity, and hide every
    mistake.
    """
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in net.named_parameters():
        if "last.weight" in name:
            parameter.data = 0.3 * torch.randn(parameter.shape, generator=generator)
    return net.eval()


def count(net: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in net.parameters())


def test_parameter_counts_are_the_papers():
    assert count(UNet(3)) == 17_670_229
    assert count(VoxelMorphUNet(3)) == 327_331


@pytest.mark.parametrize("shape", [(35, 51, 35), (36, 50, 37), (33, 65)], ids=str)
@pytest.mark.parametrize("dense", [SMALL, VoxelMorphUNet])
def test_any_size_works_and_an_untrained_network_is_nearly_the_identity(
    shape: tuple[int, ...], dense: type
):
    net = refined(multiresolution(lambda: dense(len(shape))), lambda: dense(len(shape)))
    a = blobs(shape, 1)
    b = blobs(shape, 2)
    phi = net(a, b).on_grid(shape)
    assert phi.shape == (1, len(shape), *shape)
    limit = 0 if dense is SMALL else 1e-4  # VoxelMorph starts near zero, not at it
    assert (phi - unit_grid(shape, like=a)).abs().max() <= limit


@pytest.mark.parametrize("shape", [(35, 51, 35), (5, 7, 6), (1, 9, 4), (40, 3)], ids=str)
def test_the_papers_unet_takes_images_smaller_than_its_levels(shape: tuple[int, ...]):
    net = awake(UNet(len(shape)))
    u = net(
        torch.cat([blobs(shape, 1), blobs(shape, 2)], 1)
        if 1 not in shape
        else torch.rand(1, 2, *shape)
    )
    assert u.shape == (1, len(shape), *shape)
    assert torch.isfinite(u).all()


def test_several_image_channels():
    net = awake(multiresolution(lambda: SMALL(2, in_channels=6)))
    a, b = torch.rand(2, 2, 3, 20, 24, generator=torch.Generator().manual_seed(0))
    assert net(a, b).on_grid((20, 24)).shape == (2, 2, 20, 24)


def test_down_asks_its_network_about_halved_images():
    net = awake(Displace(SMALL(2)))
    a = blobs((21, 24), 1)
    b = blobs((21, 24), 2)
    x = torch.rand(1, 2, 40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Down(net)(a, b)(x), net(halve(a), halve(b))(x))


def test_two_step_is_the_papers_ts():
    first = awake(Displace(SMALL(2)), 1)
    second = awake(Displace(SMALL(2)), 2)
    a = blobs((21, 24), 1)
    b = blobs((21, 24), 2)
    phi = first(a, b)
    psi = second(warp(a, phi), b)
    x = torch.rand(1, 2, 40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(TwoStep(first, second)(a, b)(x), phi(psi(x)))
    assert not torch.allclose(phi(psi(x)), psi(phi(x)), atol=1e-4)


def test_a_second_step_that_is_repeated_is_one_two_step_upon_another():
    first = awake(Displace(SMALL(2)), 1)
    second = awake(Displace(SMALL(2)), 2)
    a = blobs((21, 24), 1)
    b = blobs((21, 24), 2)
    nested = TwoStep(TwoStep(TwoStep(first, second), second), second)
    repeated = TwoStep(first, second, times=3)
    x = torch.rand(1, 2, 40, generator=torch.Generator().manual_seed(0))
    assert torch.equal(repeated(a, b)(x), nested(a, b)(x))
    assert not torch.allclose(repeated(a, b)(x), TwoStep(first, second)(a, b)(x), atol=1e-4)
    assert set(repeated.state_dict()) == set(TwoStep(first, second).state_dict())


def test_stage1_stage2_and_icon_are_built_as_in_the_paper():
    def tree(net: torch.nn.Module) -> str:
        match net:
            case TwoStep():
                return f"TS{{{tree(net.first)}, {tree(net.second)}}}"
            case Down():
                return f"Down{{{tree(net.net)}}}"
            case _:
                return "Psi"

    icon = refined(two_at_half_resolution(lambda: SMALL(2)), lambda: SMALL(2))
    assert tree(icon) == "TS{Down{TS{Psi, Psi}}, Psi}"
    assert len({id(m) for m in icon.modules() if isinstance(m, UNet)}) == 3
    stage1 = multiresolution(lambda: SMALL(2))
    assert tree(stage1) == "TS{Down{TS{Down{Psi}, Psi}}, Psi}"
    assert tree(multiresolution(lambda: SMALL(2), resolutions=1)) == "Psi"
    assert tree(refined(stage1, lambda: SMALL(2))) == f"TS{{{tree(stage1)}, Psi}}"
    assert len({id(m) for m in stage1.modules() if isinstance(m, UNet)}) == 3


def test_refined_keeps_the_weights_it_was_given():
    stage1 = awake(multiresolution(lambda: SMALL(2)))
    a = blobs((21, 24), 1)
    b = blobs((21, 24), 2)
    x = torch.rand(1, 2, 40, generator=torch.Generator().manual_seed(0))
    stage2 = refined(stage1, lambda: SMALL(2)).eval()  # the new network starts as the identity
    torch.testing.assert_close(stage2(a, b)(x), stage1(a, b)(x))


@pytest.mark.parametrize("shape", [(19, 26), (17, 22, 20)], ids=["2d", "3d"])
def test_transposing_both_images_transposes_the_answer(shape: tuple[int, ...]):
    """Swap two axes of the images, and of every kernel: the map is the same one with its axes
    swapped. No x for a z anywhere.
    """
    dimension = len(shape)
    net, swapped = (
        awake(refined(multiresolution(lambda: SMALL(dimension)), lambda: SMALL(dimension)))
        for _ in range(2)
    )
    state = {}
    for name, value in net.state_dict().items():
        turned = value.transpose(2, dimension + 1) if value.ndim > 2 else value
        if ".last." in name:
            order = list(range(dimension))
            order[0], order[-1] = order[-1], order[0]
            turned = turned[order]
        state[name] = turned.contiguous()
    swapped.load_state_dict(state)
    a = blobs(shape, 1)
    b = blobs(shape, 2)
    x = torch.rand(1, dimension, 50, generator=torch.Generator().manual_seed(0))
    flipped = x.clone()
    flipped[:, [0, -1]] = x[:, [-1, 0]]
    answer = net(a, b)(x)
    turned_answer = swapped(a.transpose(2, -1).contiguous(), b.transpose(2, -1).contiguous())(
        flipped
    )
    turned_answer[:, [0, -1]] = turned_answer[:, [-1, 0]].clone()
    assert (answer - x).abs().max() > 0.01
    torch.testing.assert_close(turned_answer, answer, rtol=1e-4, atol=1e-6)


def test_warp_reads_the_image_where_phi_points():
    image = blobs((20, 30), 1)
    shift = Affine(torch.eye(2)[None], torch.tensor([[0.0, 3 / 29]]))
    torch.testing.assert_close(warp(image, shift)[..., :-3], image[..., 3:], rtol=1e-4, atol=1e-4)


def test_half_precision_convolutions_still_give_exact_coordinates():
    net = awake(Displace(SMALL(2)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        phi = net(blobs((20, 24), 1), blobs((20, 24), 2))
    assert phi.on_grid((20, 24)).dtype == torch.float32


TRACE = """
import torch
from gradicon.core.network import multiresolution, refined
from gradicon.core.objective import objective
from gradicon.core.similarity import SIMILARITIES, lncc
from gradicon.core.unet import UNet
from gradicon.core.voxelmorph import VoxelMorphUNet

torch.manual_seed(0)

def check(net, a, b, x, similarity):
    def loss(a, b, x):
        return objective(net, a, b, x, similarity=similarity).loss
    torch._dynamo.reset()
    traced = torch.compile(loss, backend="eager", fullgraph=True)(a, b, x)
    torch.testing.assert_close(traced, loss(a, b, x))

one = multiresolution(lambda: UNet(2, down=(4, 8), up=(4, 8)), resolutions=1)
for similarity in SIMILARITIES.values():
    check(one, torch.rand(1, 1, 9, 12), torch.rand(1, 1, 9, 12), torch.rand(1, 2, 50), similarity)
for dimension, dense in ((2, UNet), (3, UNet), (3, VoxelMorphUNet)):
    small = lambda: dense(dimension, down=(4, 8), up=(4, 8) if dense is UNet else (8, 8, 4))
    net = refined(multiresolution(small), small)
    shape = (13, 18, 15)[:dimension]
    a, b, x = torch.rand(1, 1, *shape), torch.rand(1, 1, *shape), torch.rand(1, dimension, 50)
    check(net, a, b, x, lncc)
    net.eval()
    exported = torch.export.export(net, (a, b)).module()
    torch.testing.assert_close(exported(a, b).on_grid(shape), net(a, b).on_grid(shape))
print("traced")
"""


def test_network_and_objective_trace_without_graph_breaks_and_the_network_exports():
    """In a process of its own: the run-time type checks of the other tests would be traced too."""
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TRACE], capture_output=True, text=True, check=False
    )
    assert result.stdout.strip() == "traced", result.stderr[-2000:]


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    "net", [Displace(SMALL(2)), Down(Displace(SMALL(2))), multiresolution(lambda: SMALL(2))]
)
@pytest.mark.parametrize(
    ("moving", "fixed", "message"),
    [
        (
            torch.zeros(20, 20),
            torch.zeros(20, 20),
            r"the moving image must have shape .* got \(20, 20\)",
        ),
        (
            torch.zeros(1, 1, 20, 20),
            torch.zeros(1, 1, 20, 21),
            r"one shape, got \(1, 1, 20, 20\) and \(1, 1, 20, 21\)",
        ),
        (
            torch.zeros(1, 1, 20, 20).int(),
            torch.zeros(1, 1, 20, 20).int(),
            "float32 or float64, got torch.int32",
        ),
        (torch.zeros(1, 1, 20, 20), torch.zeros(1, 1, 20, 20).double(), "share one dtype"),
        (
            torch.zeros(1, 3, 20, 20),
            torch.zeros(1, 3, 20, 20),
            "takes 2 stacked image channels, got 6",
        ),
        (torch.zeros(1, 1, 20, 20, 20), torch.zeros(1, 1, 20, 20, 20), "this network is 2-D"),
        (
            torch.full((1, 1, 20, 20), torch.nan),
            torch.zeros(1, 1, 20, 20),
            "the moving image has .* NaN",
        ),
        (
            torch.zeros(1, 1, 20, 20),
            torch.full((1, 1, 20, 20), torch.inf),
            "the fixed image has .* infinite",
        ),
    ],
)
def test_bad_images(
    net: RegistrationNetwork, moving: torch.Tensor, fixed: torch.Tensor, message: str
):
    with pytest.raises((ValueError, TypeError), match=message):
        net(moving, fixed)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UNet(4), "dimension must be 2 or 3, got 4"),
        (lambda: UNet(2, down=(4, 8), up=(4,)), "2 down and 1 up"),
        (lambda: UNet(2, down=(4, 0), up=(4, 4)), "must be positive"),
        (lambda: VoxelMorphUNet(2, down=(4, 8), up=(4,)), "more upward"),
        (lambda: multiresolution(lambda: SMALL(2), resolutions=0), "at least 1 resolution"),
    ],
)
def test_bad_architecture(make: object, message: str):
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
