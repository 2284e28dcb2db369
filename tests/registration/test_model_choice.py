"""Which model is asked when none is named, and when its answer is not used."""

from pathlib import Path

import pytest
import SimpleITK as sitk
import torch

from gradicon.models import ModelConfig, Preprocessing, build, save
from gradicon.models.zoo import DEFAULT, find
from gradicon.registration import decide
from gradicon.registration.decide import choose_model
from gradicon.registration.options import Options
from gradicon.registration.register import register
from registration.pairs import sample_image


def test_three_dimensions_and_one_modality_get_the_default_model():
    auto = Options()
    chosen = choose_model(auto, 3, one_kind=True)
    assert chosen is not None
    assert chosen.path == find(DEFAULT)
    assert choose_model(auto, 2, one_kind=True) is None
    assert choose_model(auto, 3, one_kind=False) is None
    assert choose_model(Options(similarity="mind_ssc"), 3, one_kind=True) is None
    assert choose_model(Options(model="none"), 3, one_kind=True) is None
    asked = choose_model(Options(model=DEFAULT), 3, one_kind=False)
    assert asked is not None
    assert asked.path == find(DEFAULT)


@pytest.mark.parametrize(
    ("dimension", "what"), [(2, "2-D images"), (3, "images of different kinds")]
)
def test_without_refinement_a_pair_that_no_model_is_for_is_refused(dimension: int, what: str):
    with pytest.raises(ValueError, match=f"no model in the box is for {what}"):
        choose_model(Options(refine=0), dimension, one_kind=False)


def test_a_ct_and_an_mr_scan_are_registered_from_scratch():
    fixed = sample_image("fixed")
    ct = sitk.Cast(fixed, sitk.sitkFloat32) * 10 - 1000
    found = register(
        ct, fixed, Options(refine=1, fixed_modality="ct", moving_modality="mr", init="none")
    )
    assert found.plan.model is None
    assert found.made == "no model was asked: the fields were optimised from scratch"


def test_the_answer_of_the_default_model_alone_is_better_than_the_start_and_refinement_stays_near():
    fixed = sample_image("fixed")
    moving = sample_image("moving")
    alone, refined = (
        register(fixed, moving, Options(refine=steps, device="cpu")) for steps in (0, 5)
    )
    assert alone.similarity[1] < alone.similarity[0] - 0.1
    assert alone.made == "the answer of the model default, as it is, not refined"
    assert refined.plan.model is not None
    assert refined.plan.model.path == find(DEFAULT)
    assert refined.similarity[1] < refined.similarity[0] - 0.1
    shape = refined.phi.u.shape[2:]
    assert (
        alone.phi.materialise(shape).u - refined.phi.u
    ).abs().mean() < 0.5 * refined.phi.u.abs().mean()


def test_an_answer_that_makes_the_images_less_alike_is_not_built_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    torch.manual_seed(0)
    bad = build(ModelConfig(stage=1, resolutions=1, down_channels=(4, 8), up_channels=(4, 8)))
    for name, parameter in bad.named_parameters():
        if "last" in name:
            torch.nn.init.normal_(parameter, std=0.5)
    preprocessing = Preprocessing(shape=(20, 24, 22), augmented=True)
    save(bad, tmp_path / "bad.safetensors", preprocessing=preprocessing)
    monkeypatch.setattr(decide, "find", lambda _: tmp_path / "bad.safetensors")
    fixed = sample_image("fixed")
    moving = sample_image("moving")
    found = register(fixed, moving, Options(refine=3, device="cpu"))
    assert found.made == (
        "the model bad made the images less alike: the fields were optimised from scratch instead"
    )
    scratch = register(fixed, moving, Options(model="none", refine=3, device="cpu"))
    torch.testing.assert_close(found.phi.u, scratch.phi.u)
