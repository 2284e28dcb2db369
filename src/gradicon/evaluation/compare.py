"""Two evaluations of the same pairs: is one better, or is it chance?"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import mean, stdev
from typing import Any

from scipy.special import stdtrit

from gradicon.errors import GradiconError
from gradicon.evaluation.table import MEASURES, Measure


@dataclass(frozen=True)
class Difference:
    """B - A of one measure over the pairs that both have: the mean, its confidence interval, and in
    how many pairs B is better.
    """

    measure: Measure
    pairs: int
    a: float
    b: float
    mean: float
    low: float
    high: float
    better: int


def compare(
    a: Mapping[str, Any], b: Mapping[str, Any], *, confidence: float = 0.95
) -> list[Difference]:
    """Paired differences of two tables, by Student's t.

    The tables must share two pairs at least.
    """
    first, second = ({record["pair"]: record for record in table["records"]} for table in (a, b))
    shared = [name for name in first if name in second]
    if len(shared) < 2:
        raise GradiconError(
            f"the tables share {len(shared)} pair(s): at least 2 are needed to compare them"
        )
    found: list[Difference] = []
    for measure in MEASURES:
        both = [
            (first[n][measure.key], second[n][measure.key])
            for n in shared
            if measure.key in first[n] and measure.key in second[n]
        ]
        if len(both) > 1:
            found.append(_difference(measure, both, confidence))
    return found


def _difference(measure: Measure, both: list[tuple[float, float]], confidence: float) -> Difference:
    changes = [after - before for before, after in both]
    middle = mean(changes)
    margin = (
        float(stdtrit(len(changes) - 1, (1 + confidence) / 2)) * stdev(changes) / sqrt(len(changes))
    )
    return Difference(
        measure,
        len(both),
        mean(x for x, _ in both),
        mean(y for _, y in both),
        middle,
        middle - margin,
        middle + margin,
        sum(change > 0 if measure.higher else change < 0 for change in changes),
    )
