"""Spark's own sentences, of release 4.2, from which the driver learns why a query ended.

Must not know: how an epoch runs, any source or sink. A sentence that is not known stays Spark's.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence

from pyspark.sql import SparkSession

from onceflow import errors
from onceflow.errors import ConfigurationError, EpochFailedError, MalformedRecordError, OnceflowError
from onceflow.spark.internals import running_session
from onceflow.spark.raised import in_a_task

# How a Python traceback ends inside a Java exception's text.
_RAISED = re.compile(r"onceflow\.errors\.(\w+Error): (.*?)(?=\n\s*at |\n\n|\nDriver stacktrace|\Z)", re.DOTALL)

_TRACEBACK = "Traceback (most recent call last):"

# What Spark's Arrow (19) says when the buffer of one column in one batch cannot be had.
_NO_BUFFER = re.compile(r"arrow\.memory\.OutOfMemoryException|arrow\.vector\.util\.OversizedAllocationException")
_ARROW = "spark.sql.execution.arrow."

# What Spark 4.2 says when offsets/N or commits/N is there already, or comes to be there while it writes its own.
_TWO_DRIVERS = re.compile(r"\[CONCURRENT_STREAM_LOG_UPDATE\]|Multiple streaming queries are concurrently using")

# How Spark's errors of SQL's class 22 begin and end: a value of a record does not fit what the plan does with it.
# Behind them Spark says where in the program that is.
_OF_VALUES = re.compile(r"\[([A-Z_]+(?:\.[A-Z_]+)?)\].*?SQLSTATE: 22\w{3}", re.DOTALL)
_CALL = re.compile(r"was called from\s+([\w./~ -]+:\d+)")

# What Spark 4.2 says when its cluster ends the application: while it does so, and afterwards.
_APPLICATION_ENDED = re.compile(
    r"Master removed our application|All masters are unresponsive|Yarn application has already ended"
    r"|SparkContext was shut down|Cannot call methods on a stopped SparkContext"
)

# What Spark 4.2 and Python say where the workers' Python is not what the driver's is.
_OTHER_PYTHONS: Sequence[tuple[str, str]] = (
    (r"ModuleNotFoundError: No module named '([\w.]+)'", "has no module {}"),
    (r"\[PYTHON_VERSION_MISMATCH\][^:]*: ([\d.]+)", "is Python {}, and the driver's is not"),
    (r'Cannot run program "([^"]*python[^"]*)"', "is not there: {} cannot be run"),
)

# What Spark 4.2 says of a plan that it cannot run as a stream; the cause, and what to do.
_REFUSED_PLANS: Sequence[tuple[str, str, str]] = (
    (
        "append.* streaming aggregations without watermark",
        "a group is written once, when it is complete, and without a watermark on what is grouped by it never is",
        (
            "add withWatermark(<event time>, <how late>) before groupBy, and group by that column or its window; or "
            'take output_mode="update", which writes a group again whenever it changes'
        ),
    ),
    (
        "complete.* no streaming aggregations",
        "all groups of an aggregation would be written with each epoch, and there is no aggregation",
        'take output_mode="append", or aggregate',
    ),
    (
        "join .*without a watermark",
        "a row without a partner is written when none can come any more, and only watermarks with a range tell when",
        "add withWatermark to both sides, and a range of event times to the join's condition; or join inner",
    ),
    (
        "join .*only in Append output mode",
        "a row without a partner is written once, when none can come any more",
        'take output_mode="append"',
    ),
    (
        "join with a streaming .*static",
        "whether a static row has a partner is known only at the stream's end, and it has none",
        "exchange the two sides, or join inner",
    ),
    (
        "Distinct aggregations",
        "the values of all epochs would have to be kept",
        "take approx_count_distinct(), or dropDuplicatesWithinWatermark() before groupBy",
    ),
    (
        "(Sorting is|Limits are) not supported",
        "a stream has no end, so it has no order and no first rows",
        'leave it out; only the groups of an aggregation with output_mode="complete" can be sorted',
    ),
    (
        "possible 'correctness' issue due to global watermark",
        "the plan keeps several states, one behind the other, which Spark does in append mode only",
        'take output_mode="append", with a watermark',
    ),
    (
        "Window function is not supported",
        "it looks at all rows of a partition, of which a stream has no last one",
        "group by F.window(<event time>, <how long>)",
    ),
)


def sentence(error: BaseException) -> str:
    """What an error says, in one line: of a function of the user's its own words, not Spark's or py4j's about them."""
    theirs = in_a_task(str(error))
    if theirs is not None:
        return str(theirs)
    lines = str(error).strip().splitlines()
    for n, line in enumerate(lines):
        if _TRACEBACK in line:
            behind = (later for later in lines[n + 1 :] if later.strip() and _indent(later) <= _indent(line))
            return next(behind, line).strip()
    if len(lines) > 1 and lines[0].startswith("An error occurred while calling "):
        return lines[1].removeprefix(": ")
    return lines[0] if lines else type(error).__name__


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


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


def of_values(text: str) -> MalformedRecordError | None:
    """A value that the plan's own expressions cannot take. Spark's words hold it, so they are not told."""
    found = _OF_VALUES.search(text)
    if found is None:
        return None
    call = _CALL.search(text, found.end())
    place = f", in {call[1]}" if call is not None else ""
    return MalformedRecordError(
        f"a value of a record does not fit what the plan does with it: {found[1]}{place}",
        harmless="for what is visible: it stays as it is; but every start meets the record again",
        cause="Spark refuses it by this error (spark.sql.ansi.enabled), whose text would hold the value",
        action="let the plan take such values: try_cast, try_to_timestamp, try_divide and their like give null for "
        "them, and filter them out or send them elsewhere; or read the source by a format with on_malformed=. Where "
        "the record itself may be shown, look for it with the same expression in a batch query",
        error_class=found[1],
    )


def no_stream(text: str, mode: str) -> ConfigurationError:
    """A plan that Spark cannot run as a stream, or not in this output mode.

    Args:
        text: What Spark says.
        mode: The output mode.
    """
    first = re.sub(r"^\[\S+\] | SQLSTATE: .*|;$", "", (text.strip() or "it says nothing").splitlines()[0])
    known = ((cause, action) for pattern, cause, action in _REFUSED_PLANS if re.search(pattern, first))
    cause, action = next(
        known, ("see Spark's words", "change the plan, or the output mode: append, update or complete")
    )
    return ConfigurationError(
        f"Spark cannot run this plan as a stream: {first}",
        harmless="always for the data: nothing was started",
        cause=f'output_mode="{mode}": {cause}',
        action=action,
        output_mode=mode,
    )


def waits_for_data(status: Mapping[str, object]) -> bool:
    """Whether a query, by its status, has looked for records and found none."""
    busy = status.get("isDataAvailable") or status.get("isTriggerActive")
    return not busy and str(status.get("message")).startswith("Waiting for ")


def application_ended(text: str) -> bool:
    """Whether Spark says that its cluster ends, or has ended, the application."""
    return _APPLICATION_ENDED.search(text) is not None


def other_python(text: str) -> ConfigurationError | None:
    """The Python that runs tasks lacks what the driver's has; so it does when it is asked again."""
    for pattern, what in _OTHER_PYTHONS:
        found = re.search(pattern, text)
        if found is not None:
            return ConfigurationError(
                f"the Python that runs the tasks {what.format(found[1])}",
                harmless="always: nothing of this epoch is visible",
                cause="on a cluster the executors' Python (PYSPARK_PYTHON, spark.pyspark.python) is another "
                "installation than the driver's; locally, a function of yours imports what is not installed",
                action="install there what the driver has, or ship it as an archive (docs/clusters.md)",
            )
    return None


def _setting(session: SparkSession, name: str) -> str:
    """What a session's setting is. Asked with a default of another type than the setting's, Spark raises."""
    with contextlib.suppress(Exception):
        return str(session.conf.get(name))
    return "not set"


def no_buffer(text: str) -> OnceflowError | None:
    """A batch of rows on its way to a worker did not fit into Java's memory; the same range never will."""
    if _NO_BUFFER.search(text) is None:
        return None
    session = running_session()
    names = (f"{_ARROW}maxBytesPerBatch", f"{_ARROW}maxRecordsPerBatch", "spark.driver.memory")
    told = ", ".join(f"{name} is {_setting(session, name)}" for name in names) if session else "not known"
    return ConfigurationError(
        "a batch of rows on its way to the Python worker is larger than the memory that Java has for it",
        cause=f"large records in one batch: {told}",
        action=f"set {_ARROW}maxBytesPerBatch to 67108864 (64 MB), or {_ARROW}maxRecordsPerBatch lower, or give Java "
        "more memory; then start the job again: nothing of this epoch is visible",
    )
