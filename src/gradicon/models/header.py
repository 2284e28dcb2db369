"""What a checkpoint says of itself: its network, how images are prepared for it, its training."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Literal, TypeVar, final

from gradicon.errors import GradiconError
from gradicon.models.build import ModelConfig
from gradicon.models.typed import read_section

Modality = Literal["auto", "ct", "mr"]
Crop = Literal["fit", "center"]
Order = Literal["scale, mask, resample", "resample, scale, mask"]
Kind = TypeVar("Kind")
_LEAST_SHAPE = 8  # voxels: a network halves its images several times


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How a scan becomes what a network sees. Its axes are turned to the nearest LPS order first.

    Args:
        shape: voxels of every prepared image, in array order (z, y, x).
        crop: "fit" resizes each image's whole field of view to `shape`, as the paper halves knees
            and brains; "center" resamples to `spacing_mm` and cuts, or pads with zeros, about the
            image's centre, as it does with lungs.
        spacing_mm: for "center", in array order.
        modality: "ct" clips to `window`, "mr" at `percentiles`, "auto" looks at each image.
        window: of CT, in Hounsfield units, mapped to 0 and 1. The paper's for lungs is -1000 to 0.
        percentiles: of MR, mapped to 0 and 1.
        order: of what is done. "resample, scale, mask", the paper's for lungs, takes the
            percentiles of the resampled image, and lets no zeros of a mask bleed into its rim.
        mask_outside: set what lies outside a mask to zero, where an image has one.
    """

    shape: tuple[int, ...]
    crop: Crop = "fit"
    spacing_mm: tuple[float, ...] = ()
    modality: Modality = "auto"
    window: tuple[float, float] = (-1000.0, 1000.0)
    percentiles: tuple[float, float] = (1.0, 99.0)
    order: Order = "scale, mask, resample"
    mask_outside: bool = True

    def __post_init__(self) -> None:
        if len(self.shape) not in (2, 3) or min(self.shape) < _LEAST_SHAPE:
            raise GradiconError(
                f"shape must be 2 or 3 whole numbers of at least {_LEAST_SHAPE}, "
                f"got {list(self.shape)}"
            )
        if self.crop == "center" and (
            len(self.spacing_mm) != len(self.shape)
            or not all(0 < length < float("inf") for length in self.spacing_mm)
        ):
            raise GradiconError(
                f'spacing_mm must be {len(self.shape)} positive numbers with crop = "center", '
                f"got {list(self.spacing_mm)}"
            )
        if self.crop == "fit" and self.spacing_mm:
            raise GradiconError('spacing_mm is for crop = "center": leave it out, or change crop')
        if not -float("inf") < self.window[0] < self.window[1] < float("inf"):
            raise GradiconError(f"window must go up, got {list(self.window)}")
        if not 0 <= self.percentiles[0] < self.percentiles[1] <= 100:
            raise GradiconError(
                f"percentiles must go up within 0 and 100, got {list(self.percentiles)}"
            )


@final
@dataclass(frozen=True, kw_only=True)
class Preprocessing(Preparation):
    """The preparation of a network's training, and what was done to images during it.

    Args:
        augmented: whether they were moved out of place at random, so that the network takes pairs
            which lie roughly together, whatever their fields of view.
    """

    augmented: bool = False


@final
@dataclass(frozen=True, kw_only=True)
class Training:
    """How a network came about.

    Args:
        recipe: the text of its file.
        dataset: the hash of the prepared images.
        command: that ran it.
        version: of gradicon.
        started_from: the hash of the model that it began with; empty if it began fresh.
        steps: of both stages.
        minutes: of training.
        score: the best validation score, higher being better, if there was validation.
    """

    recipe: str
    dataset: str
    command: str
    version: str
    started_from: str = ""
    steps: int = 0
    minutes: float = 0.0
    score: float | None = None

    @property
    def recipe_sha256(self) -> str:
        """The hash of the recipe, by which two trainings can be told apart."""
        return sha256(self.recipe.encode()).hexdigest()


@final
@dataclass(frozen=True)
class Header:
    """What a checkpoint says of itself, readable without loading its weights.

    Args:
        config: of the network.
        sha256: of everything in the file, weights included.
        preprocessing: how images are prepared for it; None if nobody said, and images are then
            taken on their own grid.
        training: how it came about; None if it was not trained here.
        notes: free text, such as where weights were imported from. Nothing depends on it.
    """

    config: ModelConfig
    sha256: str
    preprocessing: Preprocessing | None
    training: Training | None
    notes: Mapping[str, str]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "config": self.config.to_dict(),
            "sha256": self.sha256,
            "preprocessing": None if self.preprocessing is None else asdict(self.preprocessing),
            "training": None if self.training is None else asdict(self.training),
            "notes": dict(self.notes),
        }


SECTIONS = ("config", "preprocessing", "training", "notes")
"""Of a file's metadata, each as JSON."""


def pack_header(
    config: ModelConfig,
    preprocessing: Preprocessing | None,
    training: Training | None,
    notes: Mapping[str, str],
) -> dict[str, str]:
    """The sections of a header as texts of JSON."""
    values = Header(config, "", preprocessing, training, notes).to_dict()
    return {name: json.dumps(values[name]) for name in SECTIONS}


def unpack_header(metadata: Mapping[str, str]) -> Header:
    """The reverse; a field that is missing, wrong or unknown is named."""
    values: dict[str, Any] = {}
    for name in (*SECTIONS, "sha256"):
        if name not in metadata:
            raise GradiconError(f"{name} is missing")
        try:
            values[name] = metadata[name] if name == "sha256" else json.loads(metadata[name])
        except ValueError as error:
            raise GradiconError(f"{name} is no JSON: {error}") from error
    for name in ("config", "notes"):
        if not isinstance(values[name], dict):
            raise GradiconError(f"{name} must be a table, got {values[name]!r}")
    return Header(
        config=ModelConfig.from_dict(values["config"]),
        sha256=values["sha256"],
        preprocessing=_unpack(Preprocessing, values, "preprocessing"),
        training=_unpack(Training, values, "training"),
        notes={str(key): str(value) for key, value in values["notes"].items()},
    )


def _unpack(kind: type[Kind], values: Mapping[str, Any], name: str) -> Kind | None:
    section = values[name]
    if section is None:
        return None
    if not isinstance(section, dict):
        raise GradiconError(f"{name} must be a table, got {section!r}")
    return read_section(kind, section, name, complete=True)
