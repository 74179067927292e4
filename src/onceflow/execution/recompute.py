"""Running the plan again over what decided epochs have read, by their receipts, without writing anything.

Must not know: the journal, how an audit is told. Spark is given a checkpoint that says: this epoch is planned, over
exactly this range, at this time, and is not done. So it runs it again, as it does after a crash.
"""

from __future__ import annotations

import json
import tempfile
import threading
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.contract import Run, Shard, Sink, Writer
from onceflow.errors import ConfigurationError
from onceflow.execution.launch import Plan, check_query
from onceflow.execution.outputs import Outputs
from onceflow.execution.task import RESULT_SCHEMA, Output, Task
from onceflow.spark.session import pin, spark_path
from onceflow.twophase.participants import TaskReport, parts_of, totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EPOCH = 1
_PARTITIONS = "spark.sql.shuffle.partitions"


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What a sink's rows of one epoch were, and are when the plan is run again.

    Attributes:
        epoch: Which.
        sink: Whose rows.
        decided: How many rows, and their digest.
        now: The same, of the run again.
    """

    epoch: int
    sink: str
    decided: tuple[int, int]
    now: tuple[int, int]


def recompute(
    session: SparkSession, result: object, sinks: Sequence[Sink], plan: Plan, receipts: Sequence[Mapping[str, Any]]
) -> list[Recomputed]:
    """Run the plan again for each of these receipts.

    Args:
        session: The SparkSession of the DataFrames.
        result: What the stream function returned.
        sinks: The sinks that get the rows of one DataFrame.
        plan: The rest.
        receipts: Of the epochs.

    Raises:
        ConfigurationError: The plan keeps state, or is not one that has made them.
        Exception: Spark could not read what was read: the source has lost it, for one.
    """
    outputs = Outputs(result, sinks, plan.connectors, plan.output_mode)
    check_query(outputs.query, plan.output_mode, read_again=False)
    _refuse(outputs, receipts)
    pin(session, {"spark.sql.streaming.minBatchesToRetain": str(plan.checkpointing.retain)})
    found = []
    for receipt in receipts:
        now = _run(session, outputs, plan, receipt)
        for sink, told in receipt["sinks"].items():
            decided = (told["rows"], int(told["digest"], 16))
            found.append(Recomputed(receipt["epoch"], sink, decided, now.get(sink, (0, 0))))
    return found


def _refuse(outputs: Outputs, receipts: Sequence[Mapping[str, Any]]) -> None:
    if outputs.states():
        raise ConfigurationError(
            f"the plan keeps state ({', '.join(dict.fromkeys(state.shape for state in outputs.states()))}): its epochs "
            "cannot be run again from their receipts alone",
            harmless="always: nothing was looked at or changed",
            cause="what an epoch gives depends on the state that it began with, which only a savepoint of the epoch "
            "before it has; running from one is not there in this version",
            action="leave --recompute away: what is visible is then compared with what was decided",
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
        if None in starts:
            raise ConfigurationError(
                f"where epoch {receipt['epoch']} began is not known",
                harmless="always: nothing was looked at or changed",
                cause="its receipt is the first one, and the journal had forgotten what came before",
                action="begin with a later epoch",
            )


def _run(session: SparkSession, outputs: Outputs, plan: Plan, receipt: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Rows and digest of each sink."""
    task = Task(
        tuple(Output(sink.name, _never) for sink in outputs.sinks), Run("", "", 0, receipt["epoch"]), write=False
    )
    found: list[dict[str, tuple[int, int]]] = []
    done = threading.Event()

    def take(batch: DataFrame, number: int) -> None:
        if number == _EPOCH:
            rows = batch.mapInArrow(task, RESULT_SCHEMA).collect()
            found.append(totals(parts_of(TaskReport.loads(row[0]) for row in rows)))
            done.set()

    with tempfile.TemporaryDirectory(prefix="onceflow-recompute-") as folder:
        _plant(Path(folder), receipt, str(session.conf.get(_PARTITIONS)))
        query = (
            outputs.query.writeStream.outputMode(plan.output_mode)
            .option("checkpointLocation", spark_path(session, SparkCheckpoint.at(Path(folder))))
            .foreachBatch(take)
            .trigger(availableNow=True)
            .start()
        )
        try:
            while not done.wait(0.1) and query.isActive:
                pass  # behind it Spark would go on with what came since
            if not done.is_set():
                query.awaitTermination()  # raises what ended it
        finally:
            query.stop()
    if not found:
        raise AssertionError("Spark has not run the epoch that its checkpoint had planned")
    return found[0]


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


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
