"""Spark's own sentences, of release 4.2, from which the driver learns why a query ended.

Must not know: how an epoch runs, any source or sink. A sentence that is not known stays Spark's.
"""

from __future__ import annotations

import re

from pyspark.sql import SparkSession

from onceflow import errors
from onceflow.errors import ConfigurationError, EpochFailedError, OnceflowError

# How a Python traceback ends inside a Java exception's text.
_RAISED = re.compile(r"onceflow\.errors\.(\w+Error): (.*?)(?=\n\s*at |\n\n|\nDriver stacktrace|\Z)", re.DOTALL)

# What Spark's Arrow (19) says when the buffer of one column in one batch cannot be had.
_NO_BUFFER = re.compile(r"arrow\.memory\.OutOfMemoryException|arrow\.vector\.util\.OversizedAllocationException")
_ARROW = "spark.sql.execution.arrow."

# What Spark 4.2 says when offsets/N or commits/N is there already, or comes to be there while it writes its own.
_TWO_DRIVERS = re.compile(r"\[CONCURRENT_STREAM_LOG_UPDATE\]|Multiple streaming queries are concurrently using")


def raised_in_worker(text: str) -> OnceflowError | None:
    """Our error by its class name in a traceback, with its whole message as what happened."""
    match = _RAISED.search(text)
    kind = getattr(errors, match[1], None) if match else None
    if match is None or not isinstance(kind, type) or not issubclass(kind, OnceflowError):
        return None
    return kind(match[2].strip())


def two_drivers(text: str) -> OnceflowError | None:
    """Two drivers recorded one epoch at the same moment: Spark ends the one that came second."""
    if _TWO_DRIVERS.search(text) is None:
        return None
    return EpochFailedError(
        "another driver of this job was at work on this checkpoint at the same moment",
        harmless="always for the data: nothing is lost or doubled. It can end the newer of two starts as well, when "
        "the older one plans its last epoch before it learns that it was replaced",
        cause="two starts of one job at the same time: a supervisor that starts too early, or a forgotten terminal",
        action="start the job again, once; it goes on from what is decided",
    )


def no_buffer(text: str) -> OnceflowError | None:
    """A batch of rows on its way to a worker did not fit into Java's memory; the same range never will."""
    if _NO_BUFFER.search(text) is None:
        return None
    session = SparkSession.getActiveSession()
    names = (f"{_ARROW}maxBytesPerBatch", f"{_ARROW}maxRecordsPerBatch", "spark.driver.memory")
    told = ", ".join(f"{name} is {session.conf.get(name, 'not set')}" for name in names) if session else "not known"
    return ConfigurationError(
        "a batch of rows on its way to the Python worker is larger than the memory that Java has for it",
        cause=f"large records in one batch: {told}",
        action=f"set {_ARROW}maxBytesPerBatch to 67108864 (64 MB), or {_ARROW}maxRecordsPerBatch lower, or give Java "
        "more memory; then start the job again: nothing of this epoch is visible",
    )
