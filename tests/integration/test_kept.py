"""What stands in the columns of a plan's state, in words: down to the source, and the same in every process."""

import re

import pytest
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import LongType

import onceflow as of
from onceflow.flinksql.parsing import parse
from onceflow.flinksql.pipelines import Reading
from onceflow.flinksql.queries import translate
from onceflow.flinksql.statements import Insert, Select
from onceflow.spark.kept import kept_of
from tests.sql.cases import cases, script

pytestmark = pytest.mark.spark

SCHEMA = "key string, p bigint, q bigint, s struct<a: bigint, b: bigint>, many array<bigint>, at timestamp"


def load(spark, schema=SCHEMA):
    """Our own source; no broker is asked."""
    source = of.KafkaSource(of.KafkaCluster("localhost:1"), "t", value=of.Json(schema))
    return source.load(spark).withWatermark("at", "1 hour")


@F.udf(LongType())
def grown(n):
    return n + 1


def view(frame, text):
    frame.createOrReplaceTempView("t")
    return frame.sparkSession.sql(text)


PLANS = {
    "an alias is not part of it": (
        lambda t: t.select(F.upper("key").alias("k"), F.col("p").alias("n")).groupBy("k").agg(F.sum("n").alias("x")),
        ["upper(key): STRING", "sum(p): BIGINT"],
    ),
    "nor is what nobody asks for": (
        lambda t: t.groupBy("key").agg(F.sum("p").alias("x"), F.avg("q").alias("y")).select("y"),
        ["key: STRING", "avg(q): DOUBLE"],
    ),
    "one function is kept once": (
        lambda t: t.groupBy("key").agg(F.sum("p").alias("x"), (F.sum("p") + F.sum("q")).alias("y")),
        ["key: STRING", "sum(p): BIGINT", "sum(q): BIGINT"],
    ),
    "a function over what a filter lets pass": (
        lambda t: view(t, "select key, sum(p) filter (where q > 3) as n from t group by key"),
        ["key: STRING", "sum(p) where (q > CAST(3 AS BIGINT)): BIGINT"],
    ),
    "fields": (lambda t: t.groupBy("s.a").agg(F.max("s.b")), ["s.a: BIGINT", "max(s.b): BIGINT"]),
    "a common table expression": (
        lambda t: view(t, "with w as (select key k, q m from t) select distinct k, m from w"),
        ["key: STRING", "q: BIGINT"],
    ),
    "a union": (
        lambda t: t.select("key", "p").union(t.select("key", "q")).groupBy("key").agg(F.sum("p")),
        ["key of source 0: STRING", "sum(p of source 0 or q of source 0): BIGINT"],
    ),
    "a Python function": (
        lambda t: t.groupBy("key").agg(F.sum(grown("q"))),
        ["key: STRING", "sum(grown(q)): BIGINT"],
    ),
    "a lambda": (
        lambda t: t.groupBy(F.transform(F.array("p"), lambda x: x + F.col("q")).alias("k")).count(),
        ["transform(array(p), lambdafunction((x + q), x)): ARRAY<BIGINT>", "count(1): BIGINT"],
    ),
    "rows made of one": (
        lambda t: t.select("key", F.explode(F.array("p", "q")).alias("e")).groupBy("key").agg(F.sum("e")),
        ["key: STRING", "sum(e of Generate explode(array(p, q))): BIGINT"],
    ),
    "the first of a key": (lambda t: t.dropDuplicates(["key"]).select("p"), ["key: STRING"]),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_column_is_what_it_means(spark, name):
    """However it is called on the way."""
    plan, columns = PLANS[name]
    (kept,) = kept_of(plan(load(spark)), ("a",), "update")
    assert list(kept.columns) == columns


def windows(length, step):
    return lambda t: t.groupBy(F.window("at", length, step)).agg(F.sum("p"))


OTHERS = {
    "the argument of which function": (
        lambda t: t.groupBy(F.transform("many", lambda x: F.transform("many", lambda y: y)).alias("k")).count(),
        lambda t: t.groupBy(F.transform("many", lambda x: F.transform("many", lambda y: x)).alias("k")).count(),
    ),
    "windows that overlap": (windows("10 minutes", "5 minutes"), windows("20 minutes", "10 minutes")),
    "a step": (windows("20 minutes", "5 minutes"), windows("20 minutes", "10 minutes")),
    "keys of a rollup": (
        lambda t: t.select("key", F.col("p").alias("n")).rollup("key", "n").count(),
        lambda t: t.select("key", F.col("q").alias("n")).rollup("key", "n").count(),
    ),
    "what is turned into rows": (
        lambda t: t.unpivot(["key"], ["p"], "name", "n").groupBy("key").agg(F.sum("n")),
        lambda t: t.unpivot(["key"], ["q"], "name", "n").groupBy("key").agg(F.sum("n")),
    ),
}


def clocked(t):
    """A time of the day becomes a text of the optimized plan; the program's own stay."""
    near = t.select("key", F.current_timestamp().alias("now"), F.lit(SINCE).cast("date").alias("since"))
    return near.alias("l").join(t.alias("r"), "key").where("l.since is not null").select("key", "now", "since", "p")


SINCE = "2020-02-02"
SECRET = "correct horse battery staple"


@pytest.mark.parametrize(
    ("plan", "mode"),
    [
        (lambda t: t.withColumn("r", F.rand()).groupBy("key").agg(F.max("r")), "update"),
        (lambda t: t.select("key", (F.randn() + F.uniform(F.lit(1), F.lit(9))).alias("r")).distinct(), "update"),
        (clocked, "append"),
        (lambda t: t.groupBy("key", F.current_date().alias("d")).agg(F.max("p")), "update"),
        (
            lambda t: view(
                t,
                "with w as (select key, at, current_timestamp() now from t) "
                "select l.key, l.now from w l join w r on l.key = r.key and l.at = r.at",
            ),
            "append",
        ),
    ],
)
def test_what_spark_puts_in_by_itself_is_no_part_of_it(spark, plan, mode):
    """Neither seeds nor the time of the day: another process has others."""
    frame = load(spark)
    assert kept_of(plan(frame), ("a",), mode) == kept_of(plan(frame), ("a",), mode)


def test_a_plan_may_be_deep(spark):
    """A program may make each column of the one before, in a loop."""
    frame = load(spark)
    for _ in range(250):
        frame = frame.withColumn("p", F.col("p") + 1)
    (kept,) = kept_of(frame.groupBy("key").agg(F.max("p")), ("a",), "update")
    assert kept.columns[0] == "key: STRING"


@pytest.mark.parametrize("how", ["crossJoin", "join"])
def test_what_must_be_equal_above_a_join_is_its_key(spark, how):
    """Spark makes a key of its state of it."""

    def joined(*names):
        left, right = load(spark).alias("l"), load(spark).alias("r")
        both = left.crossJoin(right) if how == "crossJoin" else left.join(right, F.expr("l.key = r.key"))
        return both.where(" and ".join(f"l.{name} = r.{name}" for name in names)).select("l.p", "r.q", "l.at")

    one, again, other = (kept_of(joined("at", name), ("a",), "append") for name in ("p", "p", "q"))
    assert one == again
    assert "(p of source 0 = p of source 1)" in one[0].operator
    assert "(q of source 0 = q of source 1)" in other[0].operator
    assert one[0].operator != other[0].operator


def test_no_long_text_of_the_program_stands_in_it(spark):
    """It may be a secret. It is told apart from another by its hash."""
    said = [
        kept_of(load(spark).groupBy(F.concat("key", F.lit(text))).agg(F.max("p")), ("a",), "update")
        for text in (SECRET, SECRET + "s")
    ]
    assert said[0] != said[1]
    assert "concat(key, '… " in str(said[0])
    assert SECRET[:10] not in str(said)


@pytest.mark.parametrize("name", OTHERS)
def test_what_means_another_thing_is_said_otherwise(spark, name):
    """However alike it looks from above; and the same each time."""
    frame = load(spark)
    (one, again, other) = (kept_of(plan(frame), ("a",), "append") for plan in (OTHERS[name][0], *OTHERS[name]))
    assert one == again
    assert one != other


def test_of_a_join_both_sides_are_kept(spark):
    """In the order of the source's fields, those that are asked for above or by the condition."""

    def joined(*columns, schema=SCHEMA):
        near = F.expr("l.key = r.key and l.at between r.at - interval 1 hour and r.at")
        return load(spark, schema).alias("l").join(load(spark).alias("r"), near).select(*columns)

    (kept,) = kept_of(joined("l.q", "l.p", "r.p"), ("a",), "append")
    left, right = ["key", "p", "q", "at"], ["key", "p", "at"]
    assert list(kept.names) == left + right
    assert [column.partition(":")[0] for column in kept.columns] == [
        *(f"{name} of source 0" for name in left),
        *(f"{name} of source 1" for name in right),
    ]
    (other,) = kept_of(joined("l.q", "l.p", "r.p", schema="q bigint, p bigint, key string, at timestamp"), (), "append")
    assert other.operator == kept.operator
    assert other.columns[:2] == kept.columns[2:0:-1]


@pytest.mark.parametrize(
    ("condition", "passed"),
    [
        ("k = 'x' and n > 3", ", of rows with (key = 'x')"),
        ("n > 3 or k = 'x'", ""),
        ("upper(k) = 'X'", ", of rows with (upper(key) = 'X')"),
    ],
)
def test_a_filter_above_that_spark_moves_below_is_part_of_it(spark, condition, passed):
    """What is kept already has passed there: of an aggregation, filters of keys alone."""
    frame = load(spark).select(F.col("key").alias("k"), "p").groupBy("k").agg(F.sum("p").alias("m"))
    (kept,) = kept_of(frame.select("k", (F.col("m") + 1).alias("n")).where(condition), ("a",), "update")
    assert kept.operator == f"Aggregate{passed}, output mode update"


@pytest.mark.parametrize(
    "text",
    [
        "with w as (select key k, sum(p) n from t group by key) select * from w where k = 'x'",
        "select * from (select key k, sum(p) n from t group by key union all select 'a', 2L) where k = 'x'",
    ],
)
def test_a_filter_above_is_found_wherever_the_state_stands(spark, text):
    """In a common table expression, in a branch of a union."""
    (kept,) = kept_of(view(load(spark), text), ("a",), "update")
    assert re.search(r"of rows with \(key(?: of source 0 or 'a')? = 'x'\)", kept.operator)


def test_the_words_are_the_same_whenever_they_are_made(spark):
    """Each query of the SQL corpus, with its tables loaded twice: Spark's numbers of columns are no part of them."""
    made = script()
    queries = [
        translate(statement.query, made.names)
        for case in cases()
        if case.expected == "runs"
        for statement in parse(case.text)
        if isinstance(statement, Select | Insert)
    ]
    queries = [query for query in queries if "sellers" not in query.tables]
    tables = {name: made.names.tables[name] for query in queries for name in query.tables}

    def said():
        reading = Reading(made.names, made.settings, tables)
        reading.load(spark, [])
        for query in queries:
            reading.load_steps(spark, [query])
            yield kept_of(spark.sql(query.sql), ("a",), "update" if query.updating else "append")

    first, second = list(said()), list(said())
    assert first == second
    assert sum(map(bool, first)) > 25
    texts = [text for kept in first for each in kept for text in (each.operator, *each.columns)]
    assert not [text for text in texts if re.search(r"#\d|@[0-9a-f]{6}", text)]
    assert max(map(len, texts)) < 10_000
