"""The numbers that the authors' own implementation computed, to the last digits that
float32 keeps.
"""

from functools import cache

import pytest
import torch

from golden.reference import CASES, Case, load_case
from gradicon.core.jacobian import jacobian_determinant, magnitude
from gradicon.core.network import warp
from gradicon.core.objective import Objective, bending_energy, diffusion, inconsistency, objective
from gradicon.core.sampling import unit_grid
from gradicon.core.similarity import lncc, mind_ssc, mse, ncc, squared_lncc
from gradicon.models import from_icon

TOLERANCE = {"eval": 2e-3, "train": 1e-2}
EACH_CASE = pytest.mark.parametrize("name", CASES)
EACH_MODE = pytest.mark.parametrize("mode", ["eval", "train"])


@cache
def run(name: str, mode: str) -> tuple[Objective, float]:
    """The objective of a case and the norm of its gradient."""
    case = load_case(name)
    network = from_icon(case.state_dict).train(mode == "train")
    found = objective(network, *case.images, case.points, similarity=lncc)
    found.loss.backward()
    squares = [(p.grad**2).sum() for p in network.parameters() if p.grad is not None]
    assert len(squares) == len(list(network.parameters()))
    return found, torch.stack(squares).sum().sqrt().item()


def stored(case: Case, values: torch.Tensor) -> torch.Tensor:
    """As the arrays are stored: every third voxel in 3-D."""
    return values[(..., *[slice(None, None, 3)] * 3)] if case.dimension == 3 else values


@EACH_CASE
def test_the_inputs_are_rebuilt(name: str):
    case = load_case(name)
    every = slice(None, None, 6 if case.dimension == 3 else 1)
    at = (..., *[every] * case.dimension)
    torch.testing.assert_close(case.images[0][at], case.arrays["A"].float(), rtol=0, atol=1e-6)
    torch.testing.assert_close(case.noise[at], case.arrays["noise"].float(), rtol=0, atol=1e-6)


@EACH_CASE
@EACH_MODE
def test_the_map_and_the_warped_image(name: str, mode: str):
    case = load_case(name)
    (found, _) = run(name, mode)
    phi = stored(case, found.phi_ab.on_grid(case.shape)).detach()
    u, want = (
        x - stored(case, unit_grid(case.shape, like=x)) for x in (phi, case.arrays[f"{mode}_phi"])
    )
    assert (u - want).norm() / want.norm() < TOLERANCE[mode]
    warped = stored(case, warp(case.images[0], found.phi_ab)).detach()
    want = case.arrays[f"{mode}_warped"]
    assert (warped - want).norm() / want.norm() < TOLERANCE[mode]


@EACH_CASE
@EACH_MODE
def test_the_loss_its_parts_and_its_gradient(name: str, mode: str):
    case = load_case(name)
    (found, gradient) = run(name, mode)
    numbers = {
        "loss": found.loss.item(),
        "similarity": found.similarity.item(),
        "gradicon": found.penalty.item(),
        "magnitude": magnitude(found.phi_ab, case.shape).mean().item() / len(case.shape),
        "flips": (jacobian_determinant(found.phi_ba, case.shape) < 0).sum().item() / case.batch,
        "grad_norm": gradient,
    }
    assert numbers == pytest.approx(case.scalars[mode], rel=TOLERANCE[mode])


@EACH_CASE
def test_the_other_regularizers(name: str):
    case = load_case(name)
    (found, _) = run(name, "eval")
    x = unit_grid(case.shape, like=case.noise) + case.noise / case.shape[-1]
    assert inconsistency(found.phi_ab, found.phi_ba, x).item() == pytest.approx(
        case.scalars["icon"]["icon"], rel=2e-3
    )
    assert bending_energy(found.phi_ab, case.shape).item() == pytest.approx(
        case.scalars["bending"], rel=2e-3
    )
    assert diffusion(found.phi_ab, case.shape).item() == pytest.approx(
        case.scalars["diffusion"], rel=2e-3
    )


@EACH_CASE
def test_the_similarities(name: str):
    case = load_case(name)
    (found, _) = run(name, "eval")
    warped = warp(case.images[0], found.phi_ab).detach()
    fixed = case.images[1]
    measures = {"lncc5": lncc, "sqlncc5": squared_lncc, "ncc": ncc, "ssd": mse, "mind": mind_ssc}
    for key, want in case.scalars["sims"].items():
        assert measures[key](warped, fixed).item() == pytest.approx(want, rel=2e-3), key
