"""Random geometry of every kind that files have: oblique, anisotropic, far from the origin, axes in
any order and direction.
"""

import numpy as np
import SimpleITK as sitk


def random_image(seed: int, dimension: int = 3) -> sitk.Image:
    random = np.random.default_rng(seed)
    shape = tuple(int(n) for n in random.integers(5, 12, dimension))
    image = sitk.GetImageFromArray(random.random(shape))
    rotation, _ = np.linalg.qr(
        random.standard_normal((dimension, dimension))
    )  # determinant +1 or -1: mirrored axes too
    image.SetDirection(rotation.ravel().tolist())
    image.SetSpacing(random.uniform(0.3, 6, dimension).tolist())
    image.SetOrigin(random.uniform(-200, 200, dimension).tolist())
    return image
