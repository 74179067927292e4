"""Jobs that are edited over the state that they keep: what would be read as another is refused, the rest is right.

An edit is one line below: the job before, the job after, and what the refusal says, or None where the job goes on. One
that goes on must write behind the old state what it writes behind a beginning of its own. More edits are more lines.
"""

import functools
import importlib.util
import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming import StatefulProcessor

import onceflow as of
from onceflow.checkpoint.journal_codec import decode, encode
from onceflow.errors import CheckpointConflictError
from onceflow.storage.store import Store
from onceflow.twophase.layout import Layout
from onceflow.twophase.records import LayoutRecord
from tests.support.harness import read_topic

pytestmark = [pytest.mark.spark, pytest.mark.kafka]
FAULTS = pytest.mark.faults
NEEDS_PROTOBUF = pytest.mark.skipif(
    importlib.util.find_spec("google") is None or importlib.util.find_spec("google.protobuf") is None,
    reason="PySpark's transformWithState needs protobuf",
)
LEFT, RIGHT = "id bigint, key string, p bigint, q bigint, at timestamp", "id bigint, u bigint, v bigint, at timestamp"
_numbers = itertools.count()


@dataclass
class Asked:
    """What a job is made of: ``left()`` and ``right()`` are its sources, here with other schemas or not at all.

    Attributes:
        spark: The session.
        cluster: The broker.
        topics: Those of the sources.
    """

    spark: SparkSession
    cluster: of.KafkaCluster
    topics: Mapping[str, str]

    def left(self, schema: str = LEFT) -> DataFrame:
        return self._source("left", schema)

    def bare(self) -> DataFrame:
        """The left side without a watermark."""
        return of.KafkaSource(self.cluster, self.topics["left"], value=of.Json(LEFT)).load(self.spark)

    def right(self, schema: str = RIGHT) -> DataFrame:
        return self._source("right", schema)

    def _source(self, side: str, schema: str) -> DataFrame:
        source = of.KafkaSource(self.cluster, self.topics[side], value=of.Json(schema), max_ahead=None)
        return source.load(self.spark).withWatermark("at", "1 hour")


@dataclass
class Job:
    """A version of a job.

    Attributes:
        frame: Its output, or several by the names of their sinks.
        mode: Spark's output mode.
        sink: Settings of its sinks.
    """

    frame: Callable[[Asked], Any]
    mode: str = "append"
    sink: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class World:
    """Topics with records in two parts, and the runs over them."""

    asked: Asked
    new_topic: Callable[..., str]
    produce: Callable[..., None]
    folder: Any

    def first(self) -> None:
        """Twenty rows of the left side, none of which has its partner on the right."""
        self._put("left", range(20))
        self._put("right", range(100, 103))

    def then(self) -> None:
        """Ten more, and the partners of all."""
        self._put("left", range(20, 30))
        self._put("right", range(30))

    def run(self, job: Job, checkpoint: str, topic: str) -> Counter:
        """The rows that a run adds to its topic."""
        before = self.rows(topic)
        made = job.frame(self.asked)
        outputs = made if isinstance(made, dict) else {"out": made}
        by_sink = {
            of.KafkaSink(self.asked.cluster, topic, name=name, **job.sink): frame for name, frame in outputs.items()
        }
        query = of.start(
            by_sink,
            name=checkpoint,
            checkpointing=of.Checkpointing(self.folder / checkpoint, interval="0 s"),
            output_mode=job.mode,
            until="caught-up",
        )
        assert query.awaitTermination(180)
        return self.rows(topic) - before

    def rows(self, topic: str) -> Counter:
        """What is visible in a topic."""
        return Counter(value for _, value in read_topic(self.asked.cluster, topic))

    def kept(self, checkpoint: str) -> list[str]:
        """Spark's plans and records in a checkpoint."""
        names = (path for part in ("offsets", "commits") for path in (self.folder / checkpoint / part).iterdir())
        return sorted(f"{path.parent.name}/{path.name}" for path in names if path.name.isdigit())

    def _put(self, side: str, ids: range) -> None:
        rows = ({"id": i, "key": f"k{i % 4}", "p": 1000 + i, "q": 2000 + i, "u": i, "v": -i} for i in ids)
        times = {"at": "2026-01-01T00:00:00Z"}
        self.produce(self.asked.topics[side], [json.dumps(row | times) for row in rows])


@pytest.fixture
def world(spark, cluster, new_topic, produce, tmp_path):
    """Sources of one partition, empty as yet."""
    return World(Asked(spark, cluster, {"left": new_topic(1), "right": new_topic(1)}), new_topic, produce, tmp_path)


# -- jobs -------------------------------------------------------------------------------------------------------------


def sums(t: Asked, key: str = "key", a: str = "p", b: str = "q") -> DataFrame:
    return t.left().groupBy(key).agg(F.sum(a).alias("total"), F.sum(b).alias("fees"))


def view(t: Asked, user: str) -> DataFrame:
    sums(t).createOrReplaceTempView("sums")
    return t.spark.sql(user)


def pairs(t: Asked, *columns: str, how: str = "inner", on: str = "l.id = r.id", left: str = LEFT) -> DataFrame:
    near = F.expr(f"{on} and l.at between r.at - interval 1 hour and r.at")
    return t.left(left).alias("l").join(t.right().alias("r"), near, how).selectExpr(*columns)


def sql(t: Asked, text: str) -> DataFrame:
    t.left().createOrReplaceTempView("l")
    t.right().createOrReplaceTempView("r")
    return t.spark.sql(text)


def counting(t: Asked, state: str, key: str = "key") -> DataFrame:
    def count(_, frames, kept):
        a, b = kept.getOption or (0, 0)
        rows = sum(len(frame) for frame in frames)
        kept.update((a + rows, b))
        import pandas as pd

        yield pd.DataFrame({"n": [a + rows]})

    return t.left().groupBy(key).applyInPandasWithState(count, "n bigint", state, "update", "NoTimeout")


def summing(t: Asked, column: str, *more: str) -> DataFrame:
    """A function that keeps the sum of a column."""

    def add(key, frames, kept):
        (n,) = kept.getOption or (0,)
        n += sum(int(frame["n"].sum()) for frame in frames)
        kept.update((n,))
        import pandas as pd

        yield pd.DataFrame({"key": [key[0]], "n": [n]})

    rows = t.left().select("key", F.col(column).alias("n"), *more)
    return rows.groupBy("key").applyInPandasWithState(add, "key string, n bigint", "n bigint", "update", "NoTimeout")


class Counting(StatefulProcessor):
    """Counts the rows of each key, in a variable of some name."""

    def __init__(self, name: str, schema: str = "n long") -> None:
        self._name, self._schema = name, schema

    def init(self, handle):
        self.count = handle.getValueState(self._name, self._schema)

    def handleInputRows(self, key, rows, timers):  # noqa: N802 - Spark's names
        before = self.count.get()[0] if self.count.exists() else 0
        n = before + sum(len(each) for each in rows)
        self.count.update((n,))
        import pandas as pd

        yield pd.DataFrame({"key": [key[0]], "n": [n]})

    def close(self):
        """Nothing is open."""


def classed(t: Asked, name: str, key: str = "key", schema: str = "n long") -> DataFrame:
    by = t.left().groupBy(key)
    return by.transformWithStateInPandas(Counting(name, schema), "key string, n long", "update", "none")


def windows(t: Asked, length: str = "1 minute", key: str = "key", at: str = "at", **aggregates: str) -> DataFrame:
    made = [F.expr(text).alias(name) for name, text in (aggregates or {"n": "count(1)"}).items()]
    return t.left().groupBy(F.window(at, length), key).agg(*made)


def sums_of(t: Asked, frame: DataFrame) -> DataFrame:
    return frame.groupBy("key").agg(F.sum("p").alias("total")).select("key", "total")


def average(t: Asked, function: str) -> DataFrame:
    return t.left().groupBy("key").agg(F.expr(f"{function}(p)").alias("total")).select("key", "total")


def keyed(t: Asked, key: str, name: str = "key") -> DataFrame:
    by = F.expr(key) if " as " in key else F.expr(key).alias(name)
    return (
        t.left().select(by, "p").groupBy(name).agg(F.sum("p").alias("total")).select(F.col(name).alias("key"), "total")
    )


def together(t: Asked, *columns: str) -> DataFrame:
    return functools.reduce(DataFrame.union, (t.left().select("key", column) for column in columns))


def renamed(t: Asked, key: str, other: str) -> DataFrame:
    """A join whose key has one name, whatever it is below."""
    right = t.right().select(F.col(key).alias("k"), F.col(other).alias("o"), "at").alias("r")
    near = F.expr("l.id = r.k and l.at between r.at - interval 1 hour and r.at")
    return t.left().alias("l").join(right, near).select("l.id", "l.p")


def swapped(t: Asked) -> DataFrame:
    near = F.expr("l.id = r.id and l.at between r.at - interval 1 hour and r.at")
    return t.right().alias("r").join(t.left().alias("l"), near).select("l.id", "l.p")


def beside(t: Asked, frame: DataFrame, condition: str) -> DataFrame:
    """What is joined with a table that stands still."""
    names = t.spark.createDataFrame([(f"k{i}", i) for i in range(4)], "name string, number int")
    return frame.join(names, F.expr(condition)).select("key", "total")


def of_two(t: Asked, one: str, other: str) -> DataFrame:
    """A common table expression that is referred to twice."""
    return sql(
        t,
        "with w as (select key, sum(p) total from l group by key) "
        f"select key, total from w where {one} union all select key, total from w where {other}",
    )


def over(t: Asked, limit: int) -> DataFrame:
    """A sum of what is above a limit that a table says."""
    t.spark.range(100).createOrReplaceTempView("limits")
    return sql(
        t,
        f"select key, sum(if(p > 1000 + (select max(id) from limits where id < {limit}), p, 0)) total "
        "from l group by key",
    )


def chosen(t: Asked, function: str) -> DataFrame:
    """A row of each key, of columns of which some are null."""
    some = t.left().withColumn("p", F.expr("if(id < 12, null, p)")).coalesce(1)
    return some.groupBy("key").agg(F.expr(function).alias("total")).select("key", "total")


def doubled(t: Asked) -> DataFrame:
    """A join of which a side has two columns of one name, and the other one of the name of Spark's own."""
    left = t.left().select("id", "at", F.col("p").alias("n"), F.col("q").alias("n")).alias("l")
    right = t.right().select("id", "at", F.col("u").alias("matched")).alias("r")
    near = F.expr("l.id = r.id and l.at between r.at - interval 1 hour and r.at")
    return left.join(right, near).toDF("id", "at", "a", "b", "c", "d", "e")


def once(t: Asked, *keys: str) -> DataFrame:
    return t.left().dropDuplicates(list(keys)).select("key")


def update(frame: Callable[[Asked], Any], **sink: Any) -> Job:
    return Job(frame, "update", sink)


def append(frame: Callable[[Asked], Any], **sink: Any) -> Job:
    return Job(frame, "append", sink)


def edit(name: str, before: Job, after: Job, said: str | None = None, *marks: Any) -> Any:
    return pytest.param(before, after, said, id=name, marks=marks)


TOTAL = update(lambda t: sums(t).select("key", "total"))
WINDOWS = update(lambda t: windows(t, total="sum(p)"))
JOIN = append(lambda t: pairs(t, "l.id", "l.p"))
BOTH = append(lambda t: pairs(t, "l.id", "l.p", "r.u"))
ONCE = append(lambda t: t.left().dropDuplicates(["key", "p"]).select("key", "p"))
PANDAS = update(lambda t: counting(t, "a bigint, b bigint"))
CLASS = update(lambda t: classed(t, "count"))

EDITS = [
    # aggregates: the columns of the select, of the sink, of a view
    edit("select", TOTAL, update(lambda t: sums(t).select("key", "fees")), r"was sum\(p\).*read as sum\(q\)", FAULTS),
    edit(
        "renamed alias",
        TOTAL,
        update(lambda t: t.left().groupBy("key").agg(F.sum("p").alias("t")).select("key", F.col("t").alias("total"))),
        None,
        FAULTS,
    ),
    edit(
        "value_columns",
        update(sums, value_columns=["key", "total"]),
        update(sums, value_columns=["key", "fees"]),
        r"was sum\(p\).*read as sum\(q\)",
        FAULTS,
    ),
    edit(
        "view",
        update(lambda t: view(t, "select key, total from sums")),
        update(lambda t: view(t, "select key, fees as total from sums")),
        r"was sum\(p\).*read as sum\(q\)",
        FAULTS,
    ),
    edit("column more", TOTAL, update(sums), r"had 2 columns and would have 3; the difference is sum\(q\)", FAULTS),
    edit("column less", update(sums), TOTAL, r"had 3 columns and would have 2; the difference is sum\(q\)", FAULTS),
    edit(
        "functions in another order",
        update(lambda t: t.left().groupBy("key").agg(F.sum("p").alias("a"), F.sum("q").alias("b"))),
        update(lambda t: t.left().groupBy("key").agg(F.sum("q").alias("b"), F.sum("p").alias("a"))),
        r"was sum\(p\).*read as sum\(q\)",
        FAULTS,
    ),
    edit("columns in another order", TOTAL, update(lambda t: sums(t).select("total", "key")), None, FAULTS),
    edit("filter above", TOTAL, update(lambda t: sums(t).where("total > 5000").select("key", "total")), None, FAULTS),
    edit(
        "filter that asks for another function",
        TOTAL,
        update(lambda t: sums(t).where("fees > 0").select("key", "total")),
        "had 2 columns and would have 3",
        FAULTS,
    ),
    edit("filter below", TOTAL, update(lambda t: sums_of(t, t.left().where("p > 0"))), None, FAULTS),
    edit(
        "filter of a key above",
        append(WINDOWS.frame),
        append(lambda t: WINDOWS.frame(t).where("key <> 'k1'")),
        "gone on with by Aggregate, of rows with .*key = 'k1'",
        FAULTS,
    ),
    edit("another function", TOTAL, update(lambda t: average(t, "max")), r"was sum\(p\).*read as max\(p\)", FAULTS),
    edit("another type", TOTAL, update(lambda t: average(t, "avg")), r"was sum\(p\).*read as avg\(p\)", FAULTS),
    edit("another key", TOTAL, update(lambda t: keyed(t, "upper(key)")), r"was key.*read as upper\(key\)", FAULTS),
    edit("renamed key", TOTAL, update(lambda t: keyed(t, "key as key2", "key2")), None, FAULTS),
    edit(
        "keys swapped",
        update(lambda t: t.left().groupBy("p", "q").count()),
        update(lambda t: t.left().groupBy("q", "p").count()),
        "was p: BIGINT and would be read as q",
        FAULTS,
    ),
    edit(
        "fields of the source in another order",
        TOTAL,
        update(lambda t: sums_of(t, t.left("q bigint, p bigint, key string, id bigint, at timestamp"))),
        None,
        FAULTS,
    ),
    edit("output mode", WINDOWS, append(WINDOWS.frame), "output mode update.*output mode append", FAULTS),
    edit(
        "window's length",
        WINDOWS,
        update(lambda t: windows(t, "2 minutes", total="sum(p)")),
        "was window.*1 minute.*read as window.*2 minutes",
        FAULTS,
    ),
    edit("window's function", WINDOWS, update(lambda t: windows(t, total="sum(q)")), r"was sum\(p\).*sum\(q\)", FAULTS),
    edit("window without an edit", WINDOWS, WINDOWS, None, FAULTS),
    edit(
        "union's columns",
        update(lambda t: together(t, "p", "q").groupBy("key").agg(F.sum("p").alias("n"))),
        update(lambda t: together(t, "p", "id").groupBy("key").agg(F.sum("p").alias("n"))),
        "was sum.*read as sum",
        FAULTS,
    ),
    edit(
        "column of one of a union's three, to that of another",
        update(lambda t: together(t, "p", "q", "q").groupBy("key").agg(F.sum("p").alias("n"))),
        update(lambda t: together(t, "p", "p", "q").groupBy("key").agg(F.sum("p").alias("n"))),
        "was sum.*read as sum",
        FAULTS,
    ),
    edit(
        "union of three without an edit",
        update(lambda t: together(t, "p", "q", "q").groupBy("key").agg(F.sum("p").alias("n"))),
        update(lambda t: together(t, "p", "q", "q").groupBy("key").agg(F.sum("p").alias("n"))),
        None,
        FAULTS,
    ),
    edit(
        "column of a source without a watermark",
        update(lambda t: sums_of(t, t.bare().select("key", F.col("p")))),
        update(lambda t: sums_of(t, t.bare().select("key", F.col("q").alias("p")))),
        r"was sum\(p\).*read as sum\(q\)",
        FAULTS,
    ),
    edit(
        "first of a key",
        *(update(lambda t, f=f: chosen(t, f)) for f in ("first(p)", "first(p, true)")),
        "was first",
        FAULTS,
    ),
    edit(
        "scalar subquery",
        update(lambda t: over(t, 10)),
        update(lambda t: over(t, 20)),
        r"CAST\(10 AS.*read as.*CAST\(20 AS",
        FAULTS,
    ),
    edit(
        "condition of a join with a table",
        update(lambda t: beside(t, sums(t), "key = name and key > 'k1'")),
        update(lambda t: beside(t, sums(t), "key = name")),
        "of rows with .*key > 'k1'",
        FAULTS,
    ),
    edit("table joined above", TOTAL, update(lambda t: beside(t, sums(t), "key = name")), None, FAULTS),
    edit(
        "common table expression, another condition",
        update(lambda t: of_two(t, "key = 'k1'", "key = 'k2'")),
        update(lambda t: of_two(t, "key = 'k1'", "key = 'k3'")),
        "of rows with .*'k2'.*of rows with .*'k3'",
        FAULTS,
    ),
    edit(
        "common table expression, a condition of its sum",
        update(lambda t: of_two(t, "total > 1", "total > 2")),
        update(lambda t: of_two(t, "total > 1", "total > 5000")),
        None,
        FAULTS,
    ),
    # joins
    edit(
        "join, condition of both sides",
        append(lambda t: pairs(t, "l.id", "l.p", "r.u", on="l.id = r.id and l.p > r.u")),
        append(lambda t: pairs(t, "l.id", "l.p", "r.u", on="l.id = r.id and l.p + r.u > 1010")),
        None,
        FAULTS,
    ),
    edit(
        "join, condition of both sides from ON to above",
        append(lambda t: pairs(t, "l.id", "l.p", "r.u", on="l.id = r.id and l.p > r.u")),
        append(lambda t: pairs(t, "l.id", "l.p", "r.u").where("p + u > 1010")),
        None,
        FAULTS,
    ),
    edit(
        "join, condition of both sides taken away",
        append(lambda t: pairs(t, "l.id", "l.p", "r.u").where("p > u")),
        BOTH,
        "was kept of rows with .*p of source 0.* alone",
        FAULTS,
    ),
    edit(
        "join, condition of one side",
        append(lambda t: pairs(t, "l.id", "l.p", on="l.id = r.id and l.p > 1003")),
        append(lambda t: pairs(t, "l.id", "l.p", on="l.id = r.id and l.p > 1005")),
        "1003.*1005",
        FAULTS,
    ),
    edit("join's select", JOIN, append(lambda t: pairs(t, "l.id", "l.q")), "was p of source 0.*read as q of source 0"),
    edit(
        "join's select, other side",
        BOTH,
        append(lambda t: pairs(t, "l.id", "l.p", "r.v")),
        "was u of source 1.*read as v of source 1",
        FAULTS,
    ),
    edit("join's select, named otherwise", JOIN, append(lambda t: pairs(t, "l.p", "l.id as n")), None, FAULTS),
    # Spark filters below the join, where what is kept already has passed.
    edit(
        "join, filter of one side above",
        JOIN,
        append(lambda t: pairs(t, "l.id", "l.p").where("p > 1003")),
        r"gone on with by .*of rows with \(p of source 0 >",
        FAULTS,
    ),
    edit(
        "join, filter of both sides above",
        BOTH,
        append(lambda t: pairs(t, "l.id", "l.p", "r.u").where("p > u + 1003 or u % 2 = 0")),
        None,
        FAULTS,
    ),
    edit(
        "join, fields of the source in another order",
        append(lambda t: pairs(t, "l.id", "l.p", "l.q")),
        append(
            lambda t: pairs(t, "l.id", "l.p", "l.q", left="id bigint, key string, q bigint, p bigint, at timestamp")
        ),
        "was p of source 0.*read as q of source 0",
        FAULTS,
    ),
    edit("join, column more", JOIN, append(lambda t: pairs(t, "l.id", "l.p", "l.q")), "was at .*read as q", FAULTS),
    edit("join, column less", BOTH, JOIN, "had 6 columns and would have 5|was u of source 1.*read as at", FAULTS),
    edit(
        "join's type",
        append(lambda t: pairs(t, "l.id", "l.p", how="left_semi")),
        JOIN,
        "LEFT SEMI join.*INNER join",
        FAULTS,
    ),
    edit("join's keys", JOIN, append(lambda t: pairs(t, "l.id", "l.p", on="l.id = r.u")), "join on.*join on", FAULTS),
    edit(
        "join's keys, renamed below",
        append(lambda t: renamed(t, "u", "v")),
        append(lambda t: renamed(t, "v", "u")),
        "join on.*join on",
        FAULTS,
    ),
    edit("join's sides", JOIN, append(swapped), "would be dropped", FAULTS),
    # the first of a key
    edit("keys of dropDuplicates", ONCE, append(lambda t: once(t, "key", "q")), "was p: BIGINT.*read as q", FAULTS),
    edit("fewer keys of dropDuplicates", ONCE, append(lambda t: once(t, "key")), "had 2 columns.*have 1", FAULTS),
    edit("dropDuplicates without an edit", ONCE, ONCE, None, FAULTS),
    edit(
        "SELECT DISTINCT",
        update(lambda t: sql(t, "select distinct key, p from l")),
        update(lambda t: sql(t, "select distinct key, q as p from l")),
        "was p: BIGINT.*read as q",
        FAULTS,
    ),
    edit(
        "SELECT DISTINCT, renamed",
        update(lambda t: sql(t, "select distinct key, p from l")),
        update(lambda t: sql(t, "select distinct key, p as q from l")),
        None,
        FAULTS,
    ),
    # functions and classes
    edit(
        "column of a function with state",
        update(lambda t: summing(t, "p")),
        update(lambda t: summing(t, "q")),
        r"column n, which .* is made of, was p: BIGINT and would be q: BIGINT",
        FAULTS,
    ),
    edit(
        "column more for a function with state",
        update(lambda t: summing(t, "p")),
        update(lambda t: summing(t, "p", "q")),
        None,
        FAULTS,
    ),
    edit(
        "stateSchema", PANDAS, update(lambda t: counting(t, "b bigint, a bigint")), "was a: BIGINT.*read as b", FAULTS
    ),
    edit("stateSchema, more", PANDAS, update(lambda t: counting(t, "a bigint, b bigint, c int")), "difference", FAULTS),
    edit("function's key", PANDAS, update(lambda t: counting(t, "a bigint, b bigint", "p")), "by key.*by p", FAULTS),
    edit("function without an edit", PANDAS, PANDAS, None, FAULTS),
    edit(
        "variable's name",
        CLASS,
        update(lambda t: classed(t, "cnt")),
        "was value count: n long.*read as value cnt",
        NEEDS_PROTOBUF,
        FAULTS,
    ),
    edit(
        "variable's schema",
        CLASS,
        update(lambda t: classed(t, "count", schema="n int")),
        "was value count: n long.*read as value count: n int",
        NEEDS_PROTOBUF,
        FAULTS,
    ),
    edit("class's key", CLASS, update(lambda t: classed(t, "count", "p")), "by key.*by p", NEEDS_PROTOBUF, FAULTS),
    edit("class without an edit", CLASS, CLASS, None, NEEDS_PROTOBUF, FAULTS),
    # outputs
    edit("a sink more", TOTAL, update(lambda t: dict.fromkeys(("out", "out2"), TOTAL.frame(t))), None, FAULTS),
    edit("an output more", TOTAL, update(lambda t: {"out": TOTAL.frame(t), "out2": sums(t)}), "now reads 2", FAULTS),
    edit("an output renamed", TOTAL, update(lambda t: {"other": TOTAL.frame(t)}), "now belong to output other", FAULTS),
    edit(
        "order of outputs",
        update(lambda t: {"a": t.left().select("id"), "b": sums(t).select("key", "total")}),
        update(lambda t: {"b": sums(t).select("key", "total"), "a": t.left().select("id")}),
        None,
        FAULTS,
    ),
    edit(
        "another output beside the state",
        update(lambda t: {"a": t.left().select("id"), "b": sums(t).select("key", "total")}),
        update(lambda t: {"a": t.left().select("p"), "b": sums(t).select("key", "total")}),
        None,
        FAULTS,
    ),
    edit(
        "one of two states",
        update(lambda t: {"a": sums(t).select("key", "fees"), "b": sums(t).select("key", "total")}),
        update(lambda t: {"a": sums(t).select("key", "fees"), "b": sums(t).select("key", "fees")}),
        r"column 1 of state 1 of output b .*was sum\(p\).*read as sum\(q\)",
        FAULTS,
    ),
]


@pytest.mark.parametrize(("before", "after", "said"), EDITS)
def test_an_edited_job_is_right_or_refused(world, before, after, said):
    """Behind the old state it writes what it writes behind its own; or nothing is written, and both are named."""
    topic, number = world.new_topic(1), next(_numbers)
    world.first()
    world.run(before, f"old-{number}", topic)
    if said is None:
        fresh = world.new_topic(1)
        world.run(after, f"new-{number}", fresh)
        world.then()
        rows = world.run(after, f"old-{number}", topic)
        assert rows == world.run(after, f"new-{number}", fresh)
        assert rows
        return
    world.then()
    seen, kept = world.rows(topic), world.kept(f"old-{number}")
    with pytest.raises(CheckpointConflictError, match=f"(?s){said}"):
        world.run(after, f"old-{number}", topic)
    assert (world.rows(topic), world.kept(f"old-{number}")) == (seen, kept)


def test_behind_a_refusal_the_job_goes_on_as_it_was(world):
    """The edit taken back, its state counts on."""
    topic = world.new_topic(1)
    world.first()
    world.run(TOTAL, "job", topic)
    with pytest.raises(CheckpointConflictError, match="would be read as"):
        world.run(update(lambda t: sums(t).select("key", "fees")), "job", topic)
    world.then()
    found = {row["key"]: row["total"] for row in map(json.loads, world.run(TOTAL, "job", topic))}
    assert found == {f"k{k}": sum(1000 + i for i in range(30) if i % 4 == k) for k in range(4)}


def rewrite(checkpoint: Any, change: Callable[[Layout], Layout]) -> None:
    """Let a checkpoint's journal tell its layouts otherwise."""
    journal = Store(checkpoint / "onceflow" / "journal")
    names = [name for name in journal.names() if name.endswith(".json")]
    entries = [(name, decode(journal.read(name), int(name.removesuffix(".json")))) for name in names]
    layouts = [(name, entry, entry.record) for name, entry in entries if isinstance(entry.record, LayoutRecord)]
    for name, entry, record in layouts:
        journal.replace(name, encode(replace(entry, record=replace(record, layout=change(record.layout)))))
    assert layouts


@FAULTS
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        edit("join", JOIN, append(lambda t: pairs(t, "l.id", "l.q")), "kept as id, p, at, id, at.*read as id, q, at"),
        edit("join without an edit", JOIN, JOIN),
        edit("windows without an edit", WINDOWS, WINDOWS),
    ],
)
def test_over_the_checkpoint_of_another_spark(world, caplog, before, after, said):
    """Its words cannot be compared, which is said; Spark's own names are, and behind that start its own words again."""
    topic, number = world.new_topic(1), next(_numbers)
    world.first()
    world.run(before, f"upgraded-{number}", topic)

    def told(layout: Layout) -> Layout:
        kept = tuple(replace(each, operator="in the words of 4.1", columns=("other words",)) for each in layout.kept)
        states = tuple(replace(each, shape="other words") for each in layout.states)
        return replace(layout, kept=kept, states=states, vocabulary="2 of Spark 4.1.0")

    rewrite(world.folder / f"upgraded-{number}", told)
    world.then()
    if said is not None:
        with pytest.raises(CheckpointConflictError, match=f"(?s){said}"):
            world.run(after, f"upgraded-{number}", topic)
    assert world.run(before, f"upgraded-{number}", topic)
    assert "2 of Spark 4.1.0" in caplog.text
    with pytest.raises(CheckpointConflictError, match="gone on with"):
        world.run(replace(before, mode="append" if before.mode == "update" else "update"), f"upgraded-{number}", topic)


@FAULTS
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        edit("join", JOIN, append(lambda t: pairs(t, "l.id", "l.q")), "kept as id, p, at, id, at.*read as id, q, at"),
        edit("join without an edit", JOIN, JOIN),
        edit("join with two columns of one name", append(doubled), append(doubled)),
        edit("stateSchema", PANDAS, update(lambda t: counting(t, "b bigint, a bigint")), "kept as a, b.*read as b, a"),
        edit("function without an edit", PANDAS, PANDAS),
        edit("variable", CLASS, update(lambda t: classed(t, "cnt")), "kept as count.*read as cnt", NEEDS_PROTOBUF),
        edit("class without an edit", CLASS, CLASS, None, NEEDS_PROTOBUF),
        edit(
            "SELECT DISTINCT",
            update(lambda t: sql(t, "select distinct key, p from l")),
            update(lambda t: sql(t, "select distinct key, q from l")),
            "kept as key, p.*read as key, q",
        ),
        edit("windows without an edit", WINDOWS, WINDOWS),
        edit("dropDuplicates without an edit", ONCE, ONCE),
    ],
)
def test_over_the_checkpoint_of_an_older_onceflow(world, before, after, said):
    """Its journal does not say what stands in a state: Spark's own names do, until a start has written it down."""
    topic, number = world.new_topic(1), next(_numbers)
    world.first()
    world.run(before, f"older-{number}", topic)
    rewrite(world.folder / f"older-{number}", lambda layout: replace(layout, kept=None, vocabulary=""))
    world.then()
    if said is None:
        assert world.run(after, f"older-{number}", topic)
        return
    seen, kept = world.rows(topic), world.kept(f"older-{number}")
    with pytest.raises(CheckpointConflictError, match=f"(?s){said}"):
        world.run(after, f"older-{number}", topic)
    assert (world.rows(topic), world.kept(f"older-{number}")) == (seen, kept)
    assert world.run(before, f"older-{number}", topic)
