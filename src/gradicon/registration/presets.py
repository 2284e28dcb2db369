"""Every number that steers a result, with what it is for. Nothing else in the solvers has any.

A `Plan` is made of these. `python benchmarks/presets.py DATA -o docs/results/presets.json` changes
one at a time and measures what comes of it on training pairs: eight hippocampi, three hearts, three
heads. docs/results/presets.md has the table, and the figures below are from it: Dice that is lost
or gained, where 0.002 is what rounding moves it by. What a user may choose is in `options.py`; what
the paper says is where the paper's quantities are, in `core/`.
"""

from dataclasses import dataclass, field
from typing import final

ALGORITHM = 3
"""Goes up by one whenever the same files and options give another result, so that results which
were kept are not taken for new ones."""


@final
@dataclass(frozen=True, kw_only=True)
class GridPreset:
    """The grid that is worked on, and the coarser ones that lead to it."""

    most_voxels: int = 5_500_000
    """Of the working grid: a brain at 1 mm. Larger scans are worked on with larger voxels. With
    300,000, heads of 1.3 million lose 0.046, in half the time."""

    coarsest: int = 32
    """Voxels along an axis of the first grid, at most and in the mean of all axes: motion of half
    the field of view is a few voxels there. 16 and 64 change nothing by more than 0.002."""


@final
@dataclass(frozen=True, kw_only=True)
class MeasurePreset:
    """How images are compared while fields are optimised."""

    window: float = 2.0
    """LNCC's sigma, in voxels of the finest axis. With 1 heads gain 0.001 in a quarter more of
    time; with 4 they lose 0.006."""

    narrowest: float = 0.5
    """Of that window across thick slices, in their voxels: less would compare single voxels. Hearts
    with 0.25: -0.001."""

    every: int = 2
    """Voxels from one of LNCC's windows to the next. With 1 nothing is gained, in a fifth more of
    time."""

    patch: int = 1
    """Voxels of MIND's patches and of their distance: finer than the reference's 2."""


@final
@dataclass(frozen=True, kw_only=True)
class FieldPreset:
    """How displacement fields are optimised."""

    steps: int = 20
    """Of Adam on the finest grid, unless a person says how many. With 10 heads lose 0.010, in four
    fifths of the time; with 40 they gain 0.007 in 1.7 times the time."""

    more: int = 3
    """How many times as many on each coarser grid, where large motion is found and a step costs an
    eighth. With 1 and 2 these pairs lose 0.001 at most; livers move farther."""

    rate: float = 0.8
    """Adam's, in voxels of the level at work: how far a point may go in a step at first. It falls
    to nothing along half a cosine. With 1.6 all lose, 0.005 to 0.009; with 0.4 heads lose 0.001."""

    cell: int = 3
    """Voxels along each axis to a point of the penalty. With 2 nothing is gained, in a fifth more
    of time; with 4 hearts lose 0.003 and heads 0.002."""

    barrier: float = 20.0
    """The weight of what keeps maps from folding between the points of the penalty, in units of the
    weight of the penalty that goes with the similarity. With 10 hearts lose 0.002."""

    margin: float = 0.05
    """Determinants below this are what the barrier sees. With 0.025 hearts lose 0.009."""

    empty: float = 0.02
    """Intensities up to this, of [0,1], are background: where both images are, nothing is read.
    With 0: -0.001 at most, 3 % more of time."""

    around: int = 8
    """Voxels about what is not background that are read all the same: twice the reach of LNCC's
    window, so that leaving out the rest changes no gradient. With 4: 0.0005 at most."""


@final
@dataclass(frozen=True, kw_only=True)
class AnswerPreset:
    """What becomes of a network's answer."""

    repeats: int = 1
    """How often a model's last network is asked, each time of the image warped by then, unless it
    was trained to be asked more often. With 2 nothing changes after refinement; with 3 hippocampi
    gain 0.004 and heads lose 0.005."""

    held: float = 1000.0
    """How strongly refinement is pulled back to an answer that makes the images alike entirely: the
    weight of the mean squared distance, where 1 is the field of view. With 500 hearts lose 0.001.
    """

    unlike: float = 0.15
    """1 - LNCC of an answer from which on there is no pull: likeness has much to say there. With
    0.3 hearts lose 0.004 and heads 0.002."""

    least: float = 200.0
    """The pull where the network's grid is `finer` than the images, and it saw all their detail.
    With 100 hippocampi lose 0.002."""

    finer: float = 1.6
    """How many times as many voxels along every axis. With 3.2 hippocampi are not pulled back, and
    lose 0.013."""

    steps: int = 50
    """Where the network's own weights are refined, unless a person says how many: the paper's."""

    learning_rate: float = 2e-5
    """Adam's there: the reference implementation's."""


@final
@dataclass(frozen=True, kw_only=True)
class InversePreset:
    """The solver of phi(y) = x. Its numbers say how exact it is, not what is found."""

    close: float = 0.01
    """Voxels: an inverse that is off by less is left alone."""

    iterations: int = 25
    """In all."""

    plain: int = 5
    """Of them without derivatives."""

    damping: float = 1e-3
    """Of Newton's equations."""

    longest: float = 5.0
    """Of a step, in voxels."""

    points: int = 200_000
    """Random points between voxels at which the error of an inverse is measured."""


@final
@dataclass(frozen=True, kw_only=True)
class StartPreset:
    """How the rigid and affine start is searched, from coarse to fine: a tuple has one entry for
    each resolution. `benchmarks/start.py` measures it; docs/results/start.md has the figures.
    """

    widths: tuple[int, ...] = (16, 32, 64)
    """Voxels along the content, so that a hippocampus and a head are treated alike. At 16 a map is
    found from 45 degrees away and more; at 64 the voxels of a brain are 2 to 3 mm."""

    points: tuple[int, ...] = (1500, 6000, 24000)
    """Places where the images are compared. With 600, 2400 and 9600 no training pair is missed
    either, and other contrasts are 0.1 mm farther off."""

    bins: tuple[int, ...] = (8, 16, 24)
    """Levels of grey in a histogram: fewer where there are few points."""

    kept: tuple[int, ...] = (48, 8, 1)
    """Maps that are improved there. A quarter of them is enough for all training pairs; the rest is
    margin, and costs 0.1 s."""

    steps: tuple[int, ...] = (25, 20, 20)
    """Of the descent. With half of them, turned heads of other contrast are 5.2 mm off, not 4.1."""

    rate: float = 0.4
    """The first step in voxels of the resolution; steps become shorter down to nothing."""

    tilt: float = 35.0
    """Degrees by which each of the 24 turns of a cube is also tilted about each axis, so that any
    turn is within 48 degrees of one that is tried, not 62. No training pair needs it: margin."""

    stiffness: float = 2.0
    """What stretching costs, in nats for a place: 10 % along all axes cost 0.07. With 0 one of 24
    half heads is brought to a whole one 15 mm off, with 0.5 it is 13 mm, with 2 it is none."""

    lead: float = 0.05
    """The part by which what is found must say more than the header does, and another orientation
    more than the header's. Where headers fit (hearts, T1 and FLAIR of a person who lay still) it
    is 0 to 0.09, and what is found is within 2 mm; elsewhere 0.07 (a liver) to 1.5 (heads)."""

    correlation: float = 0.8
    """Images of one kind on one grid, which are of one session, are not searched if they correlate
    by as much as they lie: phases of hearts and lungs do by 0.98 and more, of livers by 0.81 to
    0.87. Those livers end at 2.2 mm; started from an affine map that is 6 mm nearer, at 2.8 mm:
    what has not moved must be moved back."""

    final_width: int = 128
    """Of an answer that is final: the last resolution, in voxels along the content."""

    final_points: int = 60_000
    """And its places."""


@final
@dataclass(frozen=True, kw_only=True)
class Presets:
    """All of them."""

    start: StartPreset = field(default_factory=StartPreset)
    grid: GridPreset = field(default_factory=GridPreset)
    measure: MeasurePreset = field(default_factory=MeasurePreset)
    fields: FieldPreset = field(default_factory=FieldPreset)
    answer: AnswerPreset = field(default_factory=AnswerPreset)
    inverse: InversePreset = field(default_factory=InversePreset)
    repair: tuple[int, ...] = (1, 1, 1, 2, 2, 2, 4, 4, 4)
    """Voxels over which a map is averaged where it folds, one after the other until it does not."""


PRESETS = Presets()
START = PRESETS.start
