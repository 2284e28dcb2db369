"""How refinement is held to a network's answer, and what becomes of one that is not refined."""

from pathlib import Path

import pytest
import SimpleITK as sitk
import torch

from gradicon.core.transform import DisplacementField, identity
from gradicon.models import ModelConfig, build, save
from gradicon.registration.options import Options
from gradicon.registration.presets import PRESETS
from gradicon.registration.register import register
from gradicon.registration.solve.folds import folded, without_folds
from gradicon.registration.solve.maps import hold
from gradicon.registration.solve.resolution import Images
from maps import blobs, smooth_field


@pytest.mark.parametrize("dimension", [2, 3])
def test_refinement_is_held_to_what_makes_images_alike_and_to_what_saw_all_their_detail(
    dimension: int,
):
    grid = (20, 24, 32)[:dimension]
    coarse = (12, 15, 20)[:dimension]
    finer = (12, 16, 20)[:dimension]
    still = identity(dimension).materialise(grid)
    image = blobs(grid, 1)
    other = blobs(grid, 2)

    def pull(moving: torch.Tensor, shape: tuple[int, ...]) -> float:
        return hold(still, Images(moving, image), shape, PRESETS)

    assert pull(other, finer) == 0  # nothing speaks for the answer
    assert pull(other, coarse) == pytest.approx(200)
    assert pull(image, finer) == pytest.approx(1000, rel=0.05)
    mixed = image + 0.35 * other
    assert 200 < pull(mixed, finer) < 900
    assert pull(mixed, finer) == pull(mixed, coarse)


def test_an_answer_is_smoothed_where_it_folds_and_else_left_alone():
    whole = smooth_field((24, 20, 22), 3, size=0.02, dtype=torch.float32)
    torn = DisplacementField(
        whole.u + 0.2 * torch.nn.functional.pad(torch.ones(1, 3, 2, 2, 2), [9, 11, 9, 9, 9, 13])
    )
    assert folded(torn).any()
    mended = without_folds(torn)
    assert not folded(mended).any()
    torch.testing.assert_close(mended.u[:, :, :2], whole.u[:, :, :2])
    assert without_folds(whole) is whole


def test_a_model_that_folds_is_mended_without_refinement_too(tmp_path: Path):
    torch.manual_seed(0)
    wild = build(ModelConfig(stage=1, resolutions=1, down_channels=(4, 8), up_channels=(4, 8)))
    for name, parameter in wild.named_parameters():
        if "last" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    save(wild, tmp_path / "wild.safetensors")
    moving = blobs((20, 24, 22), 1)
    fixed = blobs((20, 24, 22), 2)
    with torch.no_grad():
        assert folded(wild(moving, fixed).materialise((20, 24, 22))).any()
    images = [
        sitk.GetImageFromArray((1000 * image[0, 0]).numpy().astype("int16"))
        for image in (fixed, moving)
    ]
    found = register(
        *images,
        Options(model=str(tmp_path / "wild.safetensors"), refine=0, init="none", device="cpu"),
    )
    assert not folded(found.phi).any()
    assert not folded(found.inverse_phi).any()
