"""Small pairs of real and made-up scans, stored in every way that files are."""

from importlib.resources import files
from pathlib import Path

import numpy as np
import SimpleITK as sitk
import torch

from gradicon.core.network import warp
from maps import blobs, smooth_field

SAMPLE = Path(str(files("gradicon") / "sample"))


def sample_image(name: str) -> sitk.Image:
    """An image of the bundled pair."""
    return sitk.ReadImage(str(SAMPLE / f"{name}.nii.gz"))


def rotated_world(image: sitk.Image, degrees: float = 25) -> sitk.Image:
    """The same scan by a scanner whose axes are turned: header only."""
    turn = sitk.VersorTransform((1.0, 2.0, 3.0), np.deg2rad(degrees))
    matrix = np.array(turn.GetMatrix()).reshape(3, 3)
    turned = sitk.Image(image)
    turned.SetDirection((matrix @ np.array(image.GetDirection()).reshape(3, 3)).ravel().tolist())
    turned.SetOrigin((matrix @ np.array(image.GetOrigin())).tolist())
    return turned


def synthetic_pair(
    shape: tuple[int, ...], spacing: tuple[float, ...], size: float = 0.04
) -> tuple[sitk.Image, sitk.Image]:
    """A moving image and a smoothly deformed copy of it, the fixed one; `spacing` in
    array order.
    """
    moving = blobs(shape, 1)
    fixed = warp(moving, smooth_field(shape, 4, size=size, dtype=torch.float32))
    images = [
        sitk.GetImageFromArray((1000 * image[0, 0]).numpy().astype(np.int16))
        for image in (fixed, moving)
    ]
    for image in images:
        image.SetSpacing(spacing[::-1])
    return images[0], images[1]


def error_of(a: sitk.Image, b: sitk.Image, border: int = 3) -> float:
    """Root mean square difference of two images inside a border, in units of the second one's
    standard deviation.
    """
    inner = (slice(border, -border),) * a.GetDimension() if border else ...
    x, y = (sitk.GetArrayFromImage(image).astype(float)[inner] for image in (a, b))
    return float(np.sqrt(((x - y) ** 2).mean()) / y.std())
