"""How large an epoch may be: small enough that its transactions outlive it.

Must not know: Spark, Kafka, how an epoch runs. Pure.

An epoch's range is fixed once Spark has planned it. Without a limit the first epoch after a weekend is the weekend:
when it takes longer than the transactions live it fails, and fails again at every start.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_SHARE = 0.25
"""An epoch is meant to take so much of the transactions' time-out: a machine three times as slow is no matter then."""
_FIRST_PER_S = 4_000
"""Records a second that a job is thought to do before a long epoch has shown what it does."""
_LONG_MS = 10_000
"""From here on the fixed cost of an epoch no longer hides what the job does in a second."""
_AT_LEAST = 100
"""Below this the fixed cost of an epoch is all there is."""


def limit(measured: Iterable[tuple[int, int]], timeout_s: float, sources: int) -> int:
    """Records that each source may read for an epoch.

    Args:
        measured: Records read and milliseconds taken, of epochs that were decided.
        timeout_s: The shortest time-out of the sinks' transactions.
        sources: How many sources share the epoch.
    """
    epochs = [(read, took) for read, took in measured if took > 0]
    long = [(read, took) for read, took in epochs if took >= _LONG_MS]
    if long:
        # One cold start of a few records must not outweigh hundreds of epochs; and what many short ones did together
        # hides no more of a fixed cost than the next one will have.
        per_s = max(_per_s(long), _per_s(epochs))
    else:
        per_s = max([_FIRST_PER_S, *(read * 1000 / took for read, took in epochs)])
    return max(_AT_LEAST, int(per_s * timeout_s * _SHARE / max(1, sources)))


def _per_s(epochs: Sequence[tuple[int, int]]) -> float:
    return sum(read for read, _ in epochs) * 1000 / sum(took for _, took in epochs)


def cut(read: Sequence[int], age_s: float, timeout_s: float) -> int | None:
    """Records that each source may read for an epoch after one took too long; None when it cannot be cut.

    Args:
        read: What each source read for it.
        age_s: How long it took before it was given up: it may not have been at its end.
        timeout_s: The shortest time-out of the sinks' transactions.
    """
    most = max(read, default=0)
    if most <= 1 or age_s <= 0:
        return None
    # No smaller than an eighth at once: what took so long may have been a cold start or a busy machine, and a limit
    # holds until the job is started again.
    return max(1, min(most // 2, max(most // 8, int(most * _SHARE * timeout_s / age_s))))
