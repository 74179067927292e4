"""From a failure to the error that a user sees: the rules' reasons, and Spark's words in ours."""

import pytest

from onceflow.errors import ConfigurationError, EpochFailedError, OnceflowError, RowRefusedError
from onceflow.execution.failures import EpochEnded, from_failure, from_spark
from onceflow.spark.sentences import application_ended, no_stream, sentence
from onceflow.twophase.messages import Failure, FailureKind
from onceflow.twophase.participants import ParticipantId

SPARK_4_2 = (
    "Multiple streaming queries are concurrently using file:///checkpoint/offsets.",
    "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 17.",
)


@pytest.mark.parametrize("said", SPARK_4_2)
def test_two_drivers_that_planned_one_epoch_are_told_of_each_other(said):
    """Spark's message names a log; the user learns that nothing is lost, and what to do."""
    error = from_spark(RuntimeError(said))
    assert isinstance(error, EpochFailedError)
    assert error.retriable
    assert "another driver of this job" in str(error)


def test_other_words_of_spark_are_not_taken_for_it():
    """A message that is not known stays Spark's."""
    assert from_spark(RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: no space")) is None


@pytest.mark.parametrize(
    "said",
    [
        "org.apache.arrow.memory.OutOfMemoryException: Failure allocating buffer.",
        "org.apache.arrow.vector.util.OversizedAllocationException: Memory required for vector is (2147483648)",
    ],
)
def test_a_batch_that_does_not_fit_names_the_setting(said):
    """The range is fixed, so no retry helps; what bounds a batch is named."""
    error = from_spark(RuntimeError(f"Job aborted due to stage failure: Task 0 in stage 1.0 failed: {said}\n\tat x"))
    assert isinstance(error, ConfigurationError)
    assert not error.retriable
    assert "spark.sql.execution.arrow.maxBytesPerBatch" in error.action


_MODE = "[STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION] Invalid streaming output mode: {}. This output mode is not {}"
_ON = "streaming DataFrames/Datasets"
_END = " on streaming DataFrames/DataSets. SQLSTATE: 42KDE;\nAggregate [a]"
_WATERMARK = "a watermark in the join keys, or a watermark on the nullable side and an appropriate range condition"

NO_STREAMS = (
    (_MODE.format("append", "supported for streaming aggregations without watermark") + _END, "update"),
    (_MODE.format("complete", "supported for no streaming aggregations") + _END, "append"),
    (f"Stream-stream LeftOuter join between two {_ON} is not supported without {_WATERMARK};\nJoin", "withWatermark"),
    (f"LeftOuter join between two {_ON} is not supported in Update output mode, only in Append output mode;", "append"),
    ("LeftOuter join with a streaming X on the right and a static X on the left is not supported;", "exchange the two"),
    (f"Distinct aggregations are not supported on {_ON}. Consider using approx_count_distinct() instead.;", "WithinW"),
    (f"Sorting is not supported on {_ON}, unless it is on aggregated X in Complete output mode;\nSort", "leave it out"),
    (f"Limits are not supported on {_ON} in Update output mode;\nLimit", "leave it out"),
    ("Detected pattern of possible 'correctness' issue due to global watermark. The query contains;\nA", "append"),
    (f"[NON_TIME_WINDOW_X] Window function is not supported in ROW_NUMBER() (as column `n`) on {_ON}.", "F.window"),
)


@pytest.mark.parametrize(("said", "way_out"), NO_STREAMS)
def test_a_plan_that_is_no_stream_is_explained(said, way_out):
    """Spark's sentence without its frame, why it is so, and what to do, each in its part."""
    error = no_stream(said, "update")
    assert said.partition("\n")[0].removesuffix(";").partition(" SQLSTATE")[0].endswith(error.what.partition(": ")[2])
    assert "[" not in error.what
    assert way_out in error.action
    assert 'output_mode="update": ' in error.cause
    assert "see Spark's words" not in error.cause


def test_what_spark_says_of_other_plans_is_told_as_it_stands():
    """A sentence that is not known has its four parts all the same."""
    error = no_stream("[NEW_WORD] Something else.\n+- plan", "append")
    assert error.what.endswith(": Something else.")
    assert "output mode" in error.action


KINDS = sorted(set(FailureKind) - {FailureKind.COMMIT_REFUSED}, key=str)  # of that one the sink's committer says more


@pytest.mark.parametrize("kind", KINDS)
def test_every_failure_has_an_error(kind):
    """Whatever the rules end a call with is one of ours, and names its epoch."""
    failure = Failure(kind, 7, (ParticipantId(("s", "h0")),), "what was seen")
    error = from_failure(failure, None, "file:///checkpoint", "    evidence")
    assert isinstance(error, OnceflowError)
    assert error.facts.get("epoch") == 7 or "what was seen" in error.what


@pytest.mark.parametrize("kind", KINDS)
def test_every_failure_says_what_to_do(kind):
    """What happened, its likely cause and the way out."""
    error = from_failure(Failure(kind, 7, (), "seen"), None, "file:///checkpoint", "")
    assert error.what
    assert error.cause
    assert error.action


@pytest.mark.parametrize(
    ("kind", "retriable"),
    [
        (FailureKind.RUN_FAILED, True),
        (FailureKind.UNSOUND, True),
        (FailureKind.COMMITTED_AFTER_ALL, True),
        (FailureKind.MISSEALED, False),
        (FailureKind.DECISION_VOIDED, True),
        (FailureKind.DECISION_UNCERTAIN, True),
        (FailureKind.REPLAY_NOT_RECORDED, True),
        (FailureKind.NOT_RECORDED, True),
        (FailureKind.REBUILD_FAILED, True),
        (FailureKind.TOO_LONG, True),
        (FailureKind.FENCED, False),
        (FailureKind.TWO_UNDONE, False),
        (FailureKind.SINKS_CHANGED, False),
        (FailureKind.OFFSETS_DIFFER, True),
        (FailureKind.EPOCH_UNEXPECTED, False),
        (FailureKind.OUTCOME_UNKNOWN, False),
        (FailureKind.NOT_DETERMINISTIC, False),
        (FailureKind.NOT_FOUND_AGAIN, False),
        (FailureKind.SOURCE_LOST, False),
        (FailureKind.SOURCE_REMADE, False),
        (FailureKind.LAYOUT_MOVED, False),
        (FailureKind.LOST_WHILE_RUNNING, True),
    ],
)
def test_a_failure_is_retriable_where_the_same_start_is_right(kind, retriable):
    """A supervisor starts the job again, unchanged, exactly where that is the way out."""
    assert from_failure(Failure(kind, 7, (), "seen"), None, "file:///checkpoint", "").retriable is retriable


@pytest.mark.parametrize(
    "kind", [FailureKind.RUN_FAILED, FailureKind.UNSOUND, FailureKind.SOURCE_LOST, FailureKind.TOO_LONG]
)
def test_the_cause_speaks_where_it_knows_more(kind):
    """Our own error behind the failure is what the user sees."""
    cause = RowRefusedError("a row that cannot be written", action="mend it")
    assert from_failure(Failure(kind, 7), cause, "file:///checkpoint", "") is cause


def test_a_strange_cause_does_not_hide_the_failure():
    """Of an error that is not ours the rules' words are told."""
    error = from_failure(Failure(FailureKind.RUN_FAILED, 7, (), "boom"), ValueError("boom"), "file:///checkpoint", "")
    assert isinstance(error, EpochFailedError)
    assert "epoch 7 failed before its decision: boom" in str(error)


def test_a_sink_that_seals_wrongly_is_named_as_the_cause():
    """Nobody is sent to look for another job's transactions where the sink's own committer has the error."""
    error = from_failure(Failure(FailureKind.MISSEALED, 7, (), "parts in none"), None, "file:///checkpoint", "")
    assert "parts in none" in error.what
    assert "`seal`" in error.cause
    assert "prefix" not in error.action


def test_nobody_is_told_to_accept_what_is_accepted():
    """Behind accept-state the way out is the settings of before, and no command is named again."""
    for kind, named in ((FailureKind.NOT_DETERMINISTIC, True), (FailureKind.NOT_FOUND_AGAIN, False)):
        error = from_failure(Failure(kind, 7, (ParticipantId(("s", "h0")),)), None, "file:///checkpoint", "")
        assert ("accept-state" in error.action) is named
        assert "settings of before" in error.action


@pytest.mark.parametrize("error", [ConfigurationError("long " * 5_000, cause="x" * 5_000), ValueError("y" * 50_000)])
def test_what_spark_is_told_of_an_error_is_one_short_line(error):
    """Its kind and how its message begins: Spark looks for its own exceptions in the text, and a long one ends it."""
    told = str(EpochEnded(error))
    assert type(error).__name__ in told
    assert len(told) < 400
    assert len(told.splitlines()) == 1


def test_what_spark_is_told_is_our_error_still():
    """Whoever has Spark's exception only, as in a log of its own, finds the kind and what happened."""
    found = from_spark(RuntimeError(f"[STREAM_FAILED] x: Traceback: {EpochEnded(RowRefusedError('no'))}\n\n\tat x"))
    assert isinstance(found, RowRefusedError)
    assert found.what == "no"


_OF_THEIRS = """Traceback (most recent call last):
  File "job.py", line 3, in broken
    raise ValueError("a mistake")
ValueError: a mistake
"""

SENTENCES = (
    (
        "An exception was thrown from the Python worker. Please see the stack trace below.\n" + _OF_THEIRS,
        "ValueError: ",
    ),
    (
        f"An error occurred while calling o1.x.\n: org.apache.spark.SparkException: PythonException: {_OF_THEIRS}",
        "Value",
    ),
    ("An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Job 3 cancelled \n\tat y", "org."),
    ("[A_CLASS.OF_SPARKS] no space. SQLSTATE: 1\n\nDriver stacktrace", "[A_CLASS.OF_SPARKS] no space"),
    ("  \n", "RuntimeError"),
    ("Traceback (most recent call last):", "Traceback"),
)


@pytest.mark.parametrize(("text", "begins"), SENTENCES)
def test_one_sentence_of_an_error_is_the_users_own(text, begins):
    """Of a function of the user's what it raised, not that something was raised; of Spark its first line."""
    assert sentence(RuntimeError(text)).startswith(begins)


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("pyspark.serializers: ModuleNotFoundError: No module named 'onceflow'", "has no module onceflow"),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.12 than that in driver: 3.11, PySpark",
            "is Python 3.12, and the driver's is not",
        ),
        (
            'java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such file or directory',
            "is not there: ./environment/bin/python cannot be run",
        ),
    ],
)
def test_an_executors_python_that_is_not_the_drivers_is_no_failure_that_passes(said, what):
    """What is missing there is missing at every start: told as a matter of configuration, with what is missing."""
    error = from_spark(RuntimeError(f"Job aborted due to stage failure: {said}\n\tat org.apache.spark"))
    assert isinstance(error, ConfigurationError)
    assert what in error.what


def test_the_end_of_an_application_is_told_from_that_of_a_stage():
    """By Spark's words while it ends, since it is not over when the query fails of it."""
    assert application_ended("Job aborted due to stage failure: Master removed our application: KILLED")
    assert application_ended("Job 3 cancelled because SparkContext was shut down")
    assert not application_ended("Job aborted due to stage failure: Task 0 in stage 2.0 failed 4 times")
