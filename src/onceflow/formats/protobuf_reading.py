"""From a record of Protobuf to values: by its writer's schema into the reader's. Pure; it runs in Spark's workers.

Google's own parser does the work. A value that it would give in silence as another one, or not at all, is told here.
Must not know: Spark, registries, where records are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from math import copysign
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from onceflow.errors import ConfigurationError
from onceflow.formats.arrow_values import END_S, FIRST_S
from onceflow.formats.protobuf_schema import (
    MESSAGES,
    RANGES,
    Descriptor,
    MisfitError,
    ProtobufSchema,
    is_map,
    is_time,
    is_wrapper,
    message_in,
    name_of,
    names_in_the_way,
    path_of,
)
from onceflow.formats.wire_form import HEAD, WITHOUT_ID

_F = FieldDescriptor
_LONGEST: Final = 35
"""Bits of a number of a place: what goes on behind them is none."""
_NANOS: Final = 1_000_000_000

Value = Any
Read = Callable[[Any], Value]


@dataclass(frozen=True)
class ReadingPlan:
    """By what records are read; small enough to stand in a plan.

    Attributes:
        reader: The schema whose message becomes columns.
        message: That message's full name.
        writers: By id the schemas that records are written by; None where records have no id and are the reader's.
    """

    reader: ProtobufSchema
    message: str
    writers: Mapping[int, ProtobufSchema] | None

    def __hash__(self) -> int:
        return hash((self.reader, self.message, None if self.writers is None else tuple(self.writers.items())))


class Decoder:
    """From a record's bytes to its values. It goes to Spark's Python workers, and makes its parsers there.

    Args:
        reading: By what.
    """

    def __init__(self, reading: ReadingPlan) -> None:
        self._reading = reading
        self._made: _Parsers | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Decoder, (self._reading,)

    def __call__(self, record: bytes | bytearray | None) -> tuple[Value, str | None]:
        """The values in the order of the reader's fields, and None; or None, and why the record is malformed.

        Times are whole microseconds since 1970. The reason names fields, and never holds anything of the record.
        """
        if record is None:
            return None, "it is null, a tombstone"
        if self._made is None:
            self._made = _parsers(self._reading)
        data = bytes(record)
        if self._reading.writers is None:
            return _parsed(self._made[_NO_ID][()], data, "the schema")
        if not data:
            return None, "it is empty"
        if len(data) < HEAD or data[0] != 0:
            return None, WITHOUT_ID
        schema_id = int.from_bytes(data[1:HEAD], "big")
        if schema_id not in self._made:
            return None, f"schema {schema_id} is not in the registry, or is none of Protobuf that can be read"
        try:
            path, at = _path_in(data)
        except IndexError:
            return None, "it has no place of its message behind its schema's id"
        found = self._made[schema_id].get(path, self._made[schema_id].get(_NOWHERE))
        if found is None:
            return None, f"it is of another message of schema {schema_id} than {self._reading.message}"
        return _parsed(found, data[at:], f"schema {schema_id}")


def _parsed(found: _Parser | str, data: bytes, whose: str) -> tuple[Value, str | None]:
    if isinstance(found, str):
        return None, f"{whose} does not fit the reader's: {found}"
    try:
        return found(data), None
    except MisfitError as error:
        return None, str(error)
    except (DecodeError, ValueError, RecursionError, LookupError):
        return None, f"it is no record of {whose}"


_Parser = Callable[[bytes], Value]
_Parsers = dict[int, dict[tuple[int, ...], "_Parser | str"]]
"""By a schema's id and the message's place in it: how its records are read, or why there is no way."""
_NO_ID: Final = -1
_NOWHERE: Final = (-1,)


@lru_cache(maxsize=64)
def _parsers(reading: ReadingPlan) -> _Parsers:
    reader = message_in(reading.reader, reading.message, "the schema of Protobuf", whole=True)
    if reading.writers is None:
        return {_NO_ID: {(): _parser(reader, reader)}}
    found: _Parsers = {}
    for schema_id, schema in reading.writers.items():
        try:
            writer = message_in(schema, reading.message, f"schema {schema_id}", anywhere=False, whole=True)
            found[schema_id] = {path_of(writer): _parser(reader, writer)}
        except (ConfigurationError, MisfitError) as error:
            found[schema_id] = {_NOWHERE: str(getattr(error, "what", error))}
    return found


def _parser(reader: Descriptor, writer: Descriptor) -> _Parser | str:
    """From bytes to values; or why there is no way from the one to the other."""
    try:
        values, of_class = _message(reader, writer, ""), GetMessageClass(writer)
    except MisfitError as error:
        return str(error)

    def parsed(data: bytes) -> Value:
        message = of_class.FromString(data)
        if not message.IsInitialized():  # upb's FromString does not look
            raise MisfitError("a field that is required is not there")
        return values(message)

    return parsed


def _path_in(data: bytes) -> tuple[tuple[int, ...], int]:
    """A message's place as Confluent's serializers write it, and where the message begins.

    The count of numbers, then they, each as a zigzag varint; a single 0 stands for the first message of the file.
    """
    count, at = _varint(data, HEAD)
    if count == 0:
        return (0,), at
    found = []
    if not 0 < count <= len(data):
        raise IndexError
    for _ in range(count):
        number, at = _varint(data, at)
        found.append(number)
    return tuple(found), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while shift < _LONGEST:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise IndexError


# -- from a message to values -----------------------------------------------------------------------------------------


def _message(reader: Descriptor, writer: Descriptor, path: str) -> Read:
    """From a message of the writer's to values of the reader's fields, which are found by their numbers."""
    if names := names_in_the_way(writer):
        raise MisfitError(f"{writer.full_name} has a name {names[0]}, which is one of Google's library's own")
    theirs = {each.number: each for each in writer.fields}
    parts = [_field(each, theirs.get(each.number), f"{path}{each.name}") for each in reader.fields]

    def values(message: Any) -> Value:
        for unknown in UnknownFieldSet(message):
            # The parser puts aside what has another type on the wire, and an enum's number that has no name.
            if unknown.field_number in theirs:
                raise MisfitError(f"field {path}{theirs[unknown.field_number].name} is not of its schema's type")
        return tuple(part(message) for part in parts)

    return values


def _field(reader: Descriptor, writer: Descriptor | None, path: str) -> Read:
    if writer is None:
        if reader.is_required:
            raise MisfitError(f"field {path} is required, and is not there")
        absent = _absent(reader)
        return lambda _: absent
    name = writer.name
    if is_map(reader) or is_map(writer):
        if not (is_map(reader) and is_map(writer)):
            raise _other(reader, writer, path)
        ours, theirs = reader.message_type.fields_by_name, writer.message_type.fields_by_name
        key = _one(ours["key"], theirs["key"], f"{path}{{}}")
        value = _one(ours["value"], theirs["value"], f"{path}{{}}")
        return lambda message: {key(k): value(v) for k, v in getattr(message, name).items()}
    one = _one(reader, writer, path)
    if writer.is_repeated:
        if not reader.is_repeated:
            raise _other(reader, writer, path)
        return lambda message: [one(each) for each in getattr(message, name)]
    absent = _absent(reader)
    found = (lambda value: [one(value)]) if reader.is_repeated else one
    if writer.has_presence:
        return lambda message: found(getattr(message, name)) if message.HasField(name) else absent
    if reader.is_repeated:
        return lambda message: found(getattr(message, name)) if _is_written(getattr(message, name)) else absent
    return lambda message: found(getattr(message, name))


def _is_written(value: Value) -> bool:
    """Whether a value that has no presence is on the wire: -0.0 is."""
    return bool(value) or (isinstance(value, float) and copysign(1, value) < 0)


def _absent(reader: Descriptor) -> Value:
    """What a field is that is not there."""
    if is_map(reader):
        return {}
    if reader.is_repeated:
        return []
    if reader.has_presence:
        return None
    if reader.type == _F.TYPE_ENUM:
        return reader.enum_type.values[0].name
    return Decimal(0) if RANGES.get(reader.type, (0, 0))[1] == 2**64 - 1 else reader.default_value


def _one(reader: Descriptor, writer: Descriptor, path: str) -> Read:
    """From one value of the writer's type to the reader's, where nothing is lost."""
    ours, theirs = reader.type, writer.type
    if ours in RANGES and theirs in RANGES:
        return _whole(RANGES[ours], RANGES[theirs], path)
    if ours in MESSAGES and theirs in MESSAGES:
        return _one_message(reader, writer, path)
    match ours, theirs:
        case _F.TYPE_ENUM, _F.TYPE_ENUM:
            return _named(reader, path)
        case _F.TYPE_STRING, _F.TYPE_STRING:
            return _text(path)
        case _F.TYPE_STRING, _F.TYPE_BYTES:
            return lambda value: value.decode()
        case _F.TYPE_BYTES, _F.TYPE_STRING:
            return lambda value: value if isinstance(value, bytes) else value.encode()
        case (_F.TYPE_DOUBLE, _F.TYPE_FLOAT):
            return _same
    if ours != theirs:
        raise _other(reader, writer, path)
    return _same


def _named(reader: Descriptor, path: str) -> Read:
    names: dict[int, str] = {each.number: each.name for each in reversed(reader.enum_type.values)}

    def named(value: int) -> str:
        if value not in names:
            raise MisfitError(f"field {path} has a number that the reader's enum has no name for")
        return names[value]

    return named


def _text(path: str) -> Read:
    def text(value: str | bytes) -> str:
        if isinstance(value, bytes):  # so upb hands on what is not UTF-8, by a schema of proto2
            raise MisfitError(f"field {path} has a text that is not UTF-8")
        return value

    return text


def _same(value: Value) -> Value:
    return value


def _whole(ours: tuple[int, int], theirs: tuple[int, int], path: str) -> Read:
    made: Callable[[int], Value] = Decimal if ours[1] == 2**64 - 1 else int
    if ours[0] <= theirs[0] and theirs[1] <= ours[1]:
        return made

    def inside(value: int) -> Value:
        if not ours[0] <= value <= ours[1]:
            raise MisfitError(f"field {path} has a number that the reader's type does not hold")
        return made(value)

    return inside


def _one_message(reader: Descriptor, writer: Descriptor, path: str) -> Read:
    ours, theirs = reader.message_type, writer.message_type
    if any(special(reader) != special(writer) for special in (is_time, is_wrapper)):
        raise _other(reader, writer, path)
    whole = _message(ours, theirs, f"{path}.")
    if is_wrapper(reader):
        return lambda message: whole(message)[0]
    if is_time(reader):

        def micros(message: Any) -> int:
            seconds, nanos = whole(message)
            if not (FIRST_S <= seconds < END_S and 0 <= nanos < _NANOS):
                raise MisfitError(f"field {path} is no time")
            return int(seconds * 1_000_000 + nanos // 1_000)

        return micros
    return whole


def _other(reader: Descriptor, writer: Descriptor, path: str) -> MisfitError:
    return MisfitError(f"field {path} is {name_of(writer)}, and the reader's is {name_of(reader)}")
