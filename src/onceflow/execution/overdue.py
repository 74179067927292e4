"""What is told of an epoch that took too long, and how many records each source may read from then on.

Must not know: how an epoch runs, who measures. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from onceflow.errors import EpochTimedOutError, EpochTooLongError, OnceflowError, TimeoutTooShortError
from onceflow.execution import pace


def outlived(
    epoch: int, said: str, age_s: float, timeout_s: float, read: Sequence[int], *, cuts: bool, decided: bool
) -> tuple[int | None, OnceflowError]:
    """Of one that outlived its transactions: the limit, None where it cannot be cut, and the error.

    Args:
        epoch: Which.
        said: What ended it.
        age_s: How long it took.
        timeout_s: The shortest time-out of the sinks' transactions.
        read: What each source read for it; empty where that is fixed.
        cuts: The next start takes the limit from the journal.
        decided: It is written again.
    """
    limit = pace.cut(read, age_s, timeout_s)
    setting = f"transaction_timeout is {timeout_s:g} s, and the epoch took {age_s:.1f} s"
    if limit is None:
        return None, TimeoutTooShortError(
            f"epoch {epoch} outlived its transactions and cannot be cut smaller: {said}",
            harmless="never: every start would take as long",
            cause=setting + ("; it is decided and written again, so its range is fixed" if decided else ""),
            action="raise transaction_timeout (and the broker's transaction.max.timeout.ms), then start the job",
            epoch=epoch,
        )
    if not cuts:
        return limit, TimeoutTooShortError(
            f"epoch {epoch} with {sum(read):,} records outlived its transactions: {said}",
            harmless="always for the data: nothing of the epoch is visible",
            cause=setting,
            action=f"give each source a limit of at most {limit:,} records (max_records_per_epoch, or Spark's "
            "maxOffsetsPerTrigger), or raise transaction_timeout, then start again: the epoch is planned anew",
            epoch=epoch,
            limit=limit,
        )
    return limit, EpochTooLongError(
        f"epoch {epoch} with {sum(read):,} records outlived its transactions: {said}",
        harmless="the job is started again: the epoch is planned anew, smaller",
        cause=setting,
        action=f"start the job again: each source then reads at most {limit:,} records for an epoch. If that is "
        "too few for the rate of arrival, raise transaction_timeout (and the broker's transaction.max.timeout.ms)",
        epoch=epoch,
        limit=limit,
    )


def timed_out(epoch: int, age_s: float, timeout_s: float, read: Sequence[int]) -> tuple[int | None, OnceflowError]:
    """Of one that took longer than the checkpoint's time-out: as ``outlived``.

    Args:
        epoch: Which.
        age_s: How long it took.
        timeout_s: The checkpoint's time-out.
        read: What each source read for it; empty where that is not to be cut, or not known.
    """
    limit = pace.cut(read, age_s, timeout_s)
    smaller = "" if limit is None else f", and each source reads at most {limit:,} records for an epoch then"
    return limit, EpochTimedOutError(
        f"epoch {epoch} was not ready for its decision in time, and was cancelled after {age_s:.1f} s",
        harmless="always for the data: its transactions were aborted, and nothing of it is visible",
        cause=f"execution.checkpointing.timeout is {timeout_s:g} s: too short for what an epoch reads, or the "
        "plan or a system that it writes to was slow",
        action=f"start the job again: the epoch is run again{smaller}. If it happens again, raise the time-out, or "
        "look which phase takes its time: `onceflow checkpoints`",
        epoch=epoch,
        limit=limit,
    )
