"""DirLab's cases as files that `gradicon evaluate` reads: images, landmarks, a list of pairs."""

import csv
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradicon.errors import FileInTheWayError, GradiconError, MissingFileError
from gradicon.files import folder_written_whole
from gradicon.physical.images import read_space, to_sitk, write_image
from gradicon.physical.landmarks import Landmarks, write_landmarks
from gradicon.physical.published.dirlab import Case, State
from gradicon.physical.published.raw import (
    Values,
    check_length,
    read_hu,
    read_indices,
    space_of_case,
    to_mm,
    values_of,
)
from gradicon.physical.space import Matrix

PAIRS = "pairs.csv"
_TOLERANCE_MM = 0.05
_SIDES = ("fixed", "moving")


@dataclass(frozen=True, eq=False)
class Source:
    """The files of one image of a case, found and checked."""

    state: State
    image: Path
    points_mm: Matrix
    values: Values
    mask: Path | None


@dataclass(frozen=True)
class Converted:
    """What was found of a case.

    Args:
        case: as it is published.
        error_mm: of its landmarks before registration, by these files.
        values: what was stored.
    """

    case: Case
    error_mm: float
    values: Values

    @property
    def differs(self) -> bool:
        """Whether its error is another than the published one."""
        return abs(self.error_mm - self.case.error_mm) > _TOLERANCE_MM


def convert_cases(
    folder: Path,
    out: Path,
    cases: Sequence[Case],
    *,
    values: Values = "auto",
    masks: Path | None = None,
    on_case: Callable[[int, int, str], None] | None = None,
) -> list[Converted]:
    """Write NIfTI images in HU, landmarks in LPS mm and pairs.csv into the folder `out`.

    Every file is looked at before anything is written; then `out` appears whole or not at all.

    Args:
        folder: where the archives were unpacked; files are found in it and in the folders below.
        out: a new folder, or one that this wrote before, which is replaced.
        cases: which of them; all their files must be there.
        values: what the stored numbers are.
        masks: a folder with a mask for each image, of the same name as the image that is written.
        on_case: called before each case with its number, how many there are, and its name.
    """
    _check_replaceable(out, folder)
    found = _files_below(folder)
    sources = [
        tuple(_source(case, state, found, values, masks) for state in (case.fixed, case.moving))
        for case in cases
    ]
    _check_values_agree([source for pair in sources for source in pair])
    with folder_written_whole(out) as part:
        for kind in ("images", "landmarks", *(["masks"] if masks else [])):
            (part / kind).mkdir()
        for number, (case, pair) in enumerate(zip(cases, sources, strict=True), 1):
            if on_case is not None:
                on_case(number, len(cases), case.name)
            for source in pair:
                _write(part, case, source)
        _write_pairs(part / PAIRS, sources)
    return [
        Converted(case, _error_mm(*pair), pair[0].values)
        for case, pair in zip(cases, sources, strict=True)
    ]


def _check_replaceable(out: Path, folder: Path) -> None:
    if not folder.is_dir():
        raise MissingFileError(f"{folder}: no such folder")
    if folder.resolve().is_relative_to(out.resolve()):
        raise FileInTheWayError(f"{out} holds the published files: choose another folder")
    ours = (out / PAIRS).is_file() and (out / "images").is_dir()
    if out.is_dir() and any(out.iterdir()) and not ours:
        raise FileInTheWayError(f"{out} holds other files: choose another folder")


def _files_below(folder: Path) -> dict[str, list[Path]]:
    """Every file by its name in small letters: the archives spell some of them either way."""
    found: dict[str, list[Path]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found.setdefault(path.name.lower(), []).append(path)
    return found


def _source(
    case: Case,
    state: State,
    found: Mapping[str, list[Path]],
    values: Values,
    masks: Path | None,
) -> Source:
    image = _only_one(state.images, found)
    check_length(image, case)
    indices = read_indices(_only_one(state.landmarks, found), case)
    mask = None if masks is None else _mask(masks / f"{state.name}.nii.gz", case)
    told = values_of(image, case) if values == "auto" else values
    return Source(state, image, to_mm(indices, case), told, mask)


def _only_one(names: Sequence[str], found: Mapping[str, list[Path]]) -> Path:
    """The file that has one of these names."""
    paths = [path for name in names for path in found.get(name.lower(), [])]
    if not paths:
        raise MissingFileError(
            f"{' or '.join(names)} is missing: unpack the archive of that case below the folder, "
            "or choose the cases that there are by --cases"
        )
    if len(paths) > 1:
        raise GradiconError(f"{paths[0]} and {paths[1]}: which is it? Leave only one of them")
    return paths[0]


def _mask(path: Path, case: Case) -> Path:
    if not path.is_file():
        raise MissingFileError(f"{path}: no such mask: it must be called as its image")
    space = read_space(path)
    if space is None or not space.coincides(space_of_case(case)):
        raise GradiconError(f"{path}: lies on another grid than the image that is written")
    return path


def _check_values_agree(sources: Sequence[Source]) -> None:
    for source in sources:
        if source.values != sources[0].values:
            raise GradiconError(
                f"{source.image} looks like {source.values}, {sources[0].image} like "
                f"{sources[0].values}: say which it is by --values"
            )


def _write(part: Path, case: Case, source: Source) -> None:
    name = source.state.name
    volume = read_hu(source.image, case, source.values)
    write_image(to_sitk(volume), part / "images" / f"{name}.nii.gz")
    labels = tuple(str(number) for number in range(1, len(source.points_mm) + 1))
    write_landmarks(part / "landmarks" / f"{name}.csv", Landmarks(labels, source.points_mm))
    if source.mask is not None:
        shutil.copyfile(source.mask, part / "masks" / f"{name}.nii.gz")


def _write_pairs(path: Path, sources: Sequence[tuple[Source, ...]]) -> None:
    """Inhale is fixed and exhale is moving, as in the paper."""
    folders = {"": "images", "_landmarks": "landmarks"}
    if sources[0][0].mask is not None:
        folders["_mask"] = "masks"
    columns = [(kind, side) for kind in folders for side in (0, 1)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([f"{_SIDES[side]}{kind}" for kind, side in columns])
        for pair in sources:
            names = [pair[side].state.name for _, side in columns]
            ends = [".csv" if kind == "_landmarks" else ".nii.gz" for kind, _ in columns]
            writer.writerow(
                f"{folders[kind]}/{name}{end}"
                for (kind, _), name, end in zip(columns, names, ends, strict=True)
            )


def _error_mm(fixed: Source, moving: Source) -> float:
    return float(np.linalg.norm(fixed.points_mm - moving.points_mm, axis=1).mean())
