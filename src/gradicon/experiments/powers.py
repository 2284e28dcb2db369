"""The power of a law, and how surely it is known from some repetitions."""

from collections.abc import Sequence
from math import log, sqrt
from statistics import linear_regression, mean, stdev

from gradicon.experiments.study import Numbers

# Student's t for 95 %, of 1, 2, ... degrees of freedom: studies run where there is no scipy
_STUDENT = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004)


def power(x: Sequence[float], y: Sequence[float]) -> float:
    """The p of y ~ x^p: the slope of a line through the logarithms of both.

    >>> round(power([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return linear_regression([log(each) for each in x], [log(each) for each in y]).slope


def interval(values: Sequence[float]) -> Numbers:
    """The mean of two to nine independent values, and its 95 % interval by Student's t."""
    middle = mean(values)
    margin = _STUDENT[len(values) - 2] * stdev(values) / sqrt(len(values))
    return {"mean": middle, "low": middle - margin, "high": middle + margin}
