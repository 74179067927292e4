"""From a failure to the error that a user sees: the rules' reasons, and Spark's words in ours."""

import pytest

from onceflow.errors import ConfigurationError, EpochFailedError, OnceflowError, RowRefusedError
from onceflow.execution.failures import from_failure, from_spark
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
        (FailureKind.DECISION_VOIDED, True),
        (FailureKind.DECISION_UNCERTAIN, True),
        (FailureKind.REPLAY_NOT_RECORDED, True),
        (FailureKind.NOT_RECORDED, True),
        (FailureKind.REBUILD_FAILED, True),
        (FailureKind.TOO_LONG, True),
        (FailureKind.FENCED, False),
        (FailureKind.TWO_UNDONE, False),
        (FailureKind.SINKS_CHANGED, False),
        (FailureKind.OFFSETS_DIFFER, False),
        (FailureKind.EPOCH_UNEXPECTED, False),
        (FailureKind.OUTCOME_UNKNOWN, False),
        (FailureKind.NOT_DETERMINISTIC, False),
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
