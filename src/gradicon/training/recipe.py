"""Recipes as TOML files.

A recipe lists only what differs from the paper, and a slip of the pen is an error, never a default.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradicon.errors import GradiconError, MissingFileError
from gradicon.models import ModelConfig
from gradicon.models.typed import read_section
from gradicon.training.config import DataConfig, LossConfig, Recipe, TrainingConfig

_SECTIONS = ("data", "model", "loss", "training")


def read_recipe(path: str | Path) -> Recipe:
    """The recipe in a TOML file.

    It has the sections [data], [model], [loss] and [training]; only [data] shape is required.
    """
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f"{path}: no such recipe")
    try:
        return parse_recipe(path.read_bytes().decode())
    except (UnicodeDecodeError, ValueError) as error:
        raise GradiconError(f"{path}: {error}") from error


def parse_recipe(text: str) -> Recipe:
    """A recipe from the text of its file."""
    try:
        sections = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GradiconError(f"not a TOML file: {error}") from error
    for name, values in sections.items():
        if name not in _SECTIONS:
            raise GradiconError(
                f"unknown section [{name}]: expected some of "
                f"{', '.join(f'[{known}]' for known in _SECTIONS)}"
            )
        if not isinstance(values, dict):
            raise GradiconError(f"[{name}] must be a section, got {values!r}")
    if "shape" not in sections.get("data", {}):
        raise GradiconError(
            "[data] shape is missing: how many voxels the network sees along each axis, "
            "such as [175, 175, 175]"
        )
    data = read_section(DataConfig, sections["data"], "data")
    training = read_section(TrainingConfig, sections.get("training", {}), "training")
    return Recipe(
        data=data,
        model=_model(sections.get("model", {}), len(data.shape), 2 if training.stage2_steps else 1),
        loss=read_section(LossConfig, sections.get("loss", {}), "loss"),
        training=training,
        text=text,
    )


def _model(values: Mapping[str, Any], dimension: int, stage: int) -> ModelConfig:
    if "stage" in values:
        raise GradiconError(
            "[model] stage: a recipe trains both stages; leave one out by [training] "
            "stage1_steps or stage2_steps = 0"
        )
    try:
        return ModelConfig.from_dict({"dimension": dimension, "stage": stage} | dict(values))
    except ValueError as error:
        raise GradiconError(f"[model] {error}") from error
