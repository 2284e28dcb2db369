"""The power of a law, and how surely it is known from some repetitions."""

from collections.abc import Sequence
from math import log, sqrt
from statistics import linear_regression, mean, stdev

from scipy.special import stdtrit

from gradicon.experiments.study import Numbers


def power(x: Sequence[float], y: Sequence[float]) -> float:
    """The p of y ~ x^p: the slope of a line through the logarithms of both.

    >>> round(power([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return linear_regression([log(each) for each in x], [log(each) for each in y]).slope


def interval(values: Sequence[float], *, confidence: float = 0.95) -> Numbers:
    """The mean of independent values, two at least, and its interval by Student's t."""
    middle = mean(values)
    factor = float(stdtrit(len(values) - 1, (1 + confidence) / 2))
    margin = factor * stdev(values) / sqrt(len(values))
    return {"mean": middle, "low": middle - margin, "high": middle + margin}
