"""How large an epoch may be: from what was measured, and after one that took too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.execution import pace


@pytest.mark.parametrize(
    ("measured", "timeout_s", "sources", "limit"),
    [
        ([], 900, 1, 900_000),  # nothing is known: 4,000 a second for a quarter of the time-out
        ([], 900, 2, 450_000),
        ([], 900, 0, 900_000),
        ([(0, 0)], 900, 1, 900_000),  # an epoch that took no time says nothing
        ([(1_000, 2_000)], 900, 1, 900_000),  # short: it shows its fixed cost, not what the job could do
        ([(50_000, 5_000)], 900, 1, 2_250_000),  # short and faster than expected
        ([(10_000, 10_000)], 900, 1, 225_000),  # long: 1,000 a second is what it does
        ([(50_000, 10_000), (1_000, 5_000)], 900, 1, 1_125_000),  # slow short ones do not count beside a long one
        ([(10_000, 10_000), (50_000, 5_000)], 900, 1, 900_000),  # fast ones do: all together do 4,000 a second
        ([(20, 12_000), *[(5_000, 500)] * 98], 900, 1, 1_807_450),  # one cold start is no reason to crawl
        ([(10_000, 10_000), (30_000, 10_000)], 900, 1, 450_000),
        ([(10, 60_000)], 900, 1, 100),  # never below what the fixed cost of an epoch is for
    ],
)
def test_the_limit_follows_what_was_measured(measured, timeout_s, sources, limit):
    """A quarter of the transactions' time-out at the measured rate, shared by the sources."""
    assert pace.limit(measured, timeout_s, sources) == limit


@pytest.mark.parametrize(
    ("read", "age_s", "timeout_s", "most"),
    [
        ([100_000], 100, 100, 25_000),  # as long as the transactions live: a quarter
        ([100_000], 1_000, 100, 12_500),  # an eighth at least: a machine that was busy once is no reason to crawl
        ([100_000], 10, 100, 50_000),  # given up early: a half at most
        ([100_000, 40], 100, 100, 25_000),  # the largest source is what is cut
        ([2], 10_000, 1, 1),
        ([1], 100, 100, None),
        ([0], 100, 100, None),
        ([], 100, 100, None),
        ([100], 0, 100, None),
    ],
)
def test_what_took_too_long_is_cut(read, age_s, timeout_s, most):
    """To a quarter of the time-out at the rate that was seen; None where there is nothing left to cut."""
    assert pace.cut(read, age_s, timeout_s) == most


@given(st.lists(st.integers(0, 10**9), max_size=4), st.floats(0.1, 10**5), st.floats(1, 10**5))
def test_cutting_comes_to_an_end(read, age_s, timeout_s):
    """Each cut halves the largest source at least, so after a few starts it fits or is told to be too short a time."""
    most = pace.cut(read, age_s, timeout_s)
    if most is None:
        assert max(read, default=0) <= 1
    else:
        assert 1 <= most <= max(read) / 2 + 0.5
