"""Intensities to [0,1], and what kind of image they are of."""

import numpy as np
from torch import Tensor

from gradicon.errors import GradiconError
from gradicon.physical.volume import Volume

_AIR = -500  # Hounsfield units: what is darker is air, in or around a body
_BONE = 200  # what is brighter is bone, contrast agent or metal


def clip(data: Tensor, low: float, high: float) -> Tensor:
    """Values from low to high as numbers from 0 to 1, float32; what lies beyond is 0 or 1."""
    if not high > low:
        raise GradiconError(
            f"there is nothing to see between intensities {low:g} and {high:g}: "
            "the image is constant"
        )
    return ((data.double().clamp(low, high) - low) / (high - low)).float()


def percentile_bounds(data: Tensor, low: float, high: float) -> tuple[float, float]:
    """The percentiles `low` and `high` of all voxels, linear between ranks."""
    values = data.flatten().numpy()  # torch.quantile refuses more than 16 million, and sorts
    if data.is_floating_point():
        values = values.astype(np.float64)
    bottom, top = np.percentile(values, [low, high])
    return float(bottom), float(top)


def looks_like_ct(volume: Volume) -> bool:
    """Whether values look like Hounsfield units: whole numbers, with air and with bone or more."""
    data = volume.data
    low, high = (float(value) for value in data.aminmax())
    if low > _AIR or high < _BONE:
        return False
    return not data.is_floating_point() or bool((data == data.round()).all())
