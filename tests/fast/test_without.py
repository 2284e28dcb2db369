"""The package without `fast/`: everything works, and the numbers are the same."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

import gradicon

NUMBERS = """
import sys
import torch
import gradicon
from gradicon.core.acceleration import is_wanted, sparing_memory, use_half_precision
from gradicon.core.network import Displace
from gradicon.core.objective import gradient_inconsistency, objective
from gradicon.core.points import random_points
from gradicon.core.sampling import displace, sample
from gradicon.core.similarity import lncc
from gradicon.core.transform import DisplacementField
from gradicon.core.unet import UNet
import gradicon.registration.register
import gradicon.training.loop

generator = torch.Generator().manual_seed(0)

def drawn(*shape):
    return torch.rand(*shape, generator=generator)

found = {"file": gradicon.__file__, "fast": is_wanted()}
image, u, x = drawn(1, 1, 18, 19, 20), 0.1 * drawn(1, 3, 9, 8, 7), 1.4 * drawn(1, 3, 5000) - 0.2
x.requires_grad_()
found["sample"] = sample(image, x)
found["slope"] = torch.autograd.grad(found["sample"].square().sum(), x)[0]
found["nearest"] = sample(image, x, mode="nearest", padding="zeros")
found["displace"] = displace(u, x)
torch.manual_seed(0)
net = UNet(3, 2, (4, 8, 8), (4, 8, 8))
torch.nn.init.normal_(net.last.weight, std=0.1)
use_half_precision(net, torch.device("cpu"))
a, b = drawn(2, 1, 1, 18, 19, 20)
found["u"] = net.eval()(torch.cat([a, b], 1))
found["lncc"] = lncc(a, b)
phi, psi = DisplacementField(0.1 * u), DisplacementField(-0.1 * u)
points = random_points((18, 19, 20), generator, like=a)
found["gradicon"] = gradient_inconsistency(phi, psi, points)
network = Displace(net)
with sparing_memory(network, torch.device("cpu")):
    found["loss"] = objective(network, a, b, points, similarity=lncc).loss
torch.save({k: v.detach() if torch.is_tensor(v) else v for k, v in found.items()}, sys.argv[1])
"""


def numbers(source: Path, file: Path) -> dict[str, object]:
    """What a package of ours computes, in a process of its own with two threads."""
    subprocess.run(
        [sys.executable, "-c", NUMBERS, str(file)],
        check=True,
        env=os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "2"},
    )
    return torch.load(file)


def test_every_number_is_the_same_without_the_fast_code(tmp_path: Path):
    source = Path(gradicon.__file__).parent
    shutil.copytree(
        source,
        tmp_path / "gradicon",
        ignore=lambda folder, _: {"fast", "weights", "sample"} if Path(folder) == source else (),
    )
    whole = numbers(source.parent, tmp_path / "whole.pt")
    part = numbers(tmp_path, tmp_path / "part.pt")
    assert (whole.pop("fast"), part.pop("fast")) == (True, False)
    assert Path(str(whole.pop("file"))).parent == source
    assert Path(str(part.pop("file"))).parent == tmp_path / "gradicon"
    assert whole.keys() == part.keys()
    for name, value in whole.items():
        assert torch.isfinite(value).all()
        torch.testing.assert_close(value, part[name], msg=lambda m, n=name: f"{n}: {m}")
