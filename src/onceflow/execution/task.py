"""The task's side of an epoch: one Spark task's share of every sink's output.

Must not know: any particular sink, the journal, the driver. It runs in Spark's Python workers, gets Arrow batches with
each sink's columns (null where a row is not for that sink), and hands back one committable for each.
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
from onceflow.twophase.committable import Committable, Participant

if TYPE_CHECKING:
    import pyarrow as pa

RESULT_SCHEMA = "committable string"
"""What each task returns: one row for each sink, ``Committable.dumps``."""

DIGEST = "onceflow_digest"
"""The last of each sink's columns: a 64-bit hash of the row as the sink gets it; null where it does not."""

_WRAP = (1 << 64) - 1


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
        silent: Participants that write nothing although ``write`` is true.
    """

    outputs: tuple[Output, ...]
    run: Run
    write: bool = True
    silent: frozenset[Participant] = frozenset()

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write one shard of every sink's output and yield the committables."""
        from pyspark import TaskContext  # noqa: PLC0415 - only in a worker

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a shard is written inside a Spark task")
        shard = Shard(self.run, context.partitionId(), context.attemptNumber())
        try:
            committables = self.write_shard(shard, batches)
        except OnceflowError as error:
            add_line(error)  # Spark carries text only
            raise
        yield _as_batch(committables)
        _freeze_once()

    def write_shard(self, shard: Shard, batches: Iterable[pa.RecordBatch]) -> list[Committable]:
        """Write the shard's rows and pre-commit every sink's part of it.

        Raises:
            PreCommitError: A sink could not prove its part. All parts of this shard are aborted.
        """
        parts = [_Part(output, shard, self._is_silent(output.sink, shard.number)) for output in self.outputs]
        try:
            for batch in batches:
                for i, part in enumerate(parts):
                    part.write(_columns_of(i, batch))
            crash.reach("D2", shard.run.epoch)
            committables = [part.prepare() for part in parts]
            crash.reach("D3", shard.run.epoch)
        except BaseException:
            for part in parts:
                part.abort()
            raise
        return committables

    def _is_silent(self, sink: str, number: int) -> bool:
        return not self.write or Participant((sink, number)) in self.silent


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


class _Part:
    """One sink's part of a shard: counts, digests, and writes unless it is silent."""

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
        self._digest = (self._digest + wrapping_sum(rows.column(DIGEST))) & _WRAP
        if self._silent:
            return
        if self._writer is None:
            self._writer = self._output.open(self._shard)
        self._writer.write(rows.drop_columns([DIGEST]))

    def prepare(self) -> Committable:
        transaction = None if self._writer is None else self._writer.prepare()
        return Committable(
            self._output.sink, self._shard.number, self._shard.attempt, self._rows, self._digest, transaction
        )

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()


def wrapping_sum(hashes: pa.Array) -> int:
    """The sum of 64-bit hashes modulo 2**64. Order-free, so a shard's rows may come in any order."""
    import pyarrow.compute as pc  # noqa: PLC0415 - only in a worker

    return int(pc.sum(hashes).as_py() or 0) & _WRAP


def _columns_of(output: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """One sink's columns, under the names that the sink gave them."""
    prefix = output_column(output, "")
    own = batch.select([name for name in batch.schema.names if name.startswith(prefix)])
    return own.rename_columns([name.removeprefix(prefix) for name in own.schema.names])


def _as_batch(committables: Iterable[Committable]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415 - only in a worker

    return pa.RecordBatch.from_arrays([pa.array([c.dumps() for c in committables], pa.string())], ["committable"])
