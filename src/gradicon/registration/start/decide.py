"""Which start a registration takes: what a person asked for, the headers, or what is found."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from gradicon.core.sampling import inside, sample, unit_grid
from gradicon.core.similarity import ncc
from gradicon.errors import GradiconError
from gradicon.physical.preprocess import unit_map
from gradicon.physical.space import Matrix
from gradicon.physical.volume import Volume
from gradicon.registration.presets import START, StartPreset
from gradicon.registration.start.content import pooled
from gradicon.registration.start.descent import Kind, worth
from gradicon.registration.start.measure import Comparison, Maps
from gradicon.registration.start.search import Pair, improve, pair_up, rigid_part, search

Init = Literal["auto", "none", "center", "moments", "affine"]
INITS = ("auto", "none", "center", "moments", "affine")
To = Literal["rigid", "affine"]
_WIDTH = 32  # voxels along the images where the headers alone are judged
_LEAST_OVERLAP = 0.2  # of the fields of view, for headers to be judged at all


@dataclass(frozen=True, eq=False)
class Start:
    """Where registration starts: the affine map of fixed's mm to moving's mm, and in words how it
    was found.
    """

    matrix: Matrix
    method: str
    note: str


def find_start(
    fixed: Volume, moving: Volume, how: Init, *, one_kind: bool, preset: StartPreset = START
) -> Start:
    """The affine map that a deformation starts from.

    Args:
        fixed: in [0,1], in canonical orientation.
        moving: likewise.
        how: `auto` believes headers that fit, and searches otherwise; `affine` always searches;
            `none` is the headers', `center` lays the fields of view upon each other, `moments` the
            centres of brightness.
        one_kind: whether the same tissue is as bright in both. If so, images of one session that
            correlate as they lie need no search.
        preset: the numbers of the search.
    """
    _check(how)
    if how not in ("auto", "affine"):
        return _as_asked(fixed, moving, how)
    pair = pair_up(fixed, moving, preset)
    return _searched(pair, how, "affine", one_kind=one_kind)


def align(
    fixed: Volume,
    moving: Volume,
    to: To,
    *,
    one_kind: bool,
    how: Init = "auto",
    preset: StartPreset = START,
) -> Start:
    """A rigid or affine map that is the answer, refined at a resolution finer than a start's.

    Args:
        fixed: in [0,1], in canonical orientation.
        moving: likewise.
        to: "rigid", a proper rotation and a shift in mm, or "affine".
        one_kind: whether the same tissue is as bright in both.
        how: where it begins, as for `find_start`.
        preset: the numbers of the search.
    """
    _check(how)
    if to not in ("rigid", "affine"):
        raise GradiconError(f"images are aligned to rigid or affine, not to {to!r}")
    pair = pair_up(fixed, moving, preset)
    if how in ("auto", "affine"):
        # Heads differ in size, so a rotation is found best together with a scale.
        kind = "affine" if to == "affine" else "similarity"
        begun = _searched(pair, how, kind, one_kind=one_kind)
    else:
        begun = _as_asked(fixed, moving, how)
    last = len(preset.widths)
    levels = range(last - 1 if how in ("auto", "affine") else 0, last + 1)
    maps = pair.maps(begun.matrix)
    if to == "rigid" or begun.method != "affine":
        maps = improve(pair, rigid_part(maps), "rigid", levels)
    if to == "affine":
        maps = improve(pair, maps, "affine", levels[1:])
    values = _header_and(pair, maps, pair.comparison(len(preset.widths)))
    article = "an" if to == "affine" else "a"
    note = f"{article} {to} map, begun with {begun.method!r}: {_words(values)}"
    return Start(pair.matrix(maps, rigid=to == "rigid"), to, note)


def _check(how: str) -> None:
    if how not in INITS:
        raise GradiconError(f"unknown initialisation {how!r}: expected one of {', '.join(INITS)}")


def _searched(pair: Pair, how: Init, to: Kind, *, one_kind: bool) -> Start:
    """The headers, with `auto`, if they fit; or what a search finds."""
    preset = pair.preset
    headers = np.eye(len(pair.first.center) + 1)
    if how == "auto" and one_kind and _on_one_grid(pair):
        correlation = _correlation(pair.first.volume, pair.second.volume)
        if correlation > preset.correlation:
            note = (
                "the scans lie on one grid, and together as their headers say: "
                f"correlation {correlation:.2f}"
            )
            return Start(headers, "none", note)
    maps = search(pair, to)
    values = _header_and(pair, maps, pair.comparison(len(preset.widths) - 1))
    if how == "auto" and values[1] <= (1 + preset.lead) * values[0]:
        note = f"the headers are kept: a search found nothing that fits better ({_words(values)})"
        return Start(headers, "none", note)
    note = f"found by a search over shifts and orientations, at last {to}: {_words(values)}"
    return Start(pair.matrix(maps), "affine", note)


def _on_one_grid(pair: Pair) -> bool:
    """Whether both images have the same voxels at the same places: they are of one session then."""
    fixed = pair.first.volume.space
    moving = pair.second.volume.space
    near = 1e-3 * min(fixed.spacing_mm)  # of a voxel, as files round
    return fixed.shape == moving.shape and bool(
        np.allclose(fixed.index_to_mm, moving.index_to_mm, rtol=0, atol=near)
    )


def _header_and(pair: Pair, maps: Maps, comparison: Comparison) -> tuple[float, float]:
    """What the images say of each other by the headers, and under the first of some maps."""
    both = torch.cat([pair.maps(np.eye(maps.shape[1] + 1)), maps[:1]])
    with torch.no_grad():
        header, other = worth(comparison, both, pair.preset.stiffness).tolist()
    return header, other


def _words(values: tuple[float, float]) -> str:
    return (
        f"mutual information {values[1]:.3f} nats, by the headers {values[0]:.3f} (more is better)"
    )


def _as_asked(fixed: Volume, moving: Volume, how: Init) -> Start:
    """The headers, centres of the fields of view, or centres of brightness."""
    middle = np.full((1, len(fixed.space.shape)), 0.5)
    shift = np.zeros(len(fixed.space.shape))
    if how == "center":
        shift = (moving.space.to_mm(middle) - fixed.space.to_mm(middle))[0]
    if how == "moments":
        shift = _center_of_mass(moving) - _center_of_mass(fixed)
    matrix = np.eye(len(shift) + 1)
    matrix[:-1, -1] = shift
    small = _small(fixed).space
    if not inside(unit_map(small, moving.space, matrix).on_grid(small.shape)).any():
        raise GradiconError(
            f"the fields of view do not overlap with --init {how}: use --init auto, "
            "center or moments"
        )
    return Start(matrix, how, f"initialised by {how!r}, as asked")


def _correlation(fixed: Volume, moving: Volume) -> float:
    """Of the images as they lie, where both are; 0 if that is nearly nowhere."""
    small = _small(fixed)
    other = _small(moving)
    x = unit_map(small.space, other.space).on_grid(small.space.shape)
    seen = inside(x)
    if seen.mean() < _LEAST_OVERLAP:
        return 0.0
    return 1 - float(ncc(sample(other.data, x), small.data, mask=seen))


def _small(volume: Volume) -> Volume:
    extents = [n * s for n, s in zip(volume.space.shape, volume.space.spacing_mm, strict=True)]
    return pooled(volume, max(extents) / _WIDTH)


def _center_of_mass(volume: Volume) -> Matrix:
    grid = unit_grid(volume.space.shape, like=volume.data)
    center = (grid * volume.data).flatten(2).sum(-1) / volume.data.sum().clamp_min(1e-6)
    return volume.space.to_mm(center.double().numpy())[0]
