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
from tests.support.mariadb import MariaDbWorld, running_mariadb
from tests.support.postgres import PostgresWorld, running
from tests.support.sqlite_worlds import SqliteWorld

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

    def asked(self, query):
        with psycopg.connect(self.url) as connection:
            return connection.execute(query).fetchall()

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

    def asked(self, query):
        with sqlite3.connect(self.path) as file:
            return file.execute(query).fetchall()

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

    def asked(self, query):
        return self.ask(query)

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


# -- what a table would take, and change ------------------------------------------------------------------------------


class MadeInSqlite(OneColumnOfSqlite):
    """A table in a file that somebody made; its sink has other arguments."""

    more: dict[str, object]

    def sink(self):
        return DatabaseSink(f"sqlite:///{self.path}", **self.more)


@pytest.fixture
def made(request, tmp_path):
    """``made(database, kind, columns, **more)``: the world of a table ``one`` with these columns."""

    def make(database, kind, columns, **more):
        if database == "postgresql":
            server = request.getfixturevalue("server")
            server.execute("drop schema public cascade", "create schema public", f"create table one ({columns})")
            here = OneColumn(server.url(), kind)
        elif database == "mariadb":
            here = OneColumnOfMariaDb(request.getfixturevalue("mariadb").port, kind)
            here.ask(f"create table one ({columns})")
        else:
            here = MadeInSqlite(tmp_path, kind)
            with sqlite3.connect(here.path) as file:
                file.execute(f"create table one ({columns})")
        here.more = {"table": "one", **more}
        return here

    return make


EXACT_KEY = {
    "postgresql": "v varchar(3) primary key",
    "mariadb": "v varchar(3) character set utf8mb4 collate utf8mb4_nopad_bin primary key",
}


@pytest.mark.parametrize("database", EXACT_KEY)
def test_a_key_that_a_column_would_cut_off_replaces_no_other_row(made, database):
    """A text of more letters than varchar(n) has: the blanks at its end would be cut off, and it be another key."""
    here = made(database, StringType(), EXACT_KEY[database], key="v")
    assert written(here, pa.array(["abc", "ä 😀"])) == ["abc", "ä 😀"]
    with pytest.raises(RowRefusedError, match=r"column v takes 3 letters, and a row's text has more") as told:
        written(here, pa.array(["abc "]))
    assert "abc" not in str(told.value)
    assert sorted(here.read()) == ["abc", "ä 😀"]


class Deleting(OneColumn):
    """Its rows are deletes."""

    def output(self):
        return StructType([StructField("v", StringType()), StructField("gone", BooleanType())])


def test_a_delete_by_a_key_that_would_be_cut_off(server):
    """It deletes no other key's row."""
    server.execute("drop schema public cascade", "create schema public", "create table one (v varchar(3) primary key)")
    server.execute("insert into one values ('abc')")
    here = Deleting(server.url(), StringType())
    here.more = {"table": "one", "key": "v", "delete_when": "gone"}
    with Trial(here) as t:
        writer = t.start().open()
        names = ["v", "onceflow_delete", "onceflow_hash"]
        writer.write(pa.RecordBatch.from_arrays([pa.array(["abc "]), pa.array([1], pa.int16()), pa.array([7])], names))
        with pytest.raises(RowRefusedError, match="column v takes 3 letters"):
            writer.prepare()
    assert here.read() == ["abc"]


@pytest.mark.parametrize(
    ("database", "column", "text", "why"),
    [
        ("postgresql", "varchar(3)", "abc  ", "takes 3 letters"),
        ("postgresql", "char(5)", "ab ", "takes a text and the same with blanks behind it for one"),
        ("mariadb", "varchar(3)", "abc  ", "takes 3 letters"),
        ("mariadb", "char(5)", "ab ", "takes a text and the same with blanks behind it for one"),
        ("mariadb", "tinytext", "ä" * 127 + "  ", "takes 255 bytes"),
    ],
)
def test_blanks_that_a_column_would_cut_off(made, database, column, text, why):
    """The row is refused; what fits is there as it was sent."""
    here = made(database, StringType(), f"v {column}")
    assert [read.rstrip() for read in written(here, pa.array([text.rstrip(), None]))[:1]] == [text.rstrip()]
    with pytest.raises(RowRefusedError, match=f"column v {why}"):
        written(here, pa.array([text]))


def seconds(*of, tz="UTC"):
    return pa.array([each * 1_000_000 for each in of], pa.int64()).cast(pa.timestamp("us", tz))


@pytest.mark.parametrize("tz", ["UTC", None], ids=["timestamp", "timestamp_ntz"])
@pytest.mark.parametrize("second", [253_402_300_800, 1_700_000_000_000, 2_100_000_000_000, -62_135_596_801])
def test_a_time_outside_of_the_years_1_to_9999(world, tz, second):
    """Its text would be another time's, or none: the row is refused, by its column and type."""
    here = world(TimestampType() if tz else TimestampNTZType())
    with pytest.raises(
        RowRefusedError, match=r"column v \(timestamp\[us.*\]\) has a time outside of the years"
    ) as told:
        written(here, seconds(second, tz=tz))
    assert not told.value.retriable
    assert here.read() == []


@pytest.mark.parametrize("day", [2_932_897, 12_000_000, -719_163])
@pytest.mark.parametrize("database", ["postgresql", "mariadb"])
def test_a_date_outside_of_the_years_1_to_9999(made, database, day):
    """Likewise."""
    here = made(database, DateType(), "v date")
    with pytest.raises(RowRefusedError, match=r"column v \(date32\[day\]\) has a date outside of the years"):
        written(here, pa.array([day], pa.int32()).cast(pa.date32()))


@pytest.mark.parametrize(
    ("database", "kind", "columns", "column"),
    [
        ("mariadb", TimestampType(), "v timestamp(6) not null", pa.array([None], pa.timestamp("us", "UTC"))),
        ("mariadb", LongType(), "v bigint auto_increment primary key", pa.array([5, None])),
        ("sqlite", LongType(), "v integer primary key", pa.array([5, None])),
        ("postgresql", LongType(), "v bigint not null", pa.array([5, None])),
    ],
    ids=["timestamp of mariadb", "auto_increment", "rowid of sqlite", "postgresql"],
)
def test_a_null_where_a_column_takes_none(made, database, kind, columns, column):
    """Some would make a value of it, the time of the commit or the next number: the row is refused by its name."""
    here = made(database, kind, columns)
    with pytest.raises(RowRefusedError, match="column v takes no null, and 1 rows have one"):
        written(here, column)
    assert here.read() == []


@pytest.mark.parametrize("more", [{}, {"key": "v"}], ids=["append", "upsert"])
def test_zero_in_a_column_that_counts_by_itself(made, more):
    """MariaDB would make the next number of it."""
    here = made("mariadb", LongType(), "v bigint auto_increment primary key", **more)
    assert sorted(written(here, pa.array([0, 10, 20]))) == [0, 10, 20]


def test_modes_of_the_server_change_no_value(made, mariadb):
    """An empty text is one, whatever the server's sql_mode says of it."""
    here = made("mariadb", StringType(), "v text")
    here.ask("set global sql_mode = 'EMPTY_STRING_IS_NULL,NO_BACKSLASH_ESCAPES,ANSI_QUOTES'")
    try:
        assert sorted(written(here, pa.array(["", "a\\b"]))) == ["", "a\\b"]
    finally:
        here.ask("set global sql_mode = default")


@pytest.mark.parametrize("which", ["a row's", "a later row's"])
def test_a_text_that_is_not_utf_8(world, which):
    """The row is refused by its column and type, in every database; it is no failure of the database."""
    here = world(StringType())
    texts = [b"\xff"] if which == "a row's" else [b"a", b"b", "ä".encode(), b"\xed\xa0\x80"]
    with pytest.raises(RowRefusedError, match=r"column v \(string\) has a text that is not UTF-8"):
        written(here, pa.array(texts, pa.binary()).view(pa.string()))
    assert here.read() == []


def test_an_upsert_of_a_key_alone_whose_rows_a_trigger_skips(made, server):
    """No column is left to count the rows by: their keys are looked for."""
    here = made("postgresql", LongType(), "v bigint primary key", key="v")
    assert sorted(written(here, pa.array([1, 2]))) == [1, 2]
    server.execute(
        "create function skip() returns trigger language plpgsql as "
        "'begin if new.v % 2 = 0 then return null; end if; return new; end'",
        "create trigger skip before insert on one for each row execute function skip()",
    )
    with Trial(here) as t:
        start = t.start()
        writer = start.open()
        writer.write(batch(pa.array([1, 3, 4])))
        sealed = start.seal([start.report(writer.prepare(), [""] * 3)])
        with pytest.raises(RowRefusedError, match="the target took 2 of 3 rows"):
            start.committer.check(sealed, start.run(), 0.0)
    assert sorted(here.read()) == [1, 2]


def test_triggers_of_partitions_are_named(made, server, caplog):
    """A trigger of a partition changes rows as one of the table does, and so does one of a partition's partition."""
    here = made("postgresql", LongType(), "v bigint) partition by range (v")
    server.execute(
        "create table part partition of one for values from (0) to (9) partition by range (v)",
        "create table inner_part partition of part for values from (0) to (9)",
        "create function other() returns trigger language plpgsql as 'begin new.v := 7; return new; end'",
        "create trigger changes before insert on inner_part for each row execute function other()",
    )
    with Trial(here) as t:
        t.start()
    assert "table one has triggers: changes (of inner_part)" in caplog.text


def test_a_rule_that_sends_rows_elsewhere(made, server):
    """Their number fits, and no row is in the table: refused at the start, by the rule's name."""
    here = made("postgresql", LongType(), "v bigint")
    server.execute(
        "create table other (v bigint)",
        "create rule elsewhere as on insert to one do instead insert into other values (new.v)",
    )
    with Trial(here) as t, pytest.raises(ConfigurationError, match="rule elsewhere"):
        t.start()


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


LETTER = "reason string, topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
LETTER += "headers array<struct<key: string, value: binary>>"
TIMES = [1_767_225_600_000_000, 0, -1_000, 4_102_444_800_000_000, 2_100_000_000_000_000_000]
HEADERS = [[{"key": "a\0\ufffd", "value": b"\0\xff"}], [{"key": "", "value": None}], [], None, None]


@pytest.mark.spark
def test_a_dead_letter_that_a_database_has_no_form_for(spark, world):
    """It must not stop its job for good: a time that is none there is null, a header's NUL the sign for it."""
    letter = StructType.fromDDL(LETTER)
    here = world(StringType())
    here.output, database = lambda: letter, here.sink().database
    count = len(TIMES)
    rows = {"reason": ["why"] * count, "topic": ["t"] * count, "partition": [0] * count, "offset": list(range(count))}
    rows |= {"timestamp": pa.array(TIMES, pa.int64()).cast(pa.timestamp("us", "UTC")), "key": [b"\0\xff"] * count}
    rows |= {"value": pa.array([None] * count, pa.binary()), "headers": HEADERS}
    frame = spark.createDataFrame(pa.table(rows), letter)
    with Trial(here) as t:
        start = t.start()
        writer = start.open()
        for each in frame.select(*here.sink().dead_letter_columns(letter)).toArrow().to_batches():
            writer.write(each)
        sealed = start.seal([start.report(writer.prepare(), [""] * count)])
        assert start.committer.check(sealed, start.run(), 0.0) is None
        t.commit(start, sealed)
    quote = "`" if database == "mariadb" else '"'
    query = f"select {quote}offset{quote}, {quote}timestamp{quote}, headers, {quote}key{quote} from one order by 1"
    found = here.asked(query)
    assert [row[0] for row in found] == list(range(count))
    assert {bytes(row[3]) for row in found} == {b"\0\xff"}
    headers = [json.loads(row[2]) if isinstance(row[2], str) else row[2] for row in found]
    name = "a\u2400\ufffd" if database == "postgresql" else "a\0\ufffd"
    assert headers == [[{"key": name, "value": "AP8="}], [{"key": "", "value": None}], [], None, None]
    times = [row[1] is not None for row in found]
    assert times == ([True, False, False, False, False] if database == "mariadb" else [True, True, True, True, False])
