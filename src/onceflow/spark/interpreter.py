"""The Python that runs the tasks: in a local session the driver's, elsewhere one that is tried before a job runs.

Must not know: sinks, the journal, what tasks do. PySpark takes ``python3`` of the PATH where nobody says another, and
looks for nothing in it before the first row comes. It is run by ``-m``, by which Python takes what lies in the working
folder before its own library: where others may write to that folder, their code would run in the tasks.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from onceflow.errors import ConfigurationError, EpochFailedError
from onceflow.processes import others_may_write
from onceflow.spark.internals import analyzed_plan, elements
from onceflow.spark.plan import kind_of, nodes_of
from onceflow.spark.sentences import other_python

_AGAIN_S = 0.1
_OF_A_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")
_VARIABLE, _SETTING = "PYSPARK_PYTHON", "spark.pyspark.python"


def take_the_drivers(session: SparkSession) -> None:
    """Let the tasks of a local session run in the driver's Python, unless somebody has said which.

    Functions that were used before keep the one that there was then.
    """
    context = session.sparkContext
    said = os.environ.get(_VARIABLE) or context.getConf().get(_SETTING)
    if is_local(session) and not said:
        context.pythonExec = sys.executable
    if is_local(session):
        for name, value in path_of_tasks().items():
            context.environment.setdefault(name, value)


def works_among_others() -> bool:
    """Whether others than this user and root may write to the working folder."""
    try:
        return others_may_write(Path())
    except OSError:  # it is gone
        return True


def path_of_tasks() -> Mapping[str, str]:
    """Variables by which a Python that starts in the working folder of others looks for modules where this one does.

    That is what stands before Python's library: the folder of the job's file, and ``PYTHONPATH``.
    """
    if not works_among_others():
        return {}
    library = Path(os.__file__).parent
    zipped = library.with_name(f"python{sys.version_info.major}{sys.version_info.minor}.zip")
    before = takewhile(lambda each: Path(each) not in (library, zipped), sys.path)
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(filter(None, before))}


def is_local(session: SparkSession) -> bool:
    """Whether tasks run in the driver's Java."""
    return str(session.sparkContext.master).partition("[")[0] == "local"


def to_try(session: SparkSession, frame: DataFrame) -> list[str]:
    """Interpreters that will run tasks of a plan and are not known to be the driver's own."""
    found = {str(session.sparkContext.pythonExec), *_of_functions(frame)}
    return sorted(each for each in found if not is_local(session) or shutil.which(each) != sys.executable)


def try_out(session: SparkSession, interpreter: str, within_s: float) -> None:
    """Run one task in an interpreter: it must be there, of the driver's version, and have onceflow.

    Args:
        session: Where.
        interpreter: Which one.
        within_s: A cluster without executors lets a task wait without end; so long it is waited for.

    Raises:
        ConfigurationError: It is another; with the setting that says which it is.
        EpochFailedError: No executor ran the task in time.
    """
    context, over, done = session.sparkContext, threading.Event(), threading.Event()
    kept, group = context.pythonExec, f"onceflow-{uuid.uuid4().hex}"
    of_before = {name: context.getLocalProperty(name) for name in _OF_A_GROUP}

    def cancel() -> None:
        if not done.wait(within_s):
            over.set()
        while not done.wait(_AGAIN_S):  # Spark may know the job only now
            context.cancelJobGroup(group)

    clock = threading.Thread(target=cancel, name="onceflow-executors", daemon=True)
    context.pythonExec = interpreter
    context.setJobGroup(group, f"a task in {interpreter}", True)
    clock.start()
    try:
        context.parallelize([0], 1).mapPartitions(_look).collect()
    except Exception as error:
        if over.is_set():
            raise _no_executor(session, within_s) from None
        found = other_python(str(error))
        if found is None:
            raise
        raise _refused(found, session, interpreter) from None
    finally:
        done.set()
        clock.join()
        context.pythonExec = kept
        for name, value in of_before.items():
            context.setLocalProperty(name, value)  # type: ignore[arg-type]  # Java's null takes it away


def _no_executor(session: SparkSession, within_s: float) -> EpochFailedError:
    return EpochFailedError(
        f"{session.sparkContext.master} ran no task within {within_s:g} s",
        harmless="always: nothing was started or changed",
        cause="no worker is registered there, or other programs have all of their cores or memory; "
        f"execution.checkpointing.timeout is {within_s:g} s",
        action="look at the cluster's own page for what it lacks, and start again",
    )


def _look(rows: Iterable[int]) -> Iterable[int]:
    """In the task: that it is found is all that is asked."""
    return rows


def _refused(found: ConfigurationError, session: SparkSession, interpreter: str) -> ConfigurationError:
    said = {
        _VARIABLE: os.environ.get(_VARIABLE),
        _SETTING: session.sparkContext.getConf().get(_SETTING),
    }
    told = ", ".join(f"{name} is {value or 'not set'}" for name, value in said.items())
    return ConfigurationError(
        f"{found.what}: {interpreter}, and the driver's is {sys.executable}",
        harmless="always: nothing was started or changed",
        cause=f"{told}; PySpark's default is python3 of the PATH",
        action=f"set {_VARIABLE}={sys.executable} before the SparkSession is made, or activate the environment"
        if is_local(session)
        else "install there what the driver has, or ship it as an archive (docs/clusters.md)",
        interpreter=interpreter,
    )


def _of_functions(frame: DataFrame) -> Iterator[str]:
    """The interpreters that the plan's own Python functions were made for."""
    for node in nodes_of(analyzed_plan(frame)):
        for expression in elements(node.expressions()):
            yield from _of_expression(expression)


def _of_expression(expression: Any) -> Iterator[str]:
    for child in elements(expression.children()):
        yield from _of_expression(child)
    if kind_of(expression).startswith("Python"):
        asked: Callable[[], Any] = expression.func
        yield str(asked().pythonExec())
