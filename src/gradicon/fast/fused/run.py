"""Launching a kernel: the one place that meets Triton's missing types."""

from typing import Any


def run(kernel: Any, programs: tuple[int, ...], *arguments: Any, **sizes: float) -> None:
    """Launch a kernel, which Triton leaves untyped, with so many programs."""
    kernel[programs](*arguments, **sizes)
