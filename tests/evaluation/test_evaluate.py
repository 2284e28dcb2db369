"""`gradicon evaluate`: every kind of number worked out another way, bad lists named before anything
runs, nothing dropped.
"""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import SimpleITK as sitk
import torch
from scipy import stats

from gradicon.cohort.runner import run, take_stock
from gradicon.core.transform import DisplacementField
from gradicon.errors import GradiconError
from gradicon.evaluation.check import check_pairs
from gradicon.evaluation.compare import compare
from gradicon.evaluation.evaluate import Evaluation, judge, table_rows
from gradicon.evaluation.table import summarise, write_table
from gradicon.physical.landmarks import Landmarks, write_landmarks
from gradicon.physical.lists import read_pairs
from gradicon.physical.transforms import to_itk
from gradicon.registration.options import Options
from gradicon.registration.register import Registration, register
from gradicon.registration.result.scores import Carried, Extras, read_extras
from registration.pairs import SAMPLE, sample_image
from test_cli import assert_one_line_error, gradicon

FIXED = SAMPLE / "fixed.nii.gz"
MOVING = SAMPLE / "moving.nii.gz"
HEADER = ["fixed", "moving", "fixed_labels", "moving_labels", "fixed_landmarks", "moving_landmarks"]
ROW = [
    str(SAMPLE / name)
    for name in ("fixed.nii.gz", "moving.nii.gz", "fixed_labels.nii.gz", "moving_labels.nii.gz")
]


def write_list(path: Path, rows: list[list[str]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([HEADER, *rows])
    return path


@pytest.fixture(scope="module")
def judged(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Registration, Carried, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("judge")
    rng = np.random.default_rng(0)
    fixed = sitk.ReadImage(str(FIXED))
    moving = sitk.ReadImage(str(MOVING))
    for name, image in (("fixed", fixed), ("moving", moving)):
        index = rng.uniform(0.3, 0.7, (7, 3)) * np.array(image.GetSize())
        points = np.array(
            [image.TransformContinuousIndexToPhysicalPoint(i.tolist()) for i in index]
        )
        write_landmarks(folder / f"{name}.csv", Landmarks(("head",) * 3 + ("tail",) * 4, points))
    extras = Extras(
        SAMPLE / "fixed_labels.nii.gz",
        SAMPLE / "moving_labels.nii.gz",
        folder / "fixed.csv",
        folder / "moving.csv",
    )
    carried = read_extras(extras, fixed, moving)
    found = register(fixed, moving, Options(model="none", refine=6, device="cpu"))
    return found, carried, judge(found, carried)


def test_dice_is_simpleitks(judged: tuple[Registration, Carried, dict[str, Any]]):
    found, carried, record = judged
    fixed = carried.fixed_labels
    moving = carried.moving_labels
    assert fixed is not None
    assert moving is not None
    overlap = sitk.LabelOverlapMeasuresImageFilter()
    overlap.Execute(
        fixed,
        sitk.Resample(moving, fixed, found.transform, sitk.sitkLabelLinear, 0, moving.GetPixelID()),
    )
    want = {str(label): overlap.GetDiceCoefficient(label) for label in (1, 2)}
    assert record["dice"] == pytest.approx(want)
    assert record["mean_dice"] == pytest.approx(np.mean(list(want.values())))
    overlap.Execute(
        fixed,
        sitk.Resample(moving, fixed, sitk.Transform(3, sitk.sitkIdentity), sitk.sitkLabelLinear),
    )
    assert record["mean_dice_before"] == pytest.approx(
        np.mean([overlap.GetDiceCoefficient(label) for label in (1, 2)])
    )


def test_distances_are_simpleitks(judged: tuple[Registration, Carried, dict[str, Any]]):
    """SimpleITK's Hausdorff filter gives the largest distance: 95 % of them are no farther; on its
    own maps, the percentile.
    """
    found, carried, record = judged
    fixed = carried.fixed_labels
    moving = carried.moving_labels
    assert fixed is not None
    assert moving is not None
    warped = sitk.Resample(
        moving, fixed, found.transform, sitk.sitkLabelLinear, 0, moving.GetPixelID()
    )
    for label in (1, 2):
        masks = [sitk.Cast(image == label, sitk.sitkUInt8) for image in (fixed, warped)]
        largest = sitk.HausdorffDistanceImageFilter()
        largest.Execute(*masks)
        surfaces = [
            mask - sitk.BinaryErode(mask, [1, 1, 1], sitk.sitkCross, 0, 1, False) for mask in masks
        ]
        maps = [
            sitk.GetArrayFromImage(sitk.Abs(sitk.SignedMaurerDistanceMap(s, False, False, True)))
            for s in surfaces
        ]
        on = [sitk.GetArrayFromImage(s) > 0 for s in surfaces]
        want = max(np.percentile(maps[1][on[0]], 95), np.percentile(maps[0][on[1]], 95))
        assert record["hd95_mm"][str(label)] == pytest.approx(want, rel=1e-5)
        assert 0 < record["hd95_mm"][str(label)] <= largest.GetHausdorffDistance() + 1e-9


def test_landmark_errors_by_hand(judged: tuple[Registration, Carried, dict[str, Any]]):
    found, carried, record = judged
    assert carried.fixed_landmarks is not None
    assert carried.moving_landmarks is not None
    there = np.array(
        [found.transform.TransformPoint(p) for p in carried.fixed_landmarks.points_mm.tolist()]
    )
    errors = np.linalg.norm(there - carried.moving_landmarks.points_mm, axis=1)
    assert record["mean_landmark_error_mm"] == pytest.approx(errors.mean())
    assert record["sd_landmark_error_mm"] == pytest.approx(errors.std(ddof=1))
    assert record["landmark_error_by_group_mm"] == pytest.approx(
        {"head": errors[:3].mean(), "tail": errors[3:].mean()}
    )
    before = np.linalg.norm(
        carried.fixed_landmarks.points_mm - carried.moving_landmarks.points_mm, axis=1
    ).mean()
    assert record["mean_landmark_error_before_mm"] == pytest.approx(before)


def test_jacobian_measures_against_simpleitk(judged: tuple[Registration, Carried, dict[str, Any]]):
    """SimpleITK differentiates centrally, we backward: for a smooth map the spread of log J is
    close, and neither sees a fold.
    """
    found, _, record = judged
    space = found.pair.space
    u = found.phi.materialise(space.shape).u[0].double().numpy()
    mm = np.moveaxis(u, 0, -1) @ space.unit_to_mm[:-1, :-1].T
    field = sitk.GetImageFromArray(mm, isVector=True)
    field.SetSpacing(space.spacing_mm[::-1])
    columns = space.index_to_mm[:-1, :-1][:, ::-1] / np.array(space.spacing_mm[::-1])
    field.SetDirection(columns.ravel().tolist())
    determinant = sitk.GetArrayFromImage(sitk.DisplacementFieldJacobianDeterminant(field))
    assert record["itk_folds_percent"] == 100 * (determinant <= 0).mean() == 0
    determinant = determinant[1:-1, 1:-1, 1:-1]
    assert record["sd_log_jacobian"] == pytest.approx(np.log(determinant).std(ddof=1), rel=0.1)
    assert record["folds_percent"] == 100 * (determinant <= 0).mean() == 0


def test_folds_are_counted_as_itk_finds_them_to_the_outermost_voxel():
    """A line of voxels in the first slice, drawn over its neighbour: those beside it fold, by
    central differences.
    """
    fixed = sample_image("fixed")
    moving = sample_image("moving")
    found = register(fixed, moving, Options(model="none", refine=1, init="none"))
    u = torch.zeros_like(found.phi.u)
    u[0, 2, 0, :, 3] = 4 / (u.shape[4] - 1)
    crooked = replace(
        found, transform=to_itk(DisplacementField(u), found.pair.space, found.pair.space)
    )
    record = judge(crooked, read_extras(Extras(), fixed, moving))
    assert record["itk_folds_percent"] == pytest.approx(100 * u.shape[3] / u[0, 0].numel())


def test_inverse_consistency_against_simpleitk(
    judged: tuple[Registration, Carried, dict[str, Any]],
):
    """Points of the working grid, there and back through the two transforms as files have them."""
    found, _, record = judged
    rng = np.random.default_rng(1)
    points = found.pair.space.to_mm(rng.uniform(0.2, 0.8, (2000, 3)))
    back = np.array(
        [found.inverse.TransformPoint(found.transform.TransformPoint(p)) for p in points.tolist()]
    )
    assert np.linalg.norm(back - points, axis=1).mean() == pytest.approx(
        record["inverse_consistency_mm"], abs=0.05
    )


def test_the_command_counts_failures_and_goes_on(tmp_path: Path):
    sitk.WriteImage(sitk.ReadImage(str(MOVING)) * 0, str(tmp_path / "flat.nii.gz"))
    flat = [ROW[0], "flat.nii.gz", *ROW[2:], "", ""]
    pairs = write_list(
        tmp_path / "pairs.csv", [[*ROW, "", ""], flat, [*ROW[1::-1], *ROW[3:1:-1], "", ""]]
    )
    told = gradicon(
        "evaluate", pairs, "-o", tmp_path / "table", "--refine", "2", "--similarity", "mind_ssc"
    )
    assert told.returncode == 1
    assert told.stderr.startswith("gradicon: 1 of 3 pairs failed: see ")
    assert "3 pairs, 1 failed" in told.stdout
    assert "HD95 [mm]" in told.stdout
    result = json.loads((tmp_path / "table/table.json").read_text())
    for key in (
        "mean_dice",
        "mean_hd95_mm",
        "folds_percent",
        "itk_folds_percent",
        "sd_log_jacobian",
        "inverse_consistency_mm",
        "seconds",
        "peak_memory_gb",
    ):
        assert result["summary"][key]["pairs"] == 2
    assert result["summary"]["mean_dice"]["mean"] > result["summary"]["mean_dice"]["before"]
    assert 0.1 < result["summary"]["peak_memory_gb"]["mean"] < 20
    with (tmp_path / "table/table.csv").open() as file:
        assert [row["status"] for row in csv.DictReader(file)] == ["done", "failed", "done"]
    assert "constant" in result["failed"]["0002_flat_to_fixed"]
    assert "| 0001_moving_to_fixed |" in (tmp_path / "table/table.md").read_text(encoding="utf-8")


def test_pairs_are_kept_for_the_same_files_and_options_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    counted = Mock(wraps=register)
    monkeypatch.setattr("gradicon.evaluation.evaluate.register", counted)
    labels = tmp_path / "labels.nii.gz"
    labels.write_bytes((SAMPLE / "moving_labels.nii.gz").read_bytes())
    listed = read_pairs(write_list(tmp_path / "pairs.csv", [[*ROW[:3], labels.name, "", ""]]))

    def evaluate(refine: int, *, again: bool = False) -> dict[str, Any]:
        work = Evaluation(Options(model="none", refine=refine, device="cpu"), tmp_path)
        return table_rows(run(take_stock(work, listed, again=again)))[0]

    once = evaluate(1)
    kept = evaluate(1)
    assert kept == json.loads(json.dumps(once))  # its seconds, too
    assert counted.call_count == 1
    with pytest.raises(GradiconError, match="was registered with refine 1, not 2: choose another"):
        evaluate(2)
    other = evaluate(2, again=True)
    assert other["dissimilarity"] != once["dissimilarity"]
    assert counted.call_count == 2
    sitk.WriteImage(sitk.ReadImage(str(labels)) * 0, str(labels))
    assert evaluate(2)["mean_dice"] == 0 < other["mean_dice"]
    assert counted.call_count == 3


def test_headers_alone_are_read_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Sizes and places say what is wrong; a 4-D file of one volume lies where that volume does."""
    flat = sitk.ReadImage(str(SAMPLE / "fixed_labels.nii.gz"))
    sitk.WriteImage(sitk.JoinSeries([flat]), str(tmp_path / "four.nii.gz"))
    write_landmarks(tmp_path / "flat.csv", Landmarks(("a",), np.zeros((1, 2))))
    rows = [[*ROW, "", ""], [*ROW[:2], "four.nii.gz", ROW[3], "", ""]]
    listed = read_pairs(write_list(tmp_path / "pairs.csv", rows))
    monkeypatch.setattr(sitk, "ReadImage", Mock(side_effect=AssertionError("voxels were read")))
    check_pairs(listed)
    rows += [[*ROW[:2], "", "", "flat.csv", ""]]
    with pytest.raises(GradiconError, match="row 3: .*flat.csv: 2-D landmarks for a 3-D image"):
        check_pairs(read_pairs(write_list(tmp_path / "pairs.csv", rows)))


def test_labels_of_background_alone_are_no_failure(
    judged: tuple[Registration, Carried, dict[str, Any]],
):
    found, carried, _ = judged
    assert carried.fixed_labels is not None
    assert carried.moving_labels is not None
    empty = Carried(carried.fixed_labels * 0, carried.moving_labels * 0, None, None)
    record = judge(found, empty)
    assert "mean_dice" not in record
    assert record["folds_percent"] == 0


def test_a_pair_that_fails_is_in_the_table(tmp_path: Path):
    records = [
        {"pair": "a", "status": "done", "mean_dice": 0.5, "dice": {"1": 0.5}, "lost_labels": 0},
        {"pair": "b", "status": "failed", "error": "no overlap"},
        {"pair": "c", "status": "waiting"},
    ]
    result = write_table(tmp_path, records, {})
    assert (result["pairs"], result["failed_pairs"], result["waiting_pairs"]) == (3, 1, 1)
    assert result["failed"] == {"b": "no overlap"}
    page = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert page.startswith("# 3 pairs, 1 failed, 1 waiting")
    assert "failed: no overlap" in page
    with (tmp_path / "table.csv").open() as file:
        assert [row["error"] for row in csv.DictReader(file)] == ["", "no overlap", ""]


def test_the_summary_by_hand():
    records = [
        {
            "pair": "a",
            "status": "done",
            "mean_dice": 0.6,
            "dice": {"1": 0.4, "2": 0.8},
            "hd95_mm": {"1": 2.0},
            "lost_labels": 1,
        },
        {
            "pair": "b",
            "status": "done",
            "mean_dice": 0.8,
            "dice": {"1": 0.7, "2": 0.9},
            "hd95_mm": {"1": 1.0},
            "lost_labels": 0,
        },
    ]
    found = summarise(records)
    assert found["mean_dice"] == pytest.approx(
        {"mean": 0.7, "sd": np.std([0.6, 0.8], ddof=1), "pairs": 2}
    )
    assert found["dice_lowest_30_percent"] == 0.4
    assert found["dice_each"]["1"]["mean"] == pytest.approx(0.55)
    assert found["hd95_mm_each"]["1"]["pairs"] == 2
    assert found["lost_labels"] == 1


def test_paired_differences_are_scipys():
    rng = np.random.default_rng(0)
    a = rng.uniform(0.5, 0.9, 12)
    b = rng.uniform(0.5, 0.9, 12)
    tables = [
        {
            "records": [
                {"pair": str(i), "mean_dice": v, "seconds": v} for i, v in enumerate(x.tolist())
            ]
        }
        for x in (a, b)
    ]
    tables[1]["records"].append({"pair": "only in b", "mean_dice": 1.0})
    overlap, seconds = compare(*tables)
    want = stats.ttest_rel(b, a).confidence_interval(0.95)
    assert (overlap.low, overlap.high) == pytest.approx((want.low, want.high))
    assert (overlap.pairs, overlap.better, seconds.better) == (
        12,
        int((b > a).sum()),
        int((b < a).sum()),
    )
    with pytest.raises(ValueError, match=r"share 0 pair"):
        compare(tables[0], {"records": []})


def test_compare_on_the_command_line(tmp_path: Path):
    for name, overlap in (("a", 0.5), ("b", 0.6)):
        records = [
            {
                "pair": str(i),
                "status": "done",
                "mean_dice": overlap + i / 100,
                "dice": {"1": overlap},
            }
            for i in range(3)
        ]
        (tmp_path / name).mkdir()
        write_table(tmp_path / name, records, {})
    told = gradicon("evaluate", "--compare", tmp_path / "a/table.json", tmp_path / "b/table.json")
    assert told.returncode == 0, told.stderr
    assert "+0.100" in told.stdout
    assert "3 of 3" in told.stdout
    (tmp_path / "c.json").write_text("{}")
    assert_one_line_error(
        gradicon("evaluate", "--compare", tmp_path / "a/table.json", tmp_path / "c.json"),
        "c.json: not a table.json",
    )


def test_bad_lists_are_named_before_anything_runs(tmp_path: Path):
    shifted = sitk.ReadImage(str(SAMPLE / "fixed_labels.nii.gz"))
    shifted.SetOrigin([0.0, 0.0, 0.0])
    sitk.WriteImage(shifted, str(tmp_path / "shifted.nii.gz"))
    write_landmarks(tmp_path / "two.csv", Landmarks(("a", "b"), np.zeros((2, 3))))
    write_landmarks(tmp_path / "three.csv", Landmarks(("a", "b", "c"), np.zeros((3, 3))))
    good = [*ROW, "", ""]
    for bad, message in (
        ([ROW[0], "nowhere.nii.gz", *good[2:]], "row 2: moving"),
        ([*ROW[:2], "shifted.nii.gz", ROW[3], "", ""], "row 2: "),
        ([*ROW[:2], "", "", "two.csv", "three.csv"], "2 and 3 landmarks, but rows must correspond"),
    ):
        pairs = write_list(tmp_path / "pairs.csv", [good, bad])
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            check_pairs(read_pairs(pairs))
    assert_one_line_error(
        gradicon("evaluate", pairs, "-o", tmp_path / "out", "--refine", "1"), message
    )
    assert not (tmp_path / "out").exists()
    (tmp_path / "pairs.csv").write_text("fixed\nx\n")
    assert_one_line_error(
        gradicon("evaluate", tmp_path / "pairs.csv", "-o", tmp_path / "out"),
        "the column 'moving' is missing",
    )
