"""Schemas of Avro as values: what is refused, what is made whole, what columns become, and which columns fit."""

import json

import fastavro
import pytest
from pyspark.sql.types import (
    ArrayType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

import onceflow as of
from onceflow.errors import ConfigurationError
from onceflow.formats import avro_schema
from onceflow.formats.avro_fit import require_fit
from onceflow.formats.registry import require_one_each


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields], **more}


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("{", "no JSON"),
        ("5", "5 is no type"),
        ('"lonng"', "there is no type lonng"),
        ("[]", "a union of nothing"),
        (json.dumps({"type": "record", "name": "R"}), "record R has no fields"),
        (json.dumps(record(("a", ["null", "R"]))), "R is inside of itself"),
        (json.dumps(record(("a", {"type": "array", "items": "n.R"}), namespace="n")), "n.R is inside of itself"),
        (json.dumps(record(("a", record(("b", "R"), name="S")))), "R is inside of itself"),
        (json.dumps(record(("a", "int"), ("A", "int"))), "two fields A"),
        (json.dumps(record(("a", {"type": "enum", "name": "E"}))), "enum E has no symbols"),
        (
            json.dumps(record(("a", record(("x", "int"), name="S")), ("b", record(("x", "int"), name="S")))),
            "S is defined twice",
        ),
        (json.dumps({"type": "bytes", "logicalType": "decimal", "precision": 39}), "a decimal of 39 digits"),
        (
            json.dumps({"type": "fixed", "name": "F", "size": 20, "logicalType": "decimal", "precision": 40}),
            "40 digits",
        ),
    ],
)
def test_what_spark_has_no_type_for_is_refused_by_name(schema, why):
    """Where a description is made, before anything runs."""
    with pytest.raises(ConfigurationError) as error:
        of.Avro(schema)
    assert why in str(error.value)


def test_a_type_that_is_named_twice_and_defined_once_is_none_inside_of_itself():
    """The second name stands for the first definition, in its own namespace."""
    address = record(("street", "string"), name="Address")
    schema = record(("home", address), ("work", ["null", "Address"]), name="Person", namespace="shop")
    assert avro_schema.parse(json.dumps(schema), "it") == schema
    resolved = avro_schema.resolved(schema)
    assert resolved["fields"][1]["type"][1]["fields"] == address["fields"]


def test_references_stand_where_they_come_first():
    """What a registry's schema refers to in other subjects becomes one text, which other libraries read as well."""
    money = record(("amount", "long"), name="Money", namespace="bank")
    account = record(("limit", "bank.Money"), ("used", "bank.Money"), name="Account", namespace="bank")
    schema = record(("of", "bank.Account"), ("cash", "bank.Money"), name="Person", namespace="shop")
    whole = avro_schema.inlined(schema, {"bank.Account": account, "bank.Money": money})
    avro_schema.parse(json.dumps(whole), "it")
    assert fastavro.parse_schema(whole)
    assert whole["fields"][0]["type"]["fields"][0]["type"] == money
    assert whole["fields"][0]["type"]["fields"][1]["type"] == "bank.Money"
    assert whole["fields"][1]["type"] == "bank.Money"


def test_times_of_day_are_numbers_to_spark_and_nothing_else_changes():
    """Spark 4.2 reads time-micros as a type of its own, which 4.0 does not have."""
    day = {"type": "long", "logicalType": "time-micros"}
    date = {"type": "int", "logicalType": "date"}
    schema = record(("a", ["null", day]), ("b", {"type": "map", "values": day}), ("c", date))
    assert avro_schema.for_spark(schema) == record(
        ("a", ["null", {"type": "long"}]), ("b", {"type": "map", "values": {"type": "long"}}), ("c", date)
    )


def test_names_inside_of_a_frame_stay_what_they_are():
    """A type without a namespace takes that of what it stands in, and the frame has none."""
    frame = json.loads(avro_schema.framed(record(("a", {"type": "enum", "name": "E", "symbols": ["X"]}))))
    assert "." not in frame["name"]
    assert "namespace" not in frame
    assert {"R", "E"} <= {name.rpartition(".")[2] for name in fastavro.parse_schema(frame)["__named_schemas"]}


def test_columns_become_a_record_of_fields_that_may_be_null():
    """By types that other libraries take."""
    fields = [
        StructField("a", LongType(), nullable=False),
        StructField("b", DecimalType(9, 3)),
        StructField("c", ArrayType(StructType([StructField("d", StringType())]))),
        StructField("e", MapType(StringType(), TimestampType())),
    ]
    schema = avro_schema.of_columns(fields)
    assert fastavro.parse_schema(schema)
    assert all(field["type"][0] == "null" and field["default"] is None for field in schema["fields"])
    require_fit(fields, avro_schema.resolved(schema), "its own schema")


def test_columns_without_a_form_are_refused_all_together():
    """By their names, however deep they are."""
    fields = [
        StructField("a-b", LongType()),
        StructField("c.d", LongType()),
        StructField("m", MapType(IntegerType(), StringType())),
        StructField("i", ArrayType(DayTimeIntervalType())),
    ]
    with pytest.raises(ConfigurationError) as error:
        avro_schema.of_columns(fields)
    assert "a-b is no name in Avro" in str(error.value)
    assert "c.d is no name in Avro" in str(error.value)
    assert "m is a map whose keys are int" in str(error.value)
    assert "i[] is of type interval" in str(error.value)


@pytest.mark.parametrize(
    ("kind", "schema", "why"),
    [
        ("bigint", "int", "a is bigint, and the schema has int"),
        ("bigint", {"type": "long", "logicalType": "timestamp-millis"}, "the schema has long (timestamp-millis)"),
        ("string", "bytes", "a is string, and the schema has bytes"),
        ("decimal(10,2)", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "decimal(9,2)"),
        ("decimal(10,2)", {"type": "bytes", "logicalType": "decimal", "precision": 11, "scale": 1}, "decimal(11,1)"),
        ("string", ["null", "string", "int"], "a union of string, int"),
        ("struct<b:int>", record(("c", "int"), name="S"), "the schema has no field a.b"),
        ("struct<b:int>", record(("b", "int"), ("c", "int"), name="S"), "no column for the schema's field a.c"),
        ("array<string>", {"type": "array", "items": "int"}, "a[] is string, and the schema has int"),
    ],
)
def test_columns_that_do_not_fit_are_refused_by_name(kind, schema, why):
    """At the start: Spark's own writer says it when the first row comes."""
    with pytest.raises(ConfigurationError) as error:
        require_fit([StructField("a", _kind(kind))], record(("a", schema)), "the schema")
    assert why in str(error.value)


def _kind(text):
    """A few of Spark's types from their text, without a session."""
    known = {"int": IntegerType(), "bigint": LongType(), "string": StringType(), "decimal(10,2)": DecimalType(10, 2)}
    if text.startswith("array<"):
        return ArrayType(known[text[6:-1]])
    if text.startswith("struct<"):
        name, _, inner = text[7:-1].partition(":")
        return StructType([StructField(name, known[inner])])
    return known[text]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "Avro has no schema"),
        ({"schema": '"int"', "subject": "s"}, "subject without a registry"),
        ({"schema": '"int"', "register": True}, "register without a registry"),
        ({"schema": '"int"', "version": 2, "registry": True}, "a schema and a version"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(arguments, why):
    """Where the description is made."""
    if arguments.get("registry"):
        arguments = arguments | {"registry": of.SchemaRegistry("http://localhost:8081")}
    with pytest.raises(ConfigurationError, match=why):
        of.Avro(**arguments)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"url": "localhost:8081"}, "http"),
        ({"url": "http://me:hidden@localhost:8081"}, "without a login in it"),
        ({"url": "http://r", "username": "me"}, "go together"),
        ({"url": "http://r", "username": "me", "password": "hidden", "token": "hidden"}, "choose one login"),
        ({"url": "http://r", "oauth_client_id": "me"}, "go together"),
        ({"url": "http://r", "name": "a b"}, "name is letters"),
        ({"url": "http://r", "password": {"env": "NO_SUCH_VARIABLE"}}, "NO_SUCH_VARIABLE"),
        ({"url": "http://r", "ssl_ca": "/nowhere.pem"}, "cannot read the file"),
    ],
)
def test_a_registry_that_cannot_be_is_refused_without_its_secrets(arguments, why):
    """Likewise."""
    with pytest.raises(ConfigurationError, match=why) as error:
        of.SchemaRegistry(**arguments)
    assert "hidden" not in str(error.value)


def test_a_registry_shows_no_secret():
    """Neither where it is printed, nor where an error names the format that has it."""
    registry = of.SchemaRegistry(["https://a", "https://b"], username="me", password="hidden")
    assert "hidden" not in f"{registry!r} {registry} {of.Avro(registry=registry)} {registry.describe()}"
    assert registry.url == ("https://a", "https://b")


def test_two_registries_of_one_name_are_refused():
    """The checkpoint could not tell their ids apart; the same one twice is one."""
    one, other = of.SchemaRegistry("http://one"), of.SchemaRegistry("http://other")
    require_one_each([one, of.SchemaRegistry("http://one"), of.SchemaRegistry("http://other", name="other")])
    with pytest.raises(ConfigurationError, match="two schema registries of this job are called registry"):
        require_one_each([one, other])
