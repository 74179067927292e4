"""Which plans are warned of at the start: those that may give other rows when an epoch runs again."""

import logging
import sys

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType

import onceflow as of
from onceflow.flinksql.first_of_key import keep_first
from onceflow.flinksql.relations import KeepFirst
from onceflow.spark.plan import is_stateful, unrepeatable, warn_of_unrepeatable

pytestmark = pytest.mark.spark


class Counting(StatefulProcessor):
    """State in a Python class."""

    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timer):  # noqa: N802
        yield from rows

    def close(self):
        pass


@F.udf(LongType())
def plus_one(x):
    return x + 1


def kept(_key, frames, _state):
    yield from frames


def numbers(frame):
    """A static side."""
    return frame.sparkSession.range(9).toDF("value")


@pytest.fixture
def stream(spark):
    """Our own source, whose DataFrame every plan starts from. No broker is asked."""
    value = of.Json("value long, timestamp timestamp")
    return of.KafkaSource(of.KafkaCluster("localhost:1"), "t", value=value).load(spark)


PLANS = [
    ("plain", lambda s: s.where("value > 3"), False, []),
    ("clock", lambda s: s.select(F.current_timestamp(), F.current_date(), F.expr("localtimestamp()")), False, []),
    ("uuid", lambda s: s.select(F.expr("upper(uuid())")), False, ["uuid()"]),
    ("window", lambda s: s.groupBy(F.window("timestamp", "1 minute")).agg(F.sum("value")), True, []),
    ("distinct", lambda s: s.distinct(), True, []),
    ("intersect", lambda s: s.select("value").intersect(numbers(s)), True, []),
    ("except", lambda s: s.select("value").exceptAll(numbers(s)), True, []),
    ("join", lambda s: s.join(s.select(F.col("value").alias("v")), F.expr("value = v")), True, []),
    ("rand", lambda s: s.withColumn("r", F.rand()).groupBy("r").count(), True, ["rand()"]),
    ("task", lambda s: s.groupBy(F.spark_partition_id()).count(), True, ["spark_partition_id()"]),
    ("order", lambda s: s.groupBy("value").agg(F.first("timestamp"), F.collect_list("value")), True,
     ["collect_list() (order of rows)", "first() (order of rows)"]),
    ("floating point", lambda s: s.groupBy("value").agg(F.sum(F.col("value") / 3), F.sum("value"), F.avg("value")),
     True, ["sum() of double (order of rows)"]),
    ("money", lambda s: s.groupBy("value").agg(F.sum(F.col("value").cast("decimal(18,2)"))), True, []),
    ("first of an id", lambda s: s.dropDuplicates(["value"]), True, ["dropDuplicates of value (order of rows)"]),
    ("first of a row", lambda s: s.select("value").dropDuplicates(["value"]), True, []),
    ("within the watermark", lambda s: s.withWatermark("timestamp", "1 hour").dropDuplicatesWithinWatermark(["value"]),
     True, ["dropDuplicates of value (order of rows)"]),
    ("limit", lambda s: s.limit(3), True, ["limit (order of rows)"]),
    ("sessions", lambda s: s.withWatermark("timestamp", "1 hour").groupBy(F.session_window("timestamp", "1 minute"),
     "value").count(), True, []),
    ("udf", lambda s: s.select(plus_one("value").alias("v")).distinct(), True, ["Python function plus_one"]),
    ("pandas state", lambda s: s.groupBy("value").applyInPandasWithState(kept, "v long", "n int", "append",
     "NoTimeout"), True, ["Python function kept"]),
    ("state class", lambda s: s.groupBy("value").transformWithState(Counting(), "v long", "append", "none"), True,
     ["Python function transformWithStateUDF"]),
    ("first row of SQL", lambda s: keep_first(s.withWatermark("timestamp", "1 hour"), KeepFirst("v", "", ("value",),
     "timestamp", ())), True, []),
]  # fmt: skip


@pytest.mark.parametrize(("plan", "stateful", "names"), [p[1:] for p in PLANS], ids=[p[0] for p in PLANS])
def test_what_may_give_other_rows_is_named(stream, plan, stateful, names):
    """Our own source is never to blame; neither is the clock, which Spark keeps in offsets/N."""
    frame = plan(stream)
    assert (is_stateful(frame), unrepeatable(frame)) == (stateful, names)


def test_the_line_of_the_program_is_named(stream, caplog):
    """Where PySpark has kept it: of functions and of columns, by the file's name and the number."""
    frame = stream.groupBy("value").agg(F.collect_list("timestamp").alias("times"))
    line = sys._getframe().f_lineno - 1
    with caplog.at_level(logging.WARNING, "onceflow"):
        warn_of_unrepeatable(frame)
    assert f"collect_list() (order of rows) at test_unrepeatable.py:{line}" in caplog.text


@pytest.mark.parametrize(("name", "level"), [("rand", logging.WARNING), ("uuid", logging.INFO), ("window", None)])
def test_one_line_says_what_it_means(stream, caplog, name, level):
    """A stateful plan is warned of, a stateless one gets a line of information, a repeatable one none."""
    plan = next(p for p in PLANS if p[0] == name)
    with caplog.at_level(logging.INFO, "onceflow"):
        warn_of_unrepeatable(plan[1](stream))
    assert [record.levelno for record in caplog.records] == ([] if level is None else [level])
    for each in plan[3]:
        assert each in caplog.text
