"""Checkpoints: one safetensors file with the weights, a typed header and a hash. Never pickle."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from gradicon.errors import GradiconError, MissingFileError
from gradicon.files import written_whole
from gradicon.models.build import Model, build
from gradicon.models.header import (
    SECTIONS,
    Header,
    Preprocessing,
    Training,
    pack_header,
    unpack_header,
)

FORMAT = "gradicon-2"
EARLIER = "gradicon-1"


class CheckpointError(GradiconError):
    """A checkpoint that cannot be read, or is not what it says it is."""


@final
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A file of weights that was opened once: its header is read, its weights wait until asked for.

    Args:
        path: of the file.
        header: what it says of itself.
    """

    path: Path
    header: Header
    _file: Any
    _metadata: Mapping[str, str]

    @property
    def name(self) -> str:
        """Of the model, for people."""
        return self.path.stem

    def load(self, *, repeats: int | None = None) -> Model:
        """The network, in evaluation mode and on the CPU.

        Its hash, names, shapes and dtypes are all checked. `repeats` is how often its last network
        is asked, if that is not what the file says.
        """
        try:
            state = {name: self._file.get_tensor(name) for name in self._file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise CheckpointError(f"{self.path}: damaged ({error}): get it again") from error
        if _digest(self._metadata, state) != self.header.sha256:
            raise CheckpointError(
                f"{self.path}: the contents do not match their hash: "
                "the file was altered or damaged, get it again"
            )
        config = self.header.config
        model = build(config if repeats is None else replace(config, repeats=repeats))
        load_strictly(model.net, state, source=str(self.path))
        return model.eval()


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open a file that `save` wrote."""
    path = Path(path)
    if not path.is_file():
        raise MissingFileError(f"{path}: no such checkpoint file")
    try:
        file = safe_open(path, framework="pt")
        metadata = file.metadata() or {}
    except SafetensorError as error:
        raise CheckpointError(
            f"{path}: not a whole safetensors file ({error}): get it again"
        ) from error
    _check_format(path, metadata)
    try:
        header = unpack_header(metadata)
    except (TypeError, GradiconError) as error:
        raise CheckpointError(f"{path}: unreadable header: {error}") from error
    return Checkpoint(path, header, file, metadata)


def load(path: str | Path) -> Model:
    """Read a model that `save` wrote, in evaluation mode and on the CPU."""
    return open_checkpoint(path).load()


def read_header(path: str | Path) -> Header:
    """What a checkpoint says of itself, without its weights."""
    return open_checkpoint(path).header


def save(
    network: Model,
    path: str | Path,
    *,
    preprocessing: Preprocessing | None = None,
    training: Training | None = None,
    notes: Mapping[str, str] | None = None,
    half: bool = False,
) -> None:
    """Write a model to a file: all of it or nothing.

    Args:
        network: whose weights and configuration are saved.
        path: of the file.
        preprocessing: how images are prepared for it.
        training: how it came about.
        notes: free text that travels along.
        half: round the weights of convolutions to float16 in the file, which is then half as large;
            loaded, they are float32 again.
    """
    weights = network.net.state_dict()
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    if half:
        state = {name: _halve(name, tensor) for name, tensor in state.items()}
    metadata = pack_header(network.config, preprocessing, training, notes or {})
    metadata["format"] = FORMAT
    metadata["sha256"] = _digest(metadata, state)
    with written_whole(Path(path)) as part:
        save_file(state, part, metadata=metadata)


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


def _halve(name: str, tensor: Tensor) -> Tensor:
    """Convolutions only: they are nearly all of a file, and what is normalised by stays exact."""
    if tensor.ndim <= 1:
        return tensor
    halved = tensor.half()
    if not torch.isfinite(halved).all():
        raise GradiconError(
            f"{name!r} has values beyond 65504, the largest of half precision: "
            "save the model without half"
        )
    return halved


def _check_format(path: Path, metadata: Mapping[str, str]) -> None:
    if metadata.get("format") == EARLIER:
        raise CheckpointError(
            f"{path}: written by an earlier version: "
            f"convert it with `gradicon import-weights {path} -o NEW.safetensors`"
        )
    if metadata.get("format") != FORMAT:
        raise CheckpointError(
            f"{path}: not a gradicon checkpoint of format {FORMAT}: "
            "import weights of the reference with `gradicon import-weights`"
        )


def _digest(metadata: Mapping[str, str], state: Mapping[str, Tensor]) -> str:
    """The hash of everything in a file: what its header says, and its weights."""
    return hash_texts([metadata[key] for key in ("format", *SECTIONS)], state)


def hash_texts(texts: Sequence[str], state: Mapping[str, Tensor]) -> str:
    """SHA-256 of some texts, and of tensors with their names, types and shapes."""
    digest = hashlib.sha256("\0".join(texts).encode())
    for name, tensor in sorted(state.items()):
        digest.update(f"\0{name}\0{tensor.dtype}\0{list(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
