"""How much memory something took at its peak."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_FORGET = Path("/proc/self/clear_refs")


@contextmanager
def peak_memory(device: torch.device) -> Generator[Callable[[], float]]:
    """Within this block, a function that tells the peak so far in GB: of tensors on a GPU, else of
    the whole process.

    Linux can forget an earlier peak of the process; elsewhere it is the peak since the process
    began.
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        yield lambda: torch.cuda.max_memory_allocated(device) / 1e9
        return
    with suppress(OSError):
        _FORGET.write_text("5")
    yield _process_peak_gb


def _process_peak_gb() -> float:
    if _STATUS.exists():
        for line in _STATUS.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e9
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e9 if sys.platform == "darwin" else peak * 1024 / 1e9
