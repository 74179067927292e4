"""Restart strategies: what becomes of a job whose epoch has failed by something that passes, in Flink's words.

Must not know: Spark, what failed, how a job is started. Pure: it is told of each failure, and says how long to wait.
Sub-keys and defaults are those of Flink 2's ``restart-strategy.*``; the catalogue has them.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from onceflow.errors import ConfigurationError
from onceflow.options.arguments import checked
from onceflow.options.catalogue import setting
from onceflow.options.durations import duration_ms


def _default(name: str) -> Any:
    return setting(f"restart.{name}").default


@dataclass(frozen=True, init=False)
class NoRestart:
    """The first failure ends the job: for where a supervisor starts it again."""

    type = "none"


@dataclass(frozen=True, init=False)
class FixedDelay:
    """So many restarts, each after the same time; the failure after them ends the job.

    Args:
        attempts: How many, over the life of the process, or of the parent that supervises it.
        delay: Before each: ``"10 s"``, or seconds.

    Raises:
        ConfigurationError: A value that cannot work.
    """

    type = "fixed-delay"
    attempts: int
    delay_ms: int

    @checked
    def __init__(
        self,
        *,
        attempts: int = _default("fixed_delay.attempts"),
        delay: str | float = _default("fixed_delay.delay"),
    ) -> None:
        _set(self, attempts=_at_least(1, "FixedDelay", "attempts", attempts), delay_ms=duration_ms(delay))


@dataclass(frozen=True, init=False)
class ExponentialDelay:
    """Restarts without end, each after a longer time than the one before, until the job has run well for long enough.

    Args:
        initial_backoff: Before the first one.
        max_backoff: Never longer than this.
        backoff_multiplier: How much longer each time.
        reset_backoff_threshold: After so long without a failure the next one is a first one again.
        jitter_factor: By how much of itself a time is moved at random, so that jobs that failed together do not come
            back together.
        attempts_before_reset_backoff: So many restarts end in a failure that ends the job; None for no such number.

    Raises:
        ConfigurationError: A value that cannot work.
    """

    type = "exponential-delay"
    initial_backoff_ms: int
    max_backoff_ms: int
    backoff_multiplier: float
    reset_backoff_threshold_ms: int
    jitter_factor: float
    attempts_before_reset_backoff: int | None

    @checked
    def __init__(
        self,
        *,
        initial_backoff: str | float = _default("exponential_delay.initial_backoff"),
        max_backoff: str | float = _default("exponential_delay.max_backoff"),
        backoff_multiplier: float = _default("exponential_delay.backoff_multiplier"),
        reset_backoff_threshold: str | float = _default("exponential_delay.reset_backoff_threshold"),
        jitter_factor: float = _default("exponential_delay.jitter_factor"),
        attempts_before_reset_backoff: int | None = _default("exponential_delay.attempts_before_reset_backoff"),
    ) -> None:
        name = "ExponentialDelay"
        first = _at_least(1, name, "initial_backoff", duration_ms(initial_backoff))
        jitter = _at_least(0, name, "jitter_factor", jitter_factor)
        if jitter > 1:
            raise _wrong(name, "jitter_factor", jitter_factor, "is more than 1")
        most = attempts_before_reset_backoff
        _set(
            self,
            initial_backoff_ms=first,
            max_backoff_ms=_at_least(first, name, "max_backoff", duration_ms(max_backoff)),
            backoff_multiplier=_at_least(1, name, "backoff_multiplier", backoff_multiplier),
            reset_backoff_threshold_ms=duration_ms(reset_backoff_threshold),
            jitter_factor=jitter,
            attempts_before_reset_backoff=None
            if most is None
            else _at_least(1, name, "attempts_before_reset_backoff", most),
        )


@dataclass(frozen=True, init=False)
class FailureRate:
    """Restarts as long as failures are rarer than this; one too many within the interval ends the job.

    Args:
        max_failures_per_interval: So many are borne.
        failure_rate_interval: Within this time.
        delay: Before each restart.

    Raises:
        ConfigurationError: A value that cannot work.
    """

    type = "failure-rate"
    max_failures_per_interval: int
    failure_rate_interval_ms: int
    delay_ms: int

    @checked
    def __init__(
        self,
        *,
        max_failures_per_interval: int = _default("failure_rate.max_failures_per_interval"),
        failure_rate_interval: str | float = _default("failure_rate.failure_rate_interval"),
        delay: str | float = _default("failure_rate.delay"),
    ) -> None:
        name = "FailureRate"
        _set(
            self,
            max_failures_per_interval=_at_least(1, name, "max_failures_per_interval", max_failures_per_interval),
            failure_rate_interval_ms=_at_least(1, name, "failure_rate_interval", duration_ms(failure_rate_interval)),
            delay_ms=duration_ms(delay),
        )


RestartStrategy = NoRestart | FixedDelay | ExponentialDelay | FailureRate

STRATEGIES: tuple[type[RestartStrategy], ...] = (NoRestart, FixedDelay, ExponentialDelay, FailureRate)


def dumps(strategy: RestartStrategy) -> dict[str, Any]:
    """A strategy as JSON values, for another process."""
    return {"type": strategy.type} | asdict(strategy)


def loads(told: Mapping[str, Any]) -> RestartStrategy:
    """A strategy from what ``dumps`` gave."""
    kind = next(each for each in STRATEGIES if each.type == told["type"])
    made: RestartStrategy = object.__new__(kind)
    _set(made, **{each.name: told[each.name] for each in fields(kind)})
    return made


class Restarts:
    """Whether a failure is followed by a restart, and after how long: of one process, or of all that one parent starts.

    Args:
        strategy: The job's.
        tolerable: So many epochs in a row may fail before their decision, for which the strategy is not asked.
        now: A monotonic clock, in seconds.
        drawn: A number from -1 to 1, at random.
    """

    def __init__(
        self,
        strategy: RestartStrategy,
        tolerable: int,
        now: Callable[[], float],
        drawn: Callable[[], float] = lambda: random.uniform(-1, 1),  # noqa: S311 - nobody is to be kept from guessing it
    ) -> None:
        self._strategy = strategy
        self._tolerable = tolerable
        self._now = now
        self._drawn = drawn
        self.has_run = False
        self.tolerated = False
        """Whether the last failure was a tolerable one."""
        self._in_a_row = 0
        self._times = 0
        self._failed_at: deque[float] = deque()
        self._last: float | None = None
        self._backoff_ms = 0.0
        self._wait_ms = 0.0

    def succeeded(self) -> None:
        """An epoch was recorded since the last failure."""
        self.has_run = True
        self._in_a_row = 0

    def failed(self, *, undecided: bool) -> float | None:
        """A failure that passes.

        Args:
            undecided: It is one of an epoch before its decision: nothing of it is visible.

        Returns:
            How many seconds to wait before the restart; None: the job ends. So it does where no epoch of this process
            has been recorded: what a job fails by at once, a person has to see.
        """
        self.tolerated = False
        if not self.has_run:
            return None
        if undecided and self._in_a_row < self._tolerable:
            self._in_a_row += 1
            self.tolerated = True
            return 0.0
        match self._strategy:
            case NoRestart():
                return None
            case FixedDelay() as fixed:
                self._times += 1
                return fixed.delay_ms / 1000 if self._times <= fixed.attempts else None
            case FailureRate() as rate:
                return self._by_rate(rate)
            case ExponentialDelay() as exponential:
                return self._by_backoff(exponential)

    def _by_rate(self, rate: FailureRate) -> float | None:
        now = self._now()
        self._failed_at.append(now)
        while now - self._failed_at[0] > rate.failure_rate_interval_ms / 1000:
            self._failed_at.popleft()
        return rate.delay_ms / 1000 if len(self._failed_at) <= rate.max_failures_per_interval else None

    def _by_backoff(self, by: ExponentialDelay) -> float | None:
        now = self._now()
        # The wait that followed the last failure is no time in which the job ran well.
        well_ms = 0.0 if self._last is None else (now - self._last) * 1000 - self._wait_ms
        if well_ms >= by.reset_backoff_threshold_ms:
            self._times = 0
        self._times += 1
        self._last = now
        if by.attempts_before_reset_backoff is not None and self._times > by.attempts_before_reset_backoff:
            return None
        grown_ms = by.initial_backoff_ms if self._times == 1 else self._backoff_ms * by.backoff_multiplier
        self._backoff_ms = min(grown_ms, by.max_backoff_ms)
        self._wait_ms = self._backoff_ms * (1 + by.jitter_factor * self._drawn())
        return self._wait_ms / 1000


def _set(of: object, **fields: object) -> None:
    for name, value in fields.items():
        object.__setattr__(of, name, value)  # the dataclass is frozen


def _at_least(least: float, of: str, name: str, given: Any) -> Any:
    if not least <= given < float("inf"):  # "not": of NaN nothing is true
        raise _wrong(of, name, given, f"is not at least {least}")
    return given


def _wrong(of: str, name: str, given: object, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{of} cannot be made: {name} {why}",
        harmless="always: nothing was started",
        cause=f"{name} is {given!r}",
        action="docs/settings.md has the defaults, which are Flink's",
        setting=name,
    )
