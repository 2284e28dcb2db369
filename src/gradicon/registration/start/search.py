"""Looking for the map that brings two images together, wherever they lie and however turned."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import permutations, product

import numpy as np
import torch
from torch import Tensor

from gradicon.physical.space import Matrix, Space
from gradicon.physical.volume import Volume
from gradicon.registration.presets import StartPreset
from gradicon.registration.start.content import (
    Content,
    find_content,
    shared_extent,
    smaller_first,
)
from gradicon.registration.start.descent import Kind, descend, worth
from gradicon.registration.start.measure import Comparison, Maps, compare

_AT_ONCE = 256  # maps that are compared together: bounds the memory
_NEAR = 45.0  # degrees: turns nearer than this keep the header's orientation


@dataclass(frozen=True, eq=False)
class Pair:
    """Two images to be searched.

    `first` is the one with less content: all of it should be found in the other, so the images are
    compared at its places. `swapped` says that it is the moving image. Both lie in the first
    image's own frame, so that the same scans by a scanner whose axes are turned give the same
    answer; `frame` leads from there to the world.
    """

    first: Content
    second: Content
    swapped: bool
    frame: Matrix
    preset: StartPreset

    @property
    def extent(self) -> float:
        """The extent in mm of the smaller content."""
        return shared_extent((self.first, self.second))

    def comparison(self, level: int) -> Comparison:
        """The pair at one of the preset's resolutions; the one after the last is the final one."""
        preset = self.preset
        final = level == len(preset.widths)
        width = preset.final_width if final else preset.widths[level]
        points = preset.final_points if final else preset.points[level]
        bins = preset.bins[-1] if final else preset.bins[level]
        return compare(self.first, self.second, self.extent / width, points, bins)

    def maps(self, matrix: Matrix) -> Maps:
        """A homogeneous matrix of fixed's mm to moving's as one of the search's maps."""
        inner = np.linalg.inv(self.frame) @ matrix @ self.frame
        inner = np.linalg.inv(inner) if self.swapped else inner
        linear = inner[:-1, :-1]
        offset = linear @ self.first.center + inner[:-1, -1]
        return torch.from_numpy(np.concatenate([linear, offset[:, None]], 1)).float()[None]

    def matrix(self, maps: Maps, *, rigid: bool = False) -> Matrix:
        """The first of the maps as a homogeneous matrix of fixed's mm to moving's; the nearest
        rotation of it, to double precision, if it is to be rigid.
        """
        linear = maps[0, :, :-1].double().numpy()
        if rigid:
            linear = nearest_rotation(linear)
        matrix = np.eye(len(linear) + 1)
        matrix[:-1, :-1] = linear
        matrix[:-1, -1] = maps[0, :, -1].double().numpy() - linear @ self.first.center
        outer = np.linalg.inv(matrix) if self.swapped else matrix
        in_world: Matrix = (self.frame @ outer @ np.linalg.inv(self.frame)).astype(np.float64)
        return in_world


def pair_up(fixed: Volume, moving: Volume, preset: StartPreset) -> Pair:
    """Find the contents of two images, the smaller one first."""
    first, second, swapped = smaller_first(find_content(fixed), find_content(moving))
    frame = _frame(first.volume.space)
    inner = [find_content(_within(content.volume, frame)) for content in (first, second)]
    return Pair(inner[0], inner[1], swapped, frame, preset)


def _frame(space: Space) -> Matrix:
    """The frame of an image's axes about its centre, as a map to the world."""
    frame = np.eye(len(space.shape) + 1)
    # Array axes are in the order (z, y, x), and mm are (x, y, z).
    frame[:-1, :-1] = nearest_rotation(space.index_to_mm[:-1, -2::-1])
    frame[:-1, -1] = space.to_mm(np.full((1, len(space.shape)), 0.5))[0]
    return frame


def _within(volume: Volume, frame: Matrix) -> Volume:
    """A volume in a frame, rounded: it is the same however the world is turned."""
    to_frame = np.round(np.linalg.inv(frame) @ volume.space.index_to_mm, 6)
    return Volume(volume.data, Space(volume.space.shape, to_frame))


def search(pair: Pair, to: Kind) -> Maps:
    """The best map (1, D, D+1), from coarse to fine.

    Orientations and shifts are tried rigidly; the best of them are improved as similarities, since
    heads differ in size, and the very best at last by maps of the kind that is wanted.
    """
    preset = pair.preset
    header = pair.maps(np.eye(len(pair.first.center) + 1))
    maps = torch.cat([header, _candidates(pair)])
    comparison = pair.comparison(0)
    with torch.no_grad():
        parts = [comparison.information(part) for part in maps.split(_AT_ONCE)]
    maps = torch.cat([header, _best(maps, torch.cat(parts), pair, preset.kept[0])])
    for level, steps in enumerate(preset.steps):
        last = level == len(preset.steps) - 1
        comparison = pair.comparison(level)
        maps = descend(
            comparison,
            maps,
            to if last else "similarity",
            steps=steps,
            rate=preset.rate,
            stiffness=preset.stiffness,
        )
        if not last:
            with torch.no_grad():
                values = worth(comparison, maps, preset.stiffness) * _lead(maps, preset.lead)
            maps = _best(maps, values, pair, preset.kept[level + 1])
    return maps


def improve(pair: Pair, maps: Maps, to: Kind, levels: Iterable[int]) -> Maps:
    """Maps after a descent at some resolutions, one after the other."""
    preset = pair.preset
    for level in levels:
        steps = preset.steps[min(level, len(preset.steps) - 1)]
        maps = descend(
            pair.comparison(level),
            maps,
            to,
            steps=steps,
            rate=preset.rate,
            stiffness=preset.stiffness,
        )
    return maps


def rigid_part(maps: Maps) -> Maps:
    """Maps without what they stretch."""
    turns_only = np.stack([nearest_rotation(a.double().numpy()) for a in maps[..., :-1]])
    return torch.cat([torch.from_numpy(turns_only).float(), maps[..., -1:]], 2)


def nearest_rotation(linear: Matrix) -> Matrix:
    """The rotation nearest to a matrix; it is proper if the matrix's determinant is positive."""
    left, _, right = np.linalg.svd(linear)
    rotation: Matrix = left @ right
    return rotation


def turns(dimension: int, tilt: float) -> list[Matrix]:
    """Proper rotations from which any other one is near: in space, the 24 of a cube, also tilted
    about each axis; in a plane, every 22.5 degrees.
    """
    if dimension == 2:
        return [_plane_turn(22.5 * step) for step in range(16)]
    tilts = [np.eye(3)]
    tilts += [_axis_turn(axis, sign * tilt) for axis in range(3) for sign in (1, -1)]
    return [turn @ small for turn in _cube_turns() for small in tilts]


def _candidates(pair: Pair) -> Maps:
    """Every turn, with the contents centred on each other and with their borders together: the
    smaller one may be a part of the larger.
    """
    coarse = pair.extent / pair.preset.widths[0]
    maps: list[Matrix] = []
    for turn in turns(len(pair.first.center), pair.preset.tilt):
        turned = turn @ pair.first.spread @ turn.T
        slack = np.sqrt(3 * np.diag(pair.second.spread)) - np.sqrt(3 * np.diag(turned))
        shifts = [(0.0,) if abs(room) < coarse else (-room, 0.0, room) for room in slack]
        for shift in product(*shifts):
            offset = pair.second.center + np.array(shift)
            maps.append(np.concatenate([turn, offset[:, None]], 1))
    return torch.from_numpy(np.stack(maps)).float()


def _best(maps: Maps, values: Tensor, pair: Pair, count: int) -> Maps:
    """The best maps, best first, no two within a coarse voxel of each other."""
    apart = pair.extent / pair.preset.widths[0]
    variance = torch.from_numpy(pair.first.spread).float()
    chosen: list[Tensor] = []
    left = values.clone()
    while len(chosen) < count and bool((left > -torch.inf).any()):
        best = maps[int(left.argmax())]
        chosen.append(best)
        change = maps - best
        turned = torch.einsum("kij,jl,kil->k", change[..., :-1], variance, change[..., :-1])
        distance = (turned + change[..., -1].square().sum(1)).sqrt()
        left = left.masked_fill(distance <= apart, -torch.inf)
    return torch.stack(chosen)


def _lead(maps: Maps, lead: float) -> Tensor:
    """What values are multiplied with: more where a map keeps the header's orientation."""
    rotations = [nearest_rotation(linear.double().numpy()) for linear in maps[..., :-1]]
    return torch.tensor([1 + lead if turned_by(turn) < _NEAR else 1.0 for turn in rotations])


def turned_by(rotation: Matrix) -> float:
    """The angle of a rotation in degrees."""
    dimension = len(rotation)
    cosine = (np.trace(rotation) - (dimension - 2)) / 2
    return float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))


def _plane_turn(degrees: float) -> Matrix:
    angle = np.deg2rad(degrees)
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def _axis_turn(axis: int, degrees: float) -> Matrix:
    turn = np.eye(3)
    others = [i for i in range(3) if i != axis]
    turn[np.ix_(others, others)] = _plane_turn(degrees)
    return turn


def _cube_turns() -> list[Matrix]:
    """The 24 rotations that bring a cube onto itself."""
    signed = [
        np.eye(3)[list(order)] * np.array(signs)
        for order in permutations(range(3))
        for signs in product((1.0, -1.0), repeat=3)
    ]
    return [matrix for matrix in signed if np.linalg.det(matrix) > 0]
