"""Registration networks: functions from two images to a transform, and the two operators that build
networks from networks.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from gradicon.core.acceleration import is_recorded
from gradicon.core.sampling import halve, sample
from gradicon.core.transform import Composition, DisplacementField, Transform
from gradicon.errors import GradiconError

Dense = Callable[[], nn.Module]
"""Makes a fresh dense network: stacked images (B, 2C, *S) to displacements (B, D, *S) in unit-cube
coordinates.
"""


def warp(image: Float[Tensor, "_ c *s"], phi: Transform) -> Float[Tensor, "_ c *s"]:
    """I o phi, on the image's own grid: the moving image (B, C, *S), as the fixed one should
    look.
    """
    return sample(image, phi.on_grid(image.shape[2:]))


class RegistrationNetwork(nn.Module, ABC):
    """Phi: a network whose answer to (moving, fixed) is a transform phi with moving o phi ~ fixed.

    Images are (B, C, *S), float32 or float64, finite, of one shape; the paper scales them to [0,1].
    """

    @abstractmethod
    def forward(self, moving: Float[Tensor, "b c *s"], fixed: Float[Tensor, "b c *s"]) -> Transform:
        """Phi[moving, fixed]."""

    def __call__(
        self, moving: Float[Tensor, "b c *s"], fixed: Float[Tensor, "b c *s"]
    ) -> Transform:
        check_pair(moving, fixed)
        return super().__call__(moving, fixed)


@final
class Displace(RegistrationNetwork):
    """Psi: the output of a dense network, read as a displacement field.

    `refuse_non_finite` may be set to False where images are known to be finite and the loss is
    watched, as in training: the check makes the host wait for the device.
    """

    def __init__(self, dense: nn.Module) -> None:
        super().__init__()
        self.dense = dense
        self.refuse_non_finite = True

    def forward(self, moving: Float[Tensor, "b c *s"], fixed: Float[Tensor, "b c *s"]) -> Transform:
        if self.refuse_non_finite:
            check_finite(moving, fixed)
        u = self.dense(torch.cat([moving, fixed], 1))
        # Convolutions may run in half precision, coordinates never do.
        return DisplacementField(u.to(moving.dtype))


@final
class Down(RegistrationNetwork):
    """Down{Phi}[A, B] = Phi[AvgPool(A, 2), AvgPool(B, 2)].

    A transform has no resolution, so nothing is scaled back.
    """

    def __init__(self, net: RegistrationNetwork) -> None:
        super().__init__()
        self.net = net

    def forward(self, moving: Float[Tensor, "b c *s"], fixed: Float[Tensor, "b c *s"]) -> Transform:
        return self.net(halve(moving), halve(fixed))


@final
class TwoStep(RegistrationNetwork):
    """TS{Phi, Psi}[A, B] = Phi[A, B] o Psi[A o Phi[A, B], B].

    Psi may be asked again, with the same weights, of the image as it is warped by then: with two
    `times` this is TS{TS{Phi, Psi}, Psi}, and so on.
    """

    def __init__(
        self, first: RegistrationNetwork, second: RegistrationNetwork, times: int = 1
    ) -> None:
        super().__init__()
        self.first = first
        self.second = second
        self.times = times

    def forward(self, moving: Float[Tensor, "b c *s"], fixed: Float[Tensor, "b c *s"]) -> Transform:
        phi = self.first(moving, fixed)
        for _ in range(self.times):
            phi = Composition(phi, self.second(warp(moving, phi), fixed))
        return phi


def multiresolution(dense: Dense, *, resolutions: int = 3) -> RegistrationNetwork:
    """The paper's Stage1 = TS{Down{TS{Down{Psi1}, Psi2}}, Psi3}: `resolutions` networks, each at
    twice the resolution before. `dense` makes a fresh network for each; the paper has three.
    """
    if resolutions < 1:
        raise GradiconError(f"a network has at least 1 resolution, got {resolutions}")
    net: RegistrationNetwork = Displace(dense())
    for _ in range(resolutions - 1):
        net = TwoStep(Down(net), Displace(dense()))
    return net


def two_at_half_resolution(dense: Dense) -> RegistrationNetwork:
    """The first part of ICON (Greer et al. 2021) = Down{TS{Psi1, Psi2}}.

    `refined` adds the rest: one network at full resolution.
    """
    return Down(refined(Displace(dense()), dense))


def refined(net: RegistrationNetwork, dense: Dense, *, times: int = 1) -> RegistrationNetwork:
    """The paper's Stage2 = TS{Stage1, Psi4}: one more step at full resolution, on top of a network
    that keeps its weights; or several `times` the same step.
    """
    return TwoStep(net, Displace(dense()), times)


def check_pair(moving: Tensor, fixed: Tensor) -> None:
    """Refuse, in one line, a pair of images that no registration network could take."""
    for name, image in (("moving", moving), ("fixed", fixed)):
        if image.ndim not in (4, 5):
            raise GradiconError(
                f"the {name} image must have shape (B, C, H, W) or (B, C, D, H, W), got "
                f"{tuple(image.shape)}"
            )
        if image.dtype not in (torch.float32, torch.float64):
            raise TypeError(
                f"the {name} image must be float32 or float64, got {image.dtype}: convert it first"
            )
    if moving.shape != fixed.shape:
        raise GradiconError(
            f"moving and fixed must have one shape, got {tuple(moving.shape)} and "
            f"{tuple(fixed.shape)}: resample one"
        )
    if moving.dtype != fixed.dtype:
        raise TypeError(
            f"moving and fixed must share one dtype, got {moving.dtype} and {fixed.dtype}"
        )


def check_finite(moving: Tensor, fixed: Tensor) -> None:
    """Refuse NaN and infinite voxels.

    Left out while a graph is traced or captured: it depends on the data.
    """
    if is_recorded(moving):
        return
    for name, image in (("moving", moving), ("fixed", fixed)):
        if not torch.isfinite(image).all():
            bad = int((~torch.isfinite(image)).sum())
            raise GradiconError(
                f"the {name} image has {bad} NaN or infinite voxels: every voxel must be finite"
            )
