"""Recipes as TOML files.

A recipe lists only what differs from the paper, and a slip of the pen is an error, never a default.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from gradicon.errors import GradiconError, MissingFileError
from gradicon.models import ModelConfig
from gradicon.training.config import DataConfig, LossConfig, Recipe, TrainingConfig

Section = TypeVar("Section", DataConfig, LossConfig, TrainingConfig)
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
    data = _section(DataConfig, "data", sections["data"])
    training = _section(TrainingConfig, "training", sections.get("training", {}))
    return Recipe(
        data=data,
        model=_model(sections.get("model", {}), len(data.shape), 2 if training.stage2_steps else 1),
        loss=_section(LossConfig, "loss", sections.get("loss", {})),
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


def _section(kind: type[Section], name: str, values: Mapping[str, Any]) -> Section:
    types = get_type_hints(kind)
    for key in values:
        if key not in types:
            raise GradiconError(
                f"[{name}] unknown name {key!r}: expected some of {', '.join(types)}"
            )
    given: dict[str, Any] = {
        key: _value(types[key], value, f"[{name}] {key}") for key, value in values.items()
    }
    try:
        return kind(**given)
    except ValueError as error:
        raise GradiconError(f"[{name}] {error}") from error


def _value(kind: Any, value: object, where: str) -> object:  # noqa: ANN401 (an annotation has no type of its own)
    """The value as its annotation wants it, or an error.

    Lists become tuples, whole numbers may stand for numbers, and no more.
    """
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise GradiconError(
                f"{where} must be one of {', '.join(map(str, get_args(kind)))}, got {value!r}"
            )
        return value
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise GradiconError(f"{where} must be a list, got {value!r}")
        return tuple(_value(get_args(kind)[0], item, where) for item in value)
    if isinstance(kind, UnionType):
        options = [option for option in get_args(kind) if option is not NoneType]
        chosen = [
            option for option in options if (get_origin(option) is tuple) == isinstance(value, list)
        ]
        return _value((chosen or options)[0], value, where)
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        expected = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[
            kind
        ]
        raise GradiconError(f"{where} must be {expected}, got {value!r}")
    return value
