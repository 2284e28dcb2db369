"""The models in the box, by name, each with its card: what it was trained on, under which terms,
how good it is and where not.
"""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from gradicon.errors import GradiconError, MissingFileError
from gradicon.models.checkpoint import Header, read_header

DEFAULT = "default"
"""The model that is used where none is asked for: free to use for any purpose."""

_FOLDER = Path(str(files("gradicon"))) / "models" / "weights"


@dataclass(frozen=True)
class Source:
    """Data that a model was trained on."""

    name: str
    what: str
    terms: str


@dataclass(frozen=True)
class Score:
    """What a model reaches on a set: by itself, and refined by `gradicon register` as it is without
    options.
    """

    set: str
    measure: str
    alone: str
    refined: str


@dataclass(frozen=True)
class Card:
    """What a person should know before trusting a model."""

    name: str
    path: Path
    summary: str
    terms: str
    data: tuple[Source, ...]
    hardware: str
    minutes: float
    date: str
    commands: tuple[str, ...]
    scores: tuple[Score, ...]
    limits: tuple[str, ...]

    @property
    def header(self) -> Header:
        """What the file says of itself: configuration, hash, and the recipe and command of its
        training.
        """
        return read_header(self.path)


def names() -> list[str]:
    """Of the models in the box, the default first."""
    found = sorted(path.stem for path in _FOLDER.glob("*.toml"))
    return sorted(found, key=lambda name: name != DEFAULT)


def card(name: str) -> Card:
    """The card of a model in the box."""
    if name not in names():
        raise GradiconError(
            f"{name}: no model of this name in the box, which has {_listed(names())}"
        )
    values: dict[str, Any] = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    values["data"] = tuple(Source(**each) for each in values["data"])
    values["scores"] = tuple(Score(**each) for each in values["scores"])
    values["commands"], values["limits"] = tuple(values["commands"]), tuple(values["limits"])
    return Card(name=name, path=_FOLDER / f"{name}.safetensors", **values)


def find(model: str | Path) -> Path:
    """The file of a model: one in the box by its name, or a file by its path."""
    if str(model) in names():
        return _FOLDER / f"{model}.safetensors"
    if Path(model).is_file():
        return Path(model)
    raise MissingFileError(
        f"{model}: no such checkpoint file, and no model in the box, which has {_listed(names())}"
    )


def _listed(found: Iterable[str]) -> str:
    return ", ".join(found)
