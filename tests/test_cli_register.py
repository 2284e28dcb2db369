"""The commands on files, as a person runs them: what they write, and what they say when something
is wrong.
"""

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from gradicon.ending import run_program
from gradicon.physical.landmarks import Landmarks, read_landmarks, write_landmarks
from registration.pairs import SAMPLE, sample_image
from test_cli import assert_one_line_error, assert_quiet_when_interrupted, gradicon

FIXED = SAMPLE / "fixed.nii.gz"
MOVING = SAMPLE / "moving.nii.gz"
LABELS = [
    "--fixed-labels",
    SAMPLE / "fixed_labels.nii.gz",
    "--moving-labels",
    SAMPLE / "moving_labels.nii.gz",
]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A registration of the bundled pair with labels and landmarks."""
    folder = tmp_path_factory.mktemp("register")
    points = np.array([[-20.0, -20.0, 20.0], [-15.0, -30.0, 15.0]])
    write_landmarks(folder / "points.csv", Landmarks(("a", "b"), points))
    landmarks = [
        "--fixed-landmarks",
        folder / "points.csv",
        "--moving-landmarks",
        folder / "points.csv",
    ]
    told = gradicon(
        "register",
        "-f",
        FIXED,
        "-m",
        MOVING,
        "-o",
        folder / "out",
        "--refine",
        "8",
        *LABELS,
        *landmarks,
    )
    assert told.returncode == 0, told.stderr
    assert told.stderr == ""
    assert "the answer of the model default, refined" in told.stdout
    return folder / "out"


def test_everything_is_written(result: Path):
    names = {
        "warped.nii.gz",
        "transform.h5",
        "inverse.h5",
        "warped_labels.nii.gz",
        "warped_landmarks.csv",
        "report.html",
        "report.json",
    }
    assert {path.name for path in result.iterdir()} == names
    report = json.loads((result / "report.json").read_text())
    assert report["dice"]["after"]["1"] > report["dice"]["before"]["1"]
    assert report["measures"]["folds"]["after"] == 0
    assert len(report["landmark_errors_mm"]["after"]) == 2
    for measure in report["measures"].values():
        assert measure["what"]
        assert measure["where"]
        assert measure["better"] in ("lower", "higher", "0 is best")
    assert "gradicon register" in report["provenance"]["command"]
    labels = sitk.ReadImage(str(result / "warped_labels.nii.gz"))
    assert labels.GetPixelID() == sitk.sitkUInt8
    assert set(np.unique(sitk.GetArrayFromImage(labels))) == {0, 1, 2}
    assert "Dice by label" in (result / "report.html").read_text()


def test_warp_repeats_what_register_wrote(result: Path, tmp_path: Path):
    assert (
        gradicon(
            "warp", MOVING, "-r", FIXED, "-t", result / "transform.h5", "-o", tmp_path / "w.nii.gz"
        ).returncode
        == 0
    )
    again, first = (
        sitk.GetArrayFromImage(sitk.ReadImage(str(p)))
        for p in (tmp_path / "w.nii.gz", result / "warped.nii.gz")
    )
    np.testing.assert_array_equal(again, first)
    told = gradicon(
        "warp",
        SAMPLE / "moving_labels.nii.gz",
        "-r",
        FIXED,
        "-t",
        result / "transform.h5",
        "-o",
        tmp_path / "l.nii.gz",
        "--interpolation",
        "label",
    )
    assert told.returncode == 0, told.stderr
    assert set(np.unique(sitk.GetArrayFromImage(sitk.ReadImage(str(tmp_path / "l.nii.gz"))))) <= {
        0,
        1,
        2,
    }


def test_points_go_there_and_back(result: Path, tmp_path: Path):
    start = Landmarks(("a", "b"), np.array([[-20.0, -20.0, 20.0], [-15.0, -30.0, 15.0]]))
    write_landmarks(tmp_path / "p.mrk.json", start)
    assert (
        gradicon(
            "points",
            tmp_path / "p.mrk.json",
            "-t",
            result / "transform.h5",
            "-o",
            tmp_path / "there.fcsv",
        ).returncode
        == 0
    )
    assert (
        gradicon(
            "points",
            tmp_path / "there.fcsv",
            "-t",
            result / "inverse.h5",
            "-o",
            tmp_path / "back.csv",
        ).returncode
        == 0
    )
    stated = json.loads((result / "report.json").read_text())["measures"]["inverse_error_largest"][
        "after"
    ]
    back = read_landmarks(tmp_path / "back.csv")
    assert np.linalg.norm(back.points_mm - start.points_mm, axis=1).max() <= stated + 1e-3
    there = read_landmarks(tmp_path / "there.fcsv").points_mm
    np.testing.assert_allclose(
        there, read_landmarks(result / "warped_landmarks.csv").points_mm, atol=1e-6
    )


def test_jacobian_and_convert_agree_with_the_transform(result: Path, tmp_path: Path):
    reference = sample_image("fixed")
    transform = sitk.ReadTransform(str(result / "transform.h5"))
    for name in ("text.tfm", "binary.h5", "field.nii.gz"):
        assert (
            gradicon(
                "convert", result / "transform.h5", "-r", FIXED, "-o", tmp_path / name
            ).returncode
            == 0
        )
        assert (
            gradicon(
                "warp",
                MOVING,
                "-r",
                FIXED,
                "-t",
                tmp_path / name,
                "-o",
                tmp_path / f"warped_{name.split('.')[0]}.nii.gz",
            ).returncode
            == 0
        )
        again, first = (
            sitk.GetArrayFromImage(sitk.ReadImage(str(p)))
            for p in (tmp_path / f"warped_{name.split('.')[0]}.nii.gz", result / "warped.nii.gz")
        )
        assert np.abs(again.astype(int) - first).max() <= 1, name
    told = gradicon(
        "convert",
        result / "transform.h5",
        "-r",
        FIXED,
        "-o",
        tmp_path / "l2r.nii.gz",
        "--format",
        "learn2reg",
    )
    assert told.returncode == 0, told.stderr
    voxels = sitk.GetArrayFromImage(sitk.ReadImage(str(tmp_path / "l2r.nii.gz")))
    index = (10, 20, 15)  # x, y, z
    there = transform.TransformPoint(reference.TransformIndexToPhysicalPoint(index))
    want = np.array(reference.TransformPhysicalPointToContinuousIndex(there)) - index
    np.testing.assert_allclose(voxels[:, index[2], index[1], index[0]], want, atol=1e-3)
    assert (
        gradicon(
            "jacobian", "-t", result / "transform.h5", "-r", FIXED, "-o", tmp_path / "j.nii.gz"
        ).returncode
        == 0
    )
    assert (
        gradicon(
            "jacobian",
            "-t",
            result / "transform.h5",
            "-r",
            FIXED,
            "-o",
            tmp_path / "log.nii.gz",
            "--log",
        ).returncode
        == 0
    )
    plain, log = (
        sitk.GetArrayFromImage(sitk.ReadImage(str(tmp_path / name)))
        for name in ("j.nii.gz", "log.nii.gz")
    )
    np.testing.assert_allclose(np.log(plain), log, atol=1e-5)
    assert plain.min() > 0


def damaged(tmp_path: Path, kind: str) -> Path:
    content = bytearray(FIXED.read_bytes())
    path = tmp_path / f"{kind}.nii.gz"
    if kind == "truncated":
        content = content[: len(content) // 2]
    elif kind == "flipped":
        content[len(content) // 2] ^= 16
    elif kind == "short":
        content = bytearray(gzip.compress(gzip.decompress(content)[:-1000]))
    path.write_bytes(content)
    return path


def made(tmp_path: Path, kind: str) -> Path:
    image = sitk.Cast(sample_image("fixed"), sitk.sitkFloat32)
    path = tmp_path / f"{kind}.nii.gz"
    if kind == "nan":
        image[3, 3, 3] = float("nan")
    elif kind == "constant":
        image = image * 0 + 5
    elif kind == "several":
        image = sitk.JoinSeries([image, image])
    elif kind == "single":
        image = sitk.JoinSeries([image])
    elif kind == "thin":
        image = image[:, :, 4:6]
    elif kind == "vector":
        image = sitk.Compose(image, image, image)
    sitk.WriteImage(image, str(path))
    return path


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (damaged, "truncated", "truncated.nii.gz: the file is damaged or cut off"),
        (damaged, "flipped", "flipped.nii.gz: the file is damaged or cut off"),
        (damaged, "short", "short.nii.gz: the file is damaged or cut off (it holds fewer voxels"),
        (made, "nan", "nan.nii.gz: 1 voxels are NaN or infinite"),
        (made, "constant", "the moving image: there is nothing to see between intensities 5 and 5"),
        (made, "several", "several.nii.gz: a 4-D image with 2 volumes"),
        (made, "thin", "thin.nii.gz: at least 4 voxels are needed along each axis"),
        (
            made,
            "vector",
            (
                "vector.nii.gz: expected a 2-D or 3-D image with one real value per voxel, "
                "got 3-D with 3 values"
            ),
        ),
        (lambda folder, kind: folder / "none.nii.gz", "", "none.nii.gz: no such image file"),
        (lambda folder, kind: folder, "", "no DICOM series in this folder"),
        (lambda folder, kind: Path(__file__), "", "unknown image extension"),
    ],
)
def test_bad_images_get_one_line(tmp_path: Path, make: object, kind: str, message: str):
    bad = make(tmp_path, kind)  # type: ignore[operator]
    assert_one_line_error(
        gradicon("register", "-f", FIXED, "-m", bad, "-o", tmp_path / "out"), message
    )
    assert not (tmp_path / "out").exists()


def test_other_bad_input_gets_one_line(tmp_path: Path):
    def attempt(*more: str | Path) -> subprocess.CompletedProcess[str]:
        return gradicon(
            "register", "-f", FIXED, "-m", MOVING, "-o", tmp_path / "out", "--refine", "2", *more
        )

    (tmp_path / "bad.csv").write_text("label,x,y\na,1,two\n")
    assert_one_line_error(
        attempt("--fixed-labels", SAMPLE / "moving_labels.nii.gz"),
        "the labels lie on another grid than their image",
    )
    assert_one_line_error(attempt("--fixed-mask", MOVING), "the fixed mask lies on another grid")
    assert_one_line_error(attempt("--fixed-landmarks", tmp_path / "bad.csv"), "bad.csv")
    assert_one_line_error(attempt("--similarity", "ssd"), "unknown similarity 'ssd'")
    assert_one_line_error(
        attempt("--model", "none.safetensors"),
        "none.safetensors: no such checkpoint file, and no model in the box, which has "
        "default, research",
    )
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("precious")
    assert_one_line_error(attempt(), "out exists: choose another place, or say --overwrite")
    assert attempt("--overwrite").returncode == 0
    assert (tmp_path / "out" / "mine.txt").read_text() == "precious"
    (tmp_path / "bad.h5").write_text("not a transform")
    for command in (["warp", FIXED, "-r", FIXED, "-t"], ["jacobian", "-r", FIXED, "-t"]):
        assert_one_line_error(
            gradicon(*command, tmp_path / "bad.h5", "-o", tmp_path / "w.nii.gz"),
            "bad.h5: not a transform that ITK can read",
        )
        assert_one_line_error(
            gradicon(*command, tmp_path / "no.h5", "-o", tmp_path / "w.nii.gz"),
            "no.h5: no such transform file",
        )
        assert_one_line_error(
            gradicon(*command, FIXED, "-o", tmp_path / "w.nii.gz"), "not a displacement field"
        )
    assert not (tmp_path / "w.nii.gz").exists()


def test_a_full_disk_leaves_nothing_that_looks_whole(tmp_path: Path):
    """A limit on the size of files stands in for a full disk."""
    command = (
        f"ulimit -f 400; exec {sys.executable} -m gradicon register -f {FIXED} -m {MOVING} -o "
        f"{tmp_path}/out --refine 1"
    )
    told = subprocess.run(
        ["bash", "-c", f"trap '' XFSZ; {command}"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 1, told.stderr
    assert told.stderr.startswith("gradicon: ")
    assert told.stderr.count("\n") == 1
    assert not (tmp_path / "out" / "report.json").exists()
    assert not list(tmp_path.glob("out/*"))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("of a GPU"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_out_of_memory_is_one_line(error: Exception, capsys: pytest.CaptureFixture[str]):
    """As torch and SimpleITK say it: seen with a limit on the memory of the process, which is too
    fickle for a test.
    """

    def exhausted() -> None:
        raise error

    with pytest.raises(SystemExit) as stopped:
        run_program(exhausted)
    assert stopped.value.code == 1
    assert (
        capsys.readouterr().err
        == "gradicon: out of memory: take a smaller image, or a machine with more memory\n"
    )


def test_a_folder_that_cannot_be_made_is_found_before_the_slow_part(tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    pair = ["-f", FIXED, "-m", MOVING, "--refine", "99999"]
    assert_one_line_error(
        gradicon("register", *pair, "-o", tmp_path / "file" / "out"),
        "cannot be written (Not a directory)",
    )
    assert_one_line_error(
        gradicon("register", *pair, "-o", tmp_path / "file", "--overwrite"),
        "file is a file: the results need a folder",
    )


def test_ctrl_c_during_registration(tmp_path: Path):
    assert_quiet_when_interrupted(
        "register", "-f", FIXED, "-m", MOVING, "-o", tmp_path / "out", "--refine", "9999"
    )
    assert not (tmp_path / "out").exists()


def test_a_dicom_series_and_a_single_4d_volume_are_read(tmp_path: Path, result: Path):
    series = tmp_path / "series"
    series.mkdir()
    image = sitk.Cast(sample_image("moving"), sitk.sitkInt16)
    writer = sitk.ImageFileWriter()
    writer.KeepOriginalImageUIDOn()
    direction = image.GetDirection()
    for k in range(image.GetDepth()):
        one = image[:, :, k]
        tags = {
            "0020|000e": "1.2.3",
            "0020|000d": "1.2",
            "0020|0013": str(k),
            "0008|0060": "MR",
            "0008|0018": f"1.2.3.{k}",
        }
        tags["0020|0032"] = "\\".join(map(str, image.TransformIndexToPhysicalPoint((0, 0, k))))
        tags["0020|0037"] = "\\".join(map(str, (*direction[0::3], *direction[1::3])))
        for key, value in tags.items():
            one.SetMetaData(key, value)
        writer.SetFileName(str(series / f"{k:03d}.dcm"))
        writer.Execute(one)
    for source in (series, made(tmp_path, "single")):
        told = gradicon(
            "warp",
            source,
            "-r",
            FIXED,
            "-t",
            result / "transform.h5",
            "-o",
            tmp_path / f"{source.name}_w.nii.gz",
        )
        assert told.returncode == 0, told.stderr
    dicom, nifti = (
        sitk.GetArrayFromImage(sitk.ReadImage(str(p)))
        for p in (tmp_path / "series_w.nii.gz", result / "warped.nii.gz")
    )
    assert (
        np.abs(dicom.astype(int) - nifti).max() <= 2
    )  # whole numbers, read between and cut off, against fractions


def test_batch_goes_on_after_a_failure_and_resumes(tmp_path: Path):
    (tmp_path / "broken.nii.gz").write_bytes(FIXED.read_bytes()[:999])
    rows = [
        [FIXED, MOVING, *LABELS[1::2]],
        [FIXED, tmp_path / "broken.nii.gz", "", ""],
        [MOVING, FIXED, "", ""],
    ]
    with (tmp_path / "pairs.csv").open("w", newline="") as file:
        csv.writer(file).writerows([["fixed", "moving", "fixed_labels", "moving_labels"], *rows])
    told = gradicon("batch", tmp_path / "pairs.csv", "-o", tmp_path / "out", "--refine", "2")
    assert told.returncode == 1
    assert "gradicon: 1 of 3 pairs failed" in told.stderr
    assert "inverse error [mm]" in told.stdout
    with (tmp_path / "out/summary.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["status"] for row in table] == ["done", "failed", "done"]
    assert "damaged" in table[1]["error"]
    assert float(table[0]["mean Dice, after"]) > float(table[0]["mean Dice, before"])
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*/report.json")}
    (tmp_path / "broken.nii.gz").write_bytes(FIXED.read_bytes())
    assert (
        gradicon(
            "batch", tmp_path / "pairs.csv", "-o", tmp_path / "out", "--refine", "2"
        ).returncode
        == 0
    )
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    assert len(list((tmp_path / "out").glob("*/report.json"))) == 3
    other = gradicon(
        "batch",
        tmp_path / "pairs.csv",
        "-o",
        tmp_path / "out",
        "--refine",
        "2",
        "--similarity",
        "mind_ssc",
    )
    assert_one_line_error(
        other,
        "was registered with similarity lncc, not mind_ssc: choose another folder, or say --again",
    )
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())
    (tmp_path / "broken.nii.gz").write_bytes(MOVING.read_bytes())
    changed = gradicon("batch", tmp_path / "pairs.csv", "-o", tmp_path / "out", "--refine", "2")
    assert "1 of 3 pairs done anew: files changed (1)" in changed.stdout
    assert all(path.stat().st_mtime_ns == stamp for path, stamp in stamps.items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fixed,other\na,b\n", "the column 'moving' is missing"),
        ("fixed,moving\n", "empty: expected a header with fixed, moving"),
        ("fixed,moving\nnowhere.nii,x.nii\n", "row 1: fixed"),
        ("", "empty"),
        ("fixed,moving\na,b,c\n", "row 1 has more cells than the header"),
    ],
)
def test_bad_lists_of_pairs(tmp_path: Path, text: str, message: str):
    (tmp_path / "pairs.csv").write_text(text)
    assert_one_line_error(
        gradicon("batch", tmp_path / "pairs.csv", "-o", tmp_path / "out"), message
    )
    assert not (tmp_path / "out").exists()


def test_json_for_scripts(tmp_path: Path):
    told = gradicon(
        "register", "-f", FIXED, "-m", MOVING, "-o", tmp_path / "out", "--refine", "1", "--json"
    )
    assert json.loads(told.stdout) == json.loads((tmp_path / "out/report.json").read_text())
    assert (
        json.loads(told.stdout)["options"]["weight"] == 1.5
    )  # the one that was used, though none was given
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
