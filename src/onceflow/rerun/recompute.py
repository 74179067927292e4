"""Running the plan again over what decided epochs have read, by their receipts.

Must not know: the journal, how an audit is told, where state was kept, what becomes of the rows. Spark is given a
checkpoint that says: this epoch is planned, over exactly this range, at this time, and is not done. So it runs it
again, as it does after a crash.

A plan without state is run for each epoch alone. One that keeps state begins with that of an older epoch, and runs each
epoch behind it, also those without rows: they have moved state and watermark.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onceflow.checkpoint.spark_files import SparkCheckpoint, StateBefore, canonical, positions
from onceflow.connectors.contract import Run, Shard, Sink, Writer
from onceflow.errors import CheckpointCorruptError, ConfigurationError
from onceflow.execution.outputs import Outputs
from onceflow.execution.task import RESULT_SCHEMA, Output, Task
from onceflow.launch.query import outputs_for, require_runnable
from onceflow.launch.request import StartRequest
from onceflow.rerun.lost_epochs import Recomputed
from onceflow.spark.internals import executed_plan, query_of
from onceflow.spark.replayed import with_known_ends
from onceflow.spark.session import pin, spark_path
from onceflow.twophase.participants import TaskReport, parts_of, totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EPOCH = 1
_LOOK_S = 0.1
_PARTITIONS = "spark.sql.shuffle.partitions"


def recompute(
    session: SparkSession,
    result: object,
    sinks: Sequence[Sink],
    request: StartRequest,
    receipts: Sequence[Mapping[str, Any]],
    before: StateBefore | None = None,
) -> list[Recomputed]:
    """Run the plan again for each of these receipts.

    Args:
        session: The SparkSession of the DataFrames.
        result: What the stream function returned.
        sinks: The sinks that get the rows of one DataFrame.
        request: The rest.
        receipts: Of the epochs.
        before: The state to begin with, of a plan that keeps some.

    Raises:
        ConfigurationError: The plan keeps state, and none was given; or it is not one that has made them.
        CheckpointCorruptError: An epoch was planned otherwise than its receipt says.
        Exception: Spark could not read what was read: the source has lost it, for one.
    """
    outputs = outputs_for(result, sinks, request)
    counting = Task(tuple(Output(sink.name, _never) for sink in outputs.sinks), Run("", "", 0, 0), write=False)
    again = run_again(session, outputs, request, receipts, before, lambda _: counting)
    return [each for receipt, reports in again for each in compared(receipt, reports)]


def run_again(
    session: SparkSession,
    outputs: Outputs,
    request: StartRequest,
    receipts: Sequence[Mapping[str, Any]],
    before: StateBefore | None,
    task_of: Callable[[int], Task],
) -> Iterator[tuple[Mapping[str, Any], list[TaskReport]]]:
    """Run the plan again for each of these receipts, in the order of their epochs; each when it is asked for.

    Args:
        session: The SparkSession of the DataFrames.
        outputs: The query.
        request: The rest.
        receipts: Of the epochs.
        before: The state to begin with, of a plan that keeps some.
        task_of: What runs in the tasks of an epoch.

    Yields:
        The receipt, and what the tasks have reported.

    Raises:
        OnceflowError: As of ``recompute``.
    """
    require_runnable(outputs.query, request.output_mode, read_again=False)
    _require_rerunnable(outputs, receipts, before)
    pin(session, {"spark.sql.streaming.minBatchesToRetain": str(request.checkpointing.retain)})
    told = {receipt["epoch"]: receipt for receipt in receipts}
    if not outputs.states():
        for epoch, receipt in sorted(told.items()):
            with tempfile.TemporaryDirectory(prefix="onceflow-recompute-") as folder:
                _plant(Path(folder), receipt, str(session.conf.get(_PARTITIONS)))
                yield receipt, _run(session, outputs, request, Path(folder), _EPOCH, task_of(epoch))
        return
    if before is None:
        raise AssertionError("a plan that keeps state was refused without it")
    for epoch, planned in sorted(before.planned.items()):
        _plan_next(before.folder, epoch, planned)
        reports = _run(session, outputs, request, before.folder, epoch, task_of(epoch))
        if epoch in told:
            yield told[epoch], reports


def compared(receipt: Mapping[str, Any], reports: Sequence[TaskReport]) -> list[Recomputed]:
    """What each sink's rows of an epoch were, by its receipt, and are, by what the tasks have reported."""
    now = totals(parts_of(reports))
    return [
        Recomputed(receipt["epoch"], sink, (told["rows"], int(told["digest"], 16)), now.get(sink, (0, 0)))
        for sink, told in receipt["sinks"].items()
    ]


def _require_rerunnable(outputs: Outputs, receipts: Sequence[Mapping[str, Any]], before: StateBefore | None) -> None:
    if outputs.states() and before is None:
        raise ConfigurationError(
            f"the plan keeps state ({', '.join(dict.fromkeys(state.shape for state in outputs.states()))}), and the "
            "job's checkpoint has none",
            harmless="always: nothing was looked at or changed",
            cause="what an epoch gives depends on the state that it began with; these epochs were written by a plan "
            "without state, or the checkpoint was deleted",
            action="give the file as it was then; or name a savepoint of this job to begin with (--from)",
        )
    here = len(outputs.leaves())
    for receipt in receipts:
        starts = [source["start"] for source in receipt["sources"]]
        if len(starts) != here:
            raise ConfigurationError(
                f"the plan reads {here} sources, and epoch {receipt['epoch']} was read from {len(starts)}",
                harmless="always: nothing was looked at or changed",
                cause="the job was edited since",
                action="give the file as it was then: its receipt has the hash of it (code)",
            )
        if outputs.states() and before is not None:
            _require_range(receipt, before.planned[receipt["epoch"]])
        elif None in starts:
            raise ConfigurationError(
                f"where epoch {receipt['epoch']} began is not known",
                harmless="always: nothing was looked at or changed",
                cause="its receipt is the first one, and the journal had forgotten what came before",
                action="begin with a later epoch",
            )


def _require_range(receipt: Mapping[str, Any], planned: str) -> None:
    """The receipt is what was decided, and chained; the file of Spark's is only where its watermark is kept whole."""
    ends = [canonical(str(source["end"])) for source in receipt["sources"]]
    if [canonical(line) for line in positions(planned)] != ends:
        raise CheckpointCorruptError(
            f"epoch {receipt['epoch']} was planned over another range than its receipt says",
            harmless="never: one of the two is not what it was",
            cause="the checkpoint's offsets were edited, or the receipt",
            action="audit without --recompute: it says whether the receipts are whole; then start the job, which puts "
            "Spark's files right by the journal",
            epoch=receipt["epoch"],
        )


def _run(
    session: SparkSession, outputs: Outputs, request: StartRequest, folder: Path, epoch: int, task: Task
) -> list[TaskReport]:
    """Run the epoch that is planned in a folder, until Spark has recorded it; what its tasks have reported."""
    found: list[list[TaskReport]] = []

    def take(batch: DataFrame, number: int) -> None:
        if number != epoch:
            raise _EnoughError  # Spark would go on with what came since, and keep state of it
        rows = outputs.of_epoch(batch, partial(executed_plan, session, query_of(batch)))
        found.append([TaskReport.loads(row[0]) for row in rows.mapInArrow(task, RESULT_SCHEMA).collect()])

    checkpoint = SparkCheckpoint.at(folder)
    query = (
        outputs.query.writeStream.outputMode(request.output_mode)
        .option("checkpointLocation", spark_path(session, checkpoint))
        .foreachBatch(with_known_ends(session, take))
        .trigger(availableNow=True)
        .start()
    )
    pause = threading.Event()
    try:
        while query.isActive and not checkpoint.is_done(epoch):
            pause.wait(_LOOK_S)
        if not checkpoint.is_done(epoch):
            query.awaitTermination()  # raises what ended it
    finally:
        query.stop()
    if not found:
        raise AssertionError("Spark has not run the epoch that its checkpoint had planned")
    return found[0]


class _EnoughError(Exception):
    """The epoch that was asked for is done."""


def _never(shard: Shard) -> Writer:
    raise AssertionError(f"nothing is written, and shard {shard} was to be")


def _plant(folder: Path, receipt: Mapping[str, Any], partitions: str) -> None:
    """A checkpoint whose newest epoch is planned as this one was, and not done."""
    planned = receipt["planned"]
    head: dict[str, Any] = {
        "batchWatermarkMs": planned["watermark_ms"] or 0,
        "batchTimestampMs": planned["time_ms"] or 0,
        # Spark looks whether the number has changed between the two, and fails where it is not told.
        "conf": {_PARTITIONS: partitions},
    }
    for epoch, end in ((_EPOCH - 1, "start"), (_EPOCH, "end")):
        lines = ["v1", json.dumps(head), *(source[end] for source in receipt["sources"])]
        _write(folder / "offsets" / str(epoch), "\n".join(lines))
    # In the second form, as ``session.PINNED`` has Spark write it: it takes no other, also where there is no state.
    _write(folder / "commits" / str(_EPOCH - 1), 'v2\n{"nextBatchWatermarkMs":0,"stateUniqueIds":{}}')
    _write(folder / "metadata", json.dumps({"id": str(uuid.uuid4())}))


def _plan_next(folder: Path, epoch: int, planned: str) -> None:
    """Plan the next epoch as it was; what Spark has planned by itself, behind the last one, is taken away."""
    for name in (str(epoch), f".{epoch}.crc"):
        with contextlib.suppress(FileNotFoundError):
            (folder / "offsets" / name).unlink()
    _write(folder / "offsets" / str(epoch), planned)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
