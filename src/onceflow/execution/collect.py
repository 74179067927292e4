"""A run of an epoch's plan: Spark runs it, and the committables of its tasks come back.

Must not know: what is decided from them, the journal, how a sink commits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from onceflow.connectors.contract import Run
from onceflow.errors import PreCommitError
from onceflow.execution.task import RESULT_SCHEMA, Output, Task
from onceflow.spark.internals import executed_plan, task_count
from onceflow.spark.origins import origins
from onceflow.twophase.committable import Committable, Participant
from onceflow.twophase.messages import RunPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Collect = Callable[["DataFrame", RunPlan, Run, Executor], list[Committable]]
"""Runs an epoch's DataFrame as told and gives the committables of all its parts; the threads are for what is read
meanwhile."""


class Collector:
    """Runs plans on Spark.

    Args:
        outputs: What opens the writers of all sinks of the job, in the order of the plan's columns.
        session: The session whose query it will be: an epoch's DataFrame has another one, that knows no query.
        keys_repeat: As ``origins.origins`` takes it.
    """

    def __init__(self, outputs: Sequence[Output], session: SparkSession, *, keys_repeat: bool) -> None:
        self._outputs = tuple(outputs)
        self._session = session
        self._keys_repeat = keys_repeat

    def __call__(self, plan: DataFrame, action: RunPlan, run: Run, threads: Executor) -> list[Committable]:
        """Run it.

        Raises:
            PreCommitError: Some part did not report.
        """
        task = Task(self._outputs, run, action.write, action.silent)
        shards = task_count(plan)
        query_id = plan.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")  # of this thread
        executed = partial(executed_plan, self._session, str(query_id))
        read = threads.submit(origins, executed, shards, keys_repeat=self._keys_repeat)
        rows = plan.mapInArrow(task, RESULT_SCHEMA).collect()
        committables = [Committable.loads(row[0]) for row in rows]
        reported = {c.participant for c in committables}
        expected = {Participant((o.sink, n)) for o in self._outputs for n in range(shards)}
        if reported != expected or len(committables) != len(expected):
            raise PreCommitError(
                f"epoch {action.epoch}: {len(expected)} parts were expected and {len(committables)} reported; missing: "
                f"{sorted(expected - reported)}",
                cause="Spark lost a task's result",
                action="start the job again; nothing of this epoch is visible",
                epoch=action.epoch,
            )
        origin = read.result()
        return [replace(c, origin=origin[c.shard]) for c in committables]
