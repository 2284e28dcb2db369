"""Networks as captured CUDA graphs: for many pairs of one size, the host launches all kernels with
one call.
"""

from collections.abc import Callable
from functools import cache
from typing import TypeVar

import torch
from torch import Tensor

from gradicon.core.network import RegistrationNetwork, check_pair
from gradicon.core.transform import DisplacementField
from gradicon.errors import GradiconError

Result = TypeVar("Result")


def captured(
    network: RegistrationNetwork, like: Tensor
) -> Callable[[Tensor, Tensor], DisplacementField]:
    """`network` for images of one shape and device, those of `like`, without gradients: phi on
    their grid, until the next call.

    The network must be in evaluation mode and stay on its GPU; images must be finite, which is not
    checked here.
    """
    if not like.is_cuda or network.training:
        raise GradiconError("only a network in evaluation mode, on a GPU, can be captured")
    moving = torch.zeros_like(like)
    fixed = torch.zeros_like(like)

    @torch.no_grad()
    def run() -> DisplacementField:
        return network(moving, fixed).materialise(like.shape[2:])

    for _ in range(2):
        on_side_stream(run)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side_stream()):
        phi = run()

    def replay(a: Tensor, b: Tensor) -> DisplacementField:
        check_pair(a, b)
        moving.copy_(a)
        fixed.copy_(b)
        graph.replay()
        return phi

    return replay


def is_being_captured(values: Tensor) -> bool:
    """Whether operations on `values` are written down for a graph, instead of being done."""
    return values.is_cuda and torch.cuda.is_current_stream_capturing()


def on_side_stream(run: Callable[[], Result]) -> Result:
    """Run as a capture will, not on the default stream: kernels are compiled then, and cuDNN has
    chosen its own.
    """
    side = side_stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        result = run()
    torch.cuda.current_stream().wait_stream(side)
    return result


def side_stream() -> torch.cuda.Stream:
    """The stream of captures on the current GPU: always the same, since cuBLAS never gives back
    what it takes for each.
    """
    return _side_stream(torch.cuda.current_device())


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)
