"""What facts about a machine and a checkpoint mean for a job: pure rules, from facts to findings.

Must not know: how facts are read, systems.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onceflow.checkpoint.statistics import EpochStatistics
from onceflow.findings import Finding, Level

_MB = 1_000_000
_GB = 1_000 * _MB
LEAST_DISK, LITTLE_DISK = 100 * _MB, _GB
_STATES_ON_DISK = 3  # a snapshot beside the one that is kept, and changelogs
_BESIDE_THE_HEAP = _GB // 2
_OF_A_WORKER = 150 * _MB
_RECENT = 20


def jars(missing: Sequence[str]) -> Iterator[Finding]:
    """Jars that are not in the cache yet."""
    if missing:
        yield Finding(
            Level.NOTE,
            f"{len(missing)} jars of Spark's Kafka connector are not fetched yet: {', '.join(missing)}",
            "the first start fetches them, for which it needs the network; Spark's Java client could not be tried",
            "ONCEFLOW_CACHE, or ~/.cache/onceflow",
            "onceflow jars",
        )


def disk(what: str, folder: str, free: int, state_bytes: int = 0) -> Iterator[Finding]:
    """Whether a disk has room.

    Args:
        what: What lies there, in words.
        folder: Where.
        free: Bytes that are free.
        state_bytes: Of the job's state.
    """
    wanted = max(LITTLE_DISK, _STATES_ON_DISK * state_bytes)
    if free < wanted:
        yield Finding(
            Level.ERROR if free < LEAST_DISK else Level.WARNING,
            f"the disk under {what} has {free / _GB:.1f} GB left",
            "a job whose disk is full ends with exit code 75 at each start, and nothing new becomes visible"
            + (f"; the state of this one takes {state_bytes / _GB:.1f} GB" if state_bytes else ""),
            folder,
            f"df -h {folder}; make room for at least {wanted / _GB:.0f} GB",
        )


def memory(limit: int | None, heap: int, workers: int, state_bytes: int) -> Iterator[Finding]:
    """Whether Java's heap, its state and Python's workers find room.

    Args:
        limit: The machine's memory, or the container's; None where it is not known.
        heap: Java's, ``spark.driver.memory``.
        workers: Python workers, one for each core.
        state_bytes: What the job's state takes beside the heap.
    """
    needed = heap + _BESIDE_THE_HEAP + workers * _OF_A_WORKER + state_bytes
    if limit is not None and needed > limit:
        yield Finding(
            Level.WARNING,
            f"the job may need {needed / _GB:.1f} GB of memory, and there are {limit / _GB:.1f} GB",
            "Linux kills Java where memory ends; the job then ends with exit code 75, again and again. It is the heap "
            f"({heap / _GB:.1f} GB), Java beside it (0.5 GB), the state ({state_bytes / _GB:.1f} GB) and {workers} "
            "Python workers (0.15 GB each)",
            f"spark.driver.memory={heap // _MB}m, spark.master with {workers} cores",
            'lower them in Job(spark={"spark.driver.memory": ..., "spark.master": "local[N]"}), or give more memory',
        )


def exclusive_create(folder: str, *, second_was_refused: bool) -> Iterator[Finding]:
    """Whether exactly one of two writers can create a file in the checkpoint's store."""
    if not second_was_refused:
        yield Finding(
            Level.ERROR,
            f"the file system under {folder} let two writers create one file",
            "two drivers could both believe that their decision counts: rows would be doubled",
            folder,
            "put the checkpoint on a local or shared POSIX file system where link(2) refuses a name that is taken",
        )


def undone(epoch: int, *, runs: bool) -> Iterator[Finding]:
    """An epoch that is decided and not recorded. Of a job that runs it is only on its way."""
    if not runs:
        yield Finding(
            Level.WARNING,
            f"epoch {epoch} is decided and not done, and the job does not run",
            "readers wait for its rows; its transactions expire with their time-out, and are then written again",
            "the decision in onceflow/journal",
            "start the job: it commits first of all",
        )


def waiting(mine: Sequence[str], foreign: Sequence[str], *, lingering: bool) -> Iterator[Finding]:
    """Open transactions that nobody commits, and those of others that keep readers waiting.

    Args:
        mine: Of the job, by name.
        foreign: Of others.
        lingering: The job's are left of an older start; else of the newest one, which does not run.
    """
    if mine:
        yield Finding(
            Level.WARNING,
            f"{len(mine)} transactions of the job are open and nobody commits them, {mine[0]} first",
            "readers that read committed see nothing behind them until they expire",
            f"left of {'an older start' if lingering else 'the newest start, which does not run'}",
            f"start the job, or: onceflow txn abort JOB.py --all-lingering{'' if lingering else ' --claim'}",
        )
    if foreign:
        yield Finding(
            Level.WARNING,
            f"transactions of others keep readers of the job's topics waiting: {', '.join(foreign)}",
            "the last stable offset stands still: this job, which reads committed, gets nothing behind it",
            "a producer that died with its transaction open, until its own time-out",
            "onceflow txn list JOB.py names them; end that producer's transaction by starting its program again",
        )


def epochs(history: Sequence[EpochStatistics], interval_ms: int) -> Iterator[Finding]:
    """What the newest epochs were like: failures, and more work than time.

    Args:
        history: Oldest first.
        interval_ms: Between the beginnings of two epochs.
    """
    recent = history[-_RECENT:]
    failed = [each for each in recent if each.status == "FAILED"]
    if failed:
        newest = failed[-1]
        said = newest.what.partition("\n")[0]
        yield Finding(
            Level.ERROR if recent[-1] is newest else Level.WARNING,
            f"{len(failed)} of the newest {len(recent)} epochs failed, the last one with {newest.failure}",
            f"nothing of what failed is visible, and it is run again. It said: {said}",
            f"epoch {newest.epoch}, {newest.triggered_at}",
            "onceflow checkpoints JOB.py",
        )
    took = [each.duration_ms for each in recent if each.status == "COMPLETED" and each.duration_ms is not None]
    if interval_ms and len(took) >= _RECENT // 2 and sum(took) / len(took) > interval_ms:
        yield Finding(
            Level.WARNING,
            f"the newest epochs take {sum(took) / len(took) / 1000:.1f} s on average, longer than the interval",
            "each begins when the one before has ended: the job works without a pause and may fall behind",
            f"execution.checkpointing.interval is {interval_ms} ms",
            "onceflow checkpoints JOB.py shows the longest phase and whether the lag grows; give the job more cores, "
            "or a longer interval",
        )


def java_client(servers: str, said: str) -> Iterator[Finding]:
    """Whether the Java client by which Spark reads reaches a cluster.

    Args:
        servers: Its address.
        said: What the client says; "" where it reaches it.
    """
    if said:
        yield Finding(
            Level.ERROR,
            f"the Java client by which Spark reads does not reach {servers}: {said}",
            "the job cannot read, though its other clients reach the same brokers",
            f"bootstrap_servers={servers}",
            "compare login and certificates with docs/security.md: each client reads them by itself",
        )


def longest_s(history: Sequence[EpochStatistics]) -> float:
    """The longest epoch that is known, in seconds; 0.0 where none is."""
    return max((each.duration_ms / 1000 for each in history if each.duration_ms is not None), default=0.0)


def state_bytes(history: Sequence[EpochStatistics]) -> int:
    """What the state took behind the newest epoch that tells it."""
    return next((each.state_bytes for each in reversed(history) if each.state_bytes is not None), 0)
