"""Protobuf on real Spark, beside Google's library: what is read, what is written, what is malformed or refused."""

import datetime as dt
from decimal import Decimal

import pytest
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

import onceflow as of
from onceflow.errors import ConfigurationError, RowRefusedError
from onceflow.formats.contract import PartOfRecord
from onceflow.formats.refused import refused_from
from tests.support.advice import parts_of
from tests.support.decoded import read
from tests.support.protobuf import class_of, schema_from

pytestmark = pytest.mark.spark

VALUE = PartOfRecord(("t",), "value")
TEXT = """
syntax = "proto3"; package bank;
import "google/protobuf/timestamp.proto"; import "google/protobuf/wrappers.proto";
message Payment {
  string user = 1; uint64 number = 2; uint32 small = 3; google.protobuf.Timestamp at = 4;
  enum Kind { CARD = 0; CASH = 1; } Kind kind = 5; map<string, google.protobuf.Timestamp> times = 6;
  optional int32 maybe = 7; repeated In many = 8; bytes raw = 9; google.protobuf.StringValue wrapped = 10;
  message In { bool yes = 1; google.protobuf.Timestamp at = 2; }
}
"""
UTC = dt.UTC


@pytest.fixture(scope="module")
def payment():
    return class_of(schema_from(TEXT), "bank.Payment")


def written(frame, form):
    """The bytes of each row."""
    return [bytes(row.it) for row in frame.select(form.encode(frame.schema.fields, VALUE).alias("it")).collect()]


def test_a_record_is_read_as_google_wrote_it(spark, payment):
    """Extreme numbers, times inside of arrays and maps; and what is not there."""
    full = payment(user="ä", number=2**64 - 1, small=2**32 - 1, kind=1, raw=b"\0\xff", wrapped={"value": ""})
    full.at.seconds, full.at.nanos = -1, 999_999_999
    full.times["a"].seconds = 1
    full.many.add(yes=True).at.nanos = 1_000
    reading = of.Protobuf(payment).reading(VALUE)
    rows = read(spark, reading, [full.SerializeToString(), b""])
    one = rows[0]
    assert (one.malformed, one.unknown, one.user, one.number, one.small) == (
        False,
        None,
        "ä",
        Decimal(2**64 - 1),
        2**32 - 1,
    )
    assert (one.at, one.kind, one.maybe, bytes(one.raw), one.wrapped) == (-1, "CASH", None, b"\0\xff", "")
    as_times = reading.columns(F.col("it"))
    frame = spark.createDataFrame([(bytearray(full.SerializeToString()),)], "value binary")
    frame = frame.select(reading.parsed(F.col("value")).alias("it")).select(*as_times)
    assert frame.schema == reading.fields()
    micros = frame.select(F.unix_micros("times.a").alias("a"), F.unix_micros(F.col("many")[0]["at"]).alias("b")).first()
    assert tuple(micros) == (1_000_000, 1)
    nothing = rows[1]
    assert (nothing.malformed, nothing.user, nothing.number, nothing.at, nothing.wrapped) == (False, "", 0, None, None)
    assert (nothing.times, nothing.many) == ({}, [])


def test_what_is_written_google_reads(spark, payment):
    """Each column by its name; narrower types are taken; equal rows are equal bytes."""
    rows = [
        ("u", Decimal(2**64 - 1), 5, dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), "CASH", None, b"\xff", "w")
    ]
    ddl = "user string, number decimal(20,0), small short, at timestamp, kind string, maybe int, raw binary"
    frame = spark.createDataFrame(rows, f"{ddl}, wrapped string")
    frame = frame.withColumn("many", F.array(F.struct(F.lit(True).alias("yes"), F.col("at"))))
    frame = frame.withColumn("times", F.create_map(F.lit("a"), F.col("at")))
    (data,) = written(frame, of.Protobuf(payment))
    found = payment.FromString(data)
    assert (found.user, found.number, found.small, found.kind, found.raw) == ("u", 2**64 - 1, 5, 1, b"\xff")
    assert (found.at.seconds, found.at.nanos) == (-1, 999_999_000)
    assert (found.times["a"], found.many[0].at, found.many[0].yes) == (found.at, found.at, True)
    assert (found.HasField("maybe"), found.wrapped.value) == (False, "w")


def test_what_is_no_record_is_malformed(spark, payment):
    """By its reason; with others it is read; times that are not plausible, wherever they are."""
    far = payment(at={"seconds": 4_102_444_800}).SerializeToString()
    inside = payment(many=[{"at": {"seconds": 4_102_444_800}}]).SerializeToString()
    blobs = [None, b"\x08", b"\x08\x01", payment(user="u").SerializeToString(), far, inside]
    latest = F.lit(dt.datetime(2026, 1, 1, tzinfo=UTC))
    rows = read(spark, of.Protobuf(payment).reading(VALUE), blobs, latest)
    assert [row.malformed for row in rows] == [True, True, True, False, True, True]
    assert [row.reason for row in rows if row.malformed] == [
        "it is null, a tombstone",
        "it is no record of the schema",
        "field user is not of its schema's type",
        "it has a time that is not plausible: see max_ahead",
        "it has a time that is not plausible: see max_ahead",
    ]


@pytest.mark.parametrize(
    ("ddl", "value", "why"),
    [
        ("user string", None, "is null, and the schema's field is not optional"),
        ("number bigint", -1, "does not hold"),
        ("kind string", "GOLD", "is none of the enum's names"),
        ("many array<struct<yes: boolean>>", [None], "has a null inside"),
        ("user string", b"\xff", "not UTF-8"),
    ],
)
def test_a_row_without_a_form_is_refused_by_its_column(spark, payment, ddl, value, why):
    """Before anything of it is written; nothing of the row is in the words."""
    if isinstance(value, bytes):
        frame = spark.createDataFrame([(bytearray(value),)], "user binary").select(F.col("user").cast("string"))
    else:
        frame = spark.createDataFrame([(value,)], ddl)
    with pytest.raises(Exception, match="onceflow-row-refused") as error:
        written(frame, of.Protobuf(payment))
    told = refused_from(str(error.value))
    parts_of(told, RowRefusedError, ddl.split()[0], why)
    assert "GOLD" not in told.what


def test_columns_that_do_not_fit_are_refused_before_anything_runs(spark, payment):
    """All of them, by name and type."""
    frame = spark.createDataFrame([], "user int, number decimal(10,2), at date, more string, kind int, many string")
    with pytest.raises(ConfigurationError) as error:
        written(frame, of.Protobuf(payment))
    for each in (
        "user is int, and the message has string",
        "number is decimal(10,2), and the message has uint64",
        "at is date, and the message has google.protobuf.Timestamp",
        "has no field more",
        "many is string, and the message has repeated bank.Payment.In",
    ):
        assert each in error.value.what


def test_what_is_no_schema_is_refused():
    """Where it is given."""
    for wrong, words in [({}, "no schema"), ({"schema": 5}, "neither"), ({"schema": b"\xff"}, "no schema of Protobuf")]:
        with pytest.raises(ConfigurationError, match=words):
            of.Protobuf(**wrong)
    with pytest.raises(ConfigurationError, match="has no message Nope"):
        of.Protobuf(schema_from(TEXT).compiled, message="Nope")
    assert of.Protobuf(schema_from(TEXT).compiled, message="Payment") == of.Protobuf(
        schema_from(TEXT).compiled, message="Payment"
    )
