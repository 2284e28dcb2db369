"""Reading images and displacement fields at points: by kernels on a GPU, by blocks or by all
threads on a CPU.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from gradicon.core.sampling import Mode, Padding, grid_sample
from gradicon.fast.availability import kernels_apply
from gradicon.fast.cpu_sampling import can_read, read

_MOST_CHANNELS = 4  # of which the kernels hold all in registers
_WORTH_A_THREAD = 4096  # points; with fewer, dealing them out takes longer than reading them


def sample(image: Tensor, x: Tensor, mode: Mode, padding: Padding) -> Tensor | None:
    """I(x): `gradicon.core.sampling.sample`."""
    if mode == "bilinear" and padding == "border":
        if _kernels_can_read(image, x):
            from gradicon.fast.fused.sampling import fused_sample  # here: not all have Triton

            return fused_sample(image, x)
        if can_read(image, x):
            return read(image, x)
    return sample_in_slices(image, x, mode, padding) if _leaves_threads_idle(image, x) else None


def displace(u: Tensor, x: Tensor) -> Tensor | None:
    """x + u(x): `gradicon.core.sampling.displace`."""
    if not (_kernels_can_read(u, x) and u.shape[1] == x.shape[1]):
        return None
    from gradicon.fast.fused.sampling import fused_sample

    return fused_sample(u, x, displaced=True)


def sample_in_slices(image: Tensor, x: Tensor, mode: Mode, padding: Padding) -> Tensor:
    """torch's `grid_sample` of a volume, with the points of each item dealt out to as many items as
    there are threads.
    """
    batch = max(image.shape[0], x.shape[0])
    channels = image.shape[1]
    shape = x.shape[2:]
    slices = torch.get_num_threads()
    count = shape.numel()
    flat = (
        F.pad(x.expand(batch, *x.shape[1:]).flatten(2), [0, -count % slices])
        .reshape(batch, x.shape[1], slices, -1)
        .transpose(1, 2)
        .flatten(0, 1)
    )
    image = image.expand(batch, *image.shape[1:])
    repeated = image[:, None].expand(-1, slices, *image.shape[1:]).flatten(0, 1)
    values = grid_sample(repeated, flat[..., None, None], mode, padding)
    values = values.reshape(batch, slices, channels, -1).transpose(1, 2).flatten(2)
    return values[..., :count].reshape(batch, channels, *shape)


def _kernels_can_read(image: Tensor, x: Tensor) -> bool:
    volume = image.ndim == 5 and image.shape[1] <= _MOST_CHANNELS
    return volume and image.dtype == x.dtype == torch.float32 and kernels_apply(image, x)


def _leaves_threads_idle(image: Tensor, x: Tensor) -> bool:
    """Whether torch would use fewer threads than there are: of volumes on a CPU it gives each
    thread whole items of a batch.
    """
    if not image.is_cpu or image.ndim != 5:
        return False
    batch = max(image.shape[0], x.shape[0])
    points = batch * x.shape[2:].numel()
    return batch < torch.get_num_threads() and points >= _WORTH_A_THREAD
