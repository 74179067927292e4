"""What a reader makes of a writer's logical types, where they are others: pure, on schemas alone."""

import pytest

from onceflow.formats.avro_resolution import resolution
from onceflow.formats.avro_schema import dumps, parse
from tests.support.avro import logical, record


def decimal(precision, scale):
    return logical("bytes", "decimal", precision=precision, scale=scale)


def found(reader, writer):
    return resolution(*(parse(dumps(each), "it") for each in (record(reader), record(writer))))


def of_field(resolved):
    return resolved.reader["fields"][0]["type"]


MILLIS, MICROS, NANOS = (logical("long", f"timestamp-{unit}") for unit in ("millis", "micros", "nanos"))


@pytest.mark.parametrize(
    ("reader", "writer", "read_as"),
    [
        (MICROS, MILLIS, MILLIS),
        (MILLIS, MICROS, MICROS),
        (logical("long", "local-timestamp-micros"), MILLIS, logical("long", "local-timestamp-millis")),
        (decimal(12, 4), decimal(10, 2), decimal(10, 2)),
        (["null", decimal(12, 4)], decimal(10, 2), ["null", decimal(10, 2)]),
        (decimal(12, 4), ["null", decimal(10, 2)], decimal(10, 2)),
        ({"type": "array", "items": MICROS}, {"type": "array", "items": MILLIS}, {"type": "array", "items": MILLIS}),
        ({"type": "map", "values": MICROS}, {"type": "map", "values": MILLIS}, {"type": "map", "values": MILLIS}),
    ],
)
def test_values_are_read_in_the_writers_unit(reader, writer, read_as):
    """Instants of another unit, and decimals of a smaller scale, wherever they are."""
    assert found(reader, writer).misfits == ()
    assert of_field(found(reader, writer)) == read_as


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        (MICROS, MICROS),
        (MICROS, "long"),
        (MICROS, "int"),
        ("long", MILLIS),
        (logical("int", "date"), "int"),
        (decimal(10, 2), decimal(18, 2)),
        (logical("string", "uuid"), "string"),
        ("bytes", decimal(10, 2)),
        (logical("long", "somebody's own"), MILLIS),
        (MICROS, logical("long", "somebody's own")),
        (NANOS, logical("long", "local-timestamp-nanos")),
        ("string", "long"),
    ],
)
def test_what_avro_reads_as_it_is_meant_is_left_alone(reader, writer):
    """The same types, a number without a unit, and what Avro itself says the trouble of."""
    assert found(reader, writer) == (record(reader), ())


@pytest.mark.parametrize(
    ("reader", "writer", "said"),
    [
        (decimal(10, 4), decimal(10, 2), "field f is decimal(10,2) there, and not decimal(10,4)"),
        (decimal(10, 2), decimal(10, 4), "field f is decimal(10,4) there, and not decimal(10,2)"),
        (decimal(10, 2), "bytes", "field f is bytes there, and not decimal(10,2)"),
        (MICROS, NANOS, "field f is long (timestamp-nanos) there, and not long (timestamp-micros)"),
        (MICROS, logical("int", "date"), "field f is int (date) there, and not long (timestamp-micros)"),
        (
            logical("long", "time-micros"),
            logical("int", "time-millis"),
            "field f is int (time-millis) there, and not long (time-micros)",
        ),
        (["null", MICROS, "string"], NANOS, "field f is long (timestamp-nanos) there"),
        (["null", "string", MICROS], logical("int", "date"), "field f is int (date) there"),
    ],
)
def test_what_cannot_be_turned_is_said(reader, writer, said):
    """The field, and both types."""
    (misfit,) = found(reader, writer).misfits
    assert misfit.startswith(said)


def test_fields_are_found_by_alias_and_path():
    """A field that has another name in the writer's schema, within a record in an array."""
    inner = {"type": "record", "name": "I", "fields": [{"name": "at", "type": NANOS}]}
    named = {**inner, "fields": [{"name": "when", "aliases": ["at"], "type": MICROS}]}
    assert found({"type": "array", "items": named}, {"type": "array", "items": inner}).misfits == (
        "field f[].when is long (timestamp-nanos) there, and not long (timestamp-micros)",
    )


def test_one_type_that_stands_twice_cannot_be_read_in_two_units():
    """A named type of the reader's is one; a writer that has two units in its places does not fit."""
    reader = {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": {"type": "record", "name": "T", "fields": [{"name": "at", "type": MICROS}]}},
        {"name": "b", "type": "T"},
    ]}  # fmt: skip
    writer = {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": {"type": "record", "name": "T", "fields": [{"name": "at", "type": MILLIS}]}},
        {"name": "b", "type": {"type": "record", "name": "U", "fields": [{"name": "at", "type": MICROS}]}},
    ]}  # fmt: skip
    resolved = resolution(*(parse(dumps(each), "it") for each in (reader, writer)))
    assert resolved.misfits == (
        "field b.at is long (timestamp-micros) there, and the same type is another one elsewhere",
    )
