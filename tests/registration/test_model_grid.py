"""A model says how its images were prepared, and gets them so."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from gradicon import ModelConfig, Options, build, lncc, register
from gradicon.models import Preprocessing, read_header, save
from gradicon.registration.presets import PRESETS
from registration.pairs import rotated_world, sample_image

SMALL = ModelConfig(stage=1, resolutions=1, down_channels=(4, 8), up_channels=(4, 8))


def untrained(tmp_path: Path, **data: object) -> str:
    """A model that answers with the identity, on a grid that it asks for."""
    torch.manual_seed(0)
    path = tmp_path / "model.safetensors"
    save(build(SMALL), path, preprocessing=Preprocessing(**data))  # type: ignore[arg-type]
    return str(path)


def corners(image: sitk.Image) -> list[tuple[float, ...]]:
    far = [n - 1 for n in image.GetSize()]
    return [
        image.TransformIndexToPhysicalPoint(index)
        for index in ((0, 0, 0), (far[0], 0, 0), (0, far[1], far[2]), tuple(far))
    ]


def test_whole_images_lie_on_each_other(tmp_path: Path):
    fixed = sample_image("fixed")
    moving = rotated_world(sample_image("moving"))
    found = register(
        fixed, moving, Options(model=untrained(tmp_path, shape=(20, 24, 22)), refine=0)
    )
    assert found.pair.space.shape == (20, 24, 22)
    assert "whole images resized to 20 x 24 x 22 voxels" in found.pair.start.note
    for here, there in zip(corners(fixed), corners(moving), strict=True):
        np.testing.assert_allclose(found.transform.TransformPoint(here), there, atol=1e-3)
        np.testing.assert_allclose(found.inverse.TransformPoint(there), here, atol=1e-3)


def test_images_are_cut_about_their_centres_and_zero_beyond(tmp_path: Path):
    fixed = sample_image("fixed")
    moving = sample_image("moving")
    model = untrained(tmp_path, shape=(90, 40, 30), crop="center", spacing_mm=(1.0, 2.0, 1.0))
    found = register(fixed, moving, Options(model=model, refine=0))
    middles = [
        image.TransformContinuousIndexToPhysicalPoint([(n - 1) / 2 for n in image.GetSize()])
        for image in (fixed, moving)
    ]
    np.testing.assert_allclose(found.transform.TransformPoint(middles[0]), middles[1], atol=1e-3)
    assert found.pair.space.spacing_mm == pytest.approx((1, 2, 1))
    for image in (found.pair.fixed, found.pair.moving):
        assert not image[:, :, :10].any()  # 90 mm of which the scans have about 35
        assert image[:, :, 45].any()
    assert found.pair.fixed_weight is not None
    assert not found.pair.fixed_weight[:, :, :10].any()


def test_images_are_compared_in_the_windows_of_training(tmp_path: Path):
    model = untrained(tmp_path, shape=(10, 24, 40))  # voxels of three lengths
    found = register(
        sample_image("fixed"), sample_image("moving"), Options(model=model, refine=0, device="cpu")
    )
    assert found.similarity[0] == pytest.approx(
        float(lncc(found.pair.moving, found.pair.fixed, sigma=5.0))
    )


def test_an_initialisation_that_is_asked_for_is_used(tmp_path: Path):
    fixed = sample_image("fixed")
    found = register(
        fixed, fixed, Options(model=untrained(tmp_path, shape=(20, 24, 22)), refine=0, init="none")
    )
    assert found.pair.start.method == "none"
    assert found.pair.space.shape == (20, 24, 22)


def test_a_model_that_does_not_say_works_on_the_images_own_grid(tmp_path: Path):
    path = tmp_path / "model.safetensors"
    save(build(SMALL), path)
    assert read_header(path).preprocessing is None
    fixed = sample_image("fixed")
    found = register(fixed, fixed, Options(model=str(path), refine=0))
    assert found.pair.space.shape == tuple(reversed(fixed.GetSize()))


def test_a_model_trained_on_images_out_of_place_is_started_like_anything_else(
    tmp_path: Path,
):
    free = replace(PRESETS, answer=replace(PRESETS.answer, held=0.0))
    path = tmp_path / "model.safetensors"
    save(build(SMALL), path, preprocessing=Preprocessing(shape=(8, 12, 9), augmented=True))
    fixed = sample_image("fixed")
    moving = sample_image("moving")
    scratch, unrefined, refined = (
        register(fixed, moving, options, presets=free)
        for options in (
            Options(model="none", refine=4),
            Options(model=str(path), refine=0),
            Options(model=str(path), refine=4),
        )
    )
    assert unrefined.pair.space.shape == (8, 12, 9)
    assert unrefined.pair.start.method == refined.pair.start.method == scratch.pair.start.method
    assert refined.pair.space.shape == scratch.pair.space.shape
    assert refined.pair.seen is not None
    for here, there in zip(
        refined.pair.seen, (unrefined.pair.moving, unrefined.pair.fixed), strict=True
    ):
        torch.testing.assert_close(here, there)
    # it answers with the identity, without any detail to keep: nothing else may differ
    torch.testing.assert_close(refined.phi.u, scratch.phi.u)
