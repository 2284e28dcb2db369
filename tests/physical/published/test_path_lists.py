"""Lists as the authors publish them: names of another machine, one, two or four in a line."""

import csv
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk

from gradicon.errors import GradiconError
from gradicon.physical.lists import read_images, read_pairs
from gradicon.physical.published.path_lists import (
    Reading,
    mirrored,
    read_path_list,
    with_copies,
    write_list,
    write_mirrored,
)
from test_cli import assert_one_line_error, gradicon

KNEES = (
    "9357383_20040927_SAG_3D_DESS_LEFT_016610250606",
    "9003406_20060322_SAG_3D_DESS_LEFT_016610899303",
    "9897397_20041214_SAG_3D_DESS_RIGHT_016610308211",
    "9902757_20051021_SAG_3D_DESS_RIGHT_016610209509",
)
THERE = "/playpen/someone/Data/OAI_segmentation/Nifti_rescaled"
SUBJECTS = ("742549", "210112", "162935")


def knee_list(path: Path, pairs: list[tuple[int, int]]) -> Path:
    """A line: two images, then their label maps, with five blanks between."""
    lines = [
        "     ".join(
            f"{THERE}/{KNEES[i]}_{kind}.nii.gz" for kind in ("image", "label_all") for i in pair
        )
        for pair in pairs
    ]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def knees(tmp_path: Path) -> Path:
    """Images and label maps in a folder; the list beside it."""
    folder = tmp_path / "OAI/Nifti_rescaled"
    folder.mkdir(parents=True)
    for i, knee in enumerate(KNEES):
        data = np.arange(6 * 5 * 4, dtype=np.int16).reshape(6, 5, 4) + 1000 * i
        for kind, values in (("image", data), ("label_all", (data % 3).astype(np.uint8))):
            sitk.WriteImage(sitk.GetImageFromArray(values), str(folder / f"{knee}_{kind}.nii.gz"))
    knee_list(tmp_path / "pair_path_list.txt", [(0, 1), (2, 3), (0, 1)])
    return tmp_path


@pytest.fixture
def brains(tmp_path: Path) -> Path:
    for subject in SUBJECTS:
        folder = tmp_path / f"HCP_1200/{subject}/T1w"
        folder.mkdir(parents=True)
        (folder / "T1w_acpc_dc_restore_brain.nii.gz").write_bytes(b"")
        labels = tmp_path / f"dseg/{subject}_dseg.nii.gz"
        labels.parent.mkdir(exist_ok=True)
        labels.write_bytes(b"")
    lines = [f"/playpen-raid2/Data/HCP/HCP_1200/{s}/T1w/T1w_acpc_dc.nii.gz\n" for s in SUBJECTS]
    (tmp_path / "train.txt").write_text("".join(lines))
    return tmp_path


@pytest.mark.parametrize("root", ["OAI", "OAI/Nifti_rescaled"])
def test_pairs_with_labels(knees: Path, root: str):
    """The first image of a line is warped to the second: it is the moving one."""
    listed = read_path_list(knees / "pair_path_list.txt", Reading(root=knees / root))
    assert listed.named == 8
    assert listed.note == ""
    write_list(knees / "test.csv", listed)
    pairs = read_pairs(knees / "test.csv")
    folder = knees / "OAI/Nifti_rescaled"
    assert [(pair.moving.image.name[:7], pair.fixed.image.name[:7]) for pair in pairs] == [
        ("9357383", "9003406"),
        ("9897397", "9902757"),
        ("9357383", "9003406"),
    ]
    assert pairs[1].files == {
        "moving": folder / f"{KNEES[2]}_image.nii.gz",
        "fixed": folder / f"{KNEES[3]}_image.nii.gz",
        "moving_labels": folder / f"{KNEES[2]}_label_all.nii.gz",
        "fixed_labels": folder / f"{KNEES[3]}_label_all.nii.gz",
    }
    with (knees / "test.csv").open() as file:
        assert next(csv.DictReader(file))["fixed"].startswith("OAI/Nifti_rescaled/9003406")


def test_each_image_once_without_its_labels(knees: Path):
    """As the authors train: label maps need not be there."""
    for path in knees.glob("OAI/*/*label_all*"):
        path.unlink()
    reading = Reading(root=knees / "OAI", images=True)
    listed = read_path_list(knees / "pair_path_list.txt", reading)
    write_list(knees / "train.csv", listed)
    images = read_images(knees / "train.csv")
    assert [item.image.name for item in images] == [f"{knee}_image.nii.gz" for knee in KNEES]
    assert {item.labels for item in images} == {None}


def test_files_that_are_not_there_are_counted(knees: Path):
    for name in (f"{KNEES[2]}_image.nii.gz", f"{KNEES[3]}_label_all.nii.gz"):
        (knees / "OAI/Nifti_rescaled" / name).unlink()
    listed = read_path_list(knees / "pair_path_list.txt", Reading(root=knees / "OAI"))
    missing = f"2 of 8 named files are not there, the first: {THERE}/{KNEES[2]}_image.nii.gz"
    assert listed.note == missing
    assert len(listed.rows) == 2


def test_a_name_of_a_list_stands_for_another_file(brains: Path):
    """HCP's list names scans with the skull; the authors' scripts take the stripped ones."""
    reading = Reading(
        root=brains,
        replace=(("T1w_acpc_dc.nii.gz", "T1w_acpc_dc_restore_brain.nii.gz"),),
    )
    write_list(brains / "train.csv", read_path_list(brains / "train.txt", reading))
    images = read_images(brains / "train.csv")
    assert [item.image.parts[-3] for item in images] == list(SUBJECTS)
    assert {item.image.name for item in images} == {"T1w_acpc_dc_restore_brain.nii.gz"}


def test_subjects_and_their_labels(brains: Path):
    (brains / "pairs.txt").write_text("742549 210112\n210112 162935\n")
    reading = Reading(
        root=brains,
        template="HCP_1200/{}/T1w/T1w_acpc_dc_restore_brain.nii.gz",
        label_template="dseg/{}_dseg.nii.gz",
    )
    write_list(brains / "test.csv", read_path_list(brains / "pairs.txt", reading))
    pairs = read_pairs(brains / "test.csv")
    assert len(pairs) == 2
    assert pairs[0].moving.labels == brains / "dseg/742549_dseg.nii.gz"
    assert pairs[0].fixed.labels == brains / "dseg/210112_dseg.nii.gz"
    assert "210112" in str(pairs[1].moving.image)


def test_two_names_of_one_file_are_refused(brains: Path):
    """From too far down the tree all subjects look like the same file."""
    flat = brains / "flat"
    flat.mkdir()
    (flat / "T1w_acpc_dc.nii.gz").write_bytes(b"")
    with pytest.raises(GradiconError, match="would both be .*flat/T1w_acpc_dc.nii.gz"):
        read_path_list(brains / "train.txt", Reading(root=flat))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty: expected one, two or four paths"),
        ("a b c\n", "line 1: expected one, two or four paths, as many in each line, got 3"),
        ("a b\n\na\n", "line 3: .* got 1"),
    ],
)
def test_what_is_no_such_list(tmp_path: Path, text: str, message: str):
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(GradiconError, match=message):
        read_path_list(tmp_path / "list.txt", Reading(root=tmp_path))


def test_mirrored_knees_have_left_and_right_exchanged(knees: Path):
    """Whatever axis is left to right: here the slices are sagittal, the first array axis."""
    path = knees / f"OAI/Nifti_rescaled/{KNEES[2]}_image.nii.gz"
    sagittal = sitk.ReadImage(str(path))
    sagittal.SetDirection(
        [0, 0, 1, 1, 0, 0, 0, -1, 0]
    )  # i to the back, j to the feet, k to the left
    sagittal.SetSpacing([0.5, 0.5, 0.7])
    sitk.WriteImage(sagittal, str(path))
    listed = read_path_list(knees / "pair_path_list.txt", Reading(root=knees / "OAI"))
    copies = mirrored(listed, "RIGHT", knees / "mirrored")
    assert len(copies) == 4
    (knees / "mirrored").mkdir()
    for source, copy in copies.items():
        write_mirrored(source, copy)
    write_list(knees / "test.csv", with_copies(listed, copies))
    pairs = read_pairs(knees / "test.csv")
    assert pairs[0].moving.image.parent.name == "Nifti_rescaled"
    assert pairs[1].moving.image.parent.name == "mirrored"
    assert pairs[1].moving.labels is not None
    assert pairs[1].moving.labels.parent.name == "mirrored"
    copy = sitk.ReadImage(str(pairs[1].moving.image))
    assert copy.GetPixelID() == sagittal.GetPixelID()
    for index in ((0, 0, 0), (3, 1, 2), (1, 4, 5)):
        other = (index[0], index[1], 5 - index[2])
        place = sagittal.TransformIndexToPhysicalPoint(index)
        assert copy[copy.TransformPhysicalPointToIndex(place)] == sagittal[other]
    with pytest.raises(GradiconError, match="no file of the list has MIDDLE in its name"):
        mirrored(listed, "MIDDLE", knees / "mirrored")


def test_the_command(knees: Path):
    source = knees / "pair_path_list.txt"
    arguments = [source, "--root", knees / "OAI", "-o", knees / "test.csv"]
    told = gradicon("convert-list", *arguments, "--mirror", "RIGHT")
    assert told.returncode == 0, told.stderr
    assert told.stdout == (
        f"{knees / 'test.csv'}: 3 rows of moving, fixed, moving_labels, fixed_labels\n"
        "the first image has 6 x 5 x 4 voxels (z, y, x)\n"
    )
    assert len(list((knees / "mirrored").iterdir())) == 4
    (knees / f"OAI/Nifti_rescaled/{KNEES[3]}_image.nii.gz").unlink()
    told = gradicon("convert-list", *arguments, "--overwrite")
    missing = "1 of 8 named files are not there, the first: "
    assert_one_line_error(told, missing)
    assert len(read_pairs(knees / "test.csv")) == 3
    told = gradicon("convert-list", *arguments, "--overwrite", "--skip-missing")
    assert told.returncode == 0
    assert told.stderr.startswith(f"warning: {source}: {missing}")
    assert len(read_pairs(knees / "test.csv")) == 2
