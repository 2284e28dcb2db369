"""What images of two modalities are compared by: self-similarity, and the bins of a histogram."""

from itertools import combinations, product

import torch
import torch.nn.functional as F
from torch import Tensor

from gradicon.core.sampling import box_mean, window


def self_similarity(image: Tensor, radius: int, dilation: int) -> Tensor:
    """Descriptors (B, C*K, *S): the patch distances between all K neighbours of a voxel that are
    sqrt(2) steps apart.
    """
    dimension = image.ndim - 2
    shape = image.shape[2:]
    padded = F.pad(image, [dilation] * (2 * dimension), mode="replicate")

    def neighbour(axis: int, sign: int) -> Tensor:
        return window(
            padded, [dilation * (1 + sign * (i == axis)) for i in range(dimension)], shape
        )

    pairs = [
        (a, i, b, j)
        for a, b in combinations(range(dimension), 2)
        for i, j in product((-1, 1), repeat=2)
    ]
    # For each pair of neighbours, (p - q)^2 at every voxel, then its mean over a patch.
    distances = torch.stack([(neighbour(a, i) - neighbour(b, j)) ** 2 for a, i, b, j in pairs], 2)
    patches = distances.flatten(1, 2)
    for axis in range(dimension):
        patches = box_mean(patches, axis, radius)
    distances = patches.reshape(distances.shape)
    distances = distances - distances.amin(2, keepdim=True)
    noise = distances.mean(2, keepdim=True)
    # As in its authors' code, a voxel's noise is kept within a factor of 1000 of the image's.
    typical = noise.detach().flatten(2).mean(-1)[(..., *[None] * (dimension + 1))]
    floor = torch.clamp_min(typical * 1e-3, 1e-12)
    return (
        (-distances / noise.clamp(floor, torch.clamp_min(typical * 1e3, 1e-12))).exp().flatten(1, 2)
    )


def parzen_weights(image: Tensor, weight: Tensor, bins: int) -> Tensor:
    """(B, C, N, bins): the cubic B-spline weight of every voxel in every bin, all inside the
    histogram where the mask is.

    A window is four bins wide: 2/3 - d^2 + d^3 / 2 within a distance d of one bin, (2 - d)^3 / 6
    within two. The image's range takes all bins but three, so that no window sticks out.
    """
    values = image.flatten(2)
    counted = weight.flatten(2) > 0
    known = values.detach()
    low = known.where(counted, torch.inf).amin(-1, keepdim=True)
    high = known.where(counted, -torch.inf).amax(-1, keepdim=True)
    position = 1 + (bins - 3) * (values - low) / (high - low).clamp_min(1e-12)
    distance = (
        position[..., None] - torch.arange(bins, dtype=image.dtype, device=image.device)
    ).abs()
    near = 2 / 3 - distance**2 + distance**3 / 2
    far = (2 - distance).clamp_min(0) ** 3 / 6
    return torch.where(distance < 1, near, far)
