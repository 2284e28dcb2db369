"""The two scans: read, and laid out on the working grid as a plan says."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from gradicon.core.sampling import sample
from gradicon.errors import GradiconError
from gradicon.models import Preprocessing
from gradicon.physical import preprocess
from gradicon.physical.images import Image, as_image, from_sitk, same_grid
from gradicon.physical.preprocess import Kind, Scaling, View, place_grid
from gradicon.physical.space import Space
from gradicon.physical.volume import Volume
from gradicon.registration.plan import Plan
from gradicon.registration.start import Init, Start, align, find_start

Source = str | Path | Image | Volume


@dataclass(frozen=True, eq=False)
class Scan:
    """One image as it was given.

    Args:
        name: "fixed" or "moving", for messages.
        image: as it is stored.
        volume: the same voxels in canonical orientation, with their own values.
        mask: where it counts, on the same grid, or None.
    """

    name: str
    image: Image
    volume: Volume
    mask: Volume | None

    @cached_property
    def look(self) -> Kind:
        """What kind of image it looks like."""
        return preprocess.look_at(self.volume)


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


def read_pair(
    fixed: Source, moving: Source, masks: tuple[Source | None, Source | None]
) -> tuple[Scan, Scan]:
    """Read two images and their masks; a slice with a volume is refused."""
    scans = (
        _read_scan(fixed, masks[0], "fixed"),
        _read_scan(moving, masks[1], "moving"),
    )
    dimensions = tuple(scan.image.GetDimension() for scan in scans)
    if dimensions[0] != dimensions[1]:
        raise GradiconError(
            f"fixed is {dimensions[0]}-D and moving is {dimensions[1]}-D: "
            "both must be of one dimension"
        )
    return scans


def _read_scan(source: Source, mask: Source | None, name: str) -> Scan:
    image = as_image(source)
    return Scan(name, image, from_sitk(image).canonical(), _read_mask(mask, image, name))


def lay_out(fixed: Scan, moving: Scan, plan: Plan) -> Pair:
    """Intensities, masks, the affine start, and both images on the working grid."""
    fixed_source = _source(fixed, plan, plan.kinds[0])
    moving_source = _source(moving, plan, plan.kinds[1])
    start = _start(fixed_source, moving_source, plan)
    views = _views(fixed, moving, plan.space, start, plan)
    seen = None
    if plan.seen is not None:
        fixed_view, moving_view = _views(fixed, moving, plan.seen, start, plan)
        seen = (moving_source.read(moving_view), fixed_source.read(fixed_view))
    weighed = (None, None) if plan.mask_outside else (fixed.mask, moving.mask)
    return Pair(
        space=plan.space,
        fixed=fixed_source.read(views[0]),
        moving=moving_source.read(views[1], beyond=plan.beyond),
        fixed_weight=_weigh(weighed[0], views[0]),
        moving_weight=_weigh(weighed[1], views[1]),
        start=start,
        seen=seen,
    )


def _source(scan: Scan, plan: Plan, kind: Kind) -> preprocess.Source:
    """The scan with its intensities scaled; an image in which there is nothing is refused here."""
    prepared = None if plan.model is None else plan.model.header.preprocessing
    mask = scan.mask if plan.mask_outside else None
    source = preprocess.Source(scan.volume, mask, Scaling.of(kind, prepared))
    try:
        source.scaled  # noqa: B018 (it is kept, and used for the start)
    except GradiconError as error:
        raise GradiconError(f"the {scan.name} image: {error}") from error
    return source


def _start(fixed: preprocess.Source, moving: preprocess.Source, plan: Plan) -> Start:
    """The affine start: searched for, or the one that a model expects, voxel on voxel."""
    if plan.start != "model":
        return _search(fixed.scaled, moving.scaled, plan, plan.start)
    grid = _moving_grid(moving.volume.space, plan)
    matrix = grid.unit_to_mm @ np.linalg.inv(plan.space.unit_to_mm)
    size = " x ".join(map(str, grid.shape))
    how = "images cut, about their centres, to"
    if _prepared(plan).crop == "fit":
        how = "whole images resized to"
    return Start(matrix, "model", f"started as the model was trained: {how} {size} voxels")


def _search(fixed: Volume, moving: Volume, plan: Plan, how: Init) -> Start:
    """The map that a deformation starts from, or that is the answer."""
    one_kind = plan.kinds[0] == plan.kinds[1]
    preset = plan.presets.start
    if plan.way == "rigid" or plan.way == "affine":
        return align(fixed, moving, plan.way, one_kind=one_kind, how=how, preset=preset)
    return find_start(fixed, moving, how, one_kind=one_kind, preset=preset)


def _views(fixed: Scan, moving: Scan, space: Space, start: Start, plan: Plan) -> tuple[View, View]:
    """A grid over the fixed image, seen in both images' spaces."""
    if plan.start == "model":  # the very grid of its training, whatever is rounded on the way
        there = _moving_grid(moving.volume.space, plan)
    else:
        there = Space(space.shape, start.matrix @ space.index_to_mm)
    return View(fixed.volume.space, space), View(moving.volume.space, there)


def _moving_grid(moving: Space, plan: Plan) -> Space:
    return place_grid(_prepared(plan), moving)


def _prepared(plan: Plan) -> Preprocessing:
    assert plan.model is not None
    assert plan.model.header.preprocessing is not None
    return plan.model.header.preprocessing


def _weigh(mask: Volume | None, view: View) -> Tensor | None:
    """What counts: what lies inside the image, and inside its mask if there is one. None if all."""
    weight = view.inside
    if mask is not None:
        weight = weight * sample(mask.data, view.places)
    return None if bool((weight == 1).all()) else weight


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
