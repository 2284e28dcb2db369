"""Weights of the reference implementation (ICON, uniGradICON) as networks of ours."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from gradicon.errors import MissingFileError
from gradicon.models.build import Model, ModelConfig, build
from gradicon.models.checkpoint import CheckpointError, load_strictly

_LAYERS = {"downConvs": "down", "upConvs": "up", "batchNorms": "norm", "lastConv": "last"}
_STEPS = {"netPhi": "first", "netPsi": "second", "net": "net"}
_NAME = re.compile(
    r"((?:(?:netPhi|netPsi|net)\.)*)net\.(downConvs|upConvs|batchNorms|lastConv)\.(.+)"
)


def from_icon(state_dict: Mapping[str, Tensor]) -> Model:
    """The reference's Stage1, Stage2 or ICON, in 2-D or 3-D, from its state dict: the same
    function, in evaluation mode.

    Which of them it is, dimension, number of resolutions and channel counts are read off the names
    and shapes. A prefix that every name has (`regis_net.`, `module.`) is dropped, and so are the
    reference's cached coordinate grids, which hold no weights.

    ICON's part at half resolution is known by its Downsample. Without that, the same two U-Nets are
    a network for halved images: a Stage2 of one resolution.
    """
    named = _without_wrappers(state_dict)
    state = {_our_name(name): tensor for name, tensor in named.items()}
    unets = {name.partition("dense.")[0] for name in state}
    kind = next((kind for kind in _kinds() if unets == _unets(kind)), None)
    if kind is None:
        raise CheckpointError(
            "not a Stage1, Stage2 or ICON state dict of the reference: its U-Nets are at "
            f"{sorted(unets)}"
        )
    finest = max(unets)  # the last step: "second" comes after "first"
    model = build(_with_sizes(kind, state, finest))
    load_strictly(model.net, state, source="state dict")
    return model.eval()


def read_icon(path: str | Path) -> dict[str, Tensor]:
    """A state dict from a `.trch` file, by torch's restricted unpickler: a file that holds anything
    but tensors is refused.
    """
    if not Path(path).is_file():
        raise MissingFileError(f"{path}: no such file")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (
        Exception
    ) as error:  # on bytes that are no pickle, the unpickler may stumble over anything
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise CheckpointError(
            f"{path}: not a file of weights that torch can read safely: {reason}"
        ) from error
    if not isinstance(state, dict) or not all(
        isinstance(k, str) and isinstance(v, Tensor) for k, v in state.items()
    ):
        raise CheckpointError(
            f"{path}: expected a state dict, names to tensors, got a {type(state).__name__}"
        )
    return dict(state)


def _without_wrappers(state_dict: Mapping[str, Tensor]) -> dict[str, Tensor]:
    named = {
        name: tensor for name, tensor in state_dict.items() if name.split(".")[-1] != "identity_map"
    }
    for prefix in ("module.", "regis_net."):
        if named and all(name.startswith(prefix) for name in named):
            named = {name.removeprefix(prefix): tensor for name, tensor in named.items()}
    if not named:
        raise CheckpointError(
            "the state dict is empty: expected the weights of a registration network"
        )
    return named


def _our_name(name: str) -> str:
    match = _NAME.fullmatch(name)
    if match is None:
        raise CheckpointError(
            f"unexpected name {name!r} in the state dict: not part of the reference's "
            "Stage1, Stage2 or ICON"
        )
    steps, layer, rest = match.groups()
    path = [_STEPS[step] for step in steps.split(".") if step]
    return ".".join([*path, "dense", _LAYERS[layer], rest])


def _kinds() -> Iterator[ModelConfig]:
    """The networks that there may be, but for their sizes."""
    for stage in (1, 2):
        yield ModelConfig(composition="icon", stage=stage)
        for resolutions in range(1, 9):
            yield ModelConfig(stage=stage, resolutions=resolutions)


def _unets(kind: ModelConfig) -> set[str]:
    """Where the U-Nets of a network stand in its state dict."""
    if kind.stage == 2:
        return {"first." + unet for unet in _unets(replace(kind, stage=1))} | {"second."}
    if kind.composition == "icon":
        return {"net.first.", "net.second."}
    if kind.resolutions == 1:
        return {""}
    coarser = replace(kind, resolutions=kind.resolutions - 1)
    return {"first.net." + unet for unet in _unets(coarser)} | {"second."}


def _with_sizes(kind: ModelConfig, state: Mapping[str, Tensor], unet: str) -> ModelConfig:
    """Dimension and channel counts, off the weights of one U-Net."""

    def shapes(layer: str) -> list[torch.Size]:
        pattern = re.compile(re.escape(f"{unet}dense.{layer}.") + r"(\d+)\.weight")
        found = sorted(
            (int(m[1]), t.shape) for name, t in state.items() if (m := pattern.fullmatch(name))
        )
        if [i for i, _ in found] != list(range(len(found))) or not found:
            raise CheckpointError(
                f"missing tensor(s) of {layer!r} in the state dict: found those of levels "
                f"{[i for i, _ in found]}"
            )
        return [shape for _, shape in found]

    down = shapes("down")
    up = shapes("up")
    if len(down[0]) not in (4, 5) or any(len(shape) != len(down[0]) for shape in (*down, *up)):
        raise CheckpointError(
            "convolution weights in the state dict are neither all 2-D nor all 3-D: "
            f"{[tuple(s) for s in (*down, *up)]}"
        )
    if down[0][1] % 2:
        raise CheckpointError(
            f"the first convolution takes {down[0][1]} channels: expected an even number, "
            "for two images"
        )
    return replace(
        kind,
        dimension=len(down[0]) - 2,
        image_channels=down[0][1] // 2,
        down_channels=tuple(shape[0] for shape in down),
        up_channels=tuple(shape[1] for shape in up),
    )
