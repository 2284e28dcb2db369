"""What is done where a loss or a weight is not finite; all of it is decided here.

1. Networks do not look at the images of a batch (`trust_images`). Prepared images are finite, and
   looking would make the host wait for the device.
2. Every step notes on the device whether its loss was finite (`LossWatch.note`): no waiting, and a
   captured graph can do it.
3. On a CPU, a step after a loss that was not finite changes nothing (`LossWatch.forbids_update`).
4. Whenever the host waits anyway, and before anything is written, the run is stopped
   (`refuse_non_finite`): what is on the disk is always of finite weights.
"""

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn

from gradicon.core.network import Displace
from gradicon.errors import GradiconError
from gradicon.training.batches import Batches

_NEVER = 2**62  # stands for no step, and is more than any


class NonFiniteLossError(GradiconError):
    """Training went where no numbers are."""


class LossWatch:
    """Remembers, on the device, the first step whose loss was not finite.

    Args:
        device: where losses are.
        fabric: the processes that train together, if there are several. What one of them sees
            counts for all, so all of them must ask at the same steps.
    """

    def __init__(self, device: torch.device, fabric: Fabric | None = None) -> None:
        self._fabric = fabric
        self._first = torch.full((), _NEVER, dtype=torch.int64, device=device)

    @property
    def sees_at_once(self) -> bool:
        """Whether asking costs nothing, because there is no device to wait for."""
        return self._first.is_cpu

    def note(self, step: int | Tensor, loss: Tensor) -> None:
        """Look at a step's loss, without making the host wait.

        The number of the step may be a tensor on the device, so that a captured step can be
        replayed as another one; what is noted stays in its place for the same reason.
        """
        first = torch.where(torch.isfinite(loss.detach()), self._first, self._first.clamp_max(step))
        self._first.copy_(first)

    def forbids_update(self) -> bool:
        """Whether the step must end without a gradient and an update.

        On a CPU, torch's backward of an interpolation at NaN coordinates reads beyond memory. On a
        GPU it does not, and the host would have to wait to know; so there the weights are lost,
        and the run can go on from its last checkpoint.
        """
        return self.sees_at_once and self.first_bad_step() is not None

    def first_bad_step(self) -> int | None:
        """The first step whose loss was not finite in any process, if there is one."""
        first = self._first
        if self._fabric is not None:
            reduced = self._fabric.all_reduce(first.clone(), reduce_op="min")
            assert isinstance(reduced, Tensor)
            first = reduced
        step = int(first)
        return None if step == _NEVER else step


def trust_images(network: nn.Module) -> None:
    """Let a network's parts take images without looking for NaN in them."""
    for module in network.modules():
        if isinstance(module, Displace):
            module.refuse_non_finite = False


def refuse_non_finite(
    watch: LossWatch, batches: Batches, step: int, network: nn.Module | None = None
) -> None:
    """Stop the run if a loss was not finite, or a weight is not; nothing has been written then.

    A step's loss may be finite while its gradient is not, so before weights are judged or written
    they are looked at too.

    Args:
        watch: what was noted of the losses.
        batches: where the images of a step are known, which the error names.
        step: the step that is done.
        network: whose weights to look at, if at all.
    """
    bad = watch.first_bad_step()
    if bad is not None:
        raise NonFiniteLossError(_message(bad, "loss", batches))
    if network is not None and not _is_finite(network):
        raise NonFiniteLossError(_message(step, "network", batches))


def _is_finite(network: nn.Module) -> bool:
    """Of all weights at once: the host waits for the device one time."""
    return bool(torch.stack([torch.isfinite(value).all() for value in network.parameters()]).all())


def _message(step: int, what: str, batches: Batches) -> str:
    advice = "look at these images, or lower learning_rate; the last checkpoint is from before"
    names = "; ".join(f"{a} and {b}" for a, b in batches.name_pairs(step))
    return f"step {step}: the {what} is not finite after {names}: {advice}"
