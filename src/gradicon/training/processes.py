"""Lightning Fabric, set up: one process, several GPUs, several nodes.

Under torchrun or Slurm, which start the processes themselves, it follows their lead.
"""

import os
import warnings
from dataclasses import dataclass

import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies.ddp import DDPStrategy
from torch import nn

from gradicon.devices import choose_device
from gradicon.errors import GradiconError


@dataclass(frozen=True)
class Machine:
    """Where to train.

    Args:
        device: "cpu", "cuda", or "auto", which takes a GPU where there is one.
        devices: processes per node, each with a GPU or CPU cores.
        nodes: machines.
    """

    device: str = "auto"
    devices: int = 1
    nodes: int = 1

    def __post_init__(self) -> None:
        choose_device(self.device)
        if self.devices < 1 or self.nodes < 1:
            raise GradiconError(
                f"devices and nodes must be at least 1, got {self.devices} and {self.nodes}"
            )

    @property
    def on_gpu(self) -> bool:
        """Whether it will be a GPU."""
        return choose_device(self.device).type == "cuda"

    @property
    def processes(self) -> int:
        """All of them, on all nodes."""
        return int(os.environ.get("WORLD_SIZE", self.devices * self.nodes))


def is_first_process() -> bool:
    """Whether this is the process that looks at files before the others start.

    It is known from what torchrun and Slurm say, before the processes can talk to each other.
    """
    return not any(
        int(os.environ.get(name, "0"))
        for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "SLURM_PROCID")
    )


def launched(machine: Machine) -> Fabric:
    """Start and connect all processes. torchrun's own count of them wins over `machine`."""
    here = int(os.environ.get("LOCAL_WORLD_SIZE", machine.devices))
    if machine.on_gpu and here > torch.cuda.device_count():
        raise GradiconError(
            f"{here} devices asked for, but torch finds {torch.cuda.device_count()} GPU(s) here"
        )
    fabric = Fabric(
        accelerator="cuda" if machine.on_gpu else "cpu",
        devices=here,
        num_nodes=machine.processes // here,
        strategy=DDPStrategy(broadcast_buffers=False) if machine.processes > 1 else "auto",
    )
    fabric.launch()
    return fabric


def shared(fabric: Fabric, module: nn.Module) -> nn.Module:
    """A module whose gradients are averaged over all processes."""
    with warnings.catch_warnings():  # torch has a new name for it, which older versions do not know
        warnings.filterwarnings("ignore", message=".*broadcast_buffers. is deprecated")
        return fabric.setup_module(module)
