"""From what was given to what is compared: two images in [0,1] on one working grid."""

from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradicon.core.sampling import inside, sample, shrink
from gradicon.errors import GradiconError
from gradicon.models import Grid, read_header
from gradicon.physical.images import Image, as_image, from_sitk, same_grid
from gradicon.physical.intensity import ct_window, looks_like_ct, mr_quantile
from gradicon.physical.space import Space
from gradicon.physical.volume import Volume
from gradicon.registration.options import Modality, Options
from gradicon.registration.start import Start, find_start, unit_affine

Source = str | Path | Image | Volume
MOST_VOXELS = 5_500_000  # of the working grid: a brain at 1 mm


@dataclass(frozen=True, eq=False)
class Prepared:
    """A pair on the working grid, which spans the fixed image; moving is read there through the
    affine start.

    `model` is the file of the network to ask, if one is. `seen` is the pair as it is to see it,
    (moving, fixed), where that is another grid over the same field of view.
    """

    space: Space
    fixed: Tensor
    moving: Tensor
    fixed_weight: Tensor | None
    moving_weight: Tensor | None
    start: Start
    modalities: tuple[str, str]
    model: Path | None = None
    seen: tuple[Tensor, Tensor] | None = None

    def to(self, device: torch.device) -> "Prepared":
        """The same pair with its tensors on another device."""
        tensors = {
            name: value.to(device)
            for name, value in vars(self).items()
            if isinstance(value, Tensor)
        }
        seen = None if self.seen is None else (self.seen[0].to(device), self.seen[1].to(device))
        return replace(self, **tensors, seen=seen)


def prepare(
    fixed: Image, moving: Image, masks: tuple[Source | None, Source | None], options: Options
) -> Prepared:
    """Intensities, masks, orientation, the affine start, and the working grid.

    A model that was trained on images out of place is started like anything else, and its answer is
    refined at the images' own resolution. One that was not gets images as in its training, and
    works there.
    """
    if fixed.GetDimension() != moving.GetDimension():
        raise GradiconError(
            f"fixed is {fixed.GetDimension()}-D and moving is {moving.GetDimension()}-D: "
            "both must be of one dimension"
        )
    fixed_mask = _read_mask(masks[0], fixed, "fixed")
    moving_mask = _read_mask(masks[1], moving, "moving")
    fixed_volume, fixed_kind = _scaled(fixed, "fixed", options.fixed_modality)
    moving_volume, moving_kind = _scaled(moving, "moving", options.moving_modality)
    if options.mask_outside:
        fixed_volume = _blacked_out(fixed_volume, fixed_mask)
        moving_volume = _blacked_out(moving_volume, moving_mask)
    model = options.model_file(fixed.GetDimension(), one_kind=fixed_kind == moving_kind)
    header = None if model is None else read_header(model)
    grid = None if header is None else header.grid
    if grid is not None and options.init == "auto" and not (header and header.augmented):
        start = _as_in_training(grid, fixed_volume.space, moving_volume.space)
    else:
        one_kind = fixed_kind == moving_kind
        start = find_start(fixed_volume, moving_volume, options.init, one_kind=one_kind)
    own = working_space(fixed_volume.space)
    seen = None
    space = own
    if grid is not None:
        placed = _placed(grid, fixed_volume.space)
        if header and header.augmented and grid.spacing_mm is None and options.refines_fields:
            seen = _read(fixed_volume, moving_volume, placed, start, zero_beyond=True)
        else:
            space = placed
    there, x = _places(fixed_volume.space, moving_volume.space, space, start)
    moving_data, fixed_data = _read(
        fixed_volume, moving_volume, space, start, zero_beyond=space is not own
    )
    return Prepared(
        space=space,
        fixed=fixed_data,
        moving=moving_data,
        fixed_weight=_weight(None if options.mask_outside else fixed_mask, there),
        moving_weight=_weight(None if options.mask_outside else moving_mask, x),
        start=start,
        modalities=(fixed_kind, moving_kind),
        model=model,
        seen=seen,
    )


def _places(fixed: Space, moving: Space, space: Space, start: Start) -> tuple[Tensor, Tensor]:
    """Where the voxels of a grid lie in fixed, and by the affine start in moving."""
    there = unit_affine(np.eye(len(space.shape) + 1), space, fixed).on_grid(space.shape)
    return there, unit_affine(start.matrix, space, moving).on_grid(space.shape)


def _read(
    fixed: Volume, moving: Volume, space: Space, start: Start, *, zero_beyond: bool
) -> tuple[Tensor, Tensor]:
    """Moving and fixed on a grid. Beyond its border moving goes on as at the border, or, as in
    training, is zero.
    """
    there, x = _places(fixed.space, moving.space, space, start)
    read = sample(_matched(moving, space), x)
    return read * inside(x) if zero_beyond else read, sample(
        _matched(fixed, space), there
    ) * inside(there)


def _weight(mask: Volume | None, x: Tensor) -> Tensor | None:
    """What counts in the similarity: what lies inside the image, and inside its mask if there is
    one. None if all does.
    """
    seen = inside(x) if mask is None else inside(x) * sample(mask.data, x)
    return None if bool((seen == 1).all()) else seen


def _placed(grid: Grid, space: Space) -> Space:
    """A model's grid over an image, as in its training."""
    return (
        space.resized(grid.shape)
        if grid.spacing_mm is None
        else space.centered(grid.shape, grid.spacing_mm)
    )


def _as_in_training(grid: Grid, fixed: Space, moving: Space) -> Start:
    """The start that a model expects: either image on its own grid, and voxel on voxel."""
    size = " x ".join(map(str, grid.shape))
    how = (
        "whole images resized to"
        if grid.spacing_mm is None
        else "images cut, about their centres, to"
    )
    matrix = _placed(grid, moving).unit_to_mm @ np.linalg.inv(_placed(grid, fixed).unit_to_mm)
    return Start(matrix, "model", f"started as the model was trained: {how} {size} voxels")


def working_space(space: Space) -> Space:
    """The grid to work on: the image's own, or one with voxels just large enough that there are not
    more than `MOST_VOXELS`.
    """
    extents = [n * s for n, s in zip(space.shape, space.spacing_mm, strict=True)]
    size = min(space.spacing_mm)
    shape = space.shape
    while torch.Size(shape).numel() > MOST_VOXELS:
        size *= 1.02
        shape = tuple(
            n if s >= size else ceil(extent / size)
            for n, s, extent in zip(space.shape, space.spacing_mm, extents, strict=True)
        )
    return space.resized(shape)


def _matched(volume: Volume, space: Space) -> Tensor:
    """The volume's data with voxels no finer than the working grid's, over the same field of view:
    nothing is aliased.
    """
    coarsest = min(space.spacing_mm)
    shape = tuple(
        max(1, min(n, ceil(n * s / coarsest)))
        for n, s in zip(volume.space.shape, volume.space.spacing_mm, strict=True)
    )
    return shrink(volume.data, shape)


def _scaled(image: Image, name: str, modality: Modality) -> tuple[Volume, str]:
    volume = from_sitk(image).canonical()
    kind = modality if modality != "auto" else ("ct" if looks_like_ct(volume) else "mr")
    try:
        return (ct_window(volume) if kind == "ct" else mr_quantile(volume)), kind
    except ValueError as error:
        raise GradiconError(f"the {name} image: {error}") from error


def _read_mask(source: Source | None, image: Image, name: str) -> Volume | None:
    if source is None:
        return None
    mask = as_image(source)
    if not same_grid(mask, image):
        sizes = f"{mask.GetSize()} against {image.GetSize()} voxels, or elsewhere in space"
        raise GradiconError(f"the {name} mask lies on another grid than the {name} image: {sizes}")
    volume = from_sitk(mask).canonical()
    if not (volume.data > 0).any():
        raise GradiconError(f"the {name} mask is empty")
    return Volume((volume.data > 0).float(), volume.space)


def _blacked_out(volume: Volume, mask: Volume | None) -> Volume:
    return volume if mask is None else Volume(volume.data * mask.data, volume.space)
