"""Each type of Spark's in each database: what is written is read again, to the last digit, or it is refused by name."""

from __future__ import annotations

import datetime as dt
import json
import math
import sqlite3
import struct
from decimal import Decimal

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import types as spark_types
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from onceflow.connectors.database.sink import DatabaseSink
from onceflow.errors import ConfigurationError, RowRefusedError
from onceflow.testing.trial import Trial
from tests.integration.mariadb import MariaDbWorld, running_mariadb
from tests.integration.postgres import PostgresWorld, running
from tests.unit.test_database import SqliteWorld

UTC = dt.UTC


def at(*of, tz=None):
    return dt.datetime(*of, tzinfo=tz)


TEXTS = [
    "",
    " ",
    " a ",
    "null",
    "NULL",
    "\\N",
    "\\.",
    "a\n\\.\nb",
    "\n",
    "\r\n",
    "\t",
    '"',
    "'",
    ",",
    "\\",
    "é😀",
    "x" * 70_000,
]
ZONED = [
    at(2026, 3, 29, 2, 30, 0, 123456, tz=UTC),  # a time that clocks in Berlin never show
    at(2026, 10, 25, 0, 30, tz=UTC),
    at(2026, 10, 25, 1, 30, 0, 1, tz=UTC),
    at(1900, 1, 1, tz=UTC),
    at(1969, 12, 31, 23, 59, 59, 999999, tz=UTC),
    at(9999, 12, 31, 23, 59, 59, 999999, tz=UTC),
]
PLAIN = [each.replace(tzinfo=None) for each in ZONED] + [at(1, 1, 1)]
DATES = [dt.date(1, 1, 1), dt.date(1582, 10, 15), dt.date(9999, 12, 31)]
WIDE = [Decimal("99999999999999999999.999999999999999999"), Decimal("-0.000000000000000001"), Decimal(0)]
NARROW = [Decimal("1234567890123.45"), Decimal("-0.01"), Decimal("0.10")]
FLOATS = [0.1, -0.0, 5e-324, 1.7976931348623157e308, 1 / 3, math.inf, -math.inf]
SINGLES = [struct.unpack("f", struct.pack("f", each))[0] for each in (0.1, 1 / 3, 3.4028234663852886e38, 1e-45)]
NESTED = ['{"a":null,"b":["",null]}', "[]", "{}", '{"t":"2026-03-29T02:30:00.123456Z"}']
BYTES = [b"", b"\0", b"\\x00", bytes(range(256))]

NOT_OF_MARIADB = [math.inf, -math.inf, *(each for each in ZONED if not 1970 <= each.year < 2038)]

KINDS = [
    (BooleanType(), pa.bool_(), [True, False]),
    (ByteType(), pa.int8(), [-(2**7), 2**7 - 1]),
    (ShortType(), pa.int16(), [-(2**15), 2**15 - 1]),
    (IntegerType(), pa.int32(), [-(2**31), 2**31 - 1]),
    (LongType(), pa.int64(), [-(2**63), 2**63 - 1, 0]),
    (FloatType(), pa.float32(), SINGLES),
    (DoubleType(), pa.float64(), FLOATS),
    (DecimalType(15, 2), pa.decimal128(15, 2), NARROW),
    (DecimalType(38, 18), pa.decimal128(38, 18), WIDE),
    (StringType(), pa.string(), TEXTS),
    (BinaryType(), pa.binary(), BYTES),
    (DateType(), pa.date32(), DATES),
    (TimestampType(), pa.timestamp("us", "Europe/Berlin"), ZONED),
    (TimestampNTZType(), pa.timestamp("us"), PLAIN),
    (StructType([StructField("a", LongType())]), pa.string(), NESTED),
    (ArrayType(StringType()), pa.string(), NESTED),
    (MapType(StringType(), LongType()), pa.string(), NESTED),
]
NAMES = [kind.simpleString() for kind, _, _ in KINDS]


class OneColumn(PostgresWorld):
    """A table of one column that is made for a type."""

    def __init__(self, url, kind):
        super().__init__(url, table="one")
        self.kind = kind

    def output(self):
        return StructType([StructField("v", self.kind)])

    def read(self):
        with psycopg.connect(self.url) as connection:
            connection.execute("set timezone = 'UTC'")
            return [value for (value,) in connection.execute("select v from one").fetchall()]


class OneColumnOfSqlite(SqliteWorld):
    """The same in a file."""

    def __init__(self, folder, kind):
        super().__init__(folder)
        self.kind = kind

    def sink(self):
        return DatabaseSink(f"sqlite:///{self.path}", "one", create_table=True)

    def output(self):
        return StructType([StructField("v", self.kind)])

    def read(self):
        with sqlite3.connect(self.path) as file:
            return [value for (value,) in file.execute("select v from one")]


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


class OneColumnOfMariaDb(MariaDbWorld):
    """The same on MariaDB."""

    def __init__(self, port, kind):
        super().__init__(port, table="one")
        self.kind = kind
        self.ask("drop table if exists one, one_onceflow_staged")

    def output(self):
        return StructType([StructField("v", self.kind)])

    def read(self):
        return [value for (value,) in self.ask("select v from one")]


@pytest.fixture(scope="module")
def mariadb():
    with running_mariadb() as one:
        yield one


@pytest.fixture(params=["postgresql", "sqlite", "mariadb"])
def world(request, server, tmp_path):
    """Makes the world of a type; no table is there yet."""
    if request.param == "sqlite":
        return lambda kind: OneColumnOfSqlite(tmp_path, kind)
    if request.param == "mariadb":
        port = request.getfixturevalue("mariadb").port
        return lambda kind: OneColumnOfMariaDb(port, kind)
    server.execute("drop schema public cascade", "create schema public")
    return lambda kind: OneColumn(server.url(), kind)


def batch(column):
    return pa.RecordBatch.from_arrays([column, pa.array(range(len(column)), pa.int64())], ["v", "onceflow_hash"])


def written(world, column):
    """Stage, check and commit; what is read then."""
    with Trial(world) as t:
        start, writer = t.start(), None
        writer = start.open()
        writer.write(batch(column))
        sealed = start.seal([start.report(writer.prepare(), [""] * len(column))])
        assert start.committer.check(sealed, start.run(), 0.0) is None
        t.commit(start, sealed)
    return world.read()


def as_sent(kind, arrow, values, database):
    """The form in which Spark sends a column: see ``columns.sent``."""
    if isinstance(kind, BinaryType) and database == "postgresql":
        return pa.array([None if v is None else "\\x" + v.hex().upper() for v in values], pa.string())
    if isinstance(kind, DecimalType) and database == "sqlite":
        return pa.array([None if v is None else f"{v:.{kind.scale}f}" for v in values], pa.string())
    if isinstance(kind, DateType) and database == "sqlite":
        return pa.array([None if v is None else str(v) for v in values], pa.string())
    return pa.array(values, arrow)


def as_meant(kind, value, database):
    """What was read, as what it means."""
    if value is None:
        return None
    if isinstance(kind, StructType | ArrayType | MapType):
        return json.loads(value) if isinstance(value, str) else value
    if database == "sqlite":
        if isinstance(kind, DecimalType):
            return Decimal(str(value))
        if isinstance(kind, DateType):
            return dt.date.fromisoformat(value)
        if isinstance(kind, TimestampType | TimestampNTZType):
            return dt.datetime.fromisoformat(value)
    if isinstance(kind, BooleanType):
        return bool(value)
    if isinstance(kind, TimestampType) and database == "mariadb":
        return value.replace(tzinfo=UTC)
    return value


@pytest.mark.parametrize(("kind", "arrow", "values"), KINDS, ids=NAMES)
def test_what_is_written_is_read_again(world, kind, arrow, values):
    """Every edge of each type, and null, through staging and the merge, in a column that was made for it."""
    here = world(kind)
    database = here.sink().database
    values = [value for value in values if database != "mariadb" or value not in NOT_OF_MARIADB]
    read = written(here, as_sent(kind, arrow, [*values, None], database))
    got = [as_meant(kind, value, database) for value in read]
    meant = [json.loads(v) for v in values] if arrow == pa.string() and not isinstance(kind, StringType) else values
    if isinstance(kind, FloatType):  # a float's text is the shortest that means it
        got = [None if v is None else struct.unpack("f", struct.pack("f", v))[0] for v in got]
    assert len(got) == len(meant) + 1
    for value in [*meant, None]:
        assert value in got, f"{str(value)[:60]!r} is not among {str(got)[:500]}"


def test_nan(world):
    """PostgreSQL keeps it; SQLite would make it null and MariaDB has none: the row is refused, by its column's name."""
    here = world(DoubleType())
    column = pa.array([1.0, math.nan], pa.float64())
    if here.sink().database == "postgresql":
        assert any(math.isnan(value) for value in written(here, column))
        return
    with pytest.raises(RowRefusedError, match="column v has NaN") as told:
        written(here, column)
    assert not told.value.retriable
    assert here.read() == []


def test_a_text_with_nul(world):
    """PostgreSQL has no form for it: the row is refused; the others keep it."""
    here = world(StringType())
    column = pa.array(["a\0b"], pa.string())
    if here.sink().database != "postgresql":
        assert written(here, column) == ["a\0b"]
        return
    with pytest.raises(RowRefusedError, match="22021") as told:
        written(here, column)
    assert "a\0b" not in str(told.value)


@pytest.mark.parametrize(
    ("kind", "column"),
    [
        (LongType(), "integer"),
        (IntegerType(), "smallint"),
        (LongType(), "double precision"),
        (LongType(), "numeric(18, 0)"),
        (DecimalType(10, 2), "numeric(10, 1)"),
        (DecimalType(10, 2), "numeric(9, 2)"),
        (DecimalType(10, 2), "double precision"),
        (DoubleType(), "real"),
        (DoubleType(), "numeric"),
        (TimestampType(), "timestamp"),
        (TimestampType(), "timestamptz(3)"),
        (TimestampNTZType(), "timestamptz"),
        (TimestampNTZType(), "timestamp(0)"),
        (TimestampType(), "date"),
        (DateType(), "timestamp"),
        (StringType(), "bytea"),
        (StringType(), "name"),
        (StringType(), '"char"'),
        (BinaryType(), "text"),
        (BooleanType(), "integer"),
        (ArrayType(StringType()), "text[]"),
        (DayTimeIntervalType(), "interval"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.simpleString(),
)
def test_what_does_not_fit_is_refused_at_the_start(server, kind, column):
    """A column that would round, cut off or shift a value; by the column's name, and before anything is staged."""
    server.execute("drop schema public cascade", "create schema public", f"create table one (v {column})")
    with Trial(OneColumn(server.url(), kind)) as t, pytest.raises(ConfigurationError, match="column v: ") as told:
        t.start()
    assert kind.simpleString() in told.value.what


def test_a_type_without_a_form_is_refused_by_name(world):
    """No column is made for it."""
    with Trial(world(DayTimeIntervalType())) as t, pytest.raises(ConfigurationError, match=r"interval .* has no form"):
        t.start()


def test_a_float_in_a_column_of_doubles(server):
    """It is the same number, not the one that its shortest text means to a double."""
    server.execute("drop schema public cascade", "create schema public", "create table one (v double precision)")
    values = [0.1, 1e-45, 3.4028234663852886e38, -0.0]
    floats = [struct.unpack("f", struct.pack("f", v))[0] for v in values]
    got = written(OneColumn(server.url(), FloatType()), pa.array(floats, pa.float32()))
    assert sorted(map(repr, got)) == sorted(map(repr, floats))


@pytest.mark.parametrize("where", ["database", "user"])
def test_another_encoding(server, where):
    """Texts arrive as they are where database or user speak another one."""
    server.execute("drop schema public cascade", "create schema public", "create table one (v text)")
    url = server.url()
    if where == "user":
        server.execute(
            "create user latin",
            "alter user latin set client_encoding = 'latin1'",
            "grant all on schema public to latin",
            "grant all on one to latin",
        )
        url = server.url("latin")
    else:
        server.execute("create database latin encoding 'LATIN1' template template0 lc_collate 'C' lc_ctype 'C'")
        url = server.url().replace("/postgres?", "/latin?")
    assert written(OneColumn(url, StringType()), pa.array(["gänse"])) == ["gänse"]


@pytest.mark.spark
def test_what_spark_sends_is_what_is_loaded(spark, world):
    """The columns that Spark makes of each type are those of the tests above, also where clocks are set forward."""
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    for kind, arrow, values in KINDS:
        if isinstance(kind, StructType | ArrayType | MapType):
            continue
        here = world(kind)
        sink = here.sink()
        # Python's times without a zone would be taken for local ones.
        typed = StructType([StructField("v", kind)])
        frame = spark.createDataFrame(pa.table({"v": pa.array([*values, None], arrow)}), typed)
        sent = frame.select(*sink.columns(frame.schema)).toArrow().column("v").combine_chunks()
        meant = as_sent(kind, arrow, [*values, None], sink.database)
        both = [sent.cast(meant.type), meant]
        if pa.types.is_timestamp(meant.type):  # Python has no time beyond 9999, in no zone
            both = [each.cast(pa.int64()) for each in both]
        assert repr(both[0].to_pylist()) == repr(both[1].to_pylist()), kind.simpleString()  # NaN is not equal to itself
    # Of a zone's older offset from UTC the seconds have no place in a text.
    nested = spark.sql("select named_struct('at', timestamp'1850-01-01 00:00:00.000001 UTC') as v")
    (first,) = nested.select(*sink.columns(nested.schema)).toArrow().column("v").to_pylist()
    assert json.loads(first) == {"at": "1850-01-01T00:00:00.000001Z"}


def test_every_type_of_sparks_is_here():
    """What a new Spark adds is either in the table above, or known to have no form."""
    without = {"Interval", "Variant", "TimeType", "Geometry", "Geography", "NullType", "CharType", "VarcharType"}
    without |= {"StructField"}  # a part of a type
    covered = {type(kind) for kind, _, _ in KINDS}
    for name in spark_types.__all__:
        kind = getattr(spark_types, name)
        if isinstance(kind, type) and issubclass(kind, spark_types.DataType) and kind is not spark_types.DataType:
            assert kind in covered or any(word in name for word in without), (
                f"{name} is new: does a database have a form for it?"
            )
