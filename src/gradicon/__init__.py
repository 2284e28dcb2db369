"""GradICON: registration of medical images by gradient inverse consistency."""

from typing import TYPE_CHECKING

from gradicon.core.jacobian import fold_percentage, jacobian_determinant, sd_log_jacobian
from gradicon.core.network import warp
from gradicon.core.objective import (
    bending_energy,
    diffusion,
    gradient_inconsistency,
    inconsistency,
    objective,
)
from gradicon.core.sampling import unit_grid
from gradicon.core.similarity import lncc, mind_ssc, mse, mutual_information, ncc, squared_lncc
from gradicon.core.transform import Affine, Composition, DisplacementField, Transform, identity
from gradicon.models import ModelConfig, build

if TYPE_CHECKING:
    from gradicon.registration.options import Options
    from gradicon.registration.register import register

__version__ = "0.1.0"
__all__ = [
    "Affine",
    "Composition",
    "DisplacementField",
    "ModelConfig",
    "Options",
    "Transform",
    "bending_energy",
    "build",
    "diffusion",
    "fold_percentage",
    "gradient_inconsistency",
    "identity",
    "inconsistency",
    "jacobian_determinant",
    "lncc",
    "mind_ssc",
    "mse",
    "mutual_information",
    "ncc",
    "objective",
    "register",
    "sd_log_jacobian",
    "squared_lncc",
    "unit_grid",
    "warp",
]


def __getattr__(name: str) -> object:
    """`register` and `Options` are imported when first asked for: they need SimpleITK, which a
    machine that trains may not have.
    """
    if name == "register":
        from gradicon.registration.register import register

        return register
    if name == "Options":
        from gradicon.registration.options import Options

        return Options
    raise AttributeError(f"module 'gradicon' has no attribute {name!r}")
