"""Every number that steers a result, with what it is for."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class StartPreset:
    """How the rigid and affine start is searched, from coarse to fine: a tuple has one entry for
    each resolution. `benchmarks/start.py` measures it; docs/results/start.md has the figures.
    """

    widths: tuple[int, ...] = (16, 32, 64)
    """Voxels along the content, so that a hippocampus and a head are treated alike. At 16 a map is
    found from some 30 degrees away; at 64 the voxels of a brain are 2 to 3 mm."""

    points: tuple[int, ...] = (1500, 6000, 24000)
    """Places where the images are compared: enough that the noise of a histogram does not count."""

    bins: tuple[int, ...] = (8, 16, 24)
    """Levels of grey in a histogram: fewer where there are few points."""

    kept: tuple[int, ...] = (48, 8, 1)
    """Maps that are improved there. With 24 and 4, one T1-FLAIR pair more is lost."""

    steps: tuple[int, ...] = (25, 20, 20)
    """Of the descent."""

    rate: float = 0.4
    """The first step in voxels of the resolution; steps become shorter down to nothing."""

    tilt: float = 35.0
    """Degrees by which each of the 24 turns of a cube is also tilted about each axis, so that any
    turn is within reach of one that is tried."""

    stiffness: float = 2.0
    """What stretching costs, in nats for a point: 10 % along all axes cost 0.06. With 0 half a head
    is brought to a whole one 16 mm off, with 0.5 13 mm, with 2 none of 24 by more than 10."""

    lead: float = 0.05
    """The part by which what is found must say more than the header does, and another orientation
    more than the header's. Where headers fit (hearts, T1 and FLAIR of one session) it is 0 to 0.08,
    and then the maps differ by 1 to 2 mm; where not, 0.07 to 1.5 (livers, other people's heads)."""

    correlation: float = 0.95
    """Images of one kind that correlate by as much as they lie are not searched: two phases of a
    heart do by 0.98. At 0.8, heads that lay 15 to 22 mm apart and livers of 20 mm were left."""

    final_width: int = 128
    """Of an answer that is final: the last resolution, in voxels along the content."""

    final_points: int = 60_000
    """And its places."""


START = StartPreset()
