"""Bringing two fields of view together before anything is deformed.

`find_start` is for what a deformation starts from; `align` for a rigid or affine map that is the
answer. Both search orientations and shifts from coarse to fine, in mm.
"""

from gradicon.registration.start.decide import INITS, Init, Start, align, find_start

__all__ = ["INITS", "Init", "Start", "align", "find_start"]
