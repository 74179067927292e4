"""A run of an epoch's plan: Spark runs it, and its tasks' reports come back.

Must not know: what is decided from them, the journal, how a sink commits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from onceflow.connectors.contract import Run
from onceflow.execution.task import RESULT_SCHEMA, Output, Task
from onceflow.spark.internals import executed_plan, task_count
from onceflow.spark.origins import origins
from onceflow.twophase.messages import Ran, RunPlan
from onceflow.twophase.participants import TaskReport

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Collect = Callable[["DataFrame", RunPlan, Run, Executor], Ran]
"""Runs an epoch's DataFrame as told; the threads are for what is read meanwhile."""


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

    def __call__(self, plan: DataFrame, action: RunPlan, run: Run, threads: Executor) -> Ran:
        """Run it."""
        task = Task(self._outputs, run, action.write, action.silent)
        tasks = task_count(plan)
        query_id = plan.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")  # of this thread
        executed = partial(executed_plan, self._session, str(query_id))
        read = threads.submit(origins, executed, tasks, keys_repeat=self._keys_repeat)
        rows = plan.mapInArrow(task, RESULT_SCHEMA).collect()
        reports = [TaskReport.loads(row[0]) for row in rows]
        origin = read.result()
        told = (replace(r, parts=tuple(replace(p, origin=origin[p.number]) for p in r.parts)) for r in reports)
        return Ran(tuple(told), tuple(output.sink for output in self._outputs), tasks)
