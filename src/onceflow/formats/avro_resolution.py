"""Logical types of Avro where a record's writer has others than its reader. Pure.

Avro resolves a writer's schema to a reader's by the bytes alone (``GenericDatumReader``, and so Spark's ``from_avro``):
milliseconds become microseconds of the same number, 12.34 by a scale of four 0.1234, and neither Avro nor most
registries call such a pair incompatible.
Must not know: Spark, registries, how bytes are read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from onceflow.formats.avro_schema import Schema, name_of, resolved, within

_LOGICAL: Final = {
    ("bytes", "decimal"), ("fixed", "decimal"), ("bytes", "big-decimal"), ("string", "uuid"), ("fixed", "uuid"),
    ("fixed", "duration"), ("int", "date"), ("int", "time-millis"), ("long", "time-micros"),
    *(("long", f"{of}-{unit}") for of in ("timestamp", "local-timestamp") for unit in ("millis", "micros", "nanos")),
}  # fmt: skip
_TURNED: Final = ("millis", "micros")
"""Units of instants that Spark has one type for."""
_WIDER: Final = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}


class Resolution(NamedTuple):
    """How what one writer has written is read.

    Attributes:
        reader: The reader's schema with the units and scales that the writer's values have.
        misfits: What has other values than the reader's in a way that nothing turns into it; each in words. Empty: all
            fits, or Avro itself says what does not.
    """

    reader: Schema
    misfits: tuple[str, ...]


def resolution(reader: Schema, writer: Schema) -> Resolution:
    """Look at each pair of types that Avro would resolve, by names, aliases and branches of unions.

    Instants are read in the writer's unit, a decimal by the writer's scale if the reader's holds each of its values.
    Where one of the two has no logical type, its number, or its bytes, are what is asked for; but for a decimal, which
    has no value without a scale.

    Args:
        reader: As ``parse`` gives it.
        writer: Likewise.
    """
    wanted: dict[int, Mapping[str, object]] = {}
    misfits = []
    for path, of_reader, of_writer in _pairs("", resolved(reader), resolved(writer)):
        turned = _turned(of_reader, of_writer)
        told = f"{f'field {path}' if path else 'the record'} is {_in_words(of_writer)} there"
        if turned is None:
            misfits.append(f"{told}, and not {_in_words(of_reader)}")
        elif wanted.setdefault(id(of_reader), turned) != turned:
            misfits.append(f"{told}, and the same type is another one elsewhere")
    return Resolution(_with(reader, wanted), tuple(misfits))


def _pairs(path: str, reader: Schema, writer: Schema) -> Iterator[tuple[str, Schema, Schema]]:
    """Types without others inside, each with the one that it is resolved to."""
    if isinstance(writer, list):
        for each in writer:
            if each != "null":
                yield from _pairs(path, reader, each)
    elif isinstance(reader, list):
        branch = _branch(reader, writer)
        if branch is not None:
            yield from _pairs(path, branch, writer)
    else:
        match reader, writer:
            case {"fields": of_reader}, {"fields": of_writer}:
                for field in of_reader:
                    names = (field["name"], *field.get("aliases", ()))
                    found = next((each for name in names for each in of_writer if each["name"] == name), None)
                    if found is not None:
                        inner = f"{path}.{field['name']}" if path else field["name"]
                        yield from _pairs(inner, field["type"], found["type"])
            case {"items": of_reader}, {"items": of_writer}:
                yield from _pairs(f"{path}[]", of_reader, of_writer)
            case {"values": of_reader}, {"values": of_writer}:
                yield from _pairs(f"{path}{{}}", of_reader, of_writer)
            case _:
                yield path, reader, writer


def _branch(union: Sequence[Schema], writer: Schema) -> Schema | None:
    """That of a reader's union which Avro takes: of the same name, else of the same type, else of a wider one."""
    kind = _kind(writer)
    same = [each for each in union if _kind(each) == kind]
    named = [each for each in same if isinstance(each, dict) and each.get("name") == writer.get("name")]
    wider = [each for name in _WIDER.get(kind, ()) for each in union if _kind(each) == name]
    return next(iter([*named, *same, *wider]), None)


def _kind(schema: Schema) -> str:
    return str(schema["type"] if isinstance(schema, dict) else schema)


def _logical(schema: Schema) -> str | None:
    """What Avro knows; another name, or one upon another type, it passes over."""
    found = schema.get("logicalType") if isinstance(schema, dict) else None
    return found if (_kind(schema), found) in _LOGICAL else None


def _turned(reader: Schema, writer: Schema) -> Mapping[str, object] | None:
    """What is changed of the reader's type so that the writer's value is read as it is; None where nothing does."""
    read, written = _logical(reader), _logical(writer)
    if read == written == "decimal":
        return _turned_decimal(reader, writer)
    if read is None or read == written or (written is None and read != "decimal"):
        return {}
    if written is None:
        return None
    (family, _, unit), (other, _, written_unit) = read.rpartition("-"), written.rpartition("-")
    are_instants = all(each.endswith("timestamp") for each in (family, other))
    if are_instants and unit in _TURNED and written_unit in _TURNED:
        return {"logicalType": f"{family}-{written_unit}"}
    return {} if are_instants and unit == written_unit else None


def _turned_decimal(reader: Schema, writer: Schema) -> Mapping[str, object] | None:
    (digits, scale), (written, written_scale) = ((each["precision"], each.get("scale", 0)) for each in (reader, writer))
    if scale == written_scale:
        return {}
    loses_nothing = scale > written_scale and digits - scale >= written - written_scale
    return {"precision": written, "scale": written_scale} if loses_nothing else None


def _in_words(schema: Schema) -> str:
    if _logical(schema) == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    return name_of(schema)


def _with(schema: Schema, wanted: Mapping[int, Mapping[str, object]]) -> Schema:
    """A schema of which the types that are wanted otherwise are changed, each told by what it is in memory."""
    match schema:
        case list():
            return [_with(each, wanted) for each in schema]
        case dict():
            return {**within(schema, lambda each: _with(each, wanted)), **wanted.get(id(schema), {})}
    return schema
