"""A run of an epoch's plan: Spark runs it, and its tasks' reports come back.

Must not know: what is decided from them, the journal, how a sink commits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onceflow.connectors.contract import Run
from onceflow.execution.groups import groups
from onceflow.execution.task import RESULT_SCHEMA, Output, Shared, Task
from onceflow.spark.internals import executed_plan, partition_count, query_of
from onceflow.spark.origins import ends, origins
from onceflow.twophase.keyed import key_of_rows
from onceflow.twophase.messages import Ran, RunPlan
from onceflow.twophase.participants import TaskReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Collect = Callable[["DataFrame", RunPlan, Run, int, Executor], Ran]
"""Runs an epoch's DataFrame as told, knowing how many records it reads (0: that cannot be told); the threads are for
what is looked up meanwhile."""


class Collector:
    """Runs plans on Spark.

    Args:
        outputs: What opens the writers of all sinks of the job, in the order of the plan's columns.
        session: The session whose query it will be: an epoch's DataFrame has another one, that knows no query.
        keys_repeat: As ``origins.origins`` takes it.
        stateful: Whether the plan keeps state between epochs, asked in each run: what Spark makes of a plan may keep
            state where nothing in the plan shows it. Spark (4.2) mixes up the state stores of a task that takes
            several partitions: from the operator that reads one to the operator that writes it a store goes by a
            variable of the thread, which is not emptied before the task ends.
        together: As ``origins.origins`` takes it.
        metadata: Spark's file of that name in the checkpoint, where executors that keep state must see it, too; None
            where they see it as the driver does, whatever it is.
        key: The audit's, of which each job's key for its rows is made; None: rows get no keyed digests.
        of_epoch: What tasks get of what the query gives, and of Spark's physical plan of the epoch.
    """

    def __init__(
        self,
        outputs: Sequence[Output],
        session: SparkSession,
        *,
        keys_repeat: bool,
        stateful: Callable[[], bool],
        together: str = "",
        metadata: Path | None = None,
        key: bytes | None = None,
        of_epoch: Callable[[DataFrame, Callable[[], Any]], DataFrame] = lambda rows, _: rows,
    ) -> None:
        self._of_epoch = of_epoch
        self._outputs = tuple(outputs)
        self._session = session
        self._keys_repeat = keys_repeat
        self._stateful = stateful
        self._together = together
        self._metadata = metadata
        self._key = key

    def __call__(self, plan: DataFrame, action: RunPlan, run: Run, records: int, threads: Executor) -> Ran:
        """Run it."""
        query_id = query_of(plan)
        executed = partial(executed_plan, self._session, query_id)
        plan = self._of_epoch(plan, executed)
        partitions = partition_count(plan)
        grouped, tasks = self._grouped(plan, partitions, records)
        keeps_state = self._metadata is not None and self._stateful()
        shared = Shared(self._metadata, query_id) if self._metadata is not None and keeps_state else None
        key = None if self._key is None else key_of_rows(self._key, run.job_id)
        task = Task(self._outputs, run, action.write, action.silent, shared, key)
        end = threads.submit(ends, executed)
        read = threads.submit(origins, executed, partitions, keys_repeat=self._keys_repeat, together=self._together)
        rows = grouped.mapInArrow(task, RESULT_SCHEMA).collect()
        reports = tuple(TaskReport.loads(row[0]) for row in rows)
        return Ran(
            reports, tuple(output.sink for output in self._outputs), tasks, tuple(read.result()), ends=end.result()
        )

    def _grouped(self, plan: DataFrame, partitions: int, records: int) -> tuple[DataFrame, int]:
        """The plan with its partitions in groups, and how many tasks that are."""
        wanted = groups(partitions, plan.sparkSession.sparkContext.defaultParallelism, records)
        if wanted == partitions or self._stateful():
            return plan, partitions
        # On a cluster partitions that are near one another come together, which may leave a group without any.
        grouped = plan.coalesce(wanted)
        return grouped, partition_count(grouped)
