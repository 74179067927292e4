"""Schemas of Avro as values: parsed, looked at, made of columns, and compared with columns. Pure.

Avro 1.12's specification says what a schema is; which of Spark's types each one is read as, Spark's jar says
(``SchemaConverters``). Must not know: registries, Spark's session, how bytes are read or written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
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

from onceflow.errors import ConfigurationError
from onceflow.twophase.forms import OTHER_FORM

Schema = Any
"""A schema as JSON has it: a name, a list (a union) or an object."""

_PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OF_DAY: Final = frozenset({"time-millis", "time-micros"})
_MOST_DIGITS: Final = 38
_END_NAME: Final = "OnceflowEnd"
END: Final = b"\x1f\x9conce\xfe\x01"
"""What is put behind a record before it is read: where it is not found again, the record has another length."""


def parse(text: str, what: str) -> Schema:
    """A schema from its text, whole: each name in it is defined there, and none inside of itself.

    Args:
        text: JSON.
        what: Whose it is, for the message.

    Raises:
        ConfigurationError: It is no schema, or one that Spark has no type for; says which part.
    """
    try:
        schema = json.loads(text)
    except OTHER_FORM as error:
        raise _wrong(what, f"it is no JSON ({type(error).__name__})") from None
    for trouble in _troubles(schema, "", set(), ()):
        raise _wrong(what, trouble)
    return schema


def dumps(schema: Schema) -> str:
    """A schema as text, the same for the same schema."""
    return json.dumps(schema, separators=(",", ":"))


def _wrong(what: str, trouble: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what} is no schema of Avro that can be read here: {trouble}",
        harmless="always: nothing was read or written",
        cause="the schema's text",
        action="correct it; docs/formats.md says which types there are. What has no type in Spark is read as Raw()",
    )


def _troubles(schema: Schema, space: str, known: set[str], inside: tuple[str, ...]) -> Iterator[str]:
    """What is wrong, the first first. ``known`` grows by each name, in the order of the text, as Avro has it."""
    match schema:
        case str():
            name = _full(schema, space)
            if name in inside:
                yield f"{name} is inside of itself, and Spark's types end somewhere"
            elif schema not in _PRIMITIVES and name not in known:
                yield f"there is no type {schema}"
        case list():
            if not schema:
                yield "there is a union of nothing"
            for each in schema:
                yield from _troubles(each, space, known, inside)
        case {"type": "array", "items": of} | {"type": "map", "values": of}:
            yield from _troubles(of, space, known, inside)
        case {"type": str(kind), "name": str(named)} if kind in _NAMED:
            yield from _troubles_of_named(
                schema, kind, _full(named, str(schema.get("namespace", space))), known, inside
            )
        case {"type": "bytes", "logicalType": "decimal", "precision": int(precision)} if precision > _MOST_DIGITS:
            yield f"a decimal of {precision} digits: Spark's have at most {_MOST_DIGITS}"
        case {"type": str() | dict() | list() as of}:
            yield from _troubles(of, space, known, inside)
        case _:
            yield f"{json.dumps(schema)[:80]} is no type"


def _troubles_of_named(schema: Schema, kind: str, name: str, known: set[str], inside: tuple[str, ...]) -> Iterator[str]:
    if name in known:
        yield f"{name} is defined twice"
    known.add(name)
    if kind in ("record", "error"):
        fields = schema.get("fields")
        if not isinstance(fields, list):
            yield f"record {name} has no fields"
            return
        names: set[str] = set()
        for field in fields:
            if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
                yield f"record {name} has a field without name and type"
                return
            if not NAME.fullmatch(field["name"]):
                yield f"record {name} has a field {field['name']}: names are letters, digits and _"
            if field["name"].lower() in names:
                yield f"record {name} has two fields {field['name']}: Spark ignores the case of names"
            names.add(field["name"].lower())
            yield from _troubles(field["type"], name.rpartition(".")[0], known, (*inside, name))
    elif kind == "enum" and not isinstance(schema.get("symbols"), list):
        yield f"enum {name} has no symbols"
    elif kind == "fixed" and not isinstance(schema.get("size"), int):
        yield f"fixed {name} has no size"
    elif schema.get("logicalType") == "decimal" and int(schema.get("precision", 0)) > _MOST_DIGITS:
        yield f"decimal {name} has {schema['precision']} digits: Spark's have at most {_MOST_DIGITS}"


def _full(name: str, space: str) -> str:
    return name if "." in name or not space or name in _PRIMITIVES else f"{space}.{name}"


def inlined(schema: Schema, others: Mapping[str, Schema]) -> Schema:
    """A schema whose references to types of other texts are replaced by those, each where it comes first.

    Args:
        schema: The schema.
        others: By the full name that is referred to; such a text may refer to others of these.
    """
    left = dict(others)

    def whole(part: Schema, space: str) -> Schema:
        match part:
            case str():
                name = _full(part, space)
                found = name if name in left else part if part in left else None
                return part if found is None else whole(left.pop(found), "")
            case list():
                return [whole(each, space) for each in part]
            case dict():
                inner = str(part.get("namespace", space))
                if "." in str(part.get("name", "")):
                    inner = str(part["name"]).rpartition(".")[0]
                return within(part, lambda each: whole(each, inner))
        return part

    return whole(schema, "")


def within(part: Mapping[str, Any], changed: Callable[[Schema], Schema]) -> dict[str, Any]:
    """An object of a schema whose types, also those of its fields, are changed."""
    types = {key: changed(part[key]) for key in ("type", "items", "values") if key in part}
    fields = {"fields": [changed(each) for each in part["fields"]]} if "fields" in part else {}
    return {**part, **types, **fields}


def for_spark(schema: Schema) -> Schema:
    """A schema without what Spark's releases read differently: times of day are their numbers.

    The bytes that it stands for are the same.
    """
    match schema:
        case list():
            return [for_spark(each) for each in schema]
        case dict():
            of_day = schema.get("logicalType") in _OF_DAY
            return within({k: v for k, v in schema.items() if not (of_day and k == "logicalType")}, for_spark)
    return schema


def framed(schema: Schema) -> str:
    """The schema of a record with ``END`` behind it. Neither name has a namespace: those inside stay what they are."""
    end = {"name": "end", "type": {"type": "fixed", "name": _END_NAME, "size": len(END)}}
    fields = [{"name": "value", "type": for_spark(schema)}, end]
    return dumps({"type": "record", "name": "OnceflowFramed", "fields": fields})


# -- columns ----------------------------------------------------------------------------------------------------------


def of_columns(fields: Sequence[StructField]) -> Schema:
    """The schema that columns are written with where nobody gives one: a record, of which each field may be null.

    Raises:
        ConfigurationError: A name or a type has no form in Avro; names all of them.
    """
    wrong = list(_without_forms("", fields))
    if wrong:
        raise ConfigurationError(
            f"these columns have no form in Avro: {'; '.join(wrong)}",
            harmless="always: nothing was written",
            cause=f"the output has {', '.join(f'{field.name} {field.dataType.simpleString()}' for field in fields)}",
            action="rename them, or cast them, in the stream function",
            columns=[field.name for field in fields],
        )
    return _record("record", fields)


def _record(name: str, fields: Sequence[StructField]) -> Schema:
    of = [
        {"name": field.name, "type": ["null", _of_kind(field.dataType, f"{name}_{field.name}")], "default": None}
        for field in fields
    ]
    return {"type": "record", "name": name, "fields": of}


_SIMPLE: Final[Mapping[type[DataType], Schema]] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}


def _of_kind(kind: DataType, name: str) -> Schema:
    match kind:
        case DecimalType():
            return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        case ArrayType():
            return {"type": "array", "items": ["null", _of_kind(kind.elementType, name)]}
        case MapType():
            return {"type": "map", "values": ["null", _of_kind(kind.valueType, name)]}
        case StructType():
            return _record(name, kind.fields)
    return _SIMPLE[type(kind)]


def _without_forms(path: str, fields: Sequence[StructField]) -> Iterator[str]:
    for field in fields:
        name = f"{path}{field.name}"
        if not NAME.fullmatch(field.name):
            yield f"{name} is no name in Avro, which are letters, digits and _"
        yield from _without_form(name, field.dataType)


def _without_form(name: str, kind: DataType) -> Iterator[str]:
    match kind:
        case ArrayType():
            yield from _without_form(f"{name}[]", kind.elementType)
        case MapType():
            if not isinstance(kind.keyType, StringType):
                yield f"{name} is a map whose keys are {kind.keyType.simpleString()}, and Avro's are texts"
            yield from _without_form(f"{name}{{}}", kind.valueType)
        case StructType():
            yield from _without_forms(f"{name}.", kind.fields)
        case _ if not isinstance(kind, DecimalType) and type(kind) not in _SIMPLE:
            yield f"{name} is of type {kind.simpleString()}"


def parts(schema: Schema) -> tuple[Schema, bool]:
    """What a value is where it is not null, and whether it may be null. A union of more has no column."""
    if not isinstance(schema, list):
        return schema, schema == "null"
    rest = [each for each in schema if each != "null"]
    return (rest[0] if len(rest) == 1 else rest), len(rest) < len(schema)


def resolved(schema: Schema) -> Schema:
    """A schema that ``parse`` has taken, in which each name is replaced by what it stands for."""
    known: dict[str, Schema] = {}

    def whole(part: Schema, space: str) -> Schema:
        match part:
            case str():
                return known.get(_full(part, space), part)
            case list():
                return [whole(each, space) for each in part]
            case {"type": str(kind), "name": str(name)} if kind in _NAMED:
                full = _full(name, str(part.get("namespace", space)))
                known[full] = part
                if kind in ("record", "error"):
                    inner = full.rpartition(".")[0]
                    fields = [{**field, "type": whole(field["type"], inner)} for field in part["fields"]]
                    known[full] = {**part, "fields": fields}
                return known[full]
            case {"type": "array", "items": items}:
                return {**part, "items": whole(items, space)}
            case {"type": "map", "values": values}:
                return {**part, "values": whole(values, space)}
            case {"type": list() | dict() as of}:
                return whole(of, space)
        return part

    return whole(schema, "")


def name_of(schema: Schema) -> str:
    """A type in a word or two: ``long (timestamp-millis)``."""
    match schema:
        case list():
            return f"a union of {', '.join(map(name_of, schema))}"
        case {"type": str(kind), "logicalType": str(logical)}:
            return f"{kind} ({logical})"
        case {"type": str(kind)}:
            return kind
    return str(schema)
