"""The rigid and affine start: found however images lie and are turned, and never a mirror image."""

import numpy as np
import pytest
import torch

from gradicon.core.sampling import inside, sample, unit_grid
from gradicon.errors import GradiconError
from gradicon.physical.images import from_sitk
from gradicon.physical.preprocess import unit_map
from gradicon.physical.space import Matrix, Space
from gradicon.physical.volume import Volume
from gradicon.registration.start import align, find_start
from gradicon.registration.start.search import turned_by, turns
from registration.pairs import sample_image

SHAPE = (48, 60, 44)


def phantom(shape: tuple[int, ...] = SHAPE, size_mm: tuple[float, ...] | None = None) -> Volume:
    """A body of several parts, none of them symmetric to another, on dark ground."""
    spacing = size_mm or (4.0,) * len(shape)
    x = unit_grid(shape, like=torch.zeros(()))[0] - 0.5
    image = torch.zeros(shape)
    parts = [
        ((0.0, 0.0, 0.0), (0.30, 0.36, 0.26), 0.5),
        ((0.10, 0.16, 0.05), (0.10, 0.14, 0.09), 0.4),
        ((-0.14, 0.04, 0.08), (0.07, 0.09, 0.06), -0.3),
        ((0.02, -0.20, -0.10), (0.12, 0.08, 0.08), 0.3),
        ((0.08, -0.06, 0.12), (0.06, 0.12, 0.05), -0.2),
    ]
    for center, radii, grey in parts:
        squares = [((x[i] - center[i]) / radii[i]) ** 2 for i in range(len(shape))]
        image = image + grey * torch.sigmoid(12 * (1 - torch.stack(squares).sum(0)))
    to_mm = np.eye(len(shape) + 1)
    to_mm[:-1, :-1] = np.fliplr(np.eye(len(shape))) * spacing
    return Volume(image.clamp(0, 1)[None, None], Space(shape, to_mm))


def turn(axis: int, degrees: float) -> Matrix:
    """A rotation about one of the axes of mm."""
    c = np.cos(np.deg2rad(degrees))
    s = np.sin(np.deg2rad(degrees))
    matrix = np.eye(3)
    i, j = [k for k in range(3) if k != axis]
    matrix[i, i] = matrix[j, j] = c
    matrix[i, j] = -s
    matrix[j, i] = s
    return matrix


def moved(volume: Volume, linear: Matrix, shift: Matrix | float = 0.0) -> tuple[Volume, Matrix]:
    """What `volume` shows, turned about its middle and shifted, read anew on a grid whose header
    says nothing of it; and the map from the volume's mm to there.
    """
    dimension = len(volume.space.shape)
    middle = volume.space.to_mm(np.full((1, dimension), 0.5))[0]
    there = np.eye(dimension + 1)
    there[:-1, :-1] = linear
    there[:-1, -1] = middle + shift - linear @ middle
    largest = max(n * s for n, s in zip(volume.space.shape, volume.space.spacing_mm, strict=True))
    size = min(volume.space.spacing_mm)
    count = round(1.2 * largest / size)
    grid = volume.space.centered((count,) * dimension, (size,) * dimension)
    grid = Space(grid.shape, np.round(grid.index_to_mm, 6))
    x = unit_map(grid, volume.space, np.linalg.inv(there)).on_grid(grid.shape)
    return Volume(sample(volume.data, x) * inside(x), grid), there


def distance(found: Matrix, truth: Matrix, volume: Volume) -> float:
    """The root mean square distance in mm of two maps, over the middle of a volume."""
    dimension = len(volume.space.shape)
    points = np.stack(np.meshgrid(*[[0.25, 0.5, 0.75]] * dimension), -1).reshape(-1, dimension)
    mm = np.c_[volume.space.to_mm(points), np.ones(len(points))]
    return float(np.sqrt(((mm @ (found - truth).T) ** 2).sum(1).mean()))


def other_contrast(volume: Volume) -> Volume:
    """Neither the same greys nor in the same order."""
    x = volume.data
    return Volume(torch.where(x < 0.3, 2 * x, 0.75 - 0.7 * (x - 0.3)).clamp(0, 1), volume.space)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("degrees", [90, 180, 45])
def test_turned_images_come_back(axis: int, degrees: float):
    fixed = phantom()
    moving, truth = moved(fixed, turn(axis, degrees), np.array([12.0, -20.0, 8.0]))
    found = find_start(fixed, moving, "auto", one_kind=True)
    assert distance(found.matrix, truth, fixed) < 2, found.note
    assert np.linalg.det(found.matrix) > 0


def test_an_oblique_turn_comes_back_between_contrasts():
    fixed = phantom()
    linear = turn(0, 130) @ turn(1, -40) @ turn(2, 75)
    moving, truth = moved(other_contrast(fixed), linear, 10.0)
    found = align(fixed, moving, "rigid", one_kind=False)
    assert distance(found.matrix, truth, fixed) < 1, found.note


def test_a_real_scan_that_is_turned_comes_back():
    fixed = _scaled(from_sitk(sample_image("fixed")).canonical())
    moving, truth = moved(_scaled(from_sitk(sample_image("fixed")).canonical()), turn(1, 180))
    found = align(fixed, moving, "rigid", one_kind=True)
    assert distance(found.matrix, truth, fixed) < 0.5, found.note


@pytest.mark.parametrize("inverted", [False, True])
def test_a_rigid_map_is_rigid_and_accurate(inverted: bool):
    fixed = phantom()
    moving, truth = moved(fixed, turn(2, 17) @ turn(0, -9), 6.0)
    if inverted:
        moving = Volume(1 - moving.data, moving.space)
    found = align(fixed, moving, "rigid", one_kind=not inverted)
    linear = found.matrix[:-1, :-1]
    assert np.allclose(linear.T @ linear, np.eye(3), atol=1e-9)
    assert abs(np.linalg.det(linear) - 1) < 1e-6
    assert distance(found.matrix, truth, fixed) < 0.6, found.note  # voxels are 4 mm


def test_an_affine_map_finds_what_a_rigid_one_cannot():
    fixed = phantom()
    moving, truth = moved(fixed, turn(2, 20) @ np.diag([1.12, 0.9, 1.05]), 6.0)
    affine = align(fixed, moving, "affine", one_kind=True)
    rigid = align(fixed, moving, "rigid", one_kind=True)
    assert distance(affine.matrix, truth, fixed) < 2
    assert distance(rigid.matrix, truth, fixed) > 3


def test_a_mirror_image_is_not_found():
    """A mirrored phantom fits best mirrored; what is found is a proper rotation all the same."""
    fixed = phantom()
    moving = Volume(fixed.data.flip(4), fixed.space)
    for matrix in (
        find_start(fixed, moving, "affine", one_kind=True).matrix,
        align(fixed, moving, "rigid", one_kind=True).matrix,
    ):
        assert np.linalg.det(matrix[:-1, :-1]) > 0


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("swapped", [False, True])
def test_half_an_image_is_found_in_the_whole(axis: int, swapped: bool):
    whole = phantom()
    turned, truth = moved(whole, turn(2, 10), np.array([8.0, 4.0, -6.0]))
    half = _cut(turned, axis, 0.5)
    images = (half, whole) if swapped else (whole, half)
    found = find_start(*images, "auto", one_kind=True).matrix
    assert distance(np.linalg.inv(found) if swapped else found, truth, whole) < 5


def test_a_small_part_at_the_border_is_found_between_contrasts():
    """Its centre lies far from the whole one's: shifts are tried as well as turns."""
    whole = phantom()
    shifted, truth = moved(whole, turn(2, 10), np.array([8.0, 4.0, -6.0]))
    part = other_contrast(_cut(shifted, 1, 0.3))
    found = find_start(whole, part, "auto", one_kind=False)
    assert distance(found.matrix, truth, whole) < 5


def test_swapping_the_images_inverts_the_map():
    fixed = phantom()
    moving, _ = moved(_cut(fixed, 0, 0.8), turn(1, 25), 9.0)
    there = align(fixed, moving, "affine", one_kind=True).matrix
    back = align(moving, fixed, "affine", one_kind=True).matrix
    assert np.allclose(there @ back, np.eye(4), atol=1e-9)


@pytest.mark.parametrize("degrees", [35, 90, 160])
def test_planes_are_turned_back(degrees: float):
    fixed = phantom((60, 52), (2.0, 2.0))
    angle = np.deg2rad(degrees)
    linear = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    moving, truth = moved(fixed, linear, np.array([7.0, -5.0]))
    found = align(fixed, moving, "rigid", one_kind=True)
    assert distance(found.matrix, truth, fixed) < 0.5, found.note


def test_thick_slices_are_found():
    fixed = phantom((14, 80, 72), (12.0, 2.4, 2.4))
    moving, truth = moved(fixed, turn(2, 90), np.array([10.0, 10.0, 0.0]))
    found = find_start(fixed, moving, "auto", one_kind=True)
    assert distance(found.matrix, truth, fixed) < 4, found.note


def test_the_same_input_gives_the_same_bits():
    fixed = phantom()
    moving, _ = moved(fixed, turn(0, 60))
    first = align(fixed, moving, "affine", one_kind=False)
    second = align(fixed, moving, "affine", one_kind=False)
    assert (first.matrix == second.matrix).all()


@pytest.mark.parametrize("one_kind", [True, False])
def test_headers_that_fit_are_believed(one_kind: bool):
    fixed = phantom()
    moving = fixed if one_kind else other_contrast(fixed)
    found = find_start(fixed, moving, "auto", one_kind=one_kind)
    assert found.method == "none"
    assert (found.matrix == np.eye(4)).all()


def test_headers_that_are_a_little_off_are_not_believed():
    """A correlation of 0.9 hides a shift of 20 mm."""
    fixed = phantom()
    to_mm = fixed.space.index_to_mm.copy()
    to_mm[:-1, -1] += (0, 16, 12)
    found = find_start(fixed, Volume(fixed.data, Space(SHAPE, to_mm)), "auto", one_kind=True)
    truth = np.eye(4)
    truth[:-1, -1] = (0, 16, 12)
    assert distance(found.matrix, truth, fixed) < 1


def test_every_turn_is_near_one_that_is_tried():
    generator = np.random.default_rng(0)
    tried = turns(3, 35.0)
    for _ in range(200):
        q, _ = np.linalg.qr(generator.normal(size=(3, 3)))
        rotation = q * np.linalg.det(q)
        assert min(turned_by(rotation.T @ one) for one in tried) < 48
    assert all(abs(np.linalg.det(one) - 1) < 1e-9 for one in tried)


@pytest.mark.parametrize("shape", [(1, 40, 40), (3, 3, 3), (40, 2)])
def test_images_of_few_voxels_have_a_start(shape: tuple[int, ...]):
    image = phantom(shape)
    for found in (
        find_start(image, image, "affine", one_kind=True),
        align(image, image, "rigid", one_kind=True),
    ):
        assert np.isfinite(found.matrix).all()


@pytest.mark.usefixtures("unhooked")
def test_an_unknown_aim_is_refused():
    with pytest.raises(GradiconError, match="rigid or affine, not to 'bendy'"):
        align(phantom(), phantom(), "bendy", one_kind=True)  # type: ignore[arg-type]


def _cut(volume: Volume, axis: int, part: float) -> Volume:
    """The first part of a volume along an axis, where it lies."""
    count = round(part * volume.space.shape[axis])
    data = volume.data.narrow(axis + 2, 0, count).contiguous()
    return Volume(data, Space(tuple(data.shape[2:]), volume.space.index_to_mm))


def _scaled(volume: Volume) -> Volume:
    data = volume.data.float()
    return Volume((data / data.max()).clamp(0, 1), volume.space)
