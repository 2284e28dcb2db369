"""Where something is computed."""

from typing import TYPE_CHECKING, Literal, get_args

from gradicon.errors import GradiconError

if TYPE_CHECKING:
    import torch

Device = Literal["auto", "cpu", "cuda"]
DEVICES: tuple[Device, ...] = get_args(Device)


def choose_device(wanted: str) -> "torch.device":
    """The device that "auto", "cpu" or "cuda" stands for here; auto takes a GPU if there is one."""
    import torch

    if wanted not in DEVICES:
        raise GradiconError(f"unknown device {wanted!r}: expected one of {', '.join(DEVICES)}")
    on_gpu = wanted != "cpu" and torch.cuda.is_available()
    if wanted == "cuda" and not on_gpu:
        raise GradiconError("device cuda: torch finds no GPU here; leave it at auto, or say cpu")
    return torch.device("cuda" if on_gpu else "cpu")
