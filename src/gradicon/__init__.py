"""GradICON: registration of medical images by gradient inverse consistency."""

from gradicon.core.jacobian import fold_percentage, jacobian_determinant, magnitude, sd_log_jacobian
from gradicon.core.network import RegistrationNetwork, warp
from gradicon.core.objective import bending_energy, diffusion, gradient_inconsistency, inconsistency, objective
from gradicon.core.sampling import unit_grid
from gradicon.core.similarity import lncc, mind_ssc, mse, mutual_information, ncc, squared_lncc
from gradicon.core.transform import Affine, Composition, DisplacementField, Transform, identity
from gradicon.models import ModelConfig, build

__version__ = "0.1.0"
__all__ = [
    "Affine",
    "Composition",
    "DisplacementField",
    "ModelConfig",
    "RegistrationNetwork",
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
    "magnitude",
    "mind_ssc",
    "mse",
    "mutual_information",
    "ncc",
    "objective",
    "sd_log_jacobian",
    "squared_lncc",
    "unit_grid",
    "warp",
]
