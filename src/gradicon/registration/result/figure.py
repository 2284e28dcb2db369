"""One picture of a registration: both images, the result, and the grid that the map makes of
straight lines.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from gradicon.core.transform import Transform
from gradicon.errors import MissingPackageError

_CONTOURS = ("#ffb000", "#00c8ff", "#ff5fa2", "#7dff6a")


@dataclass(frozen=True)
class Panel:
    """A 2-D image to show, with an optional label map whose outlines are drawn over it."""

    title: str
    image: Tensor
    labels: Tensor | None = None


def check_drawing() -> None:
    """Find out whether figures can be drawn: matplotlib is an extra, which only they need."""
    try:
        import matplotlib.figure  # noqa: F401  # pyright: ignore[reportUnusedImport]
    except ImportError as error:
        raise MissingPackageError(
            "figures need matplotlib: pip install 'gradicon[figures]'"
        ) from error


def draw_registration(
    path: Path,
    panels: list[Panel],
    grid: Panel,
    phi: Transform,
    shape: tuple[int, ...],
    slice_index: int,
    *,
    title: str,
) -> None:
    """Write the panels, and last the grid that phi makes of straight lines over the moving image,
    as a PNG.

    In 3-D the slice `slice_index` along the first axis is shown; motion out of it is not.
    """
    check_drawing()
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * (len(panels) + 1), 4.6), facecolor="white", layout="constrained")
    axes = figure.subplots(1, len(panels) + 1)
    for axis, panel in zip(axes, [*panels, grid], strict=True):
        axis.imshow(
            panel.image.numpy(),
            cmap="gray",
            vmin=0,
            vmax=1,
            origin="lower",
            interpolation="nearest",
        )
        axis.set_title(panel.title)
        axis.set_axis_off()
        axis.set(xlim=(-0.5, panel.image.shape[1] - 0.5), ylim=(-0.5, panel.image.shape[0] - 0.5))
        for label in (
            [] if panel.labels is None else [int(n) for n in panel.labels.unique() if n != 0]
        ):
            color = _CONTOURS[(label - 1) % len(_CONTOURS)]
            axis.contour(
                (panel.labels == label).float().numpy(), levels=[0.5], colors=color, linewidths=1.6
            )
    for y, x in _grid_lines(phi, shape, slice_index):
        axes[-1].plot(x.numpy(), y.numpy(), color=_CONTOURS[0], linewidth=0.8)
    figure.suptitle(title)
    figure.savefig(path, dpi=110)


def _grid_lines(phi: Transform, shape: tuple[int, ...], slice_index: int) -> list[Tensor]:
    """Where phi takes every second grid line of the shown slice: voxel coordinates (2, N) in the
    plane of the slice.
    """
    with torch.no_grad():
        x = phi.on_grid(shape)[0].cpu()
    scale = torch.tensor([n - 1.0 for n in shape]).reshape(-1, *[1] * len(shape))
    voxels = (x * scale)[-2:]
    plane = voxels[:, slice_index] if len(shape) == 3 else voxels
    return [*plane[:, ::2].unbind(1), *plane[:, :, ::2].unbind(2)]
