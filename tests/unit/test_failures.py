"""Spark's words for a failure, in ours."""

import pytest

from onceflow.errors import ConfigurationError, EpochFailedError
from onceflow.runtime.failures import from_spark

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
