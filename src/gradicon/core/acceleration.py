"""When faster code takes over from the plain code, which computes the same and serves as its
reference.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch import Tensor

_MOST_ELEMENTS = 2**31 - 1  # the kernels count in 32 bits
Made = TypeVar("Made")
_made: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("made of weights", default=None)
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
    """Whether faster code may be taken at all: not in a `plain` block, nor while a graph is traced,
    nor under `torch.func`.
    """
    return not torch.compiler.is_compiling() and not _transforms_are_active() and _wanted.get()


def kernels_apply(*tensors: Tensor) -> bool:
    """Whether the kernels can take these tensors: on a GPU, with Triton, of a size they can count,
    and no graph being traced.
    """
    if not (is_wanted() and _triton_is_there()):
        return False
    return all(tensor.is_cuda and tensor.numel() <= _MOST_ELEMENTS for tensor in tensors)


@contextmanager
def weights_held_still() -> Generator[None]:
    """Within this block no weight changes, so that what is made of one, such as its copy in half
    precision, is made `once`.
    """
    token = _made.set({})
    try:
        yield
    finally:
        _made.reset(token)


def once(weight: Tensor, what: str, make: Callable[[], Made]) -> Made:
    """What `make` makes of a weight; in a `weights_held_still` block, what it made before."""
    made = _made.get()
    if made is None:
        return make()
    key = id(weight), what
    if key not in made:
        made[key] = make()
    return made[key]


_transforms_are_active: Callable[[], bool] = getattr(
    torch._C,  # pyright: ignore[reportPrivateUsage]
    "_are_functorch_transforms_active",
    bool,
)
"""Of `torch.func`, such as vmap and jacrev: autograd itself asks so, and it has no public name."""


@cache
def _triton_is_there() -> bool:
    return find_spec("triton") is not None
