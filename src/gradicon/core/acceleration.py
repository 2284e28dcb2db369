"""When the fused kernels for GPUs take over from the plain code, which computes the same and serves as their reference."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

_MOST_ELEMENTS = 2**31 - 1  # the kernels count in 32 bits
_wanted: ContextVar[bool] = ContextVar("fused kernels are wanted", default=True)


@contextmanager
def plain() -> Generator[None]:
    """Within this block nothing is fused: what benchmarks and tests compare with."""
    token = _wanted.set(False)
    try:
        yield
    finally:
        _wanted.reset(token)


def kernels_apply(*tensors: Tensor) -> bool:
    """Whether the kernels can take these tensors: on a GPU, with Triton, of a size they can count, and no graph being traced."""
    if torch.compiler.is_compiling() or not (_wanted.get() and _triton_is_there()):
        return False
    return all(tensor.is_cuda and tensor.numel() <= _MOST_ELEMENTS for tensor in tensors)


@cache
def _triton_is_there() -> bool:
    return find_spec("triton") is not None
