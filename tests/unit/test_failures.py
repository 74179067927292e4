"""Spark's words for a failure, in ours."""

from onceflow.errors import EpochFailedError
from onceflow.runtime.failures import from_spark

SPARK_4_2 = (
    "[STREAM_FAILED] Query [id = 403c74e3, runId = c8947331] terminated with exception: "
    "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log. Multiple streaming jobs detected for 17."
)


def test_two_drivers_that_planned_one_epoch_are_told_of_each_other():
    """Spark's message names a log; the user learns which epoch, that nothing is lost, and what to do."""
    error = from_spark(RuntimeError(SPARK_4_2))
    assert isinstance(error, EpochFailedError)
    assert error.retriable
    assert "epoch 17 was planned by another driver" in str(error)


def test_other_words_of_spark_are_not_taken_for_it():
    """A message that is not known stays Spark's."""
    assert from_spark(RuntimeError("[STREAM_FAILED] Query [id = 1] terminated with exception: no space")) is None
