"""Avro on real Spark, beside a library of others: what is read, what is written, what is malformed, what is refused."""

# ruff: noqa: DTZ001 - a local timestamp has no zone

import datetime as dt
import io
import json
from decimal import Decimal
from pathlib import Path

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import StructType

import onceflow as of
from onceflow.errors import ConfigurationError, RowRefusedError
from onceflow.formats import avro_format
from onceflow.formats.avro_format import Avro
from onceflow.formats.avro_schema import dumps, of_columns
from onceflow.formats.contract import PartOfRecord
from onceflow.formats.refused import refused_from
from tests.support.advice import parts_of
from tests.support.avro import bytes_of, framed, logical, record
from tests.support.decoded import read

pytestmark = pytest.mark.spark

VALUE = PartOfRecord(("t",), "value")
UTC = dt.UTC
EPOCH = dt.datetime(1970, 1, 1, tzinfo=UTC)


def value_of(schema, data):
    stream = io.BytesIO(data)
    found = fastavro.schemaless_reader(stream, fastavro.parse_schema(schema), None)
    assert stream.read() == b""
    return found


READ = [
    ("boolean", [True, False], "boolean", None),
    ("int", [0, -(2**31), 2**31 - 1], "int", None),
    ("long", [0, -(2**63), 2**63 - 1], "bigint", None),
    ("float", [0.5, -0.0, float("inf")], "float", None),
    ("double", [0.1, float("-inf"), 5e-324], "double", None),
    ("string", ["", "ä\U0001f600", "x" * 70_000], "string", None),
    ("bytes", [b"", b"\0\xff"], "binary", bytearray),
    (logical("int", "date"), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 4)], "date", None),
    (logical("int", "time-millis"), [dt.time(23, 59, 59, 999000)], "int", lambda _: 86_399_999),
    (logical("long", "time-micros"), [dt.time(23, 59, 59, 999999)], "bigint", lambda _: 86_399_999_999),
    (logical("long", "timestamp-millis"), [EPOCH - dt.timedelta(milliseconds=1)], "timestamp", "at"),
    (
        logical("long", "timestamp-micros"),
        [dt.datetime(1, 1, 2, tzinfo=UTC), dt.datetime(9999, 12, 30, 23, 59, 59, 999999, tzinfo=UTC)],
        "timestamp",
        "at",
    ),
    (logical("long", "timestamp-nanos"), [5_000_000_001], "bigint", None),
    (logical("long", "local-timestamp-millis"), [dt.datetime(2026, 1, 1, 1, 2, 3, 4000)], "timestamp_ntz", None),
    (logical("long", "local-timestamp-micros"), [dt.datetime(1500, 1, 1, 1, 2, 3, 4)], "timestamp_ntz", None),
    (logical("string", "uuid"), ["6ba7b810-9dad-11d1-80b4-00c04fd430c8"], "string", None),
    (
        logical("bytes", "decimal", precision=38, scale=6),
        [Decimal("99999999999999999999999999999999.999999"), Decimal("-0.000001"), Decimal("0.000000")],
        "decimal(38,6)",
        None,
    ),
    (
        {"type": "fixed", "size": 8, "name": "D", "logicalType": "decimal", "precision": 18, "scale": 2},
        [Decimal("9999999999999999.99"), Decimal("-0.01")],
        "decimal(18,2)",
        None,
    ),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ["A", "B"], "string", None),
    ({"type": "fixed", "name": "F", "size": 3}, [b"abc"], "binary", bytearray),
    ({"type": "array", "items": ["null", "int"]}, [[], [1, None]], "array<int>", None),
    ({"type": "map", "values": "long"}, [{}, {"a": 1}], "map<string,bigint>", None),
    (["null", "string"], [None, "x"], "string", None),
    (["int", "long"], [2**40, 1], "bigint", None),
    (["null", "string", "int"], ["x", 5, None], "struct<member_string:string,member_int:int>", "union"),
]


@pytest.mark.parametrize(("kind", "values", "of_spark", "as_read"), READ, ids=[dumps(each[0])[:40] for each in READ])
def test_each_type_is_read_as_another_library_has_written_it(spark, kind, values, of_spark, as_read):
    """Extreme values too; docs/formats.md has the table."""
    schema = record(kind)
    reading = Avro(json.dumps(schema)).reading(VALUE)
    assert reading.fields()["f"].dataType.simpleString() == of_spark
    as_long = record("long") if "nanos" in json.dumps(kind) else schema  # the other library does not know them
    found = read(spark, reading, [bytes_of(as_long, {"f": value}) for value in values])
    assert not any(row.malformed for row in found)
    for row, value in zip(found, values, strict=True):
        if as_read == "at":
            assert row.f == (value - EPOCH) // dt.timedelta(microseconds=1)
        elif as_read == "union":
            assert (row.f and tuple(row.f)) == {"x": ("x", None), 5: (None, 5), None: None}[value]
        else:
            assert row.f == (value if as_read is None else as_read(value))


def page():
    """The table of types of docs/formats.md: Avro's, and Spark's."""
    text = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()
    rows = text[text.index("\n| in Avro |") + 1 :].partition("\n\n")[0].splitlines()[2:]
    return [(cells[1].strip().strip("`"), cells[2].strip()) for cells in (row.split("|") for row in rows)]


def test_the_page_says_what_each_type_is_read_as(spark):
    """Every line of it."""
    rows = page()
    assert len(rows) > 20
    assert {
        kind: Avro(dumps(record(json.loads(kind)))).reading(VALUE).fields()["f"].dataType.simpleString()
        for kind, _ in rows
    } == dict(rows)


WRITTEN = [
    ("boolean", [True, None]),
    ("tinyint", [-128, 127]),
    ("smallint", [-32768, 32767]),
    ("int", [-(2**31), 2**31 - 1]),
    ("bigint", [-(2**63), 2**63 - 1]),
    ("float", [0.5, float("inf")]),
    ("double", [5e-324, float("-inf")]),
    ("string", ["", "ä\U0001f600", None]),
    ("binary", [b"", b"\0\xff"]),
    ("date", [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1582, 10, 4)]),
    ("timestamp", [dt.datetime(1, 1, 2, tzinfo=UTC), dt.datetime(9999, 12, 30, 23, 59, 59, 999999, tzinfo=UTC)]),
    ("timestamp_ntz", [dt.datetime(1, 1, 1, 0, 0, 0, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    ("decimal(38,18)", [Decimal("-99999999999999999999.999999999999999999"), Decimal("0.000000000000000001")]),
    ("array<string>", [[], ["a", None]]),
    ("map<string,int>", [{}, {"a": 1, "b": None}]),
    ("struct<a:int,b:struct<c:string>>", [None, {"a": 1, "b": None}, {"a": None, "b": {"c": "x"}}]),
    ("array<struct<a:date>>", [[{"a": dt.date(2026, 1, 1)}, None]]),
]


def written(spark, avro, kind, values):
    """The bytes of rows of one column, and the schema that they are written by."""
    rows = [(value,) for value in values]
    frame = spark.createDataFrame(rows, StructType.fromDDL(f"f {kind}"))
    return [bytes(row.v) for row in frame.select(avro.encode(frame.schema.fields, VALUE).alias("v")).collect()]


@pytest.mark.parametrize(("kind", "values"), WRITTEN, ids=[each[0] for each in WRITTEN])
def test_each_type_is_written_so_that_another_library_reads_it(spark, kind, values):
    """By the schema that is made of the columns; and it is read here as it was."""
    schema = of_columns(StructType.fromDDL(f"f {kind}").fields)
    avro = Avro(json.dumps(schema))
    blobs = written(spark, avro, kind, values)
    assert [value_of(schema, blob)["f"] for blob in blobs] == values
    back = read(spark, avro.reading(VALUE), blobs)
    assert not any(row.malformed for row in back)
    frame = spark.createDataFrame([(value,) for value in values], StructType.fromDDL(f"f {kind}"))
    asked = frame.select(F.unix_micros("f").alias("f") if kind == "timestamp" else "f").collect()
    assert [row.f for row in back] == [row.f for row in asked]


texts = st.text(st.characters(codec="utf-8"), max_size=5)
KINDS = st.recursive(
    st.sampled_from(
        [
            ("int", st.integers(-(2**31), 2**31 - 1)),
            ("bigint", st.integers(-(2**63), 2**63 - 1)),
            ("double", st.floats(allow_nan=False)),
            ("string", texts),
            ("binary", st.binary(max_size=5)),
            ("boolean", st.booleans()),
            ("date", st.dates()),
            ("timestamp_ntz", st.datetimes()),
            ("decimal(12,4)", st.decimals(-(10**7), 10**7, places=4, allow_nan=False)),
        ]
    ),
    lambda inner: st.one_of(
        inner.map(lambda of: (f"array<{of[0]}>", st.lists(st.none() | of[1], max_size=3))),
        inner.map(lambda of: (f"map<string,{of[0]}>", st.dictionaries(texts, st.none() | of[1], max_size=3))),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda kinds: (
                f"struct<{','.join(f'c{n}:{kind}' for n, (kind, _) in enumerate(kinds))}>",
                st.fixed_dictionaries({f"c{n}": st.none() | of for n, (_, of) in enumerate(kinds)}),
            )
        ),
    ),
    max_leaves=5,
)


@pytest.mark.faults
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_whatever_goes_in_comes_out(spark, data):
    """Any columns of any types: written here they are read by another library, and here, as they were."""
    kinds = data.draw(st.lists(KINDS, min_size=1, max_size=3))
    row = st.tuples(*(st.none() | of for _, of in kinds))
    rows = data.draw(st.lists(row, min_size=1, max_size=20))
    kind = StructType.fromDDL(", ".join(f"c{n} {kind}" for n, (kind, _) in enumerate(kinds)))
    schema = of_columns(kind.fields)
    frame = spark.createDataFrame(rows, kind)
    avro = Avro(json.dumps(schema))
    blobs = [bytes(each.v) for each in frame.select(avro.encode(kind.fields, VALUE).alias("v")).collect()]
    assert [tuple(value_of(schema, blob).values()) for blob in blobs] == rows
    back = read(spark, avro.reading(VALUE), blobs)
    assert [tuple(each)[3:] for each in back] == [tuple(each) for each in frame.collect()]
    assert not any(each.malformed for each in back)


def test_what_is_no_record_of_the_schema_is_malformed(spark):
    """Cut short, longer, empty, null, other text; no error of Avro's, and no value from half a record."""
    schema = record("string")
    good = bytes_of(schema, {"f": "abc"})
    reading = Avro(json.dumps(schema)).reading(VALUE)
    found = read(spark, reading, [good, good[:-1], good + b"x", b"", None, b"\x04\xff\xfe", b"\x01"])
    assert [row.malformed for row in found] == [False, True, True, True, True, True, True]
    assert [row.reason for row in found[1:]] == [
        "it is no record of the schema, or does not fit the reader's schema",
        "it is no record of the schema, or does not fit the reader's schema",
        "it is empty",
        "it is null, a tombstone",
        "it has a text that is not UTF-8",
        "it is no record of the schema, or does not fit the reader's schema",
    ]


def test_times_that_are_not_plausible_are_malformed(spark):
    """As in JSON: a watermark follows the newest event."""
    schema = record(logical("long", "timestamp-micros"))
    reading = Avro(json.dumps(schema)).reading(VALUE)
    latest = F.timestamp_seconds(F.lit(1_767_225_600))
    blobs = [bytes_of(record("long"), {"f": at}) for at in (0, 1_767_225_600_000_001, 2**62, -(2**62))]
    found = read(spark, reading, blobs, latest)
    assert [row.malformed for row in found] == [False, True, True, True]
    assert "max_ahead" in found[1].reason


def reading_by(spark, reader, writers, absent=()):
    """As a source with a registry has it."""
    assert spark
    return avro_format.reading_by(
        json.dumps(reader), {n: json.dumps(schema) for n, schema in writers.items()}, frozenset(absent), "registry"
    )


AT = dt.datetime(2026, 1, 1, 10, 0, 0, 123000, tzinfo=UTC)
INSTANTS = [logical("long", f"{of}-{unit}") for of in ("timestamp", "local-timestamp") for unit in ("millis", "micros")]
DECIMALS = [logical("bytes", "decimal", precision=p, scale=s) for p, s in ((10, 2), (12, 2), (12, 4), (10, 4), (38, 0))]
DAYS = [logical("int", "date"), logical("int", "time-millis"), logical("long", "time-micros")]


@pytest.mark.parametrize("reader", [*INSTANTS, *DECIMALS, *DAYS], ids=lambda kind: dumps(kind)[8:])
def test_a_value_is_what_was_written_or_malformed(spark, reader):
    """Of each pair of logical types: never the number of another unit, or of another scale."""
    written = {each["logicalType"]: AT if "timestamp" in each["logicalType"] else dt.time(1, 2, 3) for each in DAYS}
    written |= {"date": dt.date(2026, 1, 1), "decimal": Decimal(12)}
    kinds = dict(enumerate([*INSTANTS, *DECIMALS, *DAYS]))
    values = {
        n: written.get(kind["logicalType"], AT if kind["logicalType"][0] == "t" else AT.replace(tzinfo=None))
        for n, kind in kinds.items()
    }
    reading = reading_by(spark, record(reader), {n: record(kind) for n, kind in kinds.items()})
    blobs = [framed(n, bytes_of(record(kind), {"f": values[n]})) for n, kind in kinds.items()]
    rows = read(spark, reading, blobs)
    fitting = [n for n, row in enumerate(rows) if not row.malformed]
    assert next(n for n, kind in kinds.items() if kind == reader) in fitting
    shown = {
        "date": dt.date(2026, 1, 1),
        "decimal": Decimal(12),
        "time-millis": 3_723_000,
        "time-micros": 3_723_000_000,
    }
    micros = AT - EPOCH
    expected = shown.get(reader["logicalType"], AT.replace(tzinfo=None) if reader["logicalType"][0] == "l" else micros)
    expected = expected // dt.timedelta(microseconds=1) if expected == micros else expected
    assert {rows[n].f for n in fitting} == {expected}
    assert all("does not fit the reader's" in row.reason for row in rows if row.malformed)


def test_each_record_is_read_by_the_schema_that_it_was_written_by(spark):
    """Of several in one topic: by defaults, aliases and wider types, as Avro says."""
    reader = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "n", "type": "long"},
            {"name": "user", "aliases": ["name"], "type": ["null", "string"], "default": None},
            {
                "name": "kind",
                "type": {"type": "enum", "name": "K", "symbols": ["A", "B"], "default": "B"},
                "default": "A",
            },
        ],
    }
    first = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    second = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "name", "type": "string"}, {"name": "n", "type": "int"}],
    }
    third = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "C"]}},
            {"name": "n", "type": "long"},
        ],
    }
    lacks = record("int")
    reading = reading_by(spark, reader, {1: first, 2: second, 3: third, 4: lacks, 2**31 + 5: reader})
    found = read(
        spark,
        reading,
        [
            framed(1, bytes_of(first, {"n": 1})),
            framed(2, bytes_of(second, {"n": 2, "name": "u"})),
            framed(3, bytes_of(third, {"n": 3, "kind": "C"})),
            framed(2**31 + 5, bytes_of(reader, {"n": 4, "user": None, "kind": "B"})),
            framed(4, bytes_of(lacks, {"f": 1})),
        ],
    )
    assert [(row.n, row.user, row.kind) for row in found[:4]] == [
        (1, None, "A"),
        (2, "u", "A"),
        (3, None, "B"),
        (4, None, "B"),
    ]
    assert [row.malformed for row in found] == [False, False, False, False, True]
    assert found[4].reason == "it is no record of schema 4, or does not fit the reader's schema"
    assert not any(row.unknown for row in found)


def test_an_id_that_is_not_known_is_told_and_not_taken_for_malformed_bytes(spark):
    """The query begins again with it; one that the registry does not have, and bytes without an id, are malformed."""
    schema = record("int")
    reading = reading_by(spark, schema, {1: schema}, absent=[9])
    good = bytes_of(schema, {"f": 1})
    found = read(
        spark, reading, [framed(7, good), framed(2**32 - 1, good), framed(9, good), b"\0\0\0\1", b"{}", b"\1" + good]
    )
    assert [row.unknown for row in found] == ["registry/7", "registry/4294967295", None, None, None, None]
    assert [row.reason for row in found[2:]] == [
        "schema 9 is not in the registry registry, or is none of Avro that can be read",
        *["it does not begin with a schema's id, the byte 0 and four more"] * 3,
    ]


def test_a_key_of_one_value_is_one_column(spark):
    """As most keys are written."""
    reading = Avro('"long"').reading(PartOfRecord(("t",), "key"))
    assert reading.fields() is None
    assert [row.f0 for row in read(spark, reading, [b"\x02", b"\x0a"])] == [1, 5]
    frame = spark.range(2)
    column = Avro('"long"').encode(frame.schema.fields, VALUE)
    assert [bytes(row.v) for row in frame.select(column.alias("v")).collect()] == [b"\0", b"\2"]


REFUSED = [
    ("string", [None], "string", "is null, and the schema allows none there"),
    ("string", ["C"], {"type": "enum", "name": "E", "symbols": ["A", "B"]}, "is none of the schema's symbols"),
    ("binary", [b"ab"], {"type": "fixed", "name": "F", "size": 3}, "has not the schema's 3 bytes"),
    (
        "array<string>",
        [["A", None]],
        {"type": "array", "items": "string"},
        "is null, and the schema allows none there",
    ),
    (
        "map<string,array<int>>",
        [{"a": [1, None]}],
        {"type": "map", "values": {"type": "array", "items": "int"}},
        "is null, and the schema allows none there",
    ),
    (
        "struct<a:int>",
        [{"a": None}],
        {"type": "record", "name": "S", "fields": [{"name": "a", "type": "int"}]},
        "is null, and the schema allows none there",
    ),
]


@pytest.mark.parametrize(("kind", "values", "schema", "why"), REFUSED, ids=[each[0] for each in REFUSED])
def test_a_row_that_has_no_form_is_refused_by_its_column(spark, kind, values, schema, why):
    """Spark's own writer fails by a null pointer, or by words that name no column."""
    with pytest.raises(Exception, match="onceflow-row-refused") as raised:
        written(spark, Avro(json.dumps(record(schema))), kind, values)
    error = parts_of(refused_from(str(raised.value)), RowRefusedError, why, "column f")
    assert error.facts["column"] == "f"


def test_a_text_that_is_not_utf8_is_refused(spark):
    """Avro's readers would put U+FFFD in its place."""
    frame = spark.createDataFrame([(bytearray(b"\xff"),)], "b binary").select(F.col("b").cast("string").alias("f"))
    column = Avro(json.dumps(record("string"))).encode(frame.schema.fields, VALUE)
    with pytest.raises(Exception, match="not UTF-8") as raised:
        frame.select(column).collect()
    parts_of(refused_from(str(raised.value)), RowRefusedError, "column f")


def test_columns_are_written_by_a_wider_schema(spark):
    """Narrower numbers, other scales; a field without a column is null where it may be."""
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "left_out", "type": ["null", "string"], "default": None},
            {"name": "d", "type": logical("bytes", "decimal", precision=12, scale=4)},
            {"name": "n", "type": "long"},
            {"name": "x", "type": "double"},
            {"name": "at", "type": logical("long", "timestamp-millis")},
        ],
    }
    frame = spark.sql("select 5 as n, 1.5f as x, 1.25bd as d, timestamp'1969-12-31 23:59:59.9995Z' as at")
    column = Avro(json.dumps(schema)).encode(frame.schema.fields, VALUE)
    (row,) = frame.select(column.alias("v")).collect()
    assert value_of(schema, bytes(row.v)) == {
        "left_out": None,
        "d": Decimal("1.2500"),
        "n": 5,
        "x": 1.5,
        "at": EPOCH - dt.timedelta(milliseconds=1),
    }


def test_without_its_jar_the_error_names_it():
    """A session of one's own may lack it."""
    from pyspark.errors import AnalysisException

    error = avro_format._no_avro(AnalysisException("[AVRO_NOT_LOADED_SQL_FUNCTIONS_UNUSABLE] no"))
    assert isinstance(error, ConfigurationError)
    assert "spark-avro" in str(error)


def test_outside_of_a_job_a_registry_is_not_asked(spark):
    """Only a job has the checkpoint in which schemas are kept."""
    source = of.KafkaSource(
        of.KafkaCluster("localhost:1"), "t", value=Avro(registry=of.SchemaRegistry("http://localhost:1"))
    )
    with pytest.raises(ConfigurationError, match="outside of a job"):
        source.load(spark)
