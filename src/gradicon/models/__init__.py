"""Networks by configuration, and their weights in files."""

from gradicon.models.build import Model, ModelConfig, build
from gradicon.models.checkpoint import (
    Checkpoint,
    CheckpointError,
    load,
    open_checkpoint,
    read_header,
    save,
)
from gradicon.models.header import Header, Modality, Preparation, Preprocessing, Training
from gradicon.models.icon import from_icon, read_icon

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "Header",
    "Modality",
    "Model",
    "ModelConfig",
    "Preparation",
    "Preprocessing",
    "Training",
    "build",
    "from_icon",
    "load",
    "open_checkpoint",
    "read_header",
    "read_icon",
    "save",
]
