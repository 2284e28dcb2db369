"""ICON's network from weights of the reference, against its structure written out step by step:
TwoStep(Downsample(TwoStep(U1, U2)), U3), by scipy's interpolation instead of ours.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates
from torch import Tensor
from torch.nn.functional import avg_pool2d, avg_pool3d

from gradicon.core.unet import UNet
from gradicon.models import CheckpointError, ModelConfig, from_icon
from maps import blobs

HALF = ("net.netPhi.net.", "net.netPsi.net.")
WHOLE = ("netPhi.net.netPhi.net.", "netPhi.net.netPsi.net.", "netPsi.net.")
Map = Callable[[np.ndarray], np.ndarray]


def reference_unet(dimension: int, seed: int) -> dict[str, Tensor]:
    """The weights of a small `tallUNet2`, by the reference's names; awake, so that it moves."""
    generator = torch.Generator().manual_seed(seed)
    kernels = {"down": [3] * dimension, "up": [4] * dimension}
    shapes = {
        "downConvs.0.weight": (4, 2, *kernels["down"]),
        "downConvs.0.bias": (4,),
        "downConvs.1.weight": (8, 4, *kernels["down"]),
        "downConvs.1.bias": (8,),
        "upConvs.0.weight": (4 + 6, 5, *kernels["up"]),
        "upConvs.0.bias": (5,),
        "upConvs.1.weight": (8, 6, *kernels["up"]),
        "upConvs.1.bias": (6,),
        "batchNorms.0.weight": (5,),
        "batchNorms.0.bias": (5,),
        "batchNorms.0.running_mean": (5,),
        "batchNorms.0.running_var": (5,),
        "batchNorms.1.weight": (6,),
        "batchNorms.1.bias": (6,),
        "batchNorms.1.running_mean": (6,),
        "batchNorms.1.running_var": (6,),
        "lastConv.weight": (dimension, 5 + 2, *kernels["down"]),
        "lastConv.bias": (dimension,),
    }
    state = {
        name: (torch.rand(shape, generator=generator) - 0.5) * 0.5 + name.endswith("var")
        for name, shape in shapes.items()
    }
    return state | {f"batchNorms.{i}.num_batches_tracked": torch.tensor(1) for i in range(2)}


def reference_state(prefixes: Sequence[str], dimension: int = 2) -> dict[str, Tensor]:
    return {
        prefix + name: tensor
        for seed, prefix in enumerate(prefixes)
        for name, tensor in reference_unet(dimension, seed).items()
    }


def displacement(weights: Mapping[str, Tensor], moving: np.ndarray, fixed: np.ndarray) -> Map:
    """x + u(x) on the unit cube, with u of one U-Net: the part that golden numbers check."""
    unet = UNet(moving.ndim, down=(4, 8), up=(5, 6)).eval()
    ours = {"downConvs": "down", "upConvs": "up", "batchNorms": "norm", "lastConv": "last"}
    renamed = {
        ours[name.split(".")[0]] + name[name.index(".") :]: value for name, value in weights.items()
    }
    unet.load_state_dict(renamed)
    images = torch.from_numpy(np.stack([moving, fixed])[None])
    with torch.no_grad():
        u = unet(images)[0].numpy()
    return lambda x: x + np.stack([read(component, x) for component in u])


def read(image: np.ndarray, x: np.ndarray) -> np.ndarray:
    """An image at points of the unit cube, whose corners are the centres of its corner voxels."""
    voxels = x * (np.array(image.shape) - 1).reshape(-1, *[1] * (x.ndim - 1))
    return map_coordinates(image, voxels, order=1, mode="nearest")


def grid(shape: Sequence[int]) -> np.ndarray:
    return np.stack(np.meshgrid(*[np.linspace(0, 1, n) for n in shape], indexing="ij"))


def pooled(image: np.ndarray) -> np.ndarray:
    pool = {2: avg_pool2d, 3: avg_pool3d}[image.ndim]
    return pool(torch.from_numpy(image)[None, None], 2, ceil_mode=True)[0, 0].numpy()


def by_hand(state: Mapping[str, Tensor], moving: np.ndarray, fixed: np.ndarray) -> tuple[Map, Map]:
    """The map at half resolution, and the whole one."""
    u1, u2, u3 = (
        {name.removeprefix(prefix): t for name, t in state.items() if name.startswith(prefix)}
        for prefix in WHOLE
    )
    small = pooled(moving)
    f1 = displacement(u1, small, pooled(fixed))
    f2 = displacement(u2, read(small, f1(grid(small.shape))).astype(np.float32), pooled(fixed))
    warped = read(moving, f1(f2(grid(moving.shape)))).astype(np.float32)
    f3 = displacement(u3, warped, fixed)
    return (lambda x: f1(f2(x))), (lambda x: f1(f2(f3(x))))


@pytest.mark.parametrize("shape", [(19, 26), (17, 14, 15)], ids=["2d", "3d"])
def test_weights_of_the_reference_are_its_map(shape: tuple[int, ...]):
    state = reference_state(WHOLE, len(shape))
    a, b = blobs(shape, 1), blobs(shape, 2)
    coarse, whole = by_hand(state, a[0, 0].numpy(), b[0, 0].numpy())
    half = from_icon(
        {name.removeprefix("netPhi."): t for name, t in state.items() if name.startswith(WHOLE[:2])}
    )
    model = from_icon(state)
    size = ModelConfig(dimension=len(shape), down_channels=(4, 8), up_channels=(5, 6))
    assert model.config.to_dict() == size.to_dict() | {"composition": "icon"}
    assert half.config.to_dict() == size.to_dict() | {"composition": "icon", "stage": 1}
    assert not model.training
    x = torch.rand(1, len(shape), 200, generator=torch.Generator().manual_seed(0))
    for found, want in ((half, coarse), (model, whole)):
        u = (found(a, b)(x) - x)[0].detach().numpy()
        by_steps = want(x[0].numpy()) - x[0].numpy()
        assert np.abs(by_steps).mean() > 0.01, "the map must move something"
        np.testing.assert_allclose(u, by_steps, atol=2e-5)
    assert np.abs(whole(x[0].numpy()) - coarse(x[0].numpy())).mean() > 0.01


@pytest.mark.parametrize(
    ("prefixes", "expected"),
    [
        (HALF, {"composition": "icon", "stage": 1}),
        (WHOLE, {"composition": "icon", "stage": 2}),
        (["net."], {"stage": 1, "resolutions": 1}),
        (["netPhi.net.net.", "netPsi.net."], {"stage": 1, "resolutions": 2}),
        (
            ["netPhi.net.netPhi.net.net.", "netPhi.net.netPsi.net.", "netPsi.net."],
            {"stage": 1, "resolutions": 3},
        ),
        (["netPhi.net.", "netPsi.net."], {"stage": 2, "resolutions": 1}),
        (
            ["netPhi.netPhi.net.net.", "netPhi.netPsi.net.", "netPsi.net."],
            {"stage": 2, "resolutions": 2},
        ),
    ],
)
@pytest.mark.parametrize("wrapper", ["", "regis_net.", "module.regis_net."])
def test_networks_of_two_and_three_unets_are_told_apart(
    prefixes: Sequence[str], expected: dict[str, object], wrapper: str
):
    state = reference_state([wrapper + prefix for prefix in prefixes])
    plain = {"composition": "gradicon", "resolutions": 3} | expected
    found = from_icon(state).config.to_dict()
    assert {name: found[name] for name in ("composition", "stage", "resolutions")} == plain


def test_a_fourth_step_on_top_is_refused():
    four = ["netPhi." + prefix for prefix in WHOLE] + ["netPsi.net."]
    with pytest.raises(CheckpointError, match="not a Stage1, Stage2 or ICON state dict") as error:
        from_icon(reference_state(four))
    assert "\n" not in str(error.value)
