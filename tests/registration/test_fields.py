"""Optimising fields: the grids, what is looked at, and how long a step is."""

from functools import partial
from math import prod

import pytest
import torch
import torch.nn.functional as F

from gradicon.core.similarity import lncc, mse
from gradicon.core.transform import DisplacementField, identity
from gradicon.registration.solve import fields
from gradicon.registration.solve.fields import FieldSettings, filled_block, optimise_fields, pyramid
from gradicon.registration.solve.smoothing import along_axes, smoothing_matrices
from maps import blobs, smooth_field


@pytest.mark.parametrize(("coarse", "shape"), [((5, 4), (9, 8)), ((2, 6, 3), (4, 11, 5))], ids=str)
def test_smoothing_is_a_mean_of_three_then_linear(
    coarse: tuple[int, ...], shape: tuple[int, ...], generator: torch.Generator
):
    p = torch.randn(1, len(shape), *coarse, generator=generator, dtype=torch.float64)
    want = p
    for axis in range(2, p.ndim):
        edges = [want.narrow(axis, 0, 1), want, want.narrow(axis, want.shape[axis] - 1, 1)]
        want = torch.cat(edges, axis).unfold(axis, 3, 1).mean(-1)
    want = F.interpolate(
        want, shape, mode="bilinear" if len(shape) == 2 else "trilinear", align_corners=True
    )
    torch.testing.assert_close(along_axes(p, smoothing_matrices(coarse, shape, like=p)), want)


def test_large_images_begin_as_small_as_others():
    shapes = pyramid((164, 192, 157), (1.0, 1.0, 1.0))
    assert shapes == [(21, 24, 20), (41, 48, 40), (82, 96, 79), (164, 192, 157)]
    assert len(pyramid((35, 51, 35), (1.0, 1.0, 1.0))) == 3


def test_thick_slices_wait_and_what_cannot_shrink_stays():
    shapes = pyramid((12, 256, 256), (8.0, 1.4, 1.4))
    assert all(shape[0] == 12 for shape in shapes)
    assert prod(shapes[0]) <= 40_000
    assert pyramid((15, 15, 900), (1.0, 1.0, 9.0)) == [(15, 15, 900)] * 3


def test_the_block_holds_both_images_and_a_margin():
    a, b = torch.zeros(2, 1, 1, 40, 60)
    a[..., 20:22, 30] = 0.5
    b[..., 25, 28] = 0.9
    assert filled_block([a, b]) == ([12, 20], [22, 19])
    assert filled_block([torch.zeros(1, 1, 5, 6)] * 2) == ([0, 0], [5, 6])


def test_leaving_out_what_is_empty_changes_no_gradient(monkeypatch: pytest.MonkeyPatch):
    images = [F.pad(blobs((24, 26), seed).double(), [30] * 4) for seed in (1, 2)]
    u = smooth_field(
        tuple(images[0].shape[2:]), 4, size=0.02, dtype=torch.float64
    ).u.requires_grad_()

    def slope() -> torch.Tensor:
        level = fields._Level.of(images, [None, None], [u, u])
        phi = DisplacementField(u)
        similarity = partial(lncc, sigma=2.0)
        (found,) = torch.autograd.grad(
            level.share
            * (level.unlike(phi, similarity) + level.unlike(phi, similarity, back=True)),
            u,
        )
        return found

    in_block = slope()
    monkeypatch.setattr(fields, "_MARGIN", 10**6)
    torch.testing.assert_close(in_block, slope(), rtol=1e-9, atol=1e-12)
    assert in_block.abs().max() > 1e-4


@pytest.mark.parametrize(
    ("kept", "shape"), [((13, 9), (26, 17)), ((10, 8, 9), (10, 16, 18))], ids=str
)
def test_images_are_read_where_maps_on_a_coarser_grid_take_their_voxels(
    kept: tuple[int, ...], shape: tuple[int, ...]
):
    images = [blobs(shape, seed).double() for seed in (1, 2)]
    phi = smooth_field(kept, 3, size=0.03, dtype=torch.float64)
    level = fields._Level.of(images, [None, None], [phi.u, phi.u])
    whole = fields._Level.of(images, [None, None], [phi.materialise(shape).u] * 2)
    assert level.finer is not None
    assert whole.finer is None
    for back in (False, True):
        torch.testing.assert_close(
            level.unlike(phi, mse, back=back), whole.unlike(phi.materialise(shape), mse, back=back)
        )


def test_a_step_is_as_long_across_thick_slices_as_within_them():
    shape = (12, 48, 48)
    extent = (88.0, 47.0, 47.0)
    still = identity(3).materialise(shape)
    settings = FieldSettings(mse, (1,), learning_rate=0.5)
    phi, _ = optimise_fields(
        blobs(shape, 1), blobs(shape, 2), (still, still), [shape], settings, extent=extent
    )
    longest = [float(phi.u[:, axis].abs().max()) * length for axis, length in enumerate(extent)]
    assert longest == pytest.approx([0.5] * 3, rel=0.05)


def test_what_is_fine_in_the_start_is_not_lost_on_the_coarse_grids():
    shape = (33, 33)
    start = smooth_field(shape, 3, dtype=torch.float32)
    rough = DisplacementField(
        start.u + 0.003 * torch.randn(start.u.shape, generator=torch.Generator().manual_seed(0))
    )
    settings = FieldSettings(mse, steps=(1, 1), learning_rate=1e-6)
    found = optimise_fields(
        blobs(shape, 1),
        blobs(shape, 2),
        (rough, start),
        [(9, 9), shape],
        settings,
        extent=(32.0, 32.0),
    )
    torch.testing.assert_close(found[0].u, rough.u, atol=1e-5, rtol=0)
    torch.testing.assert_close(found[1].u, start.u, atol=1e-5, rtol=0)


@pytest.mark.parametrize("dimension", [2, 3])
def test_an_anchor_holds_the_fields_where_they_began(dimension: int):
    shape = (16, 18, 20)[:dimension]
    moving = blobs(shape, 1)
    fixed = blobs(shape, 2)
    start = (
        smooth_field(shape, 3, size=0.02, dtype=torch.float32),
        smooth_field(shape, 4, size=0.02, dtype=torch.float32),
    )

    def away(anchor: float) -> float:
        settings = FieldSettings(mse, steps=(20, 30), learning_rate=0.2, anchor=anchor)
        shapes = [tuple(n // 2 for n in shape), shape]
        found = optimise_fields(
            moving, fixed, start, shapes, settings, extent=[n - 1.0 for n in shape]
        )
        return sum(
            float((100 * (phi.u - first.u)).square().mean())
            for phi, first in zip(found, start, strict=True)
        )

    free, held, tight = (away(anchor) for anchor in (0.0, 0.01, 10.0))
    assert tight < held < free
    assert tight < 0.01 * free
