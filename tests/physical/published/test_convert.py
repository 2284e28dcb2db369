"""DirLab's files, fabricated byte by byte, come out where SimpleITK finds them."""

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk

from gradicon.errors import FileInTheWayError, GradiconError
from gradicon.evaluation.check import check_pairs
from gradicon.physical.lists import read_pairs
from gradicon.physical.published.convert import convert_cases
from gradicon.physical.published.dirlab import SETS
from physical.published_files import (
    ERROR,
    SHIFT,
    SIZE,
    SPACING,
    hounsfield,
    landmarks,
    small_case,
    write_case,
    write_points,
    write_raw,
)
from test_cli import assert_one_line_error, gradicon


@pytest.fixture
def downloads(tmp_path: Path) -> Path:
    for number in (1, 2):
        write_case(tmp_path / "downloads", number)
    return tmp_path / "downloads"


def points_in(path: Path) -> list[tuple[float, float, float]]:
    with path.open() as file:
        return [(float(r["x"]), float(r["y"]), float(r["z"])) for r in csv.DictReader(file)]


def test_every_landmark_lies_on_its_own_voxel(downloads: Path, tmp_path: Path):
    """SimpleITK looks up each landmark's millimetres in the image: the n-th finds n HU."""
    converted = convert_cases(downloads, tmp_path / "out", [small_case(1)])
    for phase, shift in (("i", (0, 0, 0)), ("e", SHIFT)):
        image = sitk.ReadImage(str(tmp_path / f"out/images/copd1_{phase}BHCT.nii.gz"))
        points = points_in(tmp_path / f"out/landmarks/copd1_{phase}BHCT.csv")
        assert image.GetSize() == SIZE
        assert image.GetPixelID() == sitk.sitkInt16
        np.testing.assert_allclose(image.GetSpacing(), SPACING, rtol=1e-6)
        assert image.GetOrigin() == (0, 0, 0)
        assert image.GetDirection() == (1, 0, 0, 0, 1, 0, 0, 0, -1)  # slices go to the feet
        assert len(points) == 300
        for n, (point, listed) in enumerate(zip(points, landmarks(1), strict=True), 1):
            index = image.TransformPhysicalPointToIndex(point)
            assert index == tuple(i + s - 1 for i, s in zip(listed, shift, strict=True))
            assert image[index] == n
        assert image[3, 2, 0] == hounsfield(4, 3, 1)
        assert image[0, 0, 5] == -1024  # what the scanner did not see
    assert converted[0].error_mm == pytest.approx(ERROR, abs=1e-9)
    assert converted[0].values == "hu"
    assert not converted[0].differs


def test_the_list_of_pairs_has_inhale_fixed_and_can_be_evaluated(downloads: Path, tmp_path: Path):
    convert_cases(downloads, tmp_path / "out", [small_case(1), small_case(2)])
    pairs = read_pairs(tmp_path / "out/pairs.csv")
    check_pairs(pairs)
    assert [pair.fixed.image.name for pair in pairs] == [
        "copd1_iBHCT.nii.gz",
        "copd2_iBHCT.nii.gz",
    ]
    assert [pair.moving.image.name for pair in pairs] == [
        "copd1_eBHCT.nii.gz",
        "copd2_eBHCT.nii.gz",
    ]
    for pair in pairs:
        assert pair.fixed.landmarks is not None
        assert pair.moving.landmarks is not None
        assert pair.fixed.landmarks.name == pair.fixed.image.name.replace(".nii.gz", ".csv")
        there = np.array(points_in(pair.moving.landmarks))
        moved = there - np.array(points_in(pair.fixed.landmarks))
        np.testing.assert_allclose(moved[0], [2 * 0.9, -1 * 0.8, -1 * 2.5], atol=1e-9)
        assert pair.fixed.mask is None


def test_values_with_1024_added_become_hounsfield_units(tmp_path: Path):
    write_case(tmp_path / "downloads", 1, offset=1024)
    converted = convert_cases(tmp_path / "downloads", tmp_path / "out", [small_case(1)])
    assert converted[0].values == "hu+1024"
    image = sitk.ReadImage(str(tmp_path / "out/images/copd1_iBHCT.nii.gz"))
    x, y, z = landmarks(1)[41]
    assert image[x - 1, y - 1, z - 1] == 42
    assert image[3, 2, 0] == hounsfield(4, 3, 1) == 40
    assert image[0, 0, 0] == -1024


def test_values_that_do_not_tell_are_refused_and_may_be_said(downloads: Path, tmp_path: Path):
    image = downloads / "copd1/copd1/copd1_eBHCT.img"
    write_raw(image, lambda x, y, z: 100)
    with pytest.raises(GradiconError, match="do not tell whether they are Hounsfield units"):
        convert_cases(downloads, tmp_path / "out", [small_case(1)])
    assert not (tmp_path / "out").exists()
    converted = convert_cases(downloads, tmp_path / "out", [small_case(1)], values="hu+1024")
    assert converted[0].values == "hu+1024"
    written = sitk.ReadImage(str(tmp_path / "out/images/copd1_eBHCT.nii.gz"))
    assert written[2, 2, 2] == 100 - 1024


def test_two_images_that_look_different_are_refused(downloads: Path, tmp_path: Path):
    image = downloads / "copd1/copd1/copd1_eBHCT.img"
    write_raw(image, lambda x, y, z: hounsfield(x, y, z) + 1024)
    with pytest.raises(GradiconError, match=r"eBHCT.img looks like hu\+1024, .*iBHCT.img like hu"):
        convert_cases(downloads, tmp_path / "out", [small_case(1)])


def test_masks_come_along(downloads: Path, tmp_path: Path):
    case = small_case(1)
    convert_cases(downloads, tmp_path / "plain", [case])
    masks = tmp_path / "masks"
    masks.mkdir()
    for phase in "ie":
        name = f"copd1_{phase}BHCT.nii.gz"
        image = sitk.ReadImage(str(tmp_path / "plain/images" / name))
        sitk.WriteImage(image < -500, str(masks / name))
    convert_cases(downloads, tmp_path / "out", [case], masks=masks)
    (pair,) = read_pairs(tmp_path / "out/pairs.csv")
    assert pair.fixed.mask == tmp_path / "out/masks/copd1_iBHCT.nii.gz"
    assert pair.moving.mask == tmp_path / "out/masks/copd1_eBHCT.nii.gz"

    upright = sitk.ReadImage(str(masks / "copd1_eBHCT.nii.gz"))
    upright.SetDirection(np.eye(3).ravel().tolist())
    sitk.WriteImage(upright, str(masks / "copd1_eBHCT.nii.gz"))
    with pytest.raises(GradiconError, match="lies on another grid"):
        convert_cases(downloads, tmp_path / "other", [case], masks=masks)
    (masks / "copd1_eBHCT.nii.gz").unlink()
    with pytest.raises(GradiconError, match="copd1_eBHCT.nii.gz: no such mask"):
        convert_cases(downloads, tmp_path / "other", [case], masks=masks)
    assert not (tmp_path / "other").exists()


def cut(here: Path) -> None:
    path = here / "copd2_eBHCT.img"
    path.write_bytes(path.read_bytes()[:-2])


def count_from_zero(here: Path) -> None:
    points = [(x - 2, y - 1, z - 1) for x, y, z in landmarks(2)]
    write_points(here / "copd2_300_iBH_xyz_r1.txt", points)


def swap_axes(here: Path) -> None:
    write_points(here / "copd2_300_iBH_xyz_r1.txt", [(z, y, x) for x, y, z in landmarks(2)])


def lose_one(here: Path) -> None:
    write_points(here / "copd2_300_iBH_xyz_r1.txt", landmarks(2)[:299])


def widen(here: Path) -> None:
    path = here / "copd2_300_iBH_xyz_r1.txt"
    path.write_text(path.read_text().replace("\t", "\t7\t", 1))


def misspell(here: Path) -> None:
    path = here / "copd2_300_iBH_xyz_r1.txt"
    path.write_text(path.read_text().replace("\t", "x\t", 1))


def double(here: Path) -> None:
    (here.parent / "COPD2_iBHCT.img").write_bytes((here / "copd2_iBHCT.img").read_bytes())


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (cut, "copd2_eBHCT.img: 15358 bytes, but 24 x 20 x 16 voxels of 2 bytes are 15360"),
        (count_from_zero, "have an index of 0: these are counted from 0"),
        (
            swap_axes,
            r"landmarks lie outside the image of 24 x 20 x 16 voxels, the first in row \d+",
        ),
        (lose_one, "expected 300 rows of three numbers, found 299"),
        (widen, "expected 300 rows of three numbers, row 1 has 4"),
        (misspell, "row 1: expected a finite number"),
        (double, "which is it"),
        (lambda here: (here / "copd2_iBHCT.img").unlink(), "copd2_iBHCT.img is missing"),
        (
            lambda here: (here / "copd2_300_eBH_xyz_r1.txt").unlink(),
            "copd2_300_eBH_xyz_r1.txt is missing",
        ),
    ],
)
def test_what_is_wrong_is_named_before_anything_is_written(
    downloads: Path, tmp_path: Path, spoil: Callable[[Path], None], message: str
):
    spoil(downloads / "copd2/copd2")
    done: list[int] = []
    with pytest.raises(GradiconError, match=message) as caught:
        convert_cases(
            downloads,
            tmp_path / "out",
            [small_case(1), small_case(2)],
            on_case=lambda number, *_: done.append(number),
        )
    assert "\n" not in str(caught.value)
    assert not done
    assert not (tmp_path / "out").exists()


def test_only_a_folder_of_its_own_is_replaced(downloads: Path, tmp_path: Path):
    case = small_case(1)
    with pytest.raises(FileInTheWayError, match="holds the published files"):
        convert_cases(downloads, tmp_path, [case])
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.txt").write_text("mine")
    with pytest.raises(FileInTheWayError, match="holds other files"):
        convert_cases(downloads, tmp_path / "other", [case])
    convert_cases(downloads, tmp_path / "out", [case])
    convert_cases(downloads, tmp_path / "out", [small_case(2)])
    assert not list((tmp_path / "out/images").glob("copd1*"))


def test_an_error_that_is_not_the_published_one_is_told(downloads: Path, tmp_path: Path):
    """To 0.05 mm, as they are printed with two digits."""
    for change, differs in ((0.049, False), (0.051, True), (-0.051, True)):
        case = replace(small_case(1), error_mm=ERROR + change)
        (found,) = convert_cases(downloads, tmp_path / "out", [case])
        assert found.differs == differs


def test_the_tables_are_the_published_ones():
    copd = SETS["copd"]
    assert [case.size[2] for case in copd] == [121, 102, 126, 126, 131, 119, 112, 115, 116, 135]
    assert {case.size[:2] for case in copd} == {(512, 512)}
    assert [case.spacing_mm[0] for case in copd] == [
        *(0.625, 0.645, 0.652, 0.590, 0.647, 0.633, 0.625, 0.586, 0.664, 0.742)
    ]
    assert np.mean([case.error_mm for case in copd]) == pytest.approx(23.36, abs=0.005)
    assert np.mean([case.error_mm for case in SETS["4dct"]]) == pytest.approx(8.46, abs=0.005)
    for cases in SETS.values():
        for case in cases:
            assert case.spacing_mm[0] == case.spacing_mm[1]
            assert case.spacing_mm[2] == 2.5
    assert SETS["4dct"][0].fixed.images[0] == "case1_T00_s.img"
    assert SETS["4dct"][5].moving.landmarks[1] == "case6_dirLab300_T50_xyz.txt"


@pytest.fixture
def one_of_4dct(tmp_path: Path) -> Path:
    """The first case of the 4DCT set in its full size: a chest of three values."""
    here = tmp_path / "downloads/Case1Pack"
    (here / "Images").mkdir(parents=True)
    (here / "ExtremePhases").mkdir()
    data = np.full((94, 256, 256), 24, "<i2")
    data[:, 40:216, 20:236] = 1060
    data[:, 80:180, 60:200] = 180
    rng = np.random.default_rng(0)
    points = rng.integers(20, 80, (300, 3))
    for phase, shift in (("T00", (4, 0, 0)), ("T50", (0, 0, 0))):
        data.tofile(here / f"Images/case1_{phase}_s.img")
        write_points(
            here / f"ExtremePhases/Case1_300_{phase}_xyz.txt", [tuple(p) for p in points + shift]
        )
    return tmp_path / "downloads"


def test_the_command(one_of_4dct: Path, tmp_path: Path):
    arguments = [one_of_4dct, "--set", "4dct", "--cases", "1", "-o", tmp_path / "out"]
    told = gradicon("convert-dirlab", *arguments)
    assert told.returncode == 0, told.stderr
    assert "256 x 256 x 94" in told.stdout
    assert "HU + 1024" in told.stdout
    rows = [line for line in told.stdout.splitlines() if "case1" in line or "mean" in line]
    assert all("3.88" in row and "3.89" in row for row in rows)  # 4 x 0.97 mm
    assert len(rows) == 2
    assert told.stderr == ""
    assert len(read_pairs(tmp_path / "out/pairs.csv")) == 1

    again = gradicon("convert-dirlab", *arguments)
    assert_one_line_error(again, "out exists: choose another place, or say --overwrite")
    points = one_of_4dct / "Case1Pack/ExtremePhases/Case1_300_T50_xyz.txt"
    shift = [tuple(map(int, line.split())) for line in points.read_text().splitlines()]
    write_points(points, [(x - 1, y, z) for x, y, z in shift])
    told = gradicon("convert-dirlab", *arguments, "--overwrite")
    assert told.returncode == 0, told.stderr
    assert told.stderr == (
        "warning: case1: 4.85 mm before registration, but 3.89 mm are published: "
        "are these the published landmarks?\n"
    )
    told = gradicon("convert-dirlab", one_of_4dct, "-o", tmp_path / "copd")
    assert_one_line_error(told, "copd1_iBHCT.img is missing: unpack the archive")
    told = gradicon("convert-dirlab", one_of_4dct, "--cases", "11", "-o", tmp_path / "copd")
    assert told.returncode == 2
    assert "expected numbers from 1 to 10, got '11'" in told.stderr
