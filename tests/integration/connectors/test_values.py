"""A machine: what a sink's target shows to its own client is what Spark's row held, or the row was refused.

For each sink, each type of Spark's and values that hypothesis makes. ``ONCEFLOW_VALUES=500`` makes it try so many for
each sink; by default it is a few.
"""

from __future__ import annotations

import math
import os
import re
import sqlite3
import uuid
from collections import Counter
from types import MappingProxyType

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import onceflow as of
from onceflow.connectors.kafka.source import explain
from onceflow.connectors.lake.delta_fit import unmakeable
from onceflow.errors import RowRefusedError
from onceflow.testing.trial import Trial
from tests.support import values
from tests.support.lakes import DeltaWorld, IcebergWorld
from tests.support.mariadb import MariaDbWorld, running_mariadb
from tests.support.postgres import PostgresWorld, running
from tests.support.sqlite_worlds import SqliteWorld

EXAMPLES = int(os.environ.get("ONCEFLOW_VALUES", "6"))
MACHINE = settings(
    max_examples=EXAMPLES,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
NESTED = (ArrayType, MapType, StructType)
DATABASES = ("postgresql", "mariadb", "sqlite")
TABLES = (*DATABASES, "iceberg", "delta")


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture(scope="module")
def mariadb():
    with running_mariadb() as one:
        yield one


class Postgres(PostgresWorld):
    """A table of one column."""

    def output(self):
        return StructType([StructField("v", self.kind)])

    def read(self):
        with psycopg.connect(self.url) as connection:
            connection.execute("set timezone = 'UTC'")
            # As text char(n) has no blanks at its end.
            what = "v::text" if isinstance(self.kind, (*NESTED, StringType)) else "v"
            return [value for (value,) in connection.execute(f"select {what} from t").fetchall()]

    def run(self, statement):
        with psycopg.connect(self.url) as connection:
            connection.execute(statement)


class MariaDb(MariaDbWorld):
    """Likewise."""

    output = Postgres.output

    def read(self):
        return [value for (value,) in self.ask("select v from t")]

    def run(self, statement):
        self.ask(statement)


class Sqlite(SqliteWorld):
    """Likewise."""

    output = Postgres.output
    more = MappingProxyType({"table": "t", "create_table": True})

    def sink(self):
        return of.DatabaseSink(f"sqlite:///{self.path}", **self.more)

    def run(self, statement):
        with sqlite3.connect(self.path) as file:
            file.execute(statement)

    def read(self):
        with sqlite3.connect(self.path) as file:
            return [value for (value,) in file.execute("select v from t")]


@pytest.fixture
def world(request, tmp_path):
    """``world(sink, kind)``: a new table of one column for this type, which its sink makes."""

    def make(sink, kind):
        folder = tmp_path / uuid.uuid4().hex
        folder.mkdir()
        if sink == "postgresql":
            server = request.getfixturevalue("server")
            server.execute("drop table if exists t, t_onceflow_staged")
            made = Postgres(server.url(), table="t")
        elif sink == "mariadb":
            made = MariaDb(request.getfixturevalue("mariadb").port, table="t")
            made.ask("drop table if exists t, t_onceflow_staged")
        elif sink == "sqlite":
            made = Sqlite(folder)
        else:
            made = {"iceberg": IcebergWorld, "delta": DeltaWorld}[sink](folder)
            made.fields = StructType([StructField("v", kind)])
        made.kind = kind
        return made

    return make


def has_form(sink, kind, raw):
    """Whether a sink has a form for a value: what docs/databases.md, docs/lake.md and docs/formats.md say of it."""
    nested = isinstance(kind, NESTED)
    of_json = (nested and sink in DATABASES) or sink == "kafka"
    for of_kind, each in values.scalars_of(kind, raw):
        if isinstance(of_kind, StringType) and (not values.is_text(each) or (sink == "postgresql" and b"\0" in each)):
            return False
        if of_json:
            continue
        if isinstance(of_kind, DateType) and sink != "sqlite" and not values.FIRST_DAY <= each < values.END_DAY:
            return False
        if isinstance(of_kind, values.TIMES) and not values.FIRST <= each < values.END:
            return False
        if sink == "mariadb" and isinstance(of_kind, TimestampType) and not 0 < each < (1 << 31) * 1_000_000:
            return False
        if isinstance(of_kind, FloatType | DoubleType):
            if sink in ("sqlite", "mariadb") and math.isnan(each):
                return False
            if sink == "mariadb" and math.isinf(each):
                return False
    return True


def read(sink, world):
    """What the target's own client sees, told as values of Spark's."""
    kind = world.kind
    if sink in DATABASES:
        found = world.read()
        if isinstance(kind, NESTED):
            return [None if each is None else values.of_json(kind, values.parsed(each)) for each in found]
        if sink == "sqlite" and isinstance(kind, DateType):
            return [None if each is None else values.days_of(each) for each in found]
        if sink == "sqlite" and isinstance(kind, values.TIMES):
            return [None if each is None else values.micros_of(each) for each in found]
        return [values.of_python(kind, each) for each in found]
    whole = world.read()
    if sink == "iceberg" and re.search(r"(array|map)<.*struct", kind.simpleString()):
        # pyiceberg (0.12) reads a null list or map of structs as an empty one, also of what it wrote itself.
        whole = pa.concat_tables([pq.read_table(path) for path in world.data()]) if world.data() else None
        kind = kind if whole is None else renamed(kind, whole.schema.field(0).type)
    return [] if whole is None else [values.of_python(kind, each) for each in whole.column(0).to_pylist()]


def renamed(kind, arrow):
    """A type with the names that a file has for its fields."""
    match kind:
        case ArrayType():
            return ArrayType(renamed(kind.elementType, arrow.value_type))
        case MapType():
            return MapType(renamed(kind.keyType, arrow.key_type), renamed(kind.valueType, arrow.item_type))
        case StructType():
            return StructType(
                [StructField(arrow.field(i).name, renamed(f.dataType, arrow.field(i).type)) for i, f in enumerate(kind)]
            )
    return kind


def with_zeros_of(sink, kind, found):
    """MariaDB's and SQLite's numbers, and those of PostgreSQL's jsonb, know one zero."""
    one = sink in DATABASES and isinstance(kind, NESTED) == (sink == "postgresql")
    return values.without_signs_of_zero(found) if one else found


def told(sink, kind, raw):
    """A row's value, as far as the sink keeps it: what SQL takes for equal is."""
    return with_zeros_of(sink, kind, values.of_raw(kind, raw))


def by_hand(sink, kind, raw):
    """The columns that Spark gives to a task, made by hand; of scalars only, for databases."""
    column = values.arrow(kind, raw)
    if sink == "postgresql" and isinstance(kind, BinaryType):
        column = pa.array([None if each is None else "\\x" + each.hex().upper() for each in raw], pa.string())
    elif sink == "sqlite" and isinstance(kind, DecimalType):
        column = pa.array([None if each is None else f"{each:.{kind.scale}f}" for each in raw], pa.string())
    elif sink == "sqlite" and isinstance(kind, DateType):
        # Arrow's own cast writes no year behind 32767, and says so in the text.
        column = pa.array([None if each is None else values.text_of_days(each) for each in raw], pa.string())
    names = ["v", "onceflow_hash"] if sink in DATABASES else ["v"]
    hashes = [pa.array(range(len(raw)), pa.int64())] if sink in DATABASES else []
    return [pa.RecordBatch.from_arrays([column, *hashes], names)]


def check(sink, world, raw, sent, good=None):
    """All rows that have a form are there as they are; of the others each is refused, and nothing of it is there.

    Args:
        sink: Its name.
        world: With an empty table.
        raw: The rows.
        sent: What makes of rows what a task gets; it may refuse them itself.
        good: The rows that have a form, if it hangs on more than their type.
    """
    kind = world.kind
    good = [each for each in raw if has_form(sink, kind, each)] if good is None else good
    bad = [each for each in raw if each not in good]
    with Trial(world) as t:
        start = t.start()
        for each in bad:
            writer = start.open()
            with pytest.raises(RowRefusedError) as refused:
                offered(start, writer, sent([each]))
            assert not refused.value.retriable
            writer.abort()
        assert read(sink, world) == []
        writer = start.open(epoch=1)
        for batch in sent(good):
            writer.write(batch)
        sealed = start.seal([start.report(writer.prepare(), [""] * len(good))], epoch=1)
        assert start.committer.check(sealed, start.run(1), 0.0) is None
        t.commit(start, sealed)
    found = [with_zeros_of(sink, kind, each) for each in read(sink, world)]
    meant = [told(sink, kind, each) for each in good]
    assert Counter(map(repr, found)) == Counter(map(repr, meant))


def offered(start, writer, batches):
    """Write rows up to the last look before their decision."""
    rows = sum(map(len, batches))
    for each in batches:
        writer.write(each)
    sealed = start.seal([start.report(writer.prepare(), [""] * rows)])
    why = start.committer.check(sealed, start.run(), 0.0)
    assert why is None, why


def rows_of(kind):
    return st.lists(st.none() | values.raws(kind), min_size=4, max_size=8)


@pytest.mark.parametrize("sink", TABLES)
@MACHINE
@given(data=st.data())
def test_values_are_there_as_they_are_or_refused(sink, world, data):
    """Of each type that needs nothing of Spark's: scalars, and for lake tables nested ones."""
    some = values.kinds(0 if sink in DATABASES else 2)
    kind = data.draw(some, label="type")
    assume(sink != "delta" or not unmakeable(StructType([StructField("v", kind)])))
    rows = data.draw(rows_of(kind), label="rows")
    check(sink, world(sink, kind), rows, lambda raw: by_hand(sink, kind, raw))


LETTERS = st.builds("{}{}".format, st.text("aä😀 ", max_size=4), st.sampled_from(["", " ", "  "])).map(str.encode)
UTF8MB4 = " character set utf8mb4 collate utf8mb4_nopad_bin"
COLUMNS = [
    ("postgresql", StringType(), "varchar(3)", ()),
    ("postgresql", StringType(), "varchar(3) primary key", ("v",)),
    ("postgresql", StringType(), "char(3)", ()),
    ("postgresql", TimestampType(), "timestamptz not null", ()),
    ("mariadb", StringType(), f"varchar(3){UTF8MB4}", ()),
    ("mariadb", StringType(), f"varchar(3){UTF8MB4} primary key", ("v",)),
    ("mariadb", StringType(), f"char(3){UTF8MB4}", ()),
    ("mariadb", TimestampType(), "timestamp(6) not null", ()),
    ("mariadb", LongType(), "bigint auto_increment primary key", ("v",)),
    ("sqlite", LongType(), "integer primary key", ()),
]


def column_takes(column, kind, raw):
    """Whether a column takes a value that its sink has a form for, and as it is."""
    if raw is None:
        return "not null" not in column and "primary key" not in column
    if not isinstance(kind, StringType):
        return True
    blanks = column.startswith("char") and raw.endswith(b" ")
    return len(raw.decode()) <= 3 and not blanks


@pytest.mark.parametrize(("sink", "kind", "column", "key"), COLUMNS, ids=[f"{s} {c[:22]}" for s, _, c, _ in COLUMNS])
@settings(MACHINE, max_examples=max(4, EXAMPLES // 2))
@given(data=st.data())
def test_columns_of_a_table_change_no_value(sink, kind, column, key, world, data):
    """What a column would cut off, or make of a null, is refused: so no key is another's, and no null a value."""
    each = LETTERS if isinstance(kind, StringType) else values.raws(kind)
    rows = data.draw(st.lists(st.none() | each, min_size=1, max_size=8, unique="key" in column), label="rows")
    made = world(sink, kind)
    made.run(f"create table t (v {column})")
    made.more = {"table": "t", "key": key or None}
    takes = [row for row in rows if column_takes(column, kind, row) and has_form(sink, kind, row)]
    check(sink, made, rows, lambda raw: by_hand(sink, kind, raw), takes)


def by_spark(spark, sink, kind, raw):
    """The columns that Spark gives to a task, of rows that it was given."""
    fields = StructType([StructField("v", kind)])
    frame = spark.createDataFrame(pa.table({"v": values.arrow(kind, raw)}), fields)
    try:
        return frame.select(*sink.columns(fields)).toArrow().to_batches()
    except Exception as error:
        refused = explain(str(error))
        if refused is None:
            raise
        raise refused from None


@pytest.mark.spark
@pytest.mark.parametrize("sink", [*TABLES, "kafka"])
@settings(MACHINE, max_examples=max(4, EXAMPLES // 4))
@given(data=st.data())
def test_rows_of_sparks_are_there_as_they_are_or_refused(spark, sink, world, data):
    """Of each type, nested ones too, by the way that Spark's rows take to a task."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    kind = data.draw(values.kinds(), label="type")
    assume(sink != "delta" or not unmakeable(StructType([StructField("v", kind)])))
    rows = data.draw(rows_of(kind), label="rows")
    if sink == "kafka":
        check_json(spark, kind, rows)
        return
    made = world(sink, kind)
    check(sink, made, rows, lambda raw: by_spark(spark, made.sink(), kind, raw))


def check_json(spark, kind, rows):
    """What a consumer reads of a topic is what Spark's row held, to the millisecond; its producer sends it as it is."""
    to = of.KafkaSink(of.KafkaCluster("localhost:1"), "t")
    good = [each for each in rows if has_form("kafka", kind, each)]
    for each in rows:
        if not has_form("kafka", kind, each):
            with pytest.raises(RowRefusedError, match="column v"):
                by_spark(spark, to, kind, [each])
    sent = [value for batch in by_spark(spark, to, kind, good) for value in batch.column("value").to_pylist()]
    note(sent)
    found = [values.of_json(kind, dict(values.parsed(value))["v"]) for value in sent]
    assert [milliseconds(kind, each) for each in found] == [
        milliseconds(kind, values.of_raw(kind, each)) for each in good
    ]


def milliseconds(kind, found):
    """The same with times cut off, as docs/formats.md says; nothing else."""
    if found is None:
        return None
    match kind:
        case ArrayType():
            return [milliseconds(kind.elementType, each) for each in found]
        case MapType():
            return sorted([(key, milliseconds(kind.valueType, each)) for key, each in found], key=repr)
        case StructType():
            return [milliseconds(field.dataType, each) for field, each in zip(kind, found, strict=True)]
    return found // 1_000 if isinstance(kind, values.TIMES) else found
