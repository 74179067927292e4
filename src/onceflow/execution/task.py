"""The task's side of an epoch: one Spark task's share of every sink's output.

Must not know: any particular sink, the journal, the driver. It runs in Spark's Python workers, gets Arrow batches with
each sink's columns (null where a row is not for that sink), and hands back a report for each sink.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onceflow import crash_points as crash
from onceflow.connectors.contract import Run, Shard, Writer, WriterFactory
from onceflow.errors import OnceflowError
from onceflow.execution.carried import add_line
from onceflow.twophase.participants import DIGEST_MASK, Part, PartId, TaskReport

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA = "report string"
"""What each task returns: one row for each sink, ``TaskReport.dumps``."""

DIGEST = "onceflow_digest"
"""The last of each sink's columns: a 64-bit hash of the row as the sink gets it; null where it does not."""


def output_column(output: int, name: str) -> str:
    """What a sink's column is called among those of all sinks of the job."""
    return f"output_{output}_{name}"


@dataclass(frozen=True, slots=True)
class Output:
    """One sink as a task sees it: its name and what opens its writers."""

    sink: str
    open: WriterFactory


@dataclass(frozen=True, slots=True)
class Task:
    """What runs in every task of an epoch's plan; a callable for ``DataFrame.mapInArrow``.

    Attributes:
        outputs: The sinks, by the numbers of their columns (``output_column``).
        run: Which run of which epoch.
        write: False: write nothing, only count and digest.
        silent: Parts that are not written although ``write`` is true.
    """

    outputs: tuple[Output, ...]
    run: Run
    write: bool = True
    silent: frozenset[PartId] = frozenset()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write one shard of every sink's output and yield the reports."""
        from pyspark import TaskContext  # noqa: PLC0415 - only in a worker

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a shard is written inside a Spark task")
        shard = Shard(self.run, context.partitionId(), context.attemptNumber())
        try:
            reports = self.write_shard(shard, batches)
        except OnceflowError as error:
            add_line(error)  # Spark carries text only
            raise
        yield _as_batch(reports)
        _freeze_once()

    def write_shard(self, shard: Shard, batches: Iterable[pa.RecordBatch]) -> list[TaskReport]:
        """Write the shard's rows and pre-commit every sink's share of it.

        Raises:
            PreCommitError: A sink could not prove its share. All shares of this shard are aborted.
        """
        shares = [_Share(output, shard, self._is_silent(output.sink, shard.number)) for output in self.outputs]
        try:
            for batch in batches:
                for i, share in enumerate(shares):
                    share.write(_columns_of(i, batch))
            crash.reach("D2", shard.run.epoch)
            reports = [share.prepare() for share in shares]
            crash.reach("D3", shard.run.epoch)
        except BaseException:
            for share in shares:
                share.abort()
            raise
        return reports

    def _is_silent(self, sink: str, number: int) -> bool:
        return not self.write or PartId((sink, number)) in self.silent


_frozen = False


def _freeze_once() -> None:
    """Take what is loaded out of the garbage collector's sight, once for each worker.

    PySpark (4.2) collects garbage after every task, before it takes the next one; with Arrow, pandas and librdkafka
    loaded that was 40 ms of each task, for objects that live as long as the worker.
    """
    global _frozen  # noqa: PLW0603 - a fact of the process
    if not _frozen:
        gc.collect()
        gc.freeze()
        _frozen = True


class _Share:
    """One sink's share of a shard, which is one part: counts, digests, and writes unless it is silent."""

    def __init__(self, output: Output, shard: Shard, silent: bool) -> None:
        self._output = output
        self._shard = shard
        self._silent = silent
        self._writer: Writer | None = None
        self._rows = 0
        self._digest = 0

    def write(self, rows: pa.RecordBatch) -> None:
        if rows.column(DIGEST).null_count:
            rows = rows.filter(rows.column(DIGEST).is_valid())
        if not len(rows):
            return
        self._rows += len(rows)
        self._digest = (self._digest + wrapping_sum(rows.column(DIGEST))) & DIGEST_MASK
        if self._silent:
            return
        if self._writer is None:
            self._writer = self._output.open(self._shard)
        self._writer.write(rows.drop_columns([DIGEST]))

    def prepare(self) -> TaskReport:
        transaction = None if self._writer is None else self._writer.prepare()
        sink, shard = self._output.sink, self._shard
        part = Part(sink, shard.number, self._rows, self._digest)
        return TaskReport(sink, shard.number, shard.attempt, (part,), transaction)

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()


def wrapping_sum(hashes: pa.Array) -> int:
    """The sum of 64-bit hashes modulo 2**64. Order-free, so a shard's rows may come in any order."""
    import pyarrow.compute as pc  # noqa: PLC0415 - only in a worker

    return int(pc.sum(hashes).as_py() or 0) & DIGEST_MASK


def _columns_of(output: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """One sink's columns, under the names that the sink gave them."""
    prefix = output_column(output, "")
    own = batch.select([name for name in batch.schema.names if name.startswith(prefix)])
    return own.rename_columns([name.removeprefix(prefix) for name in own.schema.names])


def _as_batch(reports: Iterable[TaskReport]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415 - only in a worker

    return pa.RecordBatch.from_arrays([pa.array([r.dumps() for r in reports], pa.string())], ["report"])
