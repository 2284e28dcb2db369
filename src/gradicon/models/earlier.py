"""Checkpoints of the format before this one, whose header was free text: read once, to convert."""

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gradicon.errors import MissingFileError
from gradicon.models.build import Model, ModelConfig, build
from gradicon.models.checkpoint import EARLIER, CheckpointError, hash_texts, load_strictly, save
from gradicon.models.header import Preprocessing, Training

_KNOWN = (
    "data",
    "recipe",
    "recipe sha256",
    "dataset sha256",
    "command",
    "gradicon",
    "started from sha256",
    "steps",
    "training minutes",
    "best validation score",
)


def convert_earlier(path: Path, out: Path) -> Model:
    """Write the same network with a typed header to `out`; halves stay halves. Returns it."""
    metadata, state = _read(path)
    if metadata.get("format") != EARLIER:
        raise CheckpointError(f"{path}: not a checkpoint of format {EARLIER}: nothing to convert")
    try:
        model = build(ModelConfig.from_dict(json.loads(metadata["config"])))
        provenance: dict[str, str] = json.loads(metadata["provenance"])
        preprocessing = _preprocessing(provenance)
        training = _training(provenance)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: unreadable header: {error}") from error
    load_strictly(model.net, state, source=str(path))
    save(
        model,
        out,
        preprocessing=preprocessing,
        training=training,
        notes={key: value for key, value in provenance.items() if key not in _KNOWN},
        half=any(tensor.dtype == torch.float16 for tensor in state.values()),
    )
    return model.eval()


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    if not path.is_file():
        raise MissingFileError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata: dict[str, str] = file.metadata() or {}
    except SafetensorError as error:
        raise CheckpointError(f"{path}: not a whole file ({error}): get it again") from error
    if metadata.get("format") == EARLIER and _hash(metadata, state) != metadata.get("sha256"):
        raise CheckpointError(f"{path}: the contents do not match their hash: get it again")
    return metadata, state


def _preprocessing(provenance: Mapping[str, str]) -> Preprocessing | None:
    if "data" not in provenance:
        return None
    data: dict[str, Any] = json.loads(provenance["data"])
    return Preprocessing(
        shape=tuple(data["shape"]),
        crop=data["crop"],
        spacing_mm=tuple(data["spacing_mm"]),
        modality=data["modality"],
        mask_outside=data["mask_outside"],
        augmented=_was_augmented(provenance.get("recipe", "")),
    )


def _was_augmented(recipe: str) -> bool:
    try:
        training: Any = tomllib.loads(recipe).get("training")
    except tomllib.TOMLDecodeError:
        return False
    return isinstance(training, dict) and training.get("augment") is True


def _training(provenance: Mapping[str, str]) -> Training | None:
    if "recipe" not in provenance:
        return None
    score = provenance.get("best validation score")
    return Training(
        recipe=provenance["recipe"],
        dataset=provenance.get("dataset sha256", ""),
        command=provenance.get("command", ""),
        version=provenance.get("gradicon", ""),
        started_from=provenance.get("started from sha256", ""),
        steps=int(provenance.get("steps", "0")),
        minutes=float(provenance.get("training minutes", "0")),
        score=None if score is None else float(score),
    )


def _hash(metadata: Mapping[str, str], state: Mapping[str, Tensor]) -> str:
    texts = [metadata.get(key, "") for key in ("format", "config", "provenance")]
    return hash_texts(texts, state)
