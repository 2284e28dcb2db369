"""What is noise in two maps that should be inverses: all that is left of the closest inverses.

Maps are fields on a grid of shape S in D dimensions, in lengths of the unit cube.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gradicon.core.sampling import unit_grid, window
from gradicon.core.transform import DisplacementField

# of the inverse error, raised so that each solution starts the next, harder search
WEIGHTS = (1.0, 10.0, 100.0)

Inverses = tuple[DisplacementField, DisplacementField]


def closest_inverses(
    phi_ab: DisplacementField,
    phi_ba: DisplacementField,
    *,
    weights: Sequence[float] = WEIGHTS,
    iterations: int,
) -> list[Inverses]:
    """The inverses with the least squared distance to two maps together, one pair for each weight.

    Minimises |ab - phi_ab|^2 + |ba - phi_ba|^2 + weight (|ab o ba - Id|^2 + |ba o ab - Id|^2) over
    fields ab and ba, compositions where both maps stay inside. They undo each other the better the
    larger the weight, so the last pair is the best.

    Args:
        phi_ab, phi_ba: fields (B, D, *S) that should be inverses, in double precision.
        weights: of the inverse error, one search after the other.
        iterations: of L-BFGS in each search.
    """
    wanted = torch.stack([phi_ab.u, phi_ba.u])
    judged = region(phi_ab, phi_ba, part=16)
    u = wanted.clone().requires_grad_()
    found: list[Inverses] = []
    for weight in weights:
        optimizer = torch.optim.LBFGS(
            [u],
            max_iter=iterations,
            history_size=20,
            line_search_fn="strong_wolfe",
            tolerance_change=1e-14,
        )

        def far(weight: float = weight, optimizer: torch.optim.Optimizer = optimizer) -> Tensor:
            optimizer.zero_grad()
            ab, ba = (DisplacementField(each) for each in u)
            off = (both.materialise(u.shape[3:]).u for both in (ab @ ba, ba @ ab))
            loss = ((u - wanted) ** 2).sum() + weight * sum(
                (((judged * error) ** 2).sum() for error in off), u.new_zeros(())
            )
            loss.backward()
            return loss

        optimizer.step(far)
        ab, ba = (DisplacementField(each) for each in u.detach().clone())
        found.append((ab, ba))
    return found


def gradient(u: Float[Tensor, "b d *s"]) -> Float[Tensor, "b dd *t"]:
    """All D^2 derivatives of a field, by forward differences, in lengths of the unit cube.

    There is one voxel less along each axis. Channel D i + j is d_i u_j.
    """
    shape = [n - 1 for n in u.shape[2:]]
    origin = window(u, [0] * len(shape), shape)
    ahead = [
        window(u, [int(i == axis) for i in range(len(shape))], shape) for axis in range(len(shape))
    ]
    return torch.cat([(there - origin) * n for there, n in zip(ahead, shape, strict=True)], 1)


def region(
    phi_ab: DisplacementField, phi_ba: DisplacementField, *, part: int = 8
) -> Bool[Tensor, "b 1 *s"]:
    """Where noise can be told: 1 / `part` of the image away from its border.

    Neither the voxel nor what the maps make of it may be nearer.

    Beyond the image fields are constant, so maps that cross its border bend there, and have no
    inverse of their kind.
    """
    shape = phi_ab.u.shape[2:]
    places = torch.cat(
        [
            unit_grid(shape, like=phi_ab.u).expand_as(phi_ab.u),
            phi_ab.on_grid(shape),
            phi_ba.on_grid(shape),
        ],
        1,
    )
    near = places.amin(1, keepdim=True)
    far = places.amax(1, keepdim=True)
    return (near >= 1 / part) & (far <= 1 - 1 / part)


def autocorrelation(x: Float[Tensor, "b c *s"], lag: int) -> Float[Tensor, " b"]:
    """The correlation of a field with itself `lag` voxels on, per item; NaN is left out.

    It is the mean over the axes along which `lag` is counted, and over components.
    """
    x = x - x.flatten(2).nanmean(2).reshape(*x.shape[:2], *[1] * (x.ndim - 2))
    along = [
        (x.narrow(k, lag, x.shape[k] - lag) * x.narrow(k, 0, x.shape[k] - lag))
        .flatten(2)
        .nanmean(2)
        for k in range(2, x.ndim)
    ]
    return (torch.stack(along).mean(0) / (x**2).flatten(2).nanmean(2)).mean(1)


def rms(x: Float[Tensor, "b c *s"]) -> Float[Tensor, " b"]:
    """The root of the mean squared norm of a field, per item. NaN is left out."""
    return (x**2).sum(1).flatten(1).nanmean(1).sqrt()
