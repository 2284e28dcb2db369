"""The voxels of a NIfTI-1 file, out of its bytes: ITK reads a damaged file without complaint, and
turns NaN into zeros.
"""

import gzip
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradicon.errors import GradiconError

_HEADER_BYTES = 348
_TYPES = {2: "u1", 4: "i2", 8: "i4", 16: "f4", 64: "f8", 256: "i1", 512: "u2", 768: "u4"}
"""NIfTI's codes for one real value per voxel, as NumPy writes them."""


@dataclass(frozen=True, eq=False)
class StoredVoxels:
    """What a file stores.

    Args:
        values: the voxels, in array order.
        plain: whether they mean what they say: not scaled, and not one of many values per voxel.
    """

    values: NDArray[Any]
    plain: bool


def read_voxels(path: Path) -> StoredVoxels | None:
    """The voxels of a file that is whole, or None where ITK has to say what they are (NIfTI-2, and
    kinds of values that are not read here). A damaged file is refused.
    """
    content = _read_bytes(path)
    if len(content) < _HEADER_BYTES:
        raise _damaged(path, "no whole NIfTI header")
    order = "<" if struct.unpack_from("<i", content)[0] == _HEADER_BYTES else ">"
    if struct.unpack_from(order + "i", content)[0] != _HEADER_BYTES:
        return None
    rank, *sizes = struct.unpack_from(order + "8h", content, 40)
    kind, bits = struct.unpack_from(order + "2h", content, 70)
    offset, slope, intercept = struct.unpack_from(order + "3f", content, 108)
    shape = [max(n, 1) for n in sizes[: max(min(rank, 7), 0)]]
    count = np.prod(shape, dtype=np.float64)  # of a damaged header it may be astronomic
    if not (offset >= 0 and offset + count * bits / 8 <= len(content)):
        raise _damaged(path, "it holds fewer voxels than its header says")
    stored = _TYPES.get(kind)
    if stored is None or np.dtype(stored).itemsize * 8 != bits:
        return None
    values = np.frombuffer(content, order + stored, int(count), int(offset))
    scaled = slope != 0 and (slope, intercept) != (1, 0)
    single_file = content[344:348] == b"n+1\0"
    native = values.astype(stored, copy=False)
    return StoredVoxels(native.reshape(shape[::-1]), plain=single_file and not scaled)


def _read_bytes(path: Path) -> bytes:
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.name.lower().endswith(".gz") else content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> GradiconError:
    return GradiconError(f"{path}: the file is damaged or cut off ({why}): get it again")
