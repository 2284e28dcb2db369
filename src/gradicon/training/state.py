"""A run on the disk: what is needed to go on, written so that it is always whole."""

import io
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from gradicon.errors import GradiconError, MissingFileError, UnwritableError
from gradicon.files import written_whole
from gradicon.models import Model, Preprocessing, Training, save

RECIPE = "recipe.toml"
LAST = "last.ckpt"
METRICS = "metrics.jsonl"
TENSORBOARD = "tensorboard"
STAGE1 = "stage1.safetensors"
BEST = "best.safetensors"
FINAL = "model.safetensors"
_FORMAT = b"gradicon-run-1"
_ADVICE = "the last checkpoint is as it was; make room, then go on with --resume"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """Where a run stands. There is no generator to keep: randomness depends on the step alone.

    Args:
        stage, step: the stage being trained, and how many steps are done, of both stages together.
        best: the best validation score so far, higher being better.
        seconds: of training so far.
        recipe, dataset: hashes of what the run was started with.
        data: the folder of prepared images.
        model, optimizer: their states.
        start: the hash of the trained model that the run began with, if it did.
    """

    stage: int
    step: int
    best: float | None
    seconds: float
    recipe: str
    dataset: str
    data: str
    model: dict[str, Tensor]
    optimizer: dict[str, Any]
    start: str = ""


def write_checkpoint(run: Path, checkpoint: Checkpoint) -> None:
    """Replace RUN/last.ckpt, all at once. Its first line is the format and the rest's hash."""
    content = io.BytesIO()
    torch.save({field.name: vars(checkpoint)[field.name] for field in fields(checkpoint)}, content)
    body = content.getbuffer()
    header = _FORMAT + b" " + sha256(body).hexdigest().encode() + b"\n"
    with written_whole(run / LAST, advice=_ADVICE) as part, part.open("wb") as file:
        file.write(header)
        file.write(body)


def read_checkpoint(run: Path) -> Checkpoint:
    """RUN/last.ckpt, or one line that says why not. Only tensors and plain values are unpickled."""
    path = run / LAST
    if not path.is_file():
        raise MissingFileError(
            f"{run}: no {LAST} in it, so there is nothing to resume: start with `gradicon "
            "train RECIPE`"
        )
    header, _, body = path.read_bytes().partition(b"\n")
    if not header.startswith(_FORMAT + b" "):
        raise GradiconError(
            f"{path}: not a checkpoint of a run: start again, from {STAGE1} if there is one"
        )
    if header.split()[1].decode(errors="replace") != sha256(body).hexdigest():
        raise GradiconError(
            f"{path}: damaged: its contents do not match their hash; take a copy of it if "
            "you have one"
        )
    return Checkpoint(**torch.load(io.BytesIO(body), map_location="cpu", weights_only=True))


def write_model(path: Path, model: Model, preprocessing: Preprocessing, about: Training) -> None:
    """A model that `gradicon register --model` takes, with where it comes from."""
    try:
        save(model, path, preprocessing=preprocessing, training=about)
    except (SafetensorError, OSError) as error:
        raise UnwritableError(f"{path}: could not be written ({error}): {_ADVICE}") from error


def remove_leftovers(run: Path) -> None:
    """What a killed process was writing."""
    for part in run.glob(".part*"):
        part.unlink()
