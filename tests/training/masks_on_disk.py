"""Two files like DRIVE's masks."""

from pathlib import Path

import numpy as np
from PIL import Image


def masks(folder: Path, shape: tuple[int, int] = (584, 565)) -> Path:
    """A white block of 100 x 200 pixels, and one of 100 x 60; smaller on smaller shapes."""
    folder.mkdir()
    rows, columns = shape
    top, bottom = 100 * rows // 584, 200 * rows // 584
    for name, left, right in (("21", 100, 300), ("22", 200, 260)):
        image = np.zeros(shape, np.uint8)
        image[top:bottom, left * columns // 565 : right * columns // 565] = 255
        Image.fromarray(image).save(folder / f"{name}_manual1.gif")
    return folder
