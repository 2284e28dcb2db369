"""The one switch between the core and `gradicon.fast`, which computes some of its functions faster.

The plain code in the core is the reference: fast code gives the same numbers, up to rounding, and
its tests compare the two. Nothing needs the package: delete `gradicon/fast`, and everything here
answers as if no fast code were wanted. No other module of the core may import it.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

import torch
from torch import Tensor, nn

Operation = Literal["sample", "displace", "dense"]
"""What fast code may be asked for. The first two are functions of `gradicon.core.sampling`, the
third is a dense network (`gradicon.core.dense`); arguments are those of the plain code.
"""

_wanted: ContextVar[bool] = ContextVar("faster code is wanted", default=True)
_made: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("made of weights", default=None)


def accelerated(operation: Operation, *arguments: object) -> Tensor | None:
    """What fast code computes for an operation.

    None where there is none for these arguments, and wherever it is not wanted (`is_wanted`): then
    the caller computes it itself.
    """
    if not is_wanted():
        return None
    from gradicon.fast.operations import OPERATIONS

    return OPERATIONS[operation](*arguments)


def is_wanted() -> bool:
    """Whether faster code may be taken at all: not in a `plain` block, nor while a graph is traced,
    nor under `torch.func`, nor where there is none.
    """
    # The order matters to the tracer: it sees a constant first, and never reads a context variable.
    return (
        not torch.compiler.is_compiling()
        and not _transforms_are_active()
        and _wanted.get()
        and _is_there()
    )


@contextmanager
def plain() -> Generator[None]:
    """Within this block the plain code computes everything: what benchmarks and tests compare
    with.
    """
    token = _wanted.set(False)
    try:
        yield
    finally:
        _wanted.reset(token)


def is_recorded(values: Tensor) -> bool:
    """Whether operations on `values` are being written down, by a tracer or for a GPU's graph, so
    that nothing may depend on the numbers in them.
    """
    if torch.compiler.is_compiling():
        return True
    if not _is_there():
        return False
    from gradicon.fast.capture import is_being_captured

    return is_being_captured(values)


@contextmanager
def weights_held_still() -> Generator[None]:
    """A promise: within this block no weight changes.

    So what fast code makes of one, such as its copy in half precision, is made once.
    """
    token = _made.set({})
    try:
        yield
    finally:
        _made.reset(token)


def made_of_weights() -> dict[tuple[int, str], Any] | None:
    """Where fast code keeps what it makes of weights: gone at the end of a `weights_held_still`
    block. None outside of one.
    """
    return _made.get()


def use_half_precision(network: nn.Module, device: torch.device) -> None:
    """From now on, let the dense networks in `network` compute in bfloat16 on a GPU.

    A choice of the caller's, since it rounds more: coordinates, interpolation and losses stay in
    float32. On any other device, or without `gradicon.fast`, nothing changes.
    """
    if _is_there():
        from gradicon.fast import precision

        precision.use_half_precision(network, device)


def sparing_memory(network: nn.Module, device: torch.device) -> AbstractContextManager[None]:
    """Within this block, the dense networks in `network` need less of a GPU's memory: they compute
    in bfloat16, and again in the backward pass. Elsewhere nothing changes.
    """
    if not _is_there():
        return nullcontext()
    from gradicon.fast import precision

    return precision.sparing_memory(network, device)


# Of `torch.func`, such as vmap and jacrev: autograd itself asks so, and it has no public name.
_transforms_are_active: Callable[[], bool] = getattr(
    torch._C,  # pyright: ignore[reportPrivateUsage]
    "_are_functorch_transforms_active",
    bool,
)


@cache
def _is_there() -> bool:
    return find_spec("gradicon.fast") is not None
