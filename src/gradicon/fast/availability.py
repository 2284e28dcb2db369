"""Where Triton's kernels can run."""

from functools import cache
from importlib.util import find_spec

from torch import Tensor

_MOST_ELEMENTS = 2**31 - 1  # the kernels count in 32 bits


def kernels_apply(*tensors: Tensor) -> bool:
    """Whether the kernels can take these tensors: on a GPU, with Triton, of a size they can
    count.
    """
    if not all(tensor.is_cuda and tensor.numel() <= _MOST_ELEMENTS for tensor in tensors):
        return False
    return _triton_is_there()


@cache
def _triton_is_there() -> bool:
    return find_spec("triton") is not None
