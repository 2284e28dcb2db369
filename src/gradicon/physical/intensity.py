"""Intensities to [0,1], as the paper's preprocessing does it (Sec. 4.2)."""

import torch

from gradicon.errors import GradiconError
from gradicon.physical.volume import Volume


def mr_quantile(volume: Volume, low: float = 0.01, high: float = 0.99) -> Volume:
    """MR: clip at the 1st and 99th percentile of the voxels, then scale to [0,1], as float32."""
    data = volume.data.double()
    bounds = torch.tensor([low, high], dtype=torch.float64) * (data.numel() - 1)
    ordered = data.flatten().sort().values  # torch.quantile refuses more than 16 million values
    bottom, top = (ordered[int(i)].lerp(ordered[int(i.ceil())], i.frac()) for i in bounds)
    return _scaled(volume, float(bottom), float(top))


def ct_window(volume: Volume, low: float = -1000.0, high: float = 1000.0) -> Volume:
    """CT: clip to a window of Hounsfield units, then scale to [0,1], as float32."""
    return _scaled(volume, low, high)


def looks_like_ct(volume: Volume) -> bool:
    """Whether values look like Hounsfield units: whole numbers, with air well below -500 and bone
    or more above 200.
    """
    low = float(volume.data.min())
    high = float(volume.data.max())
    return (
        low <= -500
        and high >= 200
        and bool(
            (volume.data == volume.data.round()).all() if volume.data.is_floating_point() else True
        )
    )


def _scaled(volume: Volume, low: float, high: float) -> Volume:
    if not high > low:
        raise GradiconError(
            f"there is nothing to see between intensities {low:g} and {high:g}: the image "
            "is constant"
        )
    return Volume(
        ((volume.data.double().clamp(low, high) - low) / (high - low)).float(), volume.space
    )
