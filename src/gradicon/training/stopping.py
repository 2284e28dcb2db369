"""When to stop before the end: time is up, Ctrl-C, or the machine wants its place back.

A run stops between two steps, so that it can leave a checkpoint that is whole.
"""

import signal
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType


class Stop:
    """Whether to stop, and why."""

    def __init__(self, max_minutes: float | None) -> None:
        self._deadline = None if max_minutes is None else time.monotonic() + 60 * max_minutes
        self._signal: int | None = None

    @property
    def reason(self) -> str:
        """Empty, "time", or "interrupted"."""
        if self._signal is not None:
            return "interrupted"
        return "time" if self._deadline is not None and time.monotonic() >= self._deadline else ""

    def notice(self, number: int, frame: FrameType | None) -> None:
        """Take note of a signal. A second one is taken at once."""
        del frame
        if self._signal is not None:
            raise KeyboardInterrupt
        self._signal = number


@contextmanager
def stopping(max_minutes: float | None) -> Generator[Stop]:
    """Ctrl-C and SIGTERM, noted instead of obeyed, as long as the block lasts."""
    stop = Stop(max_minutes)
    before = {
        number: signal.signal(number, stop.notice) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
