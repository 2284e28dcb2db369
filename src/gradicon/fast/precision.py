"""Half precision on a GPU: dense networks in bfloat16, while coordinates, interpolation and losses
stay in float32. The one place that decides how.

A CPU gains nothing by it, and one of torch 2.13's gradients there (channels-last weights, small
images) is not the same twice.
"""

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from gradicon.core.dense import DenseNetwork
from gradicon.core.network import Displace
from gradicon.core.unet import UNet


def use_half_precision(network: nn.Module, device: torch.device) -> None:
    """From now on, the dense networks in `network` compute features in bfloat16 on a GPU; the
    paper's U-Nets have their weights laid out for that.
    """
    if device.type != "cuda":
        return
    for module in network.modules():
        if isinstance(module, DenseNetwork):
            module.half_precision = True
        if isinstance(module, UNet):
            for weight in (p for p in module.parameters() if p.ndim == 5):
                weight.data = weight.data.contiguous(memory_format=torch.channels_last_3d)


@contextmanager
def sparing_memory(network: nn.Module, device: torch.device) -> Generator[None]:
    """Within this block, on a GPU, dense networks compute in bfloat16, and once more in the
    backward pass instead of keeping their features.
    """
    if device.type != "cuda":
        yield
        return
    with recomputed(network):
        yield


@contextmanager
def recomputed(network: nn.Module) -> Generator[None]:
    """The same on any device."""
    steps = [module for module in network.modules() if isinstance(module, Displace)]
    for step in steps:
        step.dense = _Recomputed(step.dense)
    try:
        yield
    finally:
        for step in steps:
            if isinstance(step.dense, _Recomputed):
                step.dense = step.dense.dense


class _Recomputed(nn.Module):
    def __init__(self, dense: nn.Module) -> None:
        super().__init__()
        self.dense = dense

    def forward(self, images: Tensor) -> Tensor:
        with torch.autocast(images.device.type, dtype=torch.bfloat16):
            return checkpoint(self.dense, images, use_reentrant=False)
