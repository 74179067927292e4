"""Which sources a plan of an exactly-once sink may have, and that a Spark with another inside is refused."""

import os
import sys

import pytest
from pyspark.sql import GroupedData
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

import onceflow as of
from onceflow.errors import ConfigurationError, RefusedSettingError
from onceflow.spark import internals, plan
from onceflow.spark.plan import keys_repeat, require_readable_again, unrepeatable, warn_of_unrepeatable
from tests.support import checkpoints
from tests.support.advice import parts_of
from tests.support.harness import Pipeline

pytestmark = pytest.mark.spark

PROVIDER = "org.apache.spark.sql.kafka010.KafkaSourceProvider"


@pytest.fixture
def stream(spark):
    """Our own source; no broker is asked."""
    return of.KafkaSource(of.KafkaCluster("localhost:1"), "t", value=of.Json("value long")).load(spark)


def test_sources_that_can_be_read_again_pass(spark, stream, tmp_path):
    """Kafka, rate, files; beside them what stands in the program."""
    for frame in (
        stream,
        spark.readStream.format("rate").load(),
        spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load(),
        spark.readStream.schema("value string").text(str(tmp_path)),
        stream.join(spark.range(3).withColumnRenamed("id", "value"), "value"),
        stream.join(spark.sql("select * from values (1L), (2L) as t(value)"), "value"),
        stream.join(spark.sql("with c as (select 1L as value) select * from c"), "value"),
    ):
        require_readable_again(frame)


def test_a_socket_is_refused(spark):
    """Its rows are gone when they were read."""
    frame = spark.readStream.format("socket").option("host", "localhost").option("port", 1).load()
    with pytest.raises(RefusedSettingError, match="a socket's rows cannot be read twice"):
        require_readable_again(frame)


def test_sparks_older_kafka_reader_is_refused(spark, stream):
    """Its sources have no options that could be looked at."""
    spark.conf.set("spark.sql.streaming.disabledV2MicroBatchReaders", PROVIDER)
    try:
        with pytest.raises(RefusedSettingError, match="Spark's older reader"):
            require_readable_again(stream)
    finally:
        spark.conf.unset("spark.sql.streaming.disabledV2MicroBatchReaders")


@pytest.mark.parametrize("v1", ["kafka", ""], ids=["v1", "v2"])
def test_a_static_read_of_kafka_is_refused(spark, stream, cluster, new_topic, v1):
    """Joined to a stream, or in a subquery: another run would read it to another end."""
    before = spark.conf.get("spark.sql.sources.useV1SourceList")
    spark.conf.set("spark.sql.sources.useV1SourceList", v1)
    try:
        options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "subscribe": new_topic(1)}
        static = spark.read.format("kafka").options(**options).load()
        static.createOrReplaceTempView("static_kafka")
        stream.createOrReplaceTempView("a_stream")
        inside = spark.sql("select * from a_stream where value in (select offset from static_kafka)")
        for frame in (stream.join(static, stream["value"] == static["offset"]), inside):
            with pytest.raises(RefusedSettingError, match="a static read of Kafka"):
                require_readable_again(frame)
    finally:
        spark.conf.set("spark.sql.sources.useV1SourceList", before)


def test_a_source_of_an_unknown_class_is_refused(spark, stream, monkeypatch):
    """Were Spark's class of streaming sources renamed, every source would be unknown, not unseen."""
    monkeypatch.setattr(plan, "_RELATION", "StreamingRelationV3")
    with pytest.raises(RefusedSettingError, match="StreamingRelationV2: it is not known to onceflow"):
        require_readable_again(stream)
    monkeypatch.undo()
    monkeypatch.setattr(plan, "_IN_THE_PROGRAM", frozenset())
    with pytest.raises(RefusedSettingError, match="Range: it is not known to onceflow"):
        require_readable_again(stream.join(spark.range(3), F.expr("id = value")))


def test_a_static_table_may_give_other_rows(spark, stream, tmp_path, caplog):
    """Files, tables and RDDs beside a stream may have changed when an epoch runs again: what to do is said."""
    spark.range(3).write.parquet(str(tmp_path / "table"))
    table = spark.read.parquet(str(tmp_path / "table"))
    frame = spark.createDataFrame([(1,), (2,)], "id long")
    assert unrepeatable(stream.join(table, F.expr("id = value"))) == ["a static table"]
    assert unrepeatable(stream.join(frame, F.expr("id = value"))) == ["a static RDD or DataFrame from Python"]
    assert not keys_repeat(["a static table"])
    warn_of_unrepeatable(stream.groupBy("value").count().join(table, F.expr("id = value")))
    assert "write a changed table to a new path" in caplog.text
    caplog.clear()
    warn_of_unrepeatable(stream.groupBy("value").count().join(table, F.expr("id = value")), fixed_tables=True)
    warn_of_unrepeatable(stream.join(frame, F.expr("id = value")), fixed_tables=True)
    assert caplog.text == "", "the user has said that they stay as they are"


def test_an_operator_of_an_unknown_class_counts_as_state(stream, monkeypatch):
    """Its place is compared at the next start then, which may refuse too much and never too little."""
    assert plan.states_of(stream.where("value > 1"), ("s",)) == []
    monkeypatch.setattr(plan, "_STATELESS", plan._STATELESS - {"Filter"})
    assert [state.shape for state in plan.states_of(stream.where("value > 1"), ("s",))]


def test_this_spark_has_all_that_is_used_of_its_inside(spark):
    """Each private class and method that the room of Spark names is there."""
    internals.require(spark)


@pytest.mark.parametrize(
    ("name", "methods", "missing"),
    [
        ("org.apache.spark.sql.NotThere", (), "org.apache.spark.sql.NotThere"),
        ("org.apache.spark.rdd.RDD", ("notThere",), "org.apache.spark.rdd.RDD.notThere()"),
    ],
)
def test_a_spark_with_another_inside_is_refused(spark, monkeypatch, name, methods, missing):
    """The name that is gone is said, and the version."""
    monkeypatch.setattr(internals, "JAVA", dict(internals.JAVA) | {name: methods})
    with pytest.raises(ConfigurationError, match=f"has no {missing.replace('(', '[(]').replace(')', '[)]')}"):
        internals.require(spark)


MODES = {
    "append": "withWatermark",
    "update": "several rows of a group",
    "complete": "every group as often as there are epochs",
}


@pytest.mark.parametrize("mode", MODES)
def test_what_an_aggregation_without_a_watermark_means_is_told(spark, stream, tmp_path, caplog, mode):
    """In append mode it is refused before any broker is asked or anything is written; else readers' view is told."""
    said = MODES[mode]
    sink = of.KafkaSink(of.KafkaCluster("localhost:1"), "t")
    counts = stream.groupBy("value").count()
    with caplog.at_level("INFO", "onceflow"):
        if mode == "append":
            with pytest.raises(ConfigurationError, match=said) as refused:
                of.start(counts, sinks=[sink], name="job", checkpointing=of.Checkpointing(tmp_path / "c"))
            assert 'output_mode="update"' in refused.value.action
            assert not (tmp_path / "c").exists()
        else:
            plan.require_streamable(counts, mode)
            plan.tell_of_mode(counts, mode)
            assert said in caplog.text


def test_a_plan_that_writes_each_row_once_needs_no_word(stream, caplog):
    """Append, and an update mode in which nothing is grouped."""
    with caplog.at_level("INFO", "onceflow"):
        for mode in ("append", "update"):
            plan.require_streamable(stream, mode)
            plan.tell_of_mode(stream, mode)
    assert caplog.text == ""


def test_a_session_that_does_not_ask_spark_is_not_asked(spark, stream):
    """``spark.sql.streaming.unsupportedOperationCheck`` is the user's, here as in Spark."""
    spark.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")
    try:
        plan.require_streamable(stream.groupBy("value").count(), "append")
    finally:
        spark.conf.unset("spark.sql.streaming.unsupportedOperationCheck")


class Passing(StatefulProcessor):
    """A state class that keeps nothing."""

    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timers):  # noqa: N802
        yield from rows

    def close(self):
        pass


def passed(_key, frames, _state):
    yield from frames


CLASSED = pytest.mark.skipif(
    not hasattr(GroupedData, "transformWithState"), reason="this PySpark has it for pandas alone"
)


@CLASSED
def test_a_state_class_without_protobuf_is_refused(stream, monkeypatch):
    """PySpark does not install it and needs it in each task; any other plan is none of its business."""
    classed = stream.groupBy("value").transformWithState(Passing(), "value long", "append", "none")
    plan.require_protobuf(classed)
    for name in [each for each in sys.modules if each.startswith(("google", "pyspark.sql.streaming.proto"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "google", None)
    with pytest.raises(ConfigurationError, match="package protobuf is missing") as raised:
        plan.require_protobuf(classed)
    error = parts_of(raised.value, ConfigurationError)
    assert "pip install 'protobuf>=" in error.action
    plan.require_protobuf(stream.groupBy("value").count())


@pytest.mark.kafka
@pytest.mark.faults
def test_a_job_with_a_state_class_ends_before_it_takes_over(cluster, new_topic, tmp_path):
    """Without protobuf, as a process: nothing is in its journal, and with it the job runs."""
    checkpoints.write(tmp_path / "without" / "google" / "__init__.py", "")
    p = Pipeline(cluster, new_topic(1), new_topic(1), tmp_path / "checkpoint", "tally")
    p.send(10)
    ended = p.run(PYTHONPATH=os.pathsep.join([str(tmp_path / "without"), os.environ.get("PYTHONPATH", "")]))
    assert ended.code == 1
    assert "the package protobuf is missing here" in ended.log
    assert p.records() == []
    p.run_well()
    assert len(p.read()) == 10


TIMED = [
    ("class", lambda s: s.groupBy("value").transformWithState(Passing(), "v long", "append", "ProcessingTime"), True),
    ("by events", lambda s: s.withWatermark("at", "1 second").groupBy("value").transformWithState(
        Passing(), "v long", "append", "EventTime"), False),
    ("untimed", lambda s: s.groupBy("value").transformWithState(Passing(), "v long", "append", "none"), False),
    ("function", lambda s: s.groupBy("value").applyInPandasWithState(
        passed, "v long", "n int", "append", "ProcessingTimeTimeout"), True),
    ("no timeout", lambda s: s.groupBy("value").applyInPandasWithState(
        passed, "v long", "n int", "append", "NoTimeout"), False),
    ("plain", lambda s: s.where("value > 1"), False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "timed"),
    [
        pytest.param(*told, id=name, marks=CLASSED if name in {"class", "by events", "untimed"} else ())
        for name, *told in TIMED
    ],
)
def test_timers_by_the_clock_are_seen(spark, make, timed):
    """For such a plan Spark runs epochs without records and without end, also where it is to end when caught up."""
    value = of.Json("value long, at timestamp")
    frame = of.KafkaSource(of.KafkaCluster("localhost:1"), "t", value=value).load(spark)
    assert plan.goes_by_the_clock(make(frame)) == timed
