"""Checkpoints: one safetensors file with the weights, a readable configuration and a hash. Never
pickle.
"""

import hashlib
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from gradicon.errors import GradiconError, MissingFileError
from gradicon.models.build import Model, ModelConfig, build

_FORMAT = "gradicon-1"


class CheckpointError(GradiconError):
    """A checkpoint that cannot be read, or is not what it says it is."""


@dataclass(frozen=True)
class Grid:
    """The grid that a network was trained on: how many voxels, and of what size, or None where
    every image was resized to fit.
    """

    shape: tuple[int, ...]
    spacing_mm: tuple[float, ...] | None


@dataclass(frozen=True)
class Header:
    """What a checkpoint says of itself, readable without loading its weights."""

    config: ModelConfig
    sha256: str
    provenance: Mapping[str, str]

    @property
    def grid(self) -> Grid | None:
        """The grid of its training, if it says so."""
        if "data" not in self.provenance:
            return None
        data: dict[str, Any] = json.loads(self.provenance["data"])
        return Grid(
            tuple(data["shape"]), None if data["crop"] == "fit" else tuple(data["spacing_mm"])
        )

    @property
    def augmented(self) -> bool:
        """Whether its recipe says that it was trained on images moved out of place at random. Other
        notes say nothing.
        """
        try:
            training: Any = tomllib.loads(self.provenance.get("recipe", "")).get("training")
        except tomllib.TOMLDecodeError:
            return False
        return isinstance(training, dict) and training.get("augment") is True


def save(
    network: Model,
    path: str | Path,
    *,
    provenance: Mapping[str, str] | None = None,
    half: bool = False,
) -> None:
    """Write a model to a file: all of it or nothing. `provenance` is free text that travels along,
    such as the training command.

    With `half`, the weights of convolutions are rounded to float16 in the file, which is then half
    as large; loaded, they are float32 again.
    """
    state = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in network.net.state_dict().items()
    }
    if half:
        state = {
            name: _halved(name, tensor) if tensor.ndim > 1 else tensor
            for name, tensor in state.items()
        }
    config = json.dumps(network.config.to_dict())
    metadata = {
        "format": _FORMAT,
        "config": config,
        "provenance": json.dumps(dict(provenance or {})),
    }
    metadata["sha256"] = _digest(metadata, state)
    path = Path(path)
    if not path.parent.is_dir():
        raise MissingFileError(f"{path}: the folder {path.parent} does not exist")
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        save_file(state, part, metadata=metadata)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def load(path: str | Path) -> Model:
    """Read a model that `save` wrote, in evaluation mode and on the CPU. Its hash, names, shapes
    and dtypes are all checked.
    """
    metadata, state = _read(Path(path))
    header = _parse(Path(path), metadata)
    if _digest(metadata, state) != header.sha256:
        raise CheckpointError(
            f"{path}: the contents do not match their hash: the file was altered or "
            "damaged, get it again"
        )
    model = build(header.config)
    load_strictly(model.net, state, source=str(path))
    return model.eval()


def read_header(path: str | Path) -> Header:
    """The configuration, hash and provenance of a checkpoint, without its weights."""
    return _parse(Path(path), _read(Path(path), weights=False)[0])


def load_strictly(net: nn.Module, state: Mapping[str, Tensor], *, source: str) -> None:
    """Copy `state` into `net`, or raise one line that names what is missing, unexpected, misshapen
    or not finite.
    """
    expected = net.state_dict()
    for problem, names in (
        ("missing", expected.keys() - state.keys()),
        ("unexpected", state.keys() - expected.keys()),
    ):
        if names:
            raise CheckpointError(
                f"{source}: {len(names)} {problem} tensor(s), such as {min(names)!r}"
            )
    for name, tensor in state.items():
        want = expected[name]
        same_kind = tensor.dtype == want.dtype or (
            tensor.ndim > 1 and (tensor.dtype, want.dtype) == (torch.float16, torch.float32)
        )
        if tensor.shape != want.shape or not same_kind:
            found = f"{tuple(tensor.shape)} {tensor.dtype}"
            raise CheckpointError(
                f"{source}: {name!r} is {found}, expected {tuple(want.shape)} {want.dtype}"
            )
        if not torch.isfinite(tensor).all():
            raise CheckpointError(f"{source}: {name!r} has NaN or infinite values")
    net.load_state_dict(dict(state))


def _halved(name: str, tensor: Tensor) -> Tensor:
    halved = tensor.half()
    if not torch.isfinite(halved).all():
        raise GradiconError(
            f"{name!r} has values beyond 65504, the largest of half precision: save the "
            "model without half"
        )
    return halved


def _read(path: Path, *, weights: bool = True) -> tuple[dict[str, str], dict[str, Tensor]]:
    if not path.is_file():
        raise MissingFileError(f"{path}: no such checkpoint file")
    try:
        with safe_open(path, framework="pt") as file:
            state = {name: file.get_tensor(name) for name in file.keys()} if weights else {}  # noqa: SIM118 (not a dict)
            return file.metadata() or {}, state
    except SafetensorError as error:
        raise CheckpointError(
            f"{path}: not a whole safetensors file ({error}): get it again"
        ) from error


def _parse(path: Path, metadata: Mapping[str, str]) -> Header:
    if metadata.get("format") != _FORMAT:
        hint = "import weights of the reference with `gradicon import-weights`"
        raise CheckpointError(f"{path}: not a gradicon checkpoint of format {_FORMAT}, {hint}")
    try:
        config: dict[str, Any] = json.loads(metadata["config"])
        return Header(
            ModelConfig.from_dict(config), metadata["sha256"], json.loads(metadata["provenance"])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path}: unreadable header: {error}") from error


def _digest(metadata: Mapping[str, str], state: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256(
        "\0".join(metadata[key] for key in ("format", "config", "provenance")).encode()
    )
    for name, tensor in sorted(state.items()):
        digest.update(f"\0{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
