"""Networks by configuration, and their weights in files."""

from gradicon.models.build import Model, ModelConfig, build
from gradicon.models.checkpoint import CheckpointError, Grid, Header, load, read_header, save
from gradicon.models.icon import from_icon, read_icon

__all__ = [
    "CheckpointError",
    "Grid",
    "Header",
    "Model",
    "ModelConfig",
    "build",
    "from_icon",
    "load",
    "read_header",
    "read_icon",
    "save",
]
