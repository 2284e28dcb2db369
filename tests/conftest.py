"""Array shapes and types are checked at run time in tests, and only there."""

import os
from collections.abc import Iterator
from pathlib import Path

import jaxtyping
import pytest
import torch
from hypothesis import settings

os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU; before anything imports Triton

SOURCE = Path(__file__).parents[1] / "src"
MODULES = [
    ".".join(file.relative_to(SOURCE).with_suffix("").parts)
    for file in SOURCE.glob("gradicon/*/**/*.py")
]
checked = [
    name for name in MODULES if not name.endswith(("__init__", "kernels"))
]  # Triton reads the source of its kernels
jaxtyping.install_import_hook(checked, "typecheck.checked")
torch.set_num_threads(
    1
)  # the workers of pytest-xdist share the cores; threads that wait for each other would not
settings.register_profile("project", deadline=None, derandomize=True, max_examples=25)
settings.load_profile("project")


@pytest.fixture
def unhooked() -> Iterator[None]:
    """As a user runs the library: without the run-time shape checks, so that its own messages are
    seen.
    """
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(1)
