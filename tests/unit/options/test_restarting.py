"""Restart strategies: after which failures a job is started again, and after how long."""

import pytest

import onceflow as of
from onceflow.errors import ConfigurationError
from onceflow.options.restarting import Restarts


class Clock:
    """A clock that is moved, and chance that is given."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def restarts(strategy, clock=None, tolerable=0, drawn=0.0, *, has_run=True):
    made = Restarts(strategy, tolerable, clock or Clock(), lambda: drawn)
    if has_run:
        made.succeeded()
    return made


def failures(made, number, *, undecided=True):
    return [made.failed(undecided=undecided) for _ in range(number)]


def test_what_fails_before_its_first_epoch_ends():
    """It would fail again, and a person has to see it; tolerable failures change nothing of that."""
    assert restarts(of.ExponentialDelay(), tolerable=5, has_run=False).failed(undecided=True) is None


def test_none_is_no_restart():
    """The first failure is the last."""
    assert failures(restarts(of.NoRestart()), 1) == [None]


def test_a_fixed_number_of_restarts():
    """Each after the same time; what was done well between them gives none back."""
    made = restarts(of.FixedDelay(attempts=2, delay="3 s"))
    assert failures(made, 1) == [3.0]
    made.succeeded()
    assert failures(made, 2) == [3.0, None]


def test_longer_and_longer_until_the_job_has_run_well():
    """The time grows to its bound; a time without failures that begins behind the wait makes the next one a first."""
    clock = Clock()
    made = restarts(of.ExponentialDelay(max_backoff="2 s", reset_backoff_threshold="60 s"), clock)
    assert failures(made, 4) == [1.0, 1.5, 2.0, 2.0]
    clock.now = 61.9
    assert failures(made, 1) == [2.0]
    clock.now = 61.9 + 62
    assert failures(made, 2) == [1.0, 1.5]


@pytest.mark.parametrize(("drawn", "waits"), [(-1.0, 0.9), (1.0, 1.1)])
def test_a_time_is_moved_at_random(drawn, waits):
    """By at most the factor, in both directions."""
    assert failures(restarts(of.ExponentialDelay(), drawn=drawn), 1) == [pytest.approx(waits)]


def test_a_thousand_failures_wait_as_long_as_they_may():
    """The bound holds for a job that fails for days."""
    assert failures(restarts(of.ExponentialDelay()), 3_000)[-1] == 60.0


def test_restarts_may_be_counted_until_the_job_has_run_well():
    """One more than there may be ends the job."""
    assert failures(restarts(of.ExponentialDelay(attempts_before_reset_backoff=2)), 3) == [1.0, 1.5, None]


def test_failures_that_are_rare_are_borne():
    """As many as there may be in any interval; one more within it ends the job."""
    clock = Clock()
    strategy = of.FailureRate(max_failures_per_interval=2, failure_rate_interval="10 s", delay="1 s")
    made = restarts(strategy, clock)
    for clock.now in (0, 9, 11, 20, 21.5):
        assert made.failed(undecided=True) == 1.0
    clock.now = 29
    assert made.failed(undecided=True) is None


def test_tolerable_failures_come_before_the_strategy():
    """In a row; an epoch that is recorded begins anew; a failure behind a decision is none of them."""
    made = restarts(of.FixedDelay(attempts=2, delay="7 s"), tolerable=2)
    assert failures(made, 3) == [0.0, 0.0, 7.0]
    made.succeeded()
    assert failures(made, 1) == [0.0]
    assert failures(made, 2, undecided=False) == [7.0, None]


@pytest.mark.parametrize(
    ("strategy", "given", "said"),
    [
        (of.FixedDelay, {"attempts": 0}, "attempts is not at least 1"),
        (of.FixedDelay, {"delay": "soon"}, "is no duration"),
        (of.ExponentialDelay, {"initial_backoff": 0}, "initial_backoff is not at least 1"),
        (of.ExponentialDelay, {"initial_backoff": "5 s", "max_backoff": "1 s"}, "max_backoff is not at least 5000"),
        (of.ExponentialDelay, {"backoff_multiplier": 0.5}, "backoff_multiplier is not at least 1"),
        (of.ExponentialDelay, {"backoff_multiplier": float("nan")}, "backoff_multiplier is not at least 1"),
        (of.ExponentialDelay, {"jitter_factor": 1.5}, "jitter_factor is more than 1"),
        (of.FailureRate, {"max_failures_per_interval": 0}, "max_failures_per_interval is not at least 1"),
    ],
)
def test_what_cannot_work_is_refused(strategy, given, said):
    """When it is written."""
    with pytest.raises(ConfigurationError, match=said):
        strategy(**given)
