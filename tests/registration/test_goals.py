"""How far to go: rigid, affine, deformable; and what is warped along."""

import json
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk

from gradicon.errors import GradiconError
from gradicon.physical.images import from_sitk
from gradicon.registration.files import plan_files, register_files
from gradicon.registration.options import Options
from gradicon.registration.register import register
from gradicon.registration.result.also import looks_like_labels
from gradicon.registration.result.outputs import ALSO
from gradicon.registration.result.scores import Extras
from registration.pairs import sample_image, synthetic_pair


def turned(image: sitk.Image, degrees: float, shift: float) -> tuple[sitk.Image, sitk.Transform]:
    """The image, turned about its centre and shifted, and the map from its points to the old."""
    there = sitk.Euler3DTransform()
    size = image.GetSize()
    there.SetCenter(image.TransformContinuousIndexToPhysicalPoint([(n - 1) / 2 for n in size]))
    there.SetRotation(0.0, 0.0, np.deg2rad(degrees))
    there.SetTranslation((shift, -shift, shift / 2))
    return sitk.Resample(image, image, there, sitk.sitkLinear, 0.0), there


def farthest(transform: sitk.Transform, other: sitk.Transform, image: sitk.Image) -> float:
    """Of the middle eighth's corners: how far apart two transforms take a point."""
    size = image.GetSize()
    corners = [
        image.TransformContinuousIndexToPhysicalPoint(
            [n * (0.3 + 0.4 * c) for n, c in zip(size, k, strict=True)]
        )
        for k in np.ndindex(2, 2, 2)
    ]
    pairs = [(transform.TransformPoint(p), other.TransformPoint(p)) for p in corners]
    return max(float(np.linalg.norm(np.subtract(a, b))) for a, b in pairs)


@pytest.mark.parametrize("goal", ["rigid", "affine"])
def test_a_turned_image_comes_back_without_being_deformed(goal: str):
    moving = sample_image("moving")
    fixed, want = turned(moving, 20.0, 3.0)
    found = register(fixed, moving, Options(to=goal))  # type: ignore[arg-type]
    assert farthest(found.transform, want, fixed) < 1.0
    assert found.transform.IsLinear()
    assert not found.phi.u.any()
    assert found.plan.way == goal
    assert found.similarity[1] == found.similarity[0]
    back = sitk.CompositeTransform([found.transform, found.inverse])
    assert farthest(back, sitk.Transform(3, sitk.sitkIdentity), fixed) < 1e-6
    if goal == "rigid":
        linear = found.pair.start.matrix[:3, :3]
        np.testing.assert_allclose(linear @ linear.T, np.eye(3), atol=1e-6)
        assert np.linalg.det(linear) == pytest.approx(1, abs=1e-6)


def test_everything_is_written_for_a_rigid_map_too(tmp_path: Path):
    moving = sample_image("moving")
    fixed, _ = turned(moving, 10.0, 2.0)
    for name, image in {"fixed": fixed, "moving": moving, "other": moving * 3}.items():
        sitk.WriteImage(image, str(tmp_path / f"{name}.nii.gz"))
    labels = sample_image("moving_labels")
    sitk.WriteImage(labels, str(tmp_path / "parts.nii.gz"))
    also = (tmp_path / "other.nii.gz", tmp_path / "parts.nii.gz")
    out = tmp_path / "out"
    register_files(
        tmp_path / "fixed.nii.gz",
        tmp_path / "moving.nii.gz",
        out,
        Options(to="rigid"),
        Extras(also=also),
    )
    names = {"warped.nii.gz", "transform.h5", "inverse.h5", "report.html", "report.json", ALSO}
    assert {path.name for path in out.iterdir()} == names
    report = json.loads((out / "report.json").read_text())
    assert report["plan"]["way"] == "rigid"
    assert report["measures"]["folds"]["after"] == 0
    warped = sitk.GetArrayFromImage(sitk.ReadImage(str(out / "warped.nii.gz"))).astype(float)
    other = sitk.GetArrayFromImage(sitk.ReadImage(str(out / ALSO / "other.nii.gz"))).astype(float)
    assert np.abs(other - 3 * warped).max() <= 2  # each rounded
    parts = sitk.ReadImage(str(out / ALSO / "parts.nii.gz"))
    assert parts.GetPixelID() == labels.GetPixelID()
    assert set(np.unique(sitk.GetArrayFromImage(parts))) == {0, 1, 2}
    again = Extras(also=also[:1])
    paths = (tmp_path / "fixed.nii.gz", tmp_path / "moving.nii.gz")
    register_files(*paths, out, Options(to="rigid"), again)
    assert [path.name for path in (out / ALSO).iterdir()] == ["other.nii.gz"]


def test_what_is_a_map_of_labels():
    assert looks_like_labels(from_sitk(sample_image("moving_labels")).data)
    assert not looks_like_labels(from_sitk(sample_image("moving")).data)
    floats = sitk.Cast(sample_image("moving_labels"), sitk.sitkFloat32)
    assert not looks_like_labels(from_sitk(floats).data)


def test_two_companions_of_one_name_are_refused_before_anything_runs(tmp_path: Path):
    sitk.WriteImage(sample_image("moving"), str(tmp_path / "a.nii.gz"))
    (tmp_path / "b").mkdir()
    sitk.WriteImage(sample_image("moving"), str(tmp_path / "b" / "a.nii.gz"))
    also = (tmp_path / "a.nii.gz", tmp_path / "b" / "a.nii.gz")
    path = tmp_path / "a.nii.gz"
    with pytest.raises(GradiconError, match=r"two images to warp are called a.nii.gz: rename one"):
        register_files(path, path, tmp_path / "out", Options(), Extras(also=also))
    assert not (tmp_path / "out").exists()


def test_a_plan_says_what_will_be_done_and_does_nothing(tmp_path: Path):
    paths = [tmp_path / "fixed.nii.gz", tmp_path / "moving.nii.gz"]
    for path in paths:
        sitk.WriteImage(sample_image(path.name.split(".")[0]), str(path))
    plan = plan_files(*paths, Options(refine=7))
    done = register(*paths, Options(refine=7))
    assert plan.as_dict() == done.plan.as_dict()
    assert plan.way == "answer and fields"
    levels = plan.as_dict()["fields"]["levels"]
    assert [level["steps"] for level in levels] == [21, 7]
    assert levels[1]["maps_kept_on"] == levels[1]["shape"]  # the network saw finer voxels
    assert levels[1]["free_parameters_on"] == levels[0]["shape"]
    assert plan_files(*paths, Options(to="affine")).way == "affine"
    scratch = plan_files(*paths, Options(model="none"))
    assert scratch.way == "from scratch"
    assert scratch.fields is not None
    assert [level.steps for level in scratch.fields.levels] == [60, 20]
    assert all(level.kept == level.knots for level in scratch.fields.levels)
    assert plan_files(*paths, Options(refine=0)).way == "answer alone"
    network = plan_files(*paths, Options(refine_network=True))
    assert network.way == "answer and network"
    assert network.network_steps == 50  # the paper's
    assert plan_files(*paths, Options(refine_network=True, refine=3)).network_steps == 3


@pytest.mark.parametrize("similarity", ["lncc", "mse", "mind_ssc"])
def test_the_barrier_is_as_strong_beside_every_penalty(tmp_path: Path, similarity: str):
    path = tmp_path / "image.nii.gz"
    sitk.WriteImage(sample_image("fixed"), str(path))
    plan = plan_files(path, path, Options(model="none", similarity=similarity))
    assert plan.fields is not None
    assert plan.fields.barrier == 20 * plan.weight


@pytest.mark.parametrize("kind", [sitk.sitkUInt8, sitk.sitkInt16])
def test_whole_numbers_are_rounded_not_cut_off(kind: int):
    """A ramp of whole numbers, read between its voxels: nothing is lost on average."""
    fixed, moving = synthetic_pair((24, 26, 28), (1.0, 1.1, 0.9))
    moving = sitk.Cast(sitk.RescaleIntensity(moving, 0, 250), kind)
    found = register(fixed, moving, Options(model="none", refine=2))
    exact = sitk.Resample(
        sitk.Cast(moving, sitk.sitkFloat64), fixed, found.transform, sitk.sitkLinear, 0.0
    )
    inside = sitk.GetArrayFromImage(exact) > 1
    off = sitk.GetArrayFromImage(found.warped).astype(float) - sitk.GetArrayFromImage(exact)
    assert np.abs(off[inside]).max() <= 0.5 + 1e-9
    assert abs(off[inside].mean()) < 0.01
