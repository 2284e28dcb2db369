"""Reading label maps between their voxels: the label that has the most of a linear
interpolation.
"""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradicon.physical.space import Matrix

_BLOCK = 1 << 18  # points at a time: what fits a processor's cache


def read_labels(labels: NDArray[Any], index: Matrix, *, outside: float = 0) -> NDArray[Any]:
    """The label with the greatest share at each point, as if every label were interpolated linearly
    as an image of 0 and 1.

    A label read at its nearest voxel is off by up to half a voxel; this one has its surface between
    the voxels.

    Args:
        labels: whole numbers, on a grid.
        index: points (N, D), in voxels of that grid, in array order.
        outside: the value half a voxel and more beyond the outermost centres.

    >>> labels = np.array([[0, 7, 7], [0, 0, 7]])
    >>> read_labels(labels, np.array([[0.1, 0.7], [0.4, 0.7], [9.0, 9.0]])).tolist()
    [7, 0, 0]
    """
    found = np.full(len(index), outside, dtype=labels.dtype)
    cells = _Cells(labels)
    ends = np.array(labels.shape) - 0.5
    for start in range(0, len(index), _BLOCK):
        block = index[start : start + _BLOCK]
        seen = ((block >= -0.5) & (block < ends)).all(1)
        found[start : start + _BLOCK][seen] = cells.read(block[seen])
    return found


class _Cells:
    """The cells between voxels. Most have one label at all their corners, and need no sum."""

    def __init__(self, labels: NDArray[Any]) -> None:
        self._last = np.array(labels.shape) - 1
        padded = np.pad(labels, [(0, 1)] * labels.ndim, mode="edge")
        self._values = padded.ravel()
        self._strides = np.array(padded.strides) // padded.itemsize
        self._corners = np.array(list(product((0, 1), repeat=labels.ndim)))
        inner = tuple(slice(0, n) for n in labels.shape)
        mixed = np.zeros(padded.shape, dtype=bool)
        for corner in self._corners[1:]:
            mixed[inner] |= (
                padded[tuple(slice(c, c + n) for c, n in zip(corner, labels.shape, strict=True))]
                != labels
            )
        self._mixed = mixed.ravel()

    def read(self, index: Matrix) -> NDArray[Any]:
        """Each label's share is the sum of the weights of the corners that have it; at equal shares
        the first corner's wins.
        """
        index = index.clip(0, self._last)
        low = index.astype(np.int64)
        base = low @ self._strides
        found = self._values[base]
        mixed = np.flatnonzero(self._mixed[base])
        part = (index - low)[mixed].T
        value = self._values[base[mixed] + (self._corners @ self._strides)[:, None]]
        weight = np.stack(
            [np.where(corner[:, None], part, 1 - part).prod(0) for corner in self._corners]
        )
        shares = np.stack([(weight * (value == one)).sum(0) for one in value])
        found[mixed] = np.take_along_axis(value, shares.argmax(0)[None], 0)[0]
        return found
