"""What a program or a notebook sees of a query that failed: Spark's exception in one line, and all of it in the log."""

import time

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType

import onceflow as of
from onceflow.errors import ConfigurationError, EpochFailedError
from tests.support.harness import logged_error, read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def start(frame, cluster, sink, folder):
    return of.start(
        frame,
        sinks=[of.KafkaSink(cluster, sink, value=of.Text(), value_columns=["value"])],
        name="failing",
        checkpointing=of.Checkpointing(folder, interval="100 ms"),
        until="caught-up",
    )


def test_a_plan_that_is_cancelled_ends_with_one_line(spark, cluster, new_topic, produce, tmp_path, caplog, capfd):
    """Spark's text for it is thousands of characters of Java: its own search in it for exceptions overflowed a stack.

    The log has the whole error. Started again it goes on.
    """
    source, sink = new_topic(1), new_topic(1)
    produce(source, ["a"])
    frame = of.KafkaSource(cluster, source, value=of.Text()).load(spark)

    @F.pandas_udf(StringType())
    def slow(values: pd.Series) -> pd.Series:
        time.sleep(10)  # so that there is something to cancel
        return values

    query = start(frame.select(slow("value").alias("value")), cluster, sink, tmp_path / "checkpoint")
    tracker = spark.sparkContext.statusTracker()
    wait_until(lambda: not query.isActive or tracker.getActiveJobsIds(), what="a job of Spark's")
    spark.sparkContext.cancelAllJobs()
    with pytest.raises(StreamingQueryException, match="EpochFailedError: epoch 0 failed before its decision") as raised:
        query.awaitTermination(60)
    error = logged_error(caplog)
    assert isinstance(error, EpochFailedError)
    assert "cancel" in error.what
    assert "What to do: mend the cause, then start the job again" in caplog.text
    assert "What to do" not in str(raised.value)
    assert "StackOverflowError" not in capfd.readouterr().err
    query = start(frame, cluster, sink, tmp_path / "again")
    assert query.awaitTermination(60)
    assert [value for _, value in read_topic(cluster, sink)] == [b"a"]


def test_a_wrong_topic_of_a_plain_readstream_is_told_in_the_log(spark, cluster, new_topic, tmp_path, caplog):
    """Only Spark looks for it, in the first epoch, after ``start`` has returned; its words name no topic and no way."""
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "kafka.isolation.level": "read_committed"}
    plain = spark.readStream.format("kafka").options(subscribe="misspelt", **options).load()
    query = start(plain.select("value"), cluster, new_topic(1), tmp_path / "checkpoint")
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(120)
    error = logged_error(caplog)
    assert isinstance(error, ConfigurationError)
    assert "misspelt" in error.cause
    assert "KafkaSource" in error.action
