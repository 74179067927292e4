"""The task's side of an epoch: a group of partitions, as one shard of every sink's output.

Must not know: any particular sink, the journal, the driver, how partitions are grouped. It runs in Spark's Python
workers, gets Arrow batches with each sink's columns (null where a row is not for that sink) and the number of each
row's partition, and hands back a report for each sink.
"""

from __future__ import annotations

import gc
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from onceflow import crash_points as crash
from onceflow.connectors.contract import Run, Shard, Writer, WriterFactory
from onceflow.errors import ConfigurationError, OnceflowError, PreCommitError
from onceflow.execution.carried import add_line
from onceflow.twophase.keyed import MASK, keyed, masked
from onceflow.twophase.participants import DIGEST_MASK, Part, PartId, TaskReport, miscounted
from onceflow.version import VERSION

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

RESULT_SCHEMA = "report string"
"""What each task returns: one row for each sink, ``TaskReport.dumps``."""

DIGEST = "onceflow_digest"
"""The last of each sink's columns: a 64-bit hash of the row as the sink gets it; null where it does not."""

SHA256 = "onceflow_sha256"
"""Beside it, where the job has a key: SHA-256 of what the row says (``row_hash``); null likewise."""

LATE = "onceflow_late"
"""Of rows of ``late_rows`` the time until which they are due; the driver takes it away before tasks get them."""

PARTITION = "_onceflow_partition"
"""The column that all sinks share: the number of the partition that a row is of."""


def output_column(output: int, name: str) -> str:
    """What a sink's column is called among those of all sinks of the job.

    Without a dot or a backtick, which mean something else in a bare name: Spark's ``mapInArrow`` looks for its columns
    by these.
    """
    plain = name.replace("%", "%25").replace(".", "%2E").replace("`", "%60")
    return f"output_{output}_{plain}"


@dataclass(frozen=True, slots=True)
class Output:
    """One sink as a task sees it: its name and what opens its writers."""

    sink: str
    open: WriterFactory


@dataclass(frozen=True, slots=True)
class Shared:
    """A file that the driver sees, and whoever runs its tasks must see as well.

    Attributes:
        file: Where.
        holds: What stands in it, and in no other one.
    """

    file: Path
    holds: str

    def require(self) -> None:
        """Look for it.

        Raises:
            ConfigurationError: Another file is there on this machine, or none.
        """
        try:
            found = self.holds in self.file.read_text()
        except OSError:
            found = False
        if not found:
            raise ConfigurationError(
                f"the executor on {socket.gethostname()} does not see the checkpoint {self.file.parent}, where it has "
                "to keep the plan's state",
                harmless="for the data: nothing of this epoch is visible",
                cause="the checkpoint is on the driver's own disk, or the file system that has it is not mounted "
                f"there: {self.file.name} of this query was not found",
                action="put the checkpoint where the driver and all executors see it under one path "
                "(docs/clusters.md), then start the job again",
                checkpoint=str(self.file.parent),
            )


@dataclass(frozen=True, slots=True)
class Task:
    """What runs in every task of an epoch's plan; a callable for ``DataFrame.mapInArrow``.

    Attributes:
        outputs: The sinks, by the numbers of their columns (``output_column``).
        run: Which run of which epoch.
        write: False: write nothing, only count and digest.
        silent: Parts that are not written although ``write`` is true.
        shared: What the task's machine must see; None: nothing.
        key: Of the rows' keyed digests; None makes none.
        version: The driver's onceflow.
    """

    outputs: tuple[Output, ...]
    run: Run
    write: bool = True
    silent: frozenset[PartId] = frozenset()
    shared: Shared | None = None
    key: bytes | None = field(default=None, repr=False)
    version: str = VERSION

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write a group's shard of every sink's output and yield the reports."""
        from pyspark import TaskContext  # noqa: PLC0415 - only in a worker

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("a shard is written inside a Spark task")
        shard = Shard(self.run, context.partitionId(), context.attemptNumber())
        try:
            self._require_as_the_drivers()
            reports = self.write_shard(shard, batches)
        except OnceflowError as error:
            add_line(error)  # Spark carries text only
            raise
        yield _as_batch(reports)
        _freeze_once()

    def _require_as_the_drivers(self) -> None:
        """What a local job has by itself, and an executor need not: the same code, the same checkpoint."""
        if self.version != VERSION:
            raise ConfigurationError(
                f"the executor on {socket.gethostname()} has onceflow {VERSION}, and the driver {self.version}",
                harmless="always: nothing of this epoch is visible",
                cause="the Python of the executors (PYSPARK_PYTHON, spark.pyspark.python, spark.archives) is another "
                "installation than the driver's",
                action="install the same version on both sides, best from one archive (docs/clusters.md)",
            )
        if self.shared is not None:
            self.shared.require()

    def write_shard(self, shard: Shard, batches: Iterable[pa.RecordBatch]) -> list[TaskReport]:
        """Write the shard's rows and pre-commit every sink's share of it.

        Raises:
            PreCommitError: A sink could not prove its share. All shares of this shard are aborted.
        """
        shares = [_Share(output, shard, self.write, self.silent, self.key) for output in self.outputs]
        try:
            for batch in batches:
                numbers = _partitions_of(batch)
                for i, share in enumerate(shares):
                    share.write(_columns_of(i, batch), numbers)
            crash.reach("D2", shard.run.epoch)
            reports = [share.prepare() for share in shares]
            crash.reach("D3", shard.run.epoch)
        except BaseException:
            for share in shares:
                share.abort()
            raise
        return reports


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
    """One sink's share of a task: counts and digests each part, and writes the rows of those that are not silent."""

    def __init__(self, output: Output, shard: Shard, write: bool, silent: frozenset[PartId], key: bytes | None) -> None:
        self._output = output
        self._shard = shard
        self._writes = write
        self._silent = sorted(number for sink, number in silent if sink == output.sink)
        self._writer: Writer | None = None
        self._written = 0
        self._parts: dict[int, tuple[int, int]] = {}  # rows and digest, by the partition's number
        self._key = key
        self._keyed: dict[int, int] = {}  # likewise, where there is a key

    def write(self, rows: pa.RecordBatch, numbers: pa.Array) -> None:
        if rows.column(DIGEST).null_count:
            mine = rows.column(DIGEST).is_valid()
            rows, numbers = rows.filter(mine), numbers.filter(mine)
        if not len(rows):
            return
        at = 0
        for number, count, digest in by_part(numbers.to_numpy(), rows.column(DIGEST).to_numpy()):
            known, sum_before = self._parts.get(number, (0, 0))
            self._parts[number] = known + count, (sum_before + digest) & DIGEST_MASK
            if self._key is not None:
                made = keyed(self._key, rows.column(SHA256).slice(at, count).to_pylist())
                self._keyed[number] = (self._keyed.get(number, 0) + made) & MASK
            at += count
        if self._writes:
            own = [DIGEST] if self._key is None else [DIGEST, SHA256]
            self._write(self._without_silent(rows, numbers).drop_columns(own))

    def _without_silent(self, rows: pa.RecordBatch, numbers: pa.Array) -> pa.RecordBatch:
        import pyarrow as pa  # noqa: PLC0415 - only in a worker
        import pyarrow.compute as pc  # noqa: PLC0415

        if not self._silent:
            return rows
        silent = pc.is_in(numbers, pa.array(self._silent, numbers.type))
        return rows.filter(pc.invert(silent))

    def _write(self, rows: pa.RecordBatch) -> None:
        if not len(rows):
            return
        if self._writer is None:
            self._writer = self._output.open(self._shard)
        self._writer.write(rows)
        self._written += len(rows)

    def prepare(self) -> TaskReport:
        sink, shard = self._output.sink, self._shard
        parts = tuple(
            Part(sink, number, *counted, keyed=self._masked(number)) for number, counted in sorted(self._parts.items())
        )
        silent = frozenset(p.id for p in parts if not self._writes or p.number in self._silent)
        wrong = miscounted(parts, silent, self._written)
        if wrong is not None:
            raise PreCommitError(
                f"task {shard.number} does not know what it wrote to sink {sink}: {wrong}",
                harmless="always: nothing of this epoch is visible",
                cause="a fault of onceflow, or of what hands it the rows",
                action="start the job again, and report it if it comes again",
                sink=sink,
                task=shard.number,
            )
        transaction = None if self._writer is None else self._writer.prepare()
        return TaskReport(sink, shard.number, shard.attempt, parts, transaction)

    def _masked(self, number: int) -> str:
        return "" if self._key is None else masked(self._key, self._keyed.get(number, 0))

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()


def by_part(numbers: np.ndarray, digests: np.ndarray) -> Iterator[tuple[int, int, int]]:
    """For each stretch of rows of one part: the part's number, the rows, and the sum of their digests modulo 2**64.

    A task takes one partition after the other, so a batch has few stretches, and mostly one. Sums are order-free: the
    rows of a part may come in any order, and in several stretches.
    """
    import numpy as np  # noqa: PLC0415 - only in a worker

    starts = np.concatenate(([0], np.flatnonzero(np.diff(numbers)) + 1))
    counts = np.diff(starts, append=len(numbers))
    sums = np.add.reduceat(digests.view("u8"), starts)
    return zip(numbers[starts].tolist(), counts.tolist(), sums.tolist(), strict=True)


def _partitions_of(batch: pa.RecordBatch) -> pa.Array:
    """The partition of each row."""
    numbers = batch.column(PARTITION)
    if numbers.null_count:
        raise PreCommitError(
            f"{numbers.null_count} rows are of no partition",
            harmless="always: nothing of this epoch is visible",
            cause=f"Spark gave column {PARTITION} no value",
            action="start the job again, and report it if it comes again",
        )
    return numbers


def _columns_of(output: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    """One sink's columns, under the names that the sink gave them."""
    prefix = output_column(output, "")
    own = batch.select([name for name in batch.schema.names if name.startswith(prefix)])
    return own.rename_columns([unquote(name.removeprefix(prefix)) for name in own.schema.names])


def _as_batch(reports: Iterable[TaskReport]) -> pa.RecordBatch:
    import pyarrow as pa  # noqa: PLC0415 - only in a worker

    return pa.RecordBatch.from_arrays([pa.array([r.dumps() for r in reports], pa.string())], ["report"])
