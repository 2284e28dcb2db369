"""Weights of the reference implementation (ICON, uniGradICON) as networks of ours."""

import re
from collections.abc import Mapping
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
    """The reference's Stage1 or Stage2, in 2-D or 3-D, from its state dict: the same function, in
    evaluation mode.

    Stage, dimension, number of resolutions and channel counts are read off the names and shapes. A
    prefix that every name has (`regis_net.`, `module.`) is dropped, and so are the reference's
    cached coordinate grids, which hold no weights.
    """
    named = _without_wrappers(state_dict)
    state = {_our_name(name): tensor for name, tensor in named.items()}
    unets = {name.partition("dense.")[0] for name in state}
    for stage, resolutions in ((s, r) for s in (1, 2) for r in range(1, 9)):
        if unets == _unets(stage, resolutions):
            break
    else:
        raise CheckpointError(
            f"not a Stage1 or Stage2 state dict of the reference: its U-Nets are at {sorted(unets)}"
        )
    model = build(_config(state, stage, resolutions))
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
            "Stage1 or Stage2"
        )
    steps, layer, rest = match.groups()
    path = [_STEPS[step] for step in steps.split(".") if step]
    return ".".join([*path, "dense", _LAYERS[layer], rest])


def _unets(stage: int, resolutions: int) -> set[str]:
    """Where the U-Nets of a network stand in its state dict."""
    if stage == 2:
        return {"first." + unet for unet in _unets(1, resolutions)} | {"second."}
    if resolutions == 1:
        return {""}
    return {"first.net." + unet for unet in _unets(1, resolutions - 1)} | {"second."}


def _config(state: Mapping[str, Tensor], stage: int, resolutions: int) -> ModelConfig:
    """Channel counts, off the weights of the finest U-Net."""
    unet = "" if resolutions == stage == 1 else "second."

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
    return ModelConfig(
        dimension=len(down[0]) - 2,
        stage=stage,
        resolutions=resolutions,
        image_channels=down[0][1] // 2,
        down_channels=tuple(shape[0] for shape in down),
        up_channels=tuple(shape[1] for shape in up),
    )
