"""From a configuration to a network. The defaults are the paper's."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, Literal, final, get_args

from jaxtyping import Float
from torch import Tensor, nn

from gradicon.core.network import (
    Dense,
    RegistrationNetwork,
    multiresolution,
    refined,
    two_at_half_resolution,
)
from gradicon.core.transform import Transform
from gradicon.core.unet import UNet
from gradicon.core.voxelmorph import VoxelMorphUNet
from gradicon.errors import GradiconError

Backbone = Literal["unet", "voxelmorph"]
Composition = Literal["gradicon", "icon"]
_RESOLUTIONS = 3
_CHANNELS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "unet": ((16, 32, 64, 256, 512), (16, 32, 64, 128, 256)),
    "voxelmorph": ((16, 32, 32, 32), (32, 32, 32, 32, 32, 16, 16)),
}


@final
@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """What a network is built from: `ModelConfig(stage=1)` and `ModelConfig(stage=2)` are the
    paper's networks, `ModelConfig(composition="icon")` is its baseline.

    Args:
        dimension: 2 or 3.
        composition: "gradicon", the paper's, or "icon", that of Greer et al. 2021.
        stage: 1 is TS{Down{TS{Down{Psi1}, Psi2}}, Psi3}, or with "icon" Down{TS{Psi1, Psi2}}; 2
            adds one more network at full resolution.
        resolutions: how many resolutions Stage1 has. Not for "icon", which has half and full.
        repeats: how often stage 2 asks its last network, each time of the image warped by then.
        image_channels: channels of each image.
        backbone: "unet", the paper's, or "voxelmorph", the ablation's.
        down_channels, up_channels: of the backbone, in its own order; left out, the backbone's
            published counts.
    """

    dimension: int = 3
    composition: Composition = "gradicon"
    stage: int = 2
    resolutions: int = _RESOLUTIONS
    repeats: int = 1
    image_channels: int = 1
    backbone: Backbone = "unet"
    down_channels: tuple[int, ...] = ()
    up_channels: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.backbone not in _CHANNELS:
            raise GradiconError(
                f"unknown backbone {self.backbone!r}: expected one of {', '.join(_CHANNELS)}"
            )
        if self.composition not in get_args(Composition):
            raise GradiconError(
                f"unknown composition {self.composition!r}: expected one of "
                f"{', '.join(get_args(Composition))}"
            )
        down, up = _CHANNELS[self.backbone]
        object.__setattr__(self, "down_channels", tuple(self.down_channels) or down)
        object.__setattr__(self, "up_channels", tuple(self.up_channels) or up)
        _check_range("dimension", self.dimension, 2, 3)
        _check_range("stage", self.stage, 1, 2)
        _check_range("resolutions", self.resolutions, 1, 8)
        _check_range("repeats", self.repeats, 1, 16)
        _check_range("image_channels", self.image_channels, 1, 1024)
        if self.composition == "icon" and self.resolutions != _RESOLUTIONS:
            raise GradiconError(
                'composition "icon" has two resolutions, half and full, and no other number: leave '
                f"out resolutions, got {self.resolutions}"
            )
        if any(type(n) is not int or n < 1 for n in (*self.down_channels, *self.up_channels)):
            raise GradiconError(
                f"channel counts must be positive whole numbers, got {self.down_channels} "
                f"and {self.up_channels}"
            )

    @property
    def title(self) -> str:
        """What the network is called, such as "Stage2"."""
        if self.composition == "icon":
            return "ICON" if self.stage == 2 else "ICON at half resolution"
        return f"Stage{self.stage}"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ModelConfig":
        """The reverse of `to_dict`; an unknown name is an error."""
        known = [field.name for field in fields(cls)]
        for name in values:
            if name not in known:
                raise GradiconError(
                    f"unknown name {name!r} in a model configuration: expected some of "
                    f"{', '.join(known)}"
                )
        plain = dict(values)
        for name in ("down_channels", "up_channels"):
            if name in plain:
                if not isinstance(plain[name], list | tuple):
                    raise GradiconError(
                        f"{name} must be a list of whole numbers, got {plain[name]!r}"
                    )
                plain[name] = tuple(plain[name])
        return cls(**plain)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON or TOML."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in asdict(self).items()
        }


@final
class Model(RegistrationNetwork):
    """A registration network together with the configuration it was built from, so that it can be
    saved.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        dense = _dense(config)
        stage1 = _stage1(config, dense)
        self.net = stage1
        if config.stage == 2:
            self.net = refined(stage1, dense, times=config.repeats)

    def forward(self, moving: Float[Tensor, "b c *s"], fixed: Float[Tensor, "b c *s"]) -> Transform:
        if moving.ndim != self.config.dimension + 2:
            raise GradiconError(
                f"this model is {self.config.dimension}-D, got images of shape "
                f"{tuple(moving.shape)}"
            )
        if moving.shape[1] != self.config.image_channels:
            raise GradiconError(
                f"this model takes images of {self.config.image_channels} channel(s), got "
                f"{moving.shape[1]}"
            )
        return self.net(moving, fixed)


def build(config: ModelConfig) -> Model:
    """A network with fresh weights: before any training it is the identity map."""
    return Model(config)


def _check_range(name: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise GradiconError(f"{name} must be a whole number from {low} to {high}, got {value!r}")


def _stage1(config: ModelConfig, dense: Dense) -> RegistrationNetwork:
    if config.composition == "icon":
        return two_at_half_resolution(dense)
    return multiresolution(dense, resolutions=config.resolutions)


def _dense(config: ModelConfig) -> Dense:
    backbone: type[nn.Module] = {"unet": UNet, "voxelmorph": VoxelMorphUNet}[config.backbone]
    return partial(
        backbone,
        config.dimension,
        2 * config.image_channels,
        config.down_channels,
        config.up_channels,
    )
