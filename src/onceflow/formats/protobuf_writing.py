"""From values to a record of Protobuf. Pure; it runs in Spark's workers.

What would be read again as another value (null as a default, a number that does not fit) is told here.
Must not know: Spark, registries, where records go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

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
    path_of,
)
from onceflow.formats.wire_form import head

_F = FieldDescriptor
Value = Any
Make = Callable[[Any], Value]


@dataclass(frozen=True)
class WritingPlan:
    """By what records are written; small enough to stand in a plan.

    Attributes:
        schema: The schema.
        message: The message's full name.
        head: What stands before each record.
        columns: The names of the values, in their order, with those inside of them: ``(name, ())`` or
            ``(name, ((inner, ()), …))``.
    """

    schema: ProtobufSchema
    message: str
    head: bytes
    columns: tuple[tuple[str, Any], ...]


def head_of(schema_id: int, message: Descriptor) -> bytes:
    """What Confluent's serializers write before a record: the byte 0, the schema's id, the message's place."""
    path = path_of(message)
    place = b"\0" if path == (0,) else b"".join(_zigzag(each) for each in (len(path), *path))
    return head(schema_id) + place


def _zigzag(number: int) -> bytes:
    value, found = number << 1, bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


class Encoder:
    """From a row's values to a record. It goes to Spark's Python workers, and makes what it needs there.

    Args:
        writing: By what.
    """

    def __init__(self, writing: WritingPlan) -> None:
        self._writing = writing
        self._made: tuple[_Put, Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Encoder, (self._writing,)

    def __call__(self, row: Sequence[Value]) -> tuple[bytes | None, str | None, str | None]:
        """A record, None and None; or None, the column that has no form, and why.

        The same values give the same bytes. Times are whole microseconds since 1970.
        """
        if self._made is None:
            self._made = _writer(self._writing)
        put, of_class = self._made
        message = of_class()
        try:
            put(message, row)
        except MisfitError as error:
            column, why = error.args
            return None, column, why
        return self._writing.head + message.SerializeToString(deterministic=True), None, None


_Put = Callable[[Any, Any], None]


@lru_cache(maxsize=64)
def _writer(writing: WritingPlan) -> tuple[_Put, Any]:
    message = message_in(writing.schema, writing.message, "the schema of Protobuf", whole=True)
    return _putting(message, writing.columns), GetMessageClass(message)


def _putting(message: Descriptor, columns: Sequence[tuple[str, Any]]) -> _Put:
    fields = [message.fields_by_name[name] for name, _ in columns]
    parts = [(of, _put(of, inner)) for of, (_, inner) in zip(fields, columns, strict=True)]
    exclusive = [
        [at for at, of in enumerate(fields) if of.containing_oneof is not None and of.containing_oneof.name == oneof]
        for oneof in message.oneofs_by_name
    ]
    exclusive = [each for each in exclusive if len(each) > 1]

    def put(to: Any, row: Sequence[Value]) -> None:
        for each in exclusive:
            if sum(row[at] is not None for at in each) > 1:
                others = ", ".join(fields[at].name for at in each)
                raise MisfitError(fields[each[0]].name, f"is one of {others}, of which one at most may have a value")
        for (of, part), value in zip(parts, row, strict=True):
            try:
                part(to, value)
            except MisfitError as error:
                raise MisfitError(of.name, error.args[-1]) from None
            except (ValueError, OverflowError):
                raise MisfitError(of.name, f"has a value that {name_of(of)} does not hold") from None

    return put


def _put(of: Descriptor, inner: Any) -> _Put:
    name = of.name
    if is_map(of):
        to_value = _made(of.message_type.fields_by_name["value"], inner)
        to_key = _made(of.message_type.fields_by_name["key"], ())
        return lambda to, value: _fill_map(getattr(to, name), value, to_key, to_value, of)
    made = _made(of, inner)
    if of.is_repeated:
        return lambda to, value: _fill(getattr(to, name), value, made)
    if of.type in MESSAGES:

        def put(to: Any, value: Value) -> None:
            getattr(to, name).SetInParent()  # an empty one is there, too
            getattr(to, name).CopyFrom(made(value))
    else:

        def put(to: Any, value: Value) -> None:
            setattr(to, name, made(value))

    if of.has_presence and not of.is_required:
        return lambda to, value: None if value is None else put(to, value)
    why = "is required" if of.is_required else "is not optional: it would be read as its default"
    return lambda to, value: put(to, _there(value, f"is null, and the schema's field {why}"))


def _there(value: Value, why: str) -> Value:
    if value is None:
        raise MisfitError(why)
    return value


def _fill(to: Any, values: Value, made: Make) -> None:
    for each in _there(values, "is null, and a repeated field is not: F.coalesce(column, F.array())"):
        to.append(made(_there(each, "has a null inside, and a repeated field has none")))


def _fill_map(to: Any, values: Value, to_key: Make, to_value: Make, of: Descriptor) -> None:
    is_message = of.message_type.fields_by_name["value"].type in MESSAGES
    for key, value in _there(values, "is null, and a map is not: F.coalesce(column, F.create_map())").items():
        made = to_value(_there(value, "has a null inside, and a map has none"))
        if is_message:
            to[to_key(key)].CopyFrom(made)
        else:
            to[to_key(key)] = made


def _made(of: Descriptor, inner: Any) -> Make:
    """From one value to what a message's field takes."""
    if of.type in MESSAGES:
        return _made_message(of, inner)
    if of.type == _F.TYPE_ENUM:
        return _number(of)
    if of.type in RANGES:
        return _whole(*RANGES[of.type])
    return bytes if of.type == _F.TYPE_BYTES else _same


def _same(value: Value) -> Value:
    return value


def _number(of: Descriptor) -> Make:
    # Of several names of a number the first is what it is read as.
    first: dict[int, str] = {each.number: each.name for each in reversed(of.enum_type.values)}
    numbers = {name: each for each, name in first.items()}

    def number(value: str) -> int:
        if value not in numbers:
            raise MisfitError("is none of the enum's names, or another name of one")
        return numbers[value]

    return number


def _whole(first: int, last: int) -> Make:
    def whole(value: Any) -> int:
        found = int(value)
        if not first <= found <= last:
            raise ValueError
        return found

    return whole


def _made_message(of: Descriptor, inner: Any) -> Make:
    of_class = GetMessageClass(of.message_type)
    if is_time(of):

        def time(micros: int) -> Any:
            seconds, rest = divmod(micros, 1_000_000)
            if not FIRST_S <= seconds < END_S:
                raise ValueError
            return of_class(seconds=seconds, nanos=rest * 1_000)

        return time
    if is_wrapper(of):
        made = _made(of.message_type.fields_by_number[1], ())
        return lambda value: of_class(value=made(value))
    put = _putting(of.message_type, inner)

    def message(row: Sequence[Value]) -> Any:
        found = of_class()
        put(found, row)
        return found

    return message
