"""Whether a series of samples is bounded or grows. Must not know: what was sampled.

The rule: the first quarter is the warm-up and is left out. The rest is cut into two halves of time, and each half has
a slope: the median of the slopes between its samples, which no single sample moves. A series grows where all of this
is so:

* the slope of the second half is above 0, and not under half of the first half's: it does not flatten;
* along it the second half rises by more than 5 % of the first half's median;
* the second half's highest sample is above the first half's highest: a saw that falls back does not grow.

Under 8 samples behind the warm-up nothing is said.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

WARM_UP = 0.25
LEAST = 8
RISES = 0.05
FLATTENS = 0.5

Sample = tuple[float, float]
"""Hours since the beginning, and the value then."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of a series.

    Attributes:
        says: ``bounded``, ``grows``, or ``too short``.
        first: The slope of the first half behind the warm-up, by the hour.
        second: That of the second half.
    """

    says: str
    first: float = 0.0
    second: float = 0.0


def judge(samples: Sequence[Sample]) -> Verdict:
    """Judge a series, its samples in the order of time."""
    if not samples:
        return Verdict("too short")
    begin, end = samples[0][0], samples[-1][0]
    rest = [(at, value) for at, value in samples if at >= begin + WARM_UP * (end - begin)]
    if len(rest) < LEAST:
        return Verdict("too short")
    middle = (rest[0][0] + rest[-1][0]) / 2
    halves = [each for each in rest if each[0] <= middle], [each for each in rest if each[0] > middle]
    first, second = (_slope(half) for half in halves)
    before, after = ([value for _, value in half] for half in halves)
    rise = second * (halves[1][-1][0] - halves[1][0][0])
    grows = (
        second > 0
        and second >= FLATTENS * first
        and rise > RISES * abs(statistics.median(before))
        and max(after) > max(before)
    )
    return Verdict("grows" if grows else "bounded", first, second)


def _slope(half: Sequence[Sample]) -> float:
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(half, 2) if b[0] > a[0]]
    return statistics.median(slopes) if slopes else 0.0
