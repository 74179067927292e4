"""The soak's verdict on a series: what grows without end is told from what rises to a bound."""

import random

import pytest
from bench.growth import judge

HOURS = [n / 10 for n in range(40)]


def saw(at: float) -> float:
    return 1000 * (at * 3 % 1)


@pytest.mark.parametrize(
    ("series", "says"),
    [
        ("a journal that is purged", "bounded"),
        ("a heap that fills up to its bound", "bounded"),
        ("a level with noise", "bounded"),
        ("what falls", "bounded"),
        ("a file for each epoch", "grows"),
        ("a little more each hour, with noise", "grows"),
        ("slower and slower, without end", "grows"),
        ("a saw whose lowest point rises", "grows"),
    ],
)
def test_the_verdict(series, says):
    """Growth is told through noise and saws; a rise that flattens, and a saw that falls back, are none."""
    dice = random.Random(1)
    at = {
        "a journal that is purged": saw,
        "a heap that fills up to its bound": lambda h: 800 * (1 - 2.0 ** (-2 * h)),
        "a level with noise": lambda _: 100 + dice.uniform(-5, 5),
        "what falls": lambda h: 1000 - 100 * h,
        "a file for each epoch": lambda h: 3600 * h,
        "a little more each hour, with noise": lambda h: 100 + 10 * h + dice.uniform(-2, 2),
        "slower and slower, without end": lambda h: 100 * (h + 1) ** 0.5,
        "a saw whose lowest point rises": lambda h: saw(h) + 2000 * h,
    }[series]
    assert judge([(hour, at(hour)) for hour in HOURS]).says == says


def test_of_few_samples_nothing_is_said():
    """A run of a few samples proves nothing, whatever they are."""
    assert judge([(hour, hour) for hour in HOURS[:9]]).says == "too short"
    assert judge([]).says == "too short"
