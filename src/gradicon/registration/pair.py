"""The two scans: read, and laid out on the working grid as a plan says."""

from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradicon.core.sampling import inside, sample, shrink
from gradicon.core.similarity import mutual_information, ncc
from gradicon.errors import GradiconError
from gradicon.physical.images import Image, as_image, from_sitk, same_grid
from gradicon.physical.intensity import ct_window, looks_like_ct, mr_quantile
from gradicon.physical.space import Space
from gradicon.physical.volume import Volume
from gradicon.registration.grids import place_grid
from gradicon.registration.options import Modality
from gradicon.registration.plan import Plan
from gradicon.registration.start import Start, initialise, unit_affine

Source = str | Path | Image | Volume


@dataclass(frozen=True, eq=False)
class Scan:
    """One image as it was given.

    Args:
        name: "fixed" or "moving", for messages.
        image: as it is stored.
        volume: the same voxels in canonical orientation, with their own values.
        mask: where it counts, on the same grid, or None.
        kind: "ct" or "mr": what was said, or what it looks like.
    """

    name: str
    image: Image
    volume: Volume
    mask: Volume | None
    kind: str


@dataclass(frozen=True, eq=False)
class Pair:
    """Both scans in [0,1] on the working grid, which spans the fixed image.

    Args:
        space: the working grid.
        fixed, moving: (1, 1, *S); moving is read through the affine start.
        fixed_weight, moving_weight: where each counts in the similarity; None if everywhere.
        start: the affine start.
        seen: the pair as the network is to see it, (moving, fixed), where that is another grid.
    """

    space: Space
    fixed: Tensor
    moving: Tensor
    fixed_weight: Tensor | None
    moving_weight: Tensor | None
    start: Start
    seen: tuple[Tensor, Tensor] | None = None

    def to(self, device: torch.device) -> "Pair":
        """The same pair with its tensors on another device."""
        tensors = {
            name: value.to(device)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        seen = None if self.seen is None else (self.seen[0].to(device), self.seen[1].to(device))
        return replace(self, **tensors, seen=seen)


def read_scan(source: Source, mask: Source | None, name: str, modality: Modality) -> Scan:
    """Read one image and its mask, and say what kind it is."""
    image = as_image(source)
    volume = from_sitk(image).canonical()
    kind = modality if modality != "auto" else ("ct" if looks_like_ct(volume) else "mr")
    return Scan(name, image, volume, _read_mask(mask, image, name), kind)


def check_dimensions(fixed: Scan, moving: Scan) -> None:
    """Refuse a slice with a volume."""
    dimensions = (fixed.image.GetDimension(), moving.image.GetDimension())
    if dimensions[0] != dimensions[1]:
        raise GradiconError(
            f"fixed is {dimensions[0]}-D and moving is {dimensions[1]}-D: "
            "both must be of one dimension"
        )


def lay_out(fixed: Scan, moving: Scan, plan: Plan) -> Pair:
    """Intensities, masks, the affine start, and both images on the working grid."""
    fixed_volume = _scale(fixed, plan)
    moving_volume = _scale(moving, plan)
    if plan.start == "model":
        start = _start_as_trained(plan, fixed_volume.space, moving_volume.space)
    else:
        similarity = ncc if fixed.kind == moving.kind else mutual_information
        start = initialise(fixed_volume, moving_volume, plan.start, similarity)
    volumes = (fixed_volume, moving_volume)
    there, x = _places(fixed_volume.space, moving_volume.space, plan.space, start)
    moving_data, fixed_data = _read(*volumes, plan.space, start, zero_beyond=plan.beyond == "zero")
    seen = None if plan.seen is None else _read(*volumes, plan.seen, start, zero_beyond=True)
    weighed = None if plan.mask_outside else (fixed.mask, moving.mask)
    return Pair(
        space=plan.space,
        fixed=fixed_data,
        moving=moving_data,
        fixed_weight=_weigh(weighed and weighed[0], there),
        moving_weight=_weigh(weighed and weighed[1], x),
        start=start,
        seen=seen,
    )


def _places(fixed: Space, moving: Space, space: Space, start: Start) -> tuple[Tensor, Tensor]:
    """Where the voxels of a grid lie in fixed, and by the affine start in moving."""
    there = unit_affine(np.eye(len(space.shape) + 1), space, fixed).on_grid(space.shape)
    return there, unit_affine(start.matrix, space, moving).on_grid(space.shape)


def _read(
    fixed: Volume, moving: Volume, space: Space, start: Start, *, zero_beyond: bool
) -> tuple[Tensor, Tensor]:
    """Moving and fixed on a grid. Beyond its border moving goes on as at the border, or is zero."""
    there, x = _places(fixed.space, moving.space, space, start)
    read = sample(_matched(moving, space), x)
    fixed_data = sample(_matched(fixed, space), there) * inside(there)
    return (read * inside(x) if zero_beyond else read), fixed_data


def _weigh(mask: Volume | None, x: Tensor) -> Tensor | None:
    """What counts: what lies inside the image, and inside its mask if there is one. None if all."""
    weight = inside(x) if mask is None else inside(x) * sample(mask.data, x)
    return None if bool((weight == 1).all()) else weight


def _start_as_trained(plan: Plan, fixed: Space, moving: Space) -> Start:
    """The start that a model expects: either image on its own grid, and voxel on voxel."""
    assert plan.header is not None
    assert plan.header.grid is not None
    grid = plan.header.grid
    size = " x ".join(map(str, grid.shape))
    how = "images cut, about their centres, to"
    if grid.spacing_mm is None:
        how = "whole images resized to"
    matrix = place_grid(grid, moving).unit_to_mm @ np.linalg.inv(place_grid(grid, fixed).unit_to_mm)
    return Start(matrix, "model", f"started as the model was trained: {how} {size} voxels")


def _matched(volume: Volume, space: Space) -> Tensor:
    """The data with voxels no finer than the grid's, over the same field of view."""
    coarsest = min(space.spacing_mm)
    shape = tuple(
        max(1, min(n, ceil(n * s / coarsest)))
        for n, s in zip(volume.space.shape, volume.space.spacing_mm, strict=True)
    )
    return shrink(volume.data, shape)


def _scale(scan: Scan, plan: Plan) -> Volume:
    try:
        scaled = ct_window(scan.volume) if scan.kind == "ct" else mr_quantile(scan.volume)
    except ValueError as error:
        raise GradiconError(f"the {scan.name} image: {error}") from error
    if scan.mask is None or not plan.mask_outside:
        return scaled
    return Volume(scaled.data * scan.mask.data, scaled.space)


def _read_mask(source: Source | None, image: Image, name: str) -> Volume | None:
    if source is None:
        return None
    mask = as_image(source)
    if not same_grid(mask, image):
        raise GradiconError(
            f"the {name} mask lies on another grid than the {name} image: "
            f"{mask.GetSize()} against {image.GetSize()} voxels, or elsewhere in space"
        )
    volume = from_sitk(mask).canonical()
    if not (volume.data > 0).any():
        raise GradiconError(f"the {name} mask is empty")
    return Volume((volume.data > 0).float(), volume.space)
