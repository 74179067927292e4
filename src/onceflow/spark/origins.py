"""Origins: what each task of an epoch reads, in words that are the same for the same input in every run.

Must not know: sinks, the journal, the rules. Tasks are numbered otherwise in every process, so where rows cannot be
recognized (a plan that gives others in every run) only what a task read tells which part of an epoch it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from onceflow.spark.internals import elements

log = logging.getLogger(__name__)

# As Spark 4.2 prints its Kafka source's partitions: topic-number, first offset, offset after the last.
_RANGE = re.compile(r"KafkaOffsetRange\(([\w.-]+-\d+),(\d+),(\d+),")


def origins(plan: Callable[[], Any], tasks: int, *, keys_repeat: bool, together: str = "") -> list[str]:
    """An origin for each task, in their order; "" for all where it cannot be told.

    Args:
        plan: Gives Spark's physical plan of the epoch.
        tasks: How many tasks the epoch has.
        keys_repeat: No expression of the plan can send a row to another partition of a shuffle when it runs again.
        together: Which branches of the plan are read together. An edit may change that, and with it what the number of
            a read means: then no origin is that of another run.
    """
    try:
        found = _Walk(keys_repeat=keys_repeat).of(plan())
    except Exception:  # Spark's private classes: what cannot be told is not needed to write the epoch
        log.debug("what the tasks read could not be told", exc_info=True)
        found = None
    if found is None or len(found) != tasks or len(set(found)) != tasks:
        return [""] * tasks
    return [f"{together} {origin}" for origin in found] if together else found


def ends(plan: Callable[[], Any]) -> frozenset[str] | None:
    """Where the sources of an epoch's plan are read to, as Spark writes a position; None where it cannot be told.

    Args:
        plan: Gives Spark's physical plan of the epoch. A source without new records is not in it.
    """
    try:
        return frozenset(_ends(plan()))
    except Exception:  # as above
        log.debug("where the epoch ends could not be told", exc_info=True)
        return None


def _ends(node: Any) -> Iterator[str]:
    if node.getClass().getSimpleName() == "MicroBatchScanExec":
        yield str(node.end().json())
    for child in elements(node.children()):
        yield from _ends(child)


class _Walk:
    def __init__(self, *, keys_repeat: bool) -> None:
        self._keys_repeat = keys_repeat
        self._scans = self._shuffles = 0

    def of(self, node: Any) -> list[str] | None:
        """An origin for each partition that a node gives, or None."""
        kind = node.getClass().getSimpleName()
        if kind == "MicroBatchScanExec":
            return self._scanned(node)
        if kind == "ShuffleExchangeExec":
            return self._shuffled(node)
        below = [self.of(child) for child in elements(node.children()) if not _is_broadcast(child)]
        if kind == "UnionExec":
            return _joined(below)
        if len(below) == 1 and "Coalesce" not in kind:
            return below[0]
        if len(below) == 2:
            return _paired(*below)  # a join: partition by partition
        return None

    def _scanned(self, node: Any) -> list[str] | None:
        partitions = node.inputPartitions()
        number, self._scans = self._scans, self._scans + 1
        found = _RANGE.findall(str(partitions.toString()))
        if len(found) != partitions.size():
            return None
        return [f"{number}:{partition}[{first},{after})" for partition, first, after in found]

    def _shuffled(self, node: Any) -> list[str] | None:
        partitioning = node.outputPartitioning()
        number, self._shuffles = self._shuffles, self._shuffles + 1
        if not self._keys_repeat or not str(partitioning.toString()).startswith("hashpartitioning"):
            return None
        tasks = int(partitioning.numPartitions())
        return [f"shuffle {number}:{i}/{tasks}" for i in range(tasks)]


def _joined(lists: Sequence[list[str] | None]) -> list[str] | None:
    found: list[str] = []
    for each in lists:
        if each is None:
            return None
        found += each
    return found


def _paired(left: list[str] | None, right: list[str] | None) -> list[str] | None:
    if left is None or right is None or len(left) != len(right):
        return None
    both = [*left, *right]
    return (
        [f"{a} {b}" for a, b in zip(left, right, strict=True)] if all(o.startswith("shuffle") for o in both) else None
    )


def _is_broadcast(node: Any) -> bool:
    return str(node.getClass().getSimpleName()).startswith("BroadcastExchange")
