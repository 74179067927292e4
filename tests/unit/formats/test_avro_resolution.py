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
        (MICROS, ["null", "string", MILLIS], MILLIS),
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
        (decimal(18, 2), decimal(10, 2)),
        (["null", MICROS], "long"),
        (["null", logical("int", "date")], ["null", "int"]),
        (["null", {"type": "string", "avro.java.string": "String"}], "string"),
        ("bytes", logical("bytes", "decimal")),
        (logical("bytes", "decimal", precision="10"), logical("bytes", "decimal", precision=1, scale=2)),
        (MICROS, ["null", "string", MICROS]),
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
        (decimal(10, 2), decimal(18, 2), "field f is decimal(18,2) there, and not decimal(10,2)"),
        ("string", decimal(10, 2), "field f is decimal(10,2) there, and not string"),
        (["null", decimal(12, 4)], "bytes", "field f is bytes there, and not decimal(12,4)"),
        (decimal(12, 4), logical("bytes", "decimal", precision=1, scale=2), "field f is bytes (decimal) there"),
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
        "field a.at is long (timestamp-millis) there, and the same type is another one elsewhere",
    )


def named(name, kind, space=None, **more):
    """A record of a name with the one field at."""
    of = {"type": "record", "name": name, "fields": [{"name": "at", "type": kind, **more}]}
    return of | ({} if space is None else {"namespace": space})


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        ([named("Created", "string", "x"), named("Deleted", MICROS, "x")], named("x.Deleted", MILLIS)),
        (["null", named("A", "string"), named("B", MICROS) | {"aliases": ["Old"]}], named("Old", MILLIS)),
        (["null", named("A", MICROS), named("B", MICROS)], named("C", MILLIS)),
        (
            [named_fixed | {"name": name} for name, named_fixed in (
                ("x.A", logical("fixed", "decimal", size=8, precision=10, scale=2)),
                ("x.B", logical("fixed", "decimal", size=8, precision=12, scale=4)),
            )],
            logical("fixed", "decimal", size=8, precision=10, scale=2) | {"name": "x.B"},
        ),
    ],
)  # fmt: skip
def test_where_several_types_may_be_meant_nothing_is_turned(reader, writer):
    """Which of them Avro takes hangs on names, aliases and what is inside: the record is refused."""
    resolved = found(reader, writer)
    assert resolved.misfits
    assert resolved.reader == record(reader)


def test_a_type_whose_other_place_has_a_default_is_not_turned():
    """The writer has no such field, so the reader's default is read, by the same type."""
    fixed = logical("fixed", "decimal", size=8, precision=12, scale=4) | {"name": "D"}
    reader = {"type": "record", "name": "R", "fields": [
        {"name": "a", "type": fixed}, {"name": "b", "type": "D", "default": "x"},
    ]}  # fmt: skip
    writer = {**reader, "fields": [{"name": "a", "type": {**fixed, "precision": 10, "scale": 2}}]}
    (misfit,) = resolution(*(parse(dumps(each), "it") for each in (reader, writer))).misfits
    assert misfit == "field a is decimal(10,2) there, and the same type is another one elsewhere"


def test_a_field_that_is_found_by_an_alias_is_not_turned():
    """Avro takes the default instead where the records have other names."""
    reader = {"type": "record", "name": "R", "fields": [{"name": "n", "aliases": ["o"], "type": MICROS}]}
    writer = {"type": "record", "name": "S", "fields": [{"name": "o", "type": MILLIS}]}
    (misfit,) = resolution(*(parse(dumps(each), "it") for each in (reader, writer))).misfits
    assert misfit == "field n is long (timestamp-millis) there, and of what it is read as there is more than one"
