"""Optimising fields: the grids, what is looked at, and how long a step is."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

import pytest
import torch
import torch.nn.functional as F

from gradicon.core.similarity import lncc, mse
from gradicon.core.transform import DisplacementField, identity
from gradicon.registration.grids import pyramid
from gradicon.registration.plan import FieldPlan, Level
from gradicon.registration.presets import PRESETS, FieldPreset
from gradicon.registration.solve.fields import optimise_fields
from gradicon.registration.solve.resolution import Images, Resolution, filled_block
from gradicon.registration.solve.smoothing import along_axes, smoothing_matrices
from maps import blobs, smooth_field


def plan_of(
    shapes: Sequence[tuple[int, ...]],
    steps: Sequence[int],
    rate: float,
    lengths: tuple[float, ...] | None = None,
) -> FieldPlan:
    """Levels whose maps are kept whole."""
    levels = tuple(Level(s, s, n, 3) for s, n in zip(shapes, steps, strict=True))
    return FieldPlan(levels, lengths or (1.0,) * len(shapes[0]), rate, 1.5, 30.0, held=False)


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


def test_leaving_out_what_is_empty_changes_no_gradient():
    images = [F.pad(blobs((24, 26), seed).double(), [30] * 4) for seed in (1, 2)]
    u = smooth_field(
        tuple(images[0].shape[2:]), 4, size=0.02, dtype=torch.float64
    ).u.requires_grad_()

    def slope(preset: FieldPreset = PRESETS.fields) -> torch.Tensor:
        level = Resolution.of(Images(*images), [u, u], preset)
        phi = DisplacementField(u)
        similarity = partial(lncc, sigma=2.0)
        (found,) = torch.autograd.grad(
            level.share
            * (level.unlike(phi, similarity) + level.unlike(phi, similarity, back=True)),
            u,
        )
        return found

    in_block = slope()
    everywhere = slope(replace(PRESETS.fields, around=10**6))
    torch.testing.assert_close(in_block, everywhere, rtol=1e-9, atol=1e-12)
    assert in_block.abs().max() > 1e-4


@pytest.mark.parametrize(
    ("kept", "shape"), [((13, 9), (26, 17)), ((10, 8, 9), (10, 16, 18))], ids=str
)
def test_images_are_read_where_maps_on_a_coarser_grid_take_their_voxels(
    kept: tuple[int, ...], shape: tuple[int, ...]
):
    images = [blobs(shape, seed).double() for seed in (1, 2)]
    phi = smooth_field(kept, 3, size=0.03, dtype=torch.float64)
    level = Resolution.of(Images(*images), [phi.u, phi.u])
    whole = Resolution.of(Images(*images), [phi.materialise(shape).u] * 2)
    assert level.finer is not None
    assert whole.finer is None
    for back in (False, True):
        torch.testing.assert_close(
            level.unlike(phi, mse, back=back), whole.unlike(phi.materialise(shape), mse, back=back)
        )


def test_a_step_is_as_long_across_thick_slices_as_within_them():
    shape = (12, 48, 48)
    still = identity(3).materialise(shape)
    plan = plan_of([shape], [1], 0.5, lengths=(8.0, 1.0, 1.0))
    phi, _ = optimise_fields(Images(blobs(shape, 1), blobs(shape, 2)), (still, still), plan, mse)
    extent = (88.0, 47.0, 47.0)
    longest = [float(phi.u[:, axis].abs().max()) * length for axis, length in enumerate(extent)]
    assert longest == pytest.approx([0.5] * 3, rel=0.05)


def test_what_is_fine_in_the_start_is_not_lost_on_the_coarse_grids():
    shape = (33, 33)
    start = smooth_field(shape, 3, dtype=torch.float32)
    rough = DisplacementField(
        start.u + 0.003 * torch.randn(start.u.shape, generator=torch.Generator().manual_seed(0))
    )
    plan = plan_of([(9, 9), shape], [1, 1], 1e-6)
    found = optimise_fields(Images(blobs(shape, 1), blobs(shape, 2)), (rough, start), plan, mse)
    torch.testing.assert_close(found[0].u, rough.u, atol=1e-5, rtol=0)
    torch.testing.assert_close(found[1].u, start.u, atol=1e-5, rtol=0)


@pytest.mark.parametrize("dimension", [2, 3])
def test_an_anchor_holds_the_fields_where_they_began(dimension: int):
    shape = (16, 18, 20)[:dimension]
    images = Images(blobs(shape, 1), blobs(shape, 2))
    start = (
        smooth_field(shape, 3, size=0.02, dtype=torch.float32),
        smooth_field(shape, 4, size=0.02, dtype=torch.float32),
    )

    def away(anchor: float) -> float:
        plan = plan_of([tuple(n // 2 for n in shape), shape], [20, 30], 0.2)
        found = optimise_fields(images, start, plan, mse, pull=anchor)
        return sum(
            float((100 * (phi.u - first.u)).square().mean())
            for phi, first in zip(found, start, strict=True)
        )

    free, held, tight = (away(anchor) for anchor in (0.0, 100.0, 1e5))
    assert tight < held < free
    assert tight < 0.01 * free
