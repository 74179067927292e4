"""Logical types of Avro where a record's writer has others than its reader. Pure.

Avro resolves a writer's schema to a reader's by the bytes alone (``GenericDatumReader``, and so Spark's ``from_avro``):
milliseconds become microseconds of the same number, 12.34 by a scale of four 0.1234, and neither Avro nor most
registries call such a pair incompatible. What is not sure here is a misfit: a record that is refused by its field's
name does less harm than one with another value.
Must not know: Spark, registries, how bytes are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from onceflow.formats.avro_schema import Schema, name_of, resolved, within

_LOGICAL: Final = {
    ("bytes", "decimal"), ("fixed", "decimal"), ("bytes", "big-decimal"), ("string", "uuid"), ("fixed", "uuid"),
    ("fixed", "duration"), ("int", "date"), ("int", "time-millis"), ("long", "time-micros"),
    *(("long", f"{of}-{unit}") for of in ("timestamp", "local-timestamp") for unit in ("millis", "micros", "nanos")),
}  # fmt: skip
_TURNED: Final = {"millis", "micros"}
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


class _Pair(NamedTuple):
    """A type without others inside, and the one that it is resolved to.

    Attributes:
        path: Where it is.
        reader: The reader's.
        writer: The writer's.
        is_sure: Nothing else of the reader's may be what Avro takes.
    """

    path: str
    reader: Schema
    writer: Schema
    is_sure: bool


def resolution(reader: Schema, writer: Schema) -> Resolution:
    """Look at each pair of types that Avro would resolve, by names, aliases and branches of unions.

    Instants are read in the writer's unit, a decimal by the writer's scale if the reader's holds each of its values.
    Where one of the two has no logical type, its number, or its bytes, are what is asked for; but for a decimal, which
    has no value without a scale.

    Args:
        reader: As ``parse`` gives it.
        writer: Likewise.
    """
    whole, misfits = resolved(reader), []
    turns: dict[int, list[tuple[_Pair, Mapping[str, object]]]] = {}
    for pair in _pairs("", whole, resolved(writer), is_sure=True):
        turned = _turned(pair.reader, pair.writer)
        if turned is None:
            misfits.append(f"{_there(pair)}, and not {_in_words(pair.reader)}")
        elif turned and not pair.is_sure:
            misfits.append(f"{_there(pair)}, and of what it is read as there is more than one")
        elif turned:
            turns.setdefault(id(pair.reader), []).append((pair, turned))
    # A type with a name may stand in several places, of which some have a default, or another unit.
    places = Counter(map(id, _leaves(whole)))
    for of, found in turns.items():
        (first, wanted), paths = found[0], {pair.path for pair, _ in found}
        if len(paths) != places[of] or any(turned != wanted for _, turned in found):
            misfits.append(f"{_there(first)}, and the same type is another one elsewhere")
    return Resolution(_with(reader, {of: found[0][1] for of, found in turns.items()}), tuple(misfits))


def _there(pair: _Pair) -> str:
    return f"{f'field {pair.path}' if pair.path else 'the record'} is {_in_words(pair.writer)} there"


def _pairs(path: str, reader: Schema, writer: Schema, *, is_sure: bool) -> Iterator[_Pair]:
    if isinstance(writer, list):
        for each in writer:
            yield from _pairs(path, reader, each, is_sure=is_sure)
    elif isinstance(reader, list):
        # Which of several Avro takes hangs on names, aliases and what is inside.
        same = [each for each in reader if _kind(each) == _kind(writer)]
        found = same or [each for each in reader if _kind(each) in _WIDER.get(_kind(writer), ())]
        for each in found:
            yield from _pairs(path, each, writer, is_sure=is_sure and len(found) == 1)
    else:
        match reader, writer:
            case {"fields": of_reader}, {"fields": of_writer}:
                for field in of_reader:
                    yield from _pairs_of_field(path, field, {each["name"]: each for each in of_writer}, is_sure=is_sure)
            case {"items": of_reader}, {"items": of_writer}:
                yield from _pairs(f"{path}[]", of_reader, of_writer, is_sure=is_sure)
            case {"values": of_reader}, {"values": of_writer}:
                yield from _pairs(f"{path}{{}}", of_reader, of_writer, is_sure=is_sure)
            case _ if _kind(reader) == _kind(writer) or _kind(reader) in _WIDER.get(_kind(writer), ()):
                yield _Pair(path, reader, writer, is_sure)


def _pairs_of_field(
    path: str, field: Mapping[str, Any], of_writer: Mapping[str, Any], *, is_sure: bool
) -> Iterator[_Pair]:
    """By its name; by another one only where the records' names allow it, which is not looked at."""
    inner = f"{path}.{field['name']}" if path else field["name"]
    for name in (field["name"], *field.get("aliases", ())):
        if name in of_writer:
            is_named = name == field["name"]
            yield from _pairs(inner, field["type"], of_writer[name]["type"], is_sure=is_sure and is_named)
            return


def _leaves(schema: Schema) -> Iterator[Schema]:
    """Each place of a type without others inside, in a schema whose names are resolved."""
    match schema:
        case list():
            for each in schema:
                yield from _leaves(each)
        case {"fields": fields}:
            for field in fields:
                yield from _leaves(field["type"])
        case {"items": inner} | {"values": inner}:
            yield from _leaves(inner)
        case _:
            yield schema


def _kind(schema: Schema) -> str:
    return str(schema["type"] if isinstance(schema, dict) else schema)


def _logical(schema: Schema) -> str | None:
    """What Avro knows; another name, one upon another type, and a decimal without digits it passes over."""
    found = schema.get("logicalType") if isinstance(schema, dict) else None
    if (_kind(schema), found) not in _LOGICAL:
        return None
    if found != "decimal":
        return str(found)
    digits, scale = schema.get("precision"), schema.get("scale", 0)
    are_numbers = type(digits) is int and type(scale) is int
    return found if are_numbers and 0 <= scale <= digits and digits > 0 else None


def _turned(reader: Schema, writer: Schema) -> Mapping[str, object] | None:
    """What is changed of the reader's type so that the writer's value is read as it is; None where nothing does."""
    read, written = _logical(reader), _logical(writer)
    if read is None:
        return None if written == "decimal" and _kind(reader) == "string" else {}
    if written is None:
        return None if read == "decimal" else {}
    if read == written:
        return _turned_decimal(reader, writer) if read == "decimal" else {}
    (family, _, unit), (other, _, written_unit) = read.rpartition("-"), written.rpartition("-")
    if not (family.endswith("timestamp") and other.endswith("timestamp")):
        return None
    if unit == written_unit:
        return {}
    return {"logicalType": f"{family}-{written_unit}"} if {unit, written_unit} <= _TURNED else None


def _turned_decimal(reader: Schema, writer: Schema) -> Mapping[str, object] | None:
    """Spark reads a number of too many digits by its last 64 bits, so the reader's has to have place for all."""
    (digits, scale), (written, written_scale) = ((each["precision"], each.get("scale", 0)) for each in (reader, writer))
    if scale < written_scale or digits - scale < written - written_scale:
        return None
    return {} if scale == written_scale else {"precision": written, "scale": written_scale}


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
