"""The pairs that `start.py` measures: scans, where they should come to lie, and how they were cut
or turned.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil
from pathlib import Path

import numpy as np
import SimpleITK as sitk

from gradicon.core.sampling import inside, sample
from gradicon.physical.images import read_volume
from gradicon.physical.landmarks import read_landmarks
from gradicon.physical.lists import Item, read_pairs
from gradicon.physical.preprocess import Scaling, look_at, unit_map
from gradicon.physical.space import Matrix, Space
from gradicon.physical.volume import Volume

Places = dict[int, Matrix]
"""Points in mm by label; 0 is the centre of all labels."""


@dataclass(frozen=True, eq=False)
class Scan:
    """An image in [0,1], its labels if it has any, and points of it that have a name."""

    image: Volume
    places: Places
    labels: Volume | None = None


@dataclass(frozen=True, eq=False)
class Case:
    """A pair. `given` are the moving scan's points where a data set's own label map is wrong."""

    group: str
    name: str
    fixed: Scan
    moving: Scan
    one_kind: bool = True
    given: Places | None = None


def read_scan(item: Item) -> Scan:
    """Centres of labels; else landmarks; else the centre of what is not black."""
    volume = read_volume(item.image).canonical()
    image = Volume(Scaling(kind=look_at(volume))(volume.data), volume.space)
    if item.labels is not None:
        labels = read_volume(item.labels).canonical()
        return Scan(image, centers(labels), labels)
    if item.landmarks is not None:
        points = read_landmarks(item.landmarks).points_mm
        return Scan(image, {0: points.mean(0), **dict(enumerate(points, 1))})
    shown = Volume((image.data > 0.05).float(), image.space)
    return Scan(image, {0: centers(shown)[0]})


def centers(labels: Volume) -> Places:
    """The centre of every label, and as 0 that of all of them."""
    values = labels.data[0, 0].numpy().astype(np.int64)
    indices = np.argwhere(values > 0)
    to_mm = labels.space.index_to_mm
    mm = indices @ to_mm[:-1, :-1].T + to_mm[:-1, -1]
    there = values[values > 0]
    counts = np.bincount(there)
    sums = [np.bincount(there, weights=component) for component in mm.T]
    found: Places = {0: mm.mean(0)}
    for label in np.flatnonzero(counts):
        found[int(label)] = np.array([total[label] for total in sums]) / counts[label]
    return found


def only_center(scan: Scan) -> Scan:
    """Where the labels of two data sets have other meanings."""
    return Scan(scan.image, {0: scan.places[0]})


def flair(data: Path) -> Iterator[Case]:
    """One person's T1 and another's FLAIR. The labels that come with the FLAIR were carried there
    by the scanner's coordinates, which half of the people did not lie still for; the truth here is
    their T1's labels, carried by a rigid registration of T1 to FLAIR by SimpleITK.
    """
    for pair in read_pairs(data / "flair" / "val_pairs.csv"):
        moving = read_scan(pair.moving)
        own = data / "flair" / "t1" / pair.moving.image.name
        labels = data / "flair" / "t1_labels" / pair.moving.image.name
        to_flair = _same_person(pair.moving.image, own).GetInverse()
        carried = {
            label: np.array(to_flair.TransformPoint(center.tolist()))
            for label, center in centers(read_volume(labels).canonical()).items()
        }
        scan = Scan(moving.image, carried)
        fixed = read_scan(pair.fixed)
        yield Case("flair", pair.name, fixed, scan, one_kind=False, given=moving.places)


def _same_person(fixed: Path, moving: Path) -> sitk.Transform:
    """SimpleITK's rigid registration by Mattes's mutual information, the best of three starts."""
    images = [sitk.ReadImage(str(path), sitk.sitkFloat32) for path in (fixed, moving)]
    middle = images[0].TransformContinuousIndexToPhysicalPoint(
        [(n - 1) / 2 for n in images[0].GetSize()]
    )
    found: list[tuple[float, sitk.Transform]] = []
    for up in (-30.0, 0.0, 30.0):
        start = sitk.Euler3DTransform()
        start.SetCenter(middle)
        start.SetTranslation((0.0, 0.0, up))
        method = sitk.ImageRegistrationMethod()
        method.SetMetricAsMattesMutualInformation(32)
        method.SetMetricSamplingStrategy(method.REGULAR)
        method.SetMetricSamplingPercentage(0.2)
        method.SetInterpolator(sitk.sitkLinear)
        method.SetOptimizerAsRegularStepGradientDescent(2.0, 1e-3, 150)
        method.SetOptimizerScalesFromPhysicalShift()
        method.SetShrinkFactorsPerLevel([4, 2])
        method.SetSmoothingSigmasPerLevel([2, 1])
        method.SetInitialTransform(start, inPlace=False)
        try:
            transform = method.Execute(*images)
        except RuntimeError:  # the images no longer overlap: this start leads nowhere
            continue
        found.append((method.GetMetricValue(), transform))
    return min(found, key=lambda one: one[0])[1]


def skull(data: Path) -> Iterator[Case]:
    """Heads against stripped brains, both ways."""
    heads = read_pairs(data / "ixi" / "val_pairs.csv")
    brains = read_pairs(data / "brain" / "val_pairs.csv")
    for number, pair in enumerate(heads):
        head = only_center(read_scan(pair.fixed))
        stripped = sorted((data / "t1" / "images").glob("*.nii.gz"))[-1 - number]
        others = (brains[number % len(brains)].moving, Item(stripped))
        for other in others:
            brain = only_center(read_scan(other))
            name = f"{pair.fixed.image.name} {other.image.name}"
            yield Case("head, brain", name, head, brain)
            yield Case("brain, head", name, brain, head)


def halves(data: Path) -> Iterator[Case]:
    """A half or the middle third of a head along each axis, and another whole head."""
    for number, pair in enumerate(read_pairs(data / "ixi" / "val_pairs.csv")):
        fixed = read_scan(pair.fixed)
        moving = read_scan(pair.moving)
        axis = number % 3
        for low, high in ((0.0, 0.5), (0.5, 1.0), (1 / 3, 2 / 3)):
            name = f"{pair.name} axis {axis} from {low:.2f} to {high:.2f}"
            part = Scan(cut(moving.image, axis, low, high), moving.places)
            yield Case("whole, part", name, fixed, part)
            yield Case("part, whole", name, part, fixed)


def turned(data: Path) -> Iterator[Case]:
    """Another person's brain or head, turned about each axis; the header does not know."""
    for folder in ("brain", "ixi"):
        pairs = read_pairs(data / folder / "val_pairs.csv")
        for number, (axis, degrees) in enumerate(product(range(3), (30, 45, 90, 180))):
            pair = pairs[number % len(pairs)]
            scan = turn(read_scan(pair.moving), axis, degrees)
            name = f"{pair.name} by {degrees} about {'xyz'[axis]}"
            yield Case(f"turned {folder}", name, read_scan(pair.fixed), scan)


def others(data: Path) -> Iterator[Case]:
    """The validation pairs of the other sets, as they are."""
    for folder, file in (
        ("hippocampus", "val_pairs.csv"),
        ("cardiac", "val_pairs.csv"),
        ("liver", "pairs.csv"),
        ("brain", "val_pairs.csv"),
    ):
        for pair in read_pairs(data / folder / file):
            yield Case(folder, pair.name, read_scan(pair.fixed), read_scan(pair.moving))


def cut(volume: Volume, axis: int, low: float, high: float) -> Volume:
    """A part of a volume along an axis, where it lies."""
    first, last = (int(volume.space.shape[axis] * part) for part in (low, high))
    data = volume.data.narrow(axis + 2, first, last - first).contiguous()
    to_mm = volume.space.index_to_mm.copy()
    to_mm[:-1, -1] += to_mm[:-1, axis] * first
    return Volume(data, Space(tuple(data.shape[2:]), to_mm))


def turn(scan: Scan, axis: int, degrees: float) -> Scan:
    """A scan turned about its middle and read anew on a grid along the axes of mm."""
    space = scan.image.space
    angle = np.deg2rad(degrees)
    i, j = [k for k in range(3) if k != axis]
    matrix = np.eye(4)
    matrix[i, i] = matrix[j, j] = np.cos(angle)
    matrix[i, j] = -np.sin(angle)
    matrix[j, i] = np.sin(angle)
    middle = space.to_mm(np.full((1, 3), 0.5))[0]
    matrix[:3, 3] = middle - matrix[:3, :3] @ middle
    corners = space.to_mm(np.array(list(product((0.0, 1.0), repeat=3)))) - middle
    extents = 2 * np.abs(corners @ matrix[:3, :3].T).max(0)[::-1]
    size = min(space.spacing_mm)
    shape = tuple(ceil(extent / size) + 1 for extent in extents)
    to_mm = np.eye(4)
    to_mm[:3, :3] = np.fliplr(np.eye(3)) * size
    to_mm[:3, 3] = middle - to_mm[:3, :3] @ ((np.array(shape) - 1) / 2)
    grid = Space(shape, to_mm)
    back: Matrix = np.linalg.inv(matrix).astype(np.float64)
    x = unit_map(grid, space, back).on_grid(shape)
    image = Volume(sample(scan.image.data, x) * inside(x), grid)
    places = {label: matrix[:3, :3] @ place + matrix[:3, 3] for label, place in scan.places.items()}
    return Scan(image, places)
