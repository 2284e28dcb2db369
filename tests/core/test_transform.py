from dataclasses import FrozenInstanceError

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gradicon.core.sampling import unit_grid
from gradicon.core.transform import Affine, Composition, DisplacementField, Transform, identity
from maps import smooth_field

SHAPES = st.lists(st.integers(3, 8), min_size=2, max_size=3).map(tuple)
SEEDS = st.integers(0, 999)


def random_affine(dimension: int, seed: int) -> Affine:
    generator = torch.Generator().manual_seed(seed)
    noise = 0.1 * torch.randn(1, dimension, dimension + 1, generator=generator, dtype=torch.float64)
    return Affine(torch.eye(dimension, dtype=torch.float64) + noise[..., :-1], noise[..., -1])


def random_points(dimension: int, seed: int) -> torch.Tensor:
    return torch.rand(
        1, dimension, 30, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


@given(SHAPES, SEEDS)
def test_composition_is_associative_and_the_identity_is_neutral(shape: tuple[int, ...], seed: int):
    f = smooth_field(shape, seed)
    g = random_affine(len(shape), seed)
    h = smooth_field(shape, seed + 1)
    x = random_points(len(shape), seed)
    one = identity(len(shape), dtype=torch.float64)
    torch.testing.assert_close(((f @ g) @ h)(x), (f @ (g @ h))(x))
    assert torch.equal((f @ one)(x), f(x))
    assert torch.equal((one @ f)(x), f(x))


@given(SHAPES, SEEDS)
def test_composition_applies_the_inner_map_first(shape: tuple[int, ...], seed: int):
    f = smooth_field(shape, seed)
    g = random_affine(len(shape), seed)
    x = random_points(len(shape), seed)
    torch.testing.assert_close((f @ g)(x), f(g(x)))
    assert not torch.allclose((f @ g)(x), g(f(x)), atol=1e-6)


@given(st.integers(2, 3), SEEDS)
def test_affines_compose_as_their_matrices_do(dimension: int, seed: int):
    f = random_affine(dimension, seed)
    g = random_affine(dimension, seed + 1)
    x = random_points(dimension, seed)
    product = Affine(f.matrix @ g.matrix, (f.matrix @ g.offset[..., None])[..., 0] + f.offset)
    torch.testing.assert_close((f @ g)(x), product(x))


@given(SHAPES, SHAPES, SEEDS)
def test_on_grid_is_the_map_at_the_voxels_of_any_grid(
    stored: tuple[int, ...], shape: tuple[int, ...], seed: int
):
    shape = (*shape, 4)[: len(stored)]
    field = smooth_field(stored, seed)
    for phi in (
        field,
        random_affine(len(stored), seed),
        Composition(random_affine(len(stored), seed), field),
    ):
        torch.testing.assert_close(phi.on_grid(shape), phi(unit_grid(shape, like=field.u)))


@given(SHAPES, SEEDS)
def test_materialise_keeps_the_map_at_the_voxels(shape: tuple[int, ...], seed: int):
    phi = random_affine(len(shape), seed) @ smooth_field((5, 6, 7)[: len(shape)], seed)
    torch.testing.assert_close(phi.materialise(shape).on_grid(shape), phi.on_grid(shape))


@settings(max_examples=10)
@given(SEEDS)
def test_materialise_between_voxels_converges_with_order_2(seed: int):
    phi = smooth_field((65, 65), seed) @ random_affine(2, seed)
    x = random_points(2, seed) * 0.5 + 0.25
    errors = [(phi.materialise((n, n))(x) - phi(x)).abs().mean() for n in (5, 9)]
    assert errors[1] < 0.4 * errors[0]


def test_zero_motion_is_exactly_zero():
    for shape in ((5, 7), (4, 5, 6)):
        field = DisplacementField(torch.zeros(1, len(shape), *shape))
        x = torch.rand(1, len(shape), 50, generator=torch.Generator().manual_seed(0))
        assert torch.equal(field(x), x)
        assert torch.equal(identity(len(shape))(x), x)
        assert (identity(len(shape)).materialise(shape).u == 0).all()


def test_a_displacement_is_constant_beyond_the_cube():
    field = smooth_field((5, 5), 3)
    outside = torch.tensor([[[-0.5], [2.0]]], dtype=torch.float64)
    border = torch.tensor([[[0.0], [1.0]]], dtype=torch.float64)
    torch.testing.assert_close(field(outside) - outside, field(border) - border)


def test_transforms_are_values():
    field = smooth_field((5, 5), 0)
    with pytest.raises(FrozenInstanceError):
        field.u = torch.zeros(1, 2, 5, 5)  # type: ignore[misc]
    u = field.u.clone()
    x = random_points(2, 0)
    (field @ field)(x)
    field.materialise((3, 3))
    assert torch.equal(field.u, u)


def test_transforms_move_between_precisions_and_devices():
    phi = random_affine(3, 0) @ (smooth_field((4, 5, 6), 0) @ random_affine(3, 1))
    x = random_points(3, 0)
    torch.testing.assert_close(phi.to(torch.float32)(x.float()), phi(x).float())
    assert phi.to("meta")(x.to("meta")).device.type == "meta"


def test_a_batch_of_maps():
    fields = [smooth_field((4, 5), seed) for seed in range(3)]
    batch = DisplacementField(torch.cat([field.u for field in fields]))
    x = random_points(2, 0)
    torch.testing.assert_close(batch(x), torch.cat([field(x) for field in fields]))
    affine = Affine(
        torch.stack([torch.eye(2) * k for k in (1.0, 2.0)]).double(), torch.zeros(2, 2).double()
    )
    torch.testing.assert_close((affine @ fields[0])(x)[1], 2 * fields[0](x)[0])


@pytest.mark.usefixtures("unhooked")
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: DisplacementField(torch.zeros(1, 3, 4, 4)),
            r"shape \(B, 2, H, W\) or .* got \(1, 3, 4, 4\)",
        ),
        (lambda: DisplacementField(torch.zeros(2, 4, 4)), r"got \(2, 4, 4\)"),
        (
            lambda: DisplacementField(torch.zeros(1, 2, 4, 4).bfloat16()),
            "float32 or float64, got torch.bfloat16",
        ),
        (
            lambda: DisplacementField(torch.zeros(1, 2, 4, 4, dtype=torch.int64)),
            "float32 or float64, got torch.int64",
        ),
        (
            lambda: Affine(torch.eye(2), torch.zeros(2)),
            r"matrix \(B, D, D\) and an offset \(B, D\)",
        ),
        (lambda: Affine(torch.eye(2)[None].half(), torch.zeros(1, 2).half()), "got torch.float16"),
        (lambda: identity(3)(torch.zeros(1, 2, 5)), "3-D affine needs 3 components"),
    ],
)
def test_bad_input(make: object, message: str):
    with pytest.raises((ValueError, TypeError), match=message):
        make()  # type: ignore[operator]


def test_a_transform_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Transform()  # type: ignore[abstract]
