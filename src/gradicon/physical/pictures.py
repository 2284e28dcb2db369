"""Pictures that ITK does not read: GIF, the format of DRIVE's masks."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gradicon.errors import GradiconError, MissingPackageError

_GREY = ("1", "L", "P")  # black and white, shades of grey, and numbers of a palette


def read_gif(path: Path) -> NDArray[np.uint8]:
    """(H, W): the shades of a grey picture."""
    try:
        from PIL import Image, UnidentifiedImageError  # comes with the extra `figures`
    except ImportError as error:
        raise MissingPackageError(
            f"{path}: reading GIF needs Pillow: pip install 'gradicon[figures]'"
        ) from error
    try:
        with Image.open(path, formats=["GIF"]) as image:
            frames = int(getattr(image, "n_frames", 1))
            mode = image.mode
            colours = np.asarray(image.convert("RGB"))
    except (OSError, UnidentifiedImageError) as error:
        raise GradiconError(f"{path}: not an image that can be read: damaged") from error
    grey = bool((colours == colours[..., :1]).all())
    if frames != 1 or mode not in _GREY or not grey:
        found = f"{frames} pictures" if frames != 1 else "colours"
        raise GradiconError(f"{path}: expected one picture in shades of grey, got {found}")
    return colours[..., 0].copy()
