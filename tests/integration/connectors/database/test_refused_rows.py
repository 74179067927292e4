"""Which rows a table does not take, told before a task has them: what the sink itself says of each row, alone."""

import contextlib
import datetime as dt
import math
import random
from decimal import Decimal

import pytest
from pyspark.sql.types import (
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import onceflow as of
from onceflow.connectors.database.sink import DatabaseSink
from onceflow.errors import ConfigurationError, RowRefusedError
from onceflow.execution.outputs import Outputs
from onceflow.testing.trial import Trial
from tests.support.mariadb import MariaDbWorld, running_mariadb
from tests.support.postgres import PostgresWorld, running
from tests.support.sqlite_worlds import SqliteWorld

pytestmark = pytest.mark.spark

FIELDS = StructType([
    StructField("k", LongType()),
    StructField("short", StringType()),
    StructField("needed", StringType()),
    StructField("padded", StringType()),
    StructField("id", StringType()),
    StructField("day", DateType()),
    StructField("at", TimestampType()),
    StructField("number", DoubleType()),
    StructField("price", DecimalType(10, 2)),
])  # fmt: skip
COLUMNS = {
    "postgresql": "k bigint not null unique, short varchar(3), needed text not null, padded char(4), id uuid, "
    "day date, at timestamptz, number double precision, price numeric(12, 2) not null",
    "mariadb": "k bigint not null unique, short varchar(3), needed text not null, padded char(4), id varchar(40), "
    "day date, at timestamp(6), number double, price decimal(12, 2) not null",
    "sqlite": "k bigint not null unique, short varchar(3), needed text not null, padded text, id text, day date, "
    "at text, number double, price text not null",
}
GOOD = {
    "k": 1,
    "short": "abc",
    "needed": "",
    "padded": "ab",
    "id": "123e4567-e89b-12d3-a456-426614174000",
    "day": dt.date(2026, 1, 1),
    "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    "number": 1.5,
    "price": Decimal("12.34"),
}
ODD = {
    "k": [None, -(2**63)],
    "short": [None, "", "äöü", "abcd", "abc ", "ab ", "a\0", "😀😀😀", "😀😀😀😀"],
    "needed": [None, "x" * 70_000, "a\0b", " "],
    "padded": [None, "abcd", "abcde", "ab ", "    "],
    "id": [
        None,
        "",
        "no",
        "123e4567e89b12d3a456426614174000",
        "{123e4567-e89b-12d3-a456-426614174000}",
        "123e4567-e89b",
        "{123e4567e89b12d3a456426614174000",
        "123e4567e89b12d3a456426614174000}",
        "123e4567e89b12d3a456426614174000\n",
    ],
    "day": [None, dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "at": [None, dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, tzinfo=dt.UTC)],
    "number": [None, math.nan, math.inf, -math.inf, -0.0, 1e308],
    "price": [None, Decimal("-99999999.99"), Decimal(0)],
}


class Judging:
    """Of a world's table: what the sink says of a row that is alone in its epoch."""

    def output(self):
        return FIELDS

    def takes(self, sent) -> bool:
        with Trial(self) as trial:
            start = trial.start()
            writer = start.open()
            try:
                writer.write(sent)
                sealed = start.seal([start.report(writer.prepare(), ["row"])])
                took = start.committer.check(sealed, start.run(), 0.0) is None
                trial.abort(start, sealed)
            except RowRefusedError:
                return False
            return took


class JudgingPostgres(Judging, PostgresWorld):
    pass


class JudgingMariaDb(Judging, MariaDbWorld):
    pass


class JudgingSqlite(Judging, SqliteWorld):
    more: dict

    def sink(self):
        return DatabaseSink(f"sqlite:///{self.path}", **self.more)


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture(params=["postgresql", "sqlite", "mariadb"])
def world(request, tmp_path):
    """A table of each database, with columns that take less than their types have."""
    made = f"create table judged ({COLUMNS[request.param]})"
    if request.param == "postgresql":
        server = request.getfixturevalue("server")
        server.execute("drop schema public cascade", "create schema public", made)
        here = JudgingPostgres(server.url())
    elif request.param == "mariadb":
        with running_mariadb() as one:
            here = JudgingMariaDb(one.port)
            here.ask(made)
            here.more = {"table": "judged", "key": "k"}
            yield here
        return
    else:
        here = JudgingSqlite(tmp_path)
        with contextlib.closing(__import__("sqlite3").connect(here.path)) as file:
            file.execute(made)
    here.more = {"table": "judged", "key": "k"}
    yield here


def rows_of(seed: int) -> list[dict]:
    """Each odd value alone, and several at once."""
    numbers = random.Random(seed)
    alone = [GOOD | {name: value} for name, values in ODD.items() for value in values]
    together = []
    for _ in range(20):
        names = numbers.sample(list(ODD), 3)
        together.append(GOOD | {name: numbers.choice(ODD[name]) for name in names})
    return [GOOD, *alone, *together]


def test_each_row_is_refused_that_the_sink_would_refuse_and_no_other(spark, world):
    """The expression of Spark and the sink's own writer and check agree on every row, of every database."""
    sink, rows = world.sink(), rows_of(7)
    limits = sink.row_limits()
    frame = spark.createDataFrame([tuple(row[f.name] for f in FIELDS.fields) for row in rows], FIELDS).coalesce(1)
    told = frame.select(sink.refused(FIELDS, limits).alias("why"), *sink.columns(FIELDS)).toArrow()
    wrong = []
    for i, row in enumerate(rows):
        sent = told.slice(i, 1).drop_columns(["why"]).combine_chunks().to_batches()[0]
        took, why = world.takes(sent), told.column("why")[i].as_py()
        if took != (why is None):
            odd = {name: value for name, value in row.items() if value != GOOD[name] or value is None}
            wrong.append((odd, took, why))
    assert wrong == []
    assert sum(why is not None for why in told.column("why").to_pylist()) > 8


def test_years_and_bytes_that_no_database_takes(spark, server):
    """Spark has them, and no Python value does: a text that is not UTF-8, and the years 0 and 10000."""
    server.execute(
        "drop schema public cascade",
        "create schema public",
        "create table t (day date, at timestamptz, s text, plain timestamp)",
    )
    sink = DatabaseSink(server.url(), "t")
    limits = sink.row_limits()
    frame = spark.sql(
        "select *, timestamp_ntz'2026-01-01' as plain from values "
        "(date_add(date'9999-12-31', 1), timestamp'2026-01-01', 'a'), "
        "(date'2026-01-01', timestamp_seconds(-62135596801), 'a'), "
        "(date'2026-01-01', timestamp'2026-01-01', cast(unhex('ff') as string)), "
        "(date'2026-01-01', timestamp'2026-01-01', 'a') as t(day, at, s)"
    )
    plain = "timestamp_ntz'9999-12-31' + interval 2 day as plain"
    frame = frame.union(frame.limit(1).selectExpr("date'2026-01-01' as day", "at", "s", plain))
    whys = [row.why for row in frame.select(sink.refused(frame.schema, limits).alias("why")).collect()]
    assert whys == [
        "column day has a date outside of the years 1 to 9999",
        "column at has a time that the database has no form for",
        "column s has a text that is not UTF-8",
        None,
        "column plain has a time outside of the years 1 to 9999",
    ]


def test_of_a_delete_the_key_alone_counts(spark, server):
    server.execute(
        "drop schema public cascade", "create schema public", "create table t (k int unique, v text not null)"
    )
    sink = DatabaseSink(server.url(), "t", key="k", delete_when="gone")
    limits = sink.row_limits()
    frame = spark.createDataFrame(
        [(1, None, True), (1, None, False), (1, None, None), (None, "v", True)], "k int, v string, gone boolean"
    )
    whys = [row.why for row in frame.select(sink.refused(frame.schema, limits).alias("why")).collect()]
    assert whys == [None, *["column v takes no null, and is null"] * 2, "column k is part of the key, and is null"]


def test_a_row_that_nothing_orders_is_refused(spark, server):
    """Null says of no row that it is the newest: the sink would end the epoch by it."""
    server.execute("drop schema public cascade", "create schema public", "create table t (k int unique, v text)")
    sink = DatabaseSink(server.url(), "t", key="k", sequence_by="seq")
    rows = [(1, "v", 1), (2, "v", None), (None, "v", None)]
    frame = spark.createDataFrame(rows, "k int, v string, seq bigint")
    told = frame.select(sink.refused(frame.schema, sink.row_limits()).alias("why")).collect()
    assert [row.why for row in told] == [
        None,
        "column seq says which row is the newest, and is null",
        "column k is part of the key, and is null",
    ]


def sink(name, **more):
    return DatabaseSink("sqlite:////nowhere/file.db", name, **more)


def test_sinks_that_would_mix_refused_rows_with_others_are_refused(spark):
    frame = spark.readStream.format("rate").load()
    aside, twice = sink("aside"), sink("twice", on_refused=sink("far"))
    for outputs in (
        {sink("a", on_refused=aside): frame, aside: frame},
        {sink("a", on_refused=aside): frame, sink("b", on_refused=aside): frame},
        {sink("a", on_refused=twice): frame},
        {sink("a", on_refused=aside): frame.withColumnRenamed("value", "Reason")},
        {sink("a", on_refused=aside): frame.withColumnRenamed("value", "OUTPUT_1_value")},
    ):
        with pytest.raises(ConfigurationError, match="refused rows cannot be written"):
            Outputs(outputs, ())


def test_a_topic_that_rows_name_cannot_be_asked(cluster):
    with pytest.raises(ConfigurationError, match="on_refused= and topic_column="):
        of.KafkaSink(cluster, "t", topic_column="topic", on_refused=sink("aside"))
