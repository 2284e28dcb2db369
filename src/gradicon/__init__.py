"""GradICON: registration of medical images by gradient inverse consistency."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from gradicon.core.similarity import (
        lncc,
        mind_ssc,
        mse,
        mutual_information,
        ncc,
        squared_lncc,
    )
    from gradicon.core.transform import (
        Affine,
        Composition,
        DisplacementField,
        Transform,
        identity,
    )
    from gradicon.models import ModelConfig, build
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

_HOMES = {
    "core.jacobian": ("fold_percentage", "jacobian_determinant", "sd_log_jacobian"),
    "core.network": ("warp",),
    "core.objective": (
        "bending_energy",
        "diffusion",
        "gradient_inconsistency",
        "inconsistency",
        "objective",
    ),
    "core.sampling": ("unit_grid",),
    "core.similarity": ("lncc", "mind_ssc", "mse", "mutual_information", "ncc", "squared_lncc"),
    "core.transform": ("Affine", "Composition", "DisplacementField", "Transform", "identity"),
    "models": ("ModelConfig", "build"),
    "registration.options": ("Options",),
    "registration.register": ("register",),
}


def __getattr__(name: str) -> object:
    """Public names are imported when first asked for.

    The command line has to say how threads wait before torch is imported, and `register` needs
    SimpleITK, which a machine that trains may not have.
    """
    for home, names in _HOMES.items():
        if name in names:
            value: object = getattr(import_module(f"gradicon.{home}"), name)
            globals()[name] = value  # from now on it is found at once
            return value
    raise AttributeError(f"module 'gradicon' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
