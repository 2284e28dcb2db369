"""When faster code takes over from the plain code, which computes the same and serves as its reference."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor

_MOST_ELEMENTS = 2**31 - 1  # the kernels count in 32 bits
_wanted: ContextVar[bool] = ContextVar("faster code is wanted", default=True)


@contextmanager
def plain() -> Generator[None]:
    """Within this block nothing is hurried: what benchmarks and tests compare with."""
    token = _wanted.set(False)
    try:
        yield
    finally:
        _wanted.reset(token)


def is_wanted() -> bool:
    """Whether faster code may be taken at all: not in a `plain` block, nor while a graph is traced."""
    return not torch.compiler.is_compiling() and _wanted.get()


def kernels_apply(*tensors: Tensor) -> bool:
    """Whether the kernels can take these tensors: on a GPU, with Triton, of a size they can count, and no graph being traced."""
    if not (is_wanted() and _triton_is_there()):
        return False
    return all(tensor.is_cuda and tensor.numel() <= _MOST_ELEMENTS for tensor in tensors)


@cache
def _triton_is_there() -> bool:
    return find_spec("triton") is not None
