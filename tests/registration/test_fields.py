"""Optimising fields: the grids, what is looked at, and how long a step is."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from gradicon.core.similarity import lncc, mse
from gradicon.core.transform import DisplacementField, identity
from gradicon.physical.space import Space
from gradicon.registration.grids import pyramid, working_space
from gradicon.registration.plan import FieldPlan, Level
from gradicon.registration.presets import PRESETS, FieldPreset
from gradicon.registration.solve.fields import optimise_fields
from gradicon.registration.solve.resolution import Images, Resolution, filled_block
from gradicon.registration.solve.smoothing import along_axes, averaged, smoothing_matrices
from maps import blobs, smooth_field


def plan_of(
    shapes: Sequence[tuple[int, ...]],
    steps: Sequence[int],
    rate: float,
    lengths: tuple[float, ...] | None = None,
) -> FieldPlan:
    """Levels whose maps are kept whole."""
    levels = tuple(
        Level(s, tuple((k + 1) // 2 for k in s), s, n, 3)
        for s, n in zip(shapes, steps, strict=True)
    )
    return FieldPlan(levels, lengths or (1.0,) * len(shapes[0]), rate, 1.5, 30.0)


@pytest.mark.parametrize(
    ("coarse", "shape"), [((5, 4), (9, 8)), ((2, 6, 3), (4, 11, 5)), ((3, 1), (3, 4))], ids=str
)
def test_smoothing_is_a_mean_of_three_then_linear(
    coarse: tuple[int, ...], shape: tuple[int, ...], generator: torch.Generator
):
    p = torch.randn(1, len(shape), *coarse, generator=generator, dtype=torch.float64)
    want = p
    for axis in range(2, p.ndim):
        edges = [want.narrow(axis, 0, 1), want, want.narrow(axis, want.shape[axis] - 1, 1)]
        want = torch.cat(edges, axis).unfold(axis, 3, 1).mean(-1)
    torch.testing.assert_close(averaged(p, 1), want)
    want = F.interpolate(
        want, shape, mode="bilinear" if len(shape) == 2 else "trilinear", align_corners=True
    )
    torch.testing.assert_close(along_axes(p, smoothing_matrices(coarse, shape, like=p)), want)


def test_grids_are_halved_until_they_are_small_and_maps_are_kept_half_as_fine():
    brain = pyramid((164, 192, 157), (1.0, 1.0, 1.0), 32)
    assert brain == [(11, 12, 10), (21, 24, 20), (41, 48, 40), (82, 96, 79), (164, 192, 157)]
    assert pyramid((35, 51, 35), (1.0, 1.0, 1.0), 32) == [(9, 13, 9), (18, 26, 18), (35, 51, 35)]
    assert pyramid((200, 180), (1.0, 1.0), 32)[1:] == [(25, 23), (50, 45), (100, 90), (200, 180)]
    assert pyramid((20, 20, 20), (1.0, 1.0, 1.0), 32) == [(10, 10, 10), (20, 20, 20)]


def test_thick_slices_wait_and_single_ones_stay():
    heart = pyramid((12, 256, 256), (8.0, 1.4, 1.4), 32)
    assert heart == [(6, 16, 16), (12, 32, 32), (12, 64, 64), (12, 128, 128), (12, 256, 256)]
    assert pyramid((20, 64, 64), (2.5, 1.0, 1.0), 16) == [
        (5, 8, 8),
        (10, 16, 16),
        (20, 32, 32),
        (20, 64, 64),
    ]
    assert pyramid((1, 200, 100), (5.0, 1.0, 1.0), 32)[:2] == [(1, 13, 7), (1, 25, 13)]
    assert pyramid((1, 1, 1), (1.0, 1.0, 1.0), 32) == [(1, 1, 1), (1, 1, 1)]


@pytest.mark.parametrize(
    ("shape", "spacing"),
    [((400, 380, 360), (0.5, 0.5, 0.5)), ((60, 512, 512), (5.0, 0.4, 0.7)), ((3000, 4000), (1, 2))],
    ids=str,
)
def test_too_many_voxels_become_larger_and_thick_ones_stay(
    shape: tuple[int, ...], spacing: tuple[float, ...]
):
    space = Space(
        shape, np.diag([*reversed(spacing), 1.0])[:, [*range(len(shape) - 1, -1, -1), -1]]
    )
    assert space.spacing_mm == pytest.approx(spacing)
    found = working_space(space, 1_000_000)
    assert 0.95e6 < prod(found.shape) <= 1e6
    largest = max(s for s, n, m in zip(found.spacing_mm, found.shape, shape, strict=True) if n < m)
    for size, n, m in zip(found.spacing_mm, found.shape, shape, strict=True):
        assert n == m or size == pytest.approx(largest, rel=0.02)
        assert n < m or size >= 0.98 * largest
    assert working_space(space, 10**9) is space


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
