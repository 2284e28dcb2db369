from itertools import product
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import SimpleITK as sitk
import torch

from gradicon.core.jacobian import Side, fold_percentage, sd_log_jacobian
from gradicon.models import ModelConfig, build, save
from gradicon.physical.images import from_sitk, space_of
from gradicon.physical.transforms import jacobian_image, transform_points
from gradicon.registration.options import Options
from gradicon.registration.register import Registration, register
from registration.pairs import error_of, rotated_world, sample_image, synthetic_pair

QUICK = Options(model="none", refine=10)


@pytest.fixture(scope="module")
def found() -> Registration:
    """The bundled pair."""
    return register(sample_image("fixed"), sample_image("moving"), QUICK)


def _most_folds(found: Registration) -> float:
    """In per cent, from whichever side of a voxel they are looked for."""
    shape = found.pair.space.shape
    return max(
        fold_percentage(found.phi, shape, difference=each).item()
        for each in product(get_args(Side), repeat=len(shape))
    )


def _itk_folds(found: Registration) -> float:
    """In per cent, to the outermost voxel, where ITK takes half the derivative across the
    border.
    """
    return float(
        100 * (sitk.GetArrayFromImage(jacobian_image(found.transform, found.warped)) <= 0).mean()
    )


def test_registration_makes_the_images_alike_without_folds(found: Registration):
    assert found.similarity[1] < 0.75 * found.similarity[0]
    assert fold_percentage(found.phi, found.pair.space.shape).item() == 0
    assert found.inverse_error.mean_mm < 0.3


@pytest.mark.parametrize(
    "options",
    [Options(model="none", refine=30, weight=0.01), Options(refine=30, similarity="mind_ssc")],
)
def test_little_weight_on_the_penalty_makes_no_folds_and_the_inverse_is_one_all_the_same(
    found: Registration, options: Options
):
    loose = register(sample_image("fixed"), sample_image("moving"), options)
    assert sd_log_jacobian(loose.phi, loose.pair.space.shape) > 1.3 * sd_log_jacobian(
        found.phi, found.pair.space.shape
    )
    assert _most_folds(loose) == 0
    assert _itk_folds(loose) < 0.01
    assert loose.inverse_error.mean_mm < 0.25  # a quarter of a voxel


def test_itk_resamples_moving_into_the_warped_image(found: Registration, tmp_path: Path):
    sitk.WriteTransform(found.transform, str(tmp_path / "transform.h5"))
    moving = sample_image("moving")
    fixed = sample_image("fixed")
    again = sitk.Resample(
        moving,
        fixed,
        sitk.ReadTransform(str(tmp_path / "transform.h5")),
        sitk.sitkLinear,
        0.0,
        moving.GetPixelID(),
    )
    assert found.warped.GetPixelID() == moving.GetPixelID()
    assert found.warped.GetSize() == fixed.GetSize()
    assert found.warped.GetOrigin() == fixed.GetOrigin()
    inside = sitk.GetArrayFromImage(again) > 0
    np.testing.assert_array_equal(
        sitk.GetArrayFromImage(found.warped)[inside], sitk.GetArrayFromImage(again)[inside]
    )


def test_points_come_back_within_the_error_that_is_stated(found: Registration):
    fixed = space_of(sample_image("fixed"))
    moving = space_of(sample_image("moving"))
    p = fixed.to_mm(np.random.default_rng(0).uniform(0.1, 0.9, (500, 3)))
    there = transform_points(found.transform, p)
    inside = ((moving.to_unit(there) > 0.05) & (moving.to_unit(there) < 0.95)).all(1)
    back = transform_points(found.inverse, there)
    errors = np.linalg.norm(back - p, axis=1)[inside]
    assert inside.sum() > 200
    assert errors.max() <= found.inverse_error.max_mm + 1e-3
    assert errors.mean() < 2 * found.inverse_error.mean_mm + 1e-3


def test_without_a_model_maps_are_kept_at_every_second_voxel(found: Registration):
    half = tuple((n + 1) // 2 for n in found.pair.space.shape)
    assert found.phi.u.shape[2:] == found.inverse_phi.u.shape[2:] == half
    assert fold_percentage(found.phi, found.pair.space.shape).item() == 0


@pytest.mark.parametrize(
    ("fixed_order", "moving_order"),
    [("RAS", "LPS"), ("LPS", "RAS"), ("LAS", "RPI"), ("SAR", "ALI")],
)
def test_how_a_file_stores_its_axes_changes_nothing(
    found: Registration, fixed_order: str, moving_order: str
):
    stored = register(
        sitk.DICOMOrient(sample_image("fixed"), fixed_order),
        sitk.DICOMOrient(sample_image("moving"), moving_order),
        QUICK,
    )
    plain = sitk.Resample(
        stored.warped, found.warped, sitk.Transform(3, sitk.sitkIdentity), sitk.sitkNearestNeighbor
    )
    np.testing.assert_allclose(
        sitk.GetArrayFromImage(plain), sitk.GetArrayFromImage(found.warped), atol=1
    )


def test_an_oblique_scanner_gives_the_same_answer_in_its_own_frame(found: Registration):
    turned = register(
        rotated_world(sample_image("fixed")), rotated_world(sample_image("moving")), QUICK
    )
    assert error_of(turned.warped, found.warped, border=0) < 0.02
    np.testing.assert_allclose(
        turned.warped.GetDirection(), rotated_world(sample_image("fixed")).GetDirection(), atol=1e-9
    )


def test_left_stays_left():
    """Files that store x in opposite order: a mark on the patient's left is found on the left."""
    fixed, moving = synthetic_pair((30, 32, 34), (1.0, 1.0, 1.0))
    found = register(
        fixed, sitk.DICOMOrient(moving, "RAS"), Options(model="none", refine=10, init="none")
    )
    left = space_of(fixed).to_mm(np.array([[0.5, 0.5, 0.85]]))
    assert np.linalg.norm(transform_points(found.transform, left) - left) < 4


@pytest.mark.parametrize(
    ("shape", "spacing"),
    [
        ((12, 48, 44), (5.0, 1.3, 1.3)),
        ((40, 36, 30), (1.0, 1.5, 0.8)),
        ((60, 52), (0.7, 0.7)),
        ((48, 12, 44), (1.2, 6.0, 1.2)),
    ],
    ids=str,
)
def test_thick_slices_odd_sizes_and_2d(shape: tuple[int, ...], spacing: tuple[float, ...]):
    fixed, moving = synthetic_pair(shape, spacing)
    found = register(fixed, moving, Options(model="none", refine=20))
    assert error_of(found.warped, fixed) < 0.5 * error_of(moving, fixed)
    assert _most_folds(found) == 0
    assert _itk_folds(found) < 0.01


def test_fields_of_view_that_differ():
    fixed, moving = synthetic_pair((32, 34, 36), (1.0, 1.0, 1.0))
    cropped = moving[2:-1, 3:-3, 1:-4]  # keeps its place in space
    found = register(fixed, cropped, Options(model="none", refine=15, init="none"))
    assert error_of(found.warped, fixed, border=6) < 0.6 * error_of(moving, fixed, border=6)


@pytest.mark.parametrize("init", ["auto", "center", "moments", "affine"])
def test_origins_that_disagree_are_brought_together(init: str):
    fixed, moving = synthetic_pair((32, 34, 36), (1.0, 1.0, 1.0), size=0.02)
    moving.SetOrigin((500.0, -300.0, 100.0))
    found = register(fixed, moving, Options(model="none", refine=5, init=init))  # type: ignore[arg-type]
    assert error_of(found.warped, fixed) < 0.5
    with pytest.raises(ValueError, match="fields of view do not overlap with --init none"):
        register(fixed, moving, Options(model="none", refine=5, init="none"))


def test_auto_leaves_a_pair_that_fits_where_it_is():
    fixed, moving = synthetic_pair((32, 34, 36), (1.0, 1.0, 1.0), size=0.005)
    assert register(fixed, moving, Options(model="none", refine=2)).pair.start.method == "none"


def test_an_affine_start_finds_an_affine_difference():
    _, moving = synthetic_pair((32, 34, 36), (1.0, 1.0, 1.0))
    change = sitk.AffineTransform(3)
    change.SetCenter((18.0, 17.0, 16.0))
    change.Rotate(0, 1, 0.12)
    change.Scale((1.08, 0.95, 1.0))
    fixed = sitk.Resample(moving, moving, change)
    start = register(
        fixed, moving, Options(model="none", refine=1, init="affine")
    ).pair.start.matrix
    corners = np.array([[9.0, 9.0, 9.0], [27.0, 25.0, 23.0], [9.0, 25.0, 9.0]])
    found = corners @ start[:-1, :-1].T + start[:-1, -1]
    want = np.array([change.TransformPoint(p) for p in corners.tolist()])
    assert np.linalg.norm(found - want, axis=1).max() < 1.0


def test_the_same_input_gives_the_same_output_bit_for_bit(found: Registration):
    again = register(sample_image("fixed"), sample_image("moving"), QUICK)
    assert torch.equal(again.phi.u, found.phi.u)
    np.testing.assert_array_equal(
        sitk.GetArrayFromImage(again.warped), sitk.GetArrayFromImage(found.warped)
    )


def test_registrations_do_not_influence_each_other_and_the_model_stays(tmp_path: Path):
    torch.manual_seed(0)
    model = build(ModelConfig(stage=1, down_channels=(8, 16), up_channels=(8, 16)))
    for name, parameter in model.named_parameters():
        if "last.weight" in name:
            torch.nn.init.normal_(parameter, std=0.02)
    save(model, tmp_path / "model.safetensors")
    before = (tmp_path / "model.safetensors").read_bytes()
    fixed, moving = synthetic_pair((30, 32, 34), (1.0, 1.0, 1.0))
    path = str(tmp_path / "model.safetensors")
    for options in (
        Options(model=path, refine=3, refine_network=True),
        Options(model=path, refine=3),
    ):
        first = register(fixed, moving, options)
        register(sample_image("fixed"), sample_image("moving"), options)
        second = register(fixed, moving, options)
        assert torch.equal(first.phi.u, second.phi.u)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    unrefined = register(fixed, moving, Options(model=path, refine=0))
    assert first.similarity[1] < unrefined.similarity[1]


def test_masks_black_out_or_weigh(found: Registration):
    mask = sitk.Cast(sample_image("fixed") > 0, sitk.sitkUInt8)
    mask[0:12, :, :] = 0
    blacked = register(
        sample_image("fixed"),
        sample_image("moving"),
        Options(model="none", refine=2),
        fixed_mask=mask,
    )
    weighed = register(
        sample_image("fixed"),
        sample_image("moving"),
        Options(model="none", refine=2, mask_outside=False),
        fixed_mask=mask,
    )
    assert (
        blacked.pair.fixed[..., -8:].max() == 0
    )  # x grows to the patient's left, where index 0 of this file is
    assert weighed.pair.fixed[..., -8:].max() > 0
    assert weighed.pair.fixed_weight is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"similarity": "ssd"}, "unknown similarity 'ssd': expected one of lncc"),
        ({"init": "rigid"}, "unknown initialisation 'rigid'"),
        ({"fixed_modality": "pet"}, "unknown modality 'pet'"),
        ({"refine": 0, "model": "none"}, "--refine 0 and --model none contradict each other"),
        (
            {"refine_network": True, "model": "none"},
            "--refine-network and --model none contradict each other",
        ),
        ({"weight": 0}, "weight must be positive"),
        ({"refine": -1}, "refine must not be negative, got -1"),
        ({"refine_network": True, "refine": 0}, "--refine-network and --refine 0 contradict"),
        ({"to": "rigid", "refine_network": True}, "--to rigid and --refine-network contradict"),
        ({"to": "affine", "model": "default"}, "--to affine and --model default contradict"),
        ({"to": "affine", "init": "none"}, "--to affine and --init none contradict"),
        ({"to": "elastic"}, "unknown goal 'elastic': expected one of rigid, affine, deformable"),
    ],
)
@pytest.mark.usefixtures("unhooked")
def test_bad_options(options: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        Options(**options)  # type: ignore[arg-type]


def test_bad_pairs():
    image = sample_image("fixed")
    flat = sample_image("fixed") * 0
    with pytest.raises(
        ValueError,
        match="the moving image: there is nothing to see between intensities 0 and 0: the image "
        "is constant",
    ):
        register(image, flat, QUICK)
    with pytest.raises(ValueError, match="fixed is 3-D and moving is 2-D"):
        register(image, image[:, :, 5], QUICK)
    with pytest.raises(
        ValueError, match="the fixed mask lies on another grid than the fixed image"
    ):
        register(image, image, QUICK, fixed_mask=image[1:, :, :])
    with pytest.raises(ValueError, match="the moving mask is empty"):
        register(image, image, QUICK, moving_mask=sitk.Cast(flat, sitk.sitkUInt8))


def test_what_a_volume_holds_is_registered_as_well(found: Registration):
    volumes = from_sitk(sample_image("fixed")), from_sitk(sample_image("moving"))
    assert torch.equal(register(*volumes, QUICK).phi.u, found.phi.u)
