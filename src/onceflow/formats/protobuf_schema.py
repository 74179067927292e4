"""Schemas of Protobuf as values: files of descriptors, a message of them, and the type of Spark's that it is read as.

``google.protobuf`` (the extra ``protobuf``) holds descriptors; Google's language guide says what they mean.
Must not know: registries, Spark's session, the bytes of records.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from onceflow.errors import ConfigurationError
from onceflow.twophase.forms import OTHER_FORM

Descriptor = Any
"""A message's or a field's descriptor: ``google.protobuf`` has no types of its own."""

_TIMESTAMP: Final = ("google.protobuf.Timestamp", [1, 2])
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{of}Value"
    for of in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
"""Messages around one value, which say by their presence that it is not null."""
_TAKEN: Final = frozenset(("CopyFrom", "FromString", "HasField", "IsInitialized", "SerializeToString", "SetInParent"))
"""What messages are asked by here: a field of such a name would stand in its place."""

_F = FieldDescriptor
RANGES: Final[Mapping[int, tuple[int, int]]] = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), (-(2**31), 2**31 - 1)),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), (0, 2**32 - 1)),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), (-(2**63), 2**63 - 1)),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), (0, 2**64 - 1)),
}
"""By the type of a whole number: its least and its greatest value."""
UNSIGNED_64: Final = DecimalType(20, 0)
_KINDS: Final[Mapping[int, DataType]] = {
    **{
        of: IntegerType() if last < 2**31 else LongType() if last < 2**63 else UNSIGNED_64
        for of, (_, last) in RANGES.items()
    },
    _F.TYPE_FLOAT: FloatType(),
    _F.TYPE_DOUBLE: DoubleType(),
    _F.TYPE_BOOL: BooleanType(),
    _F.TYPE_STRING: StringType(),
    _F.TYPE_BYTES: BinaryType(),
    _F.TYPE_ENUM: StringType(),
}
MESSAGES: Final = (_F.TYPE_MESSAGE, _F.TYPE_GROUP)
_NAMES: Final = {getattr(_F, name): name.removeprefix("TYPE_").lower() for name in dir(_F) if name.startswith("TYPE_")}


class MisfitError(Exception):
    """A value that has no form on the other side. Its text names a field, and never holds a value."""


@dataclass(frozen=True)
class ProtobufSchema:
    """A file of Protobuf's with all that it imports.

    Attributes:
        compiled: A ``FileDescriptorSet``; each file behind those that it imports, the last is the one that is meant.
        texts: The texts that it was made of, by their files' names; empty where it came compiled.
    """

    compiled: bytes
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)

    def dumps(self) -> str:
        """As JSON, for the checkpoint."""
        of = {"compiled": base64.b64encode(self.compiled).decode(), "texts": dict(self.texts)}
        return json.dumps({"protobuf": of}, sort_keys=True)


def loads(text: str, what: str) -> ProtobufSchema:
    """What ``ProtobufSchema.dumps`` wrote.

    Args:
        text: It.
        what: Whose it is, for the message.

    Raises:
        ConfigurationError: It is none.
    """
    try:
        of = json.loads(text)["protobuf"]
        return ProtobufSchema(base64.b64decode(of["compiled"], validate=True), dict(of["texts"]))
    except OTHER_FORM:
        raise _wrong(what, "it is none of Protobuf") from None


def schema_of(message: Descriptor) -> ProtobufSchema:
    """The schema of a generated class's message."""
    files: dict[str, bytes] = {}
    found = FileDescriptorSet()

    def add(file: Descriptor) -> None:
        if file.name not in files:
            files[file.name] = file.serialized_pb
            for other in file.dependencies:
                add(other)
            found.file.add().MergeFromString(file.serialized_pb)

    add(message.file)
    return ProtobufSchema(found.SerializeToString(deterministic=True))


def message_in(
    schema: ProtobufSchema, name: str | None, what: str, *, anywhere: bool = True, whole: bool = False
) -> Descriptor:
    """A message's descriptor.

    Args:
        schema: Where.
        name: Its full name, or in the file that is meant its name; None for the first message of that file.
        what: Whose schema it is, for the message.
        anywhere: Also in the files that are imported.
        whole: The name is a full one.

    Raises:
        ConfigurationError: There is none.
    """
    pool, file = _pool(schema.compiled, what)
    own = list(file.message_types_by_name.values())
    found = None
    if name is None:
        found = own[0] if own else None
    else:
        for full in [name, f"{file.package}.{name}"] if file.package and not whole else [name]:
            try:
                found = pool.FindMessageTypeByName(full)
                break
            except KeyError:
                continue
    if found is None or not (anywhere or found.file.name == file.name):
        has = ", ".join(each.full_name for each in own) or "no message"
        raise _wrong(what, f"it has {f'no message {name}' if name else 'no message'}; its file {file.name} has {has}")
    return found


def readable(message: Descriptor, what: str) -> Descriptor:
    """A message, if Spark has a type for it.

    Raises:
        ConfigurationError: It has none; says which part.
    """
    for trouble in _troubles(message, "", (), set()):
        raise _wrong(what, trouble)
    return message


def path_of(message: Descriptor) -> tuple[int, ...]:
    """Where a message stands in its file: its number among the file's, and inside of others their numbers first.

    Raises:
        MisfitError: It stands inside of a message with a map, whose entries are messages there to some programs that
            count, Confluent's for Python, and not to others, those for Java.
    """
    outer = message.containing_type
    if outer is not None and any(is_map(each) for each in outer.fields):
        raise MisfitError(
            f"{message.full_name} stands inside of {outer.full_name}, which has a map: programs count its place "
            "differently"
        )
    siblings = message.file.message_types_by_name if outer is None else outer.nested_types_by_name
    at = list(siblings).index(message.name)
    return (at,) if outer is None else (*path_of(outer), at)


@lru_cache(maxsize=256)
def _pool(compiled: bytes, what: str) -> tuple[Any, Descriptor]:
    pool, name = DescriptorPool(), ""
    try:
        for each in FileDescriptorSet.FromString(compiled).file:
            name = each.name
            pool.Add(each)
        return pool, pool.FindFileByName(name)
    except Exception as error:  # noqa: BLE001 - upb raises errors of several kinds, DecodeError among them
        raise _wrong(what, f"file {name or '?'} does not stand with those before it ({type(error).__name__})") from None


def _wrong(what: str, trouble: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what} is no schema of Protobuf that can be read here: {trouble}",
        harmless="always: nothing was read or written",
        cause="message=, or the descriptors: protoc --include_imports --descriptor_set_out=FILE writes them whole",
        action="correct it; docs/formats.md says which types there are. What has no type in Spark is read as Raw()",
    )


# -- types ------------------------------------------------------------------------------------------------------------


def names_in_the_way(message: Descriptor) -> list[str]:
    """Names by which Google's library could not be asked for the message."""
    return sorted(_TAKEN & set(message.fields_by_name))


def _troubles(message: Descriptor, path: str, inside: tuple[str, ...], seen: set[str]) -> Iterator[str]:
    """Why Spark has no type for a message, the first first."""
    if message.full_name in inside:
        yield f"{message.full_name} is inside of itself, and Spark's types end somewhere"
        return
    if message.full_name in seen:
        return
    for name in names_in_the_way(message):
        yield f"message {message.full_name} has a name {name}, which is one of Google's library's own"
    if not message.fields:
        yield f"message {message.full_name}{f' of field {path[:-1]}' if path else ''} has no fields"
    names: set[str] = set()
    for each in message.fields:
        if each.name.lower() in names:
            yield f"message {message.full_name} has two fields {each.name}: Spark ignores the case of names"
        names.add(each.name.lower())
        if each.type in MESSAGES and not (is_time(each) or is_wrapper(each)):
            yield from _troubles(each.message_type, f"{path}{each.name}.", (*inside, message.full_name), seen)
    seen.add(message.full_name)


def is_time(of: Descriptor) -> bool:
    """Whether a field of messages is Google's Timestamp."""
    message = of.message_type
    return (message.full_name, [each.number for each in message.fields]) == _TIMESTAMP


def is_wrapper(of: Descriptor) -> bool:
    """Whether a field of messages is one of Google's wrappers."""
    message = of.message_type
    return message.full_name in _WRAPPERS and list(message.fields_by_number) == [1]


def is_map(of: Descriptor) -> bool:
    """Whether a field is a map."""
    return bool(of.type in MESSAGES and of.is_repeated and of.message_type.GetOptions().map_entry)


def kind_of(message: Descriptor) -> StructType:
    """The type that a message is read as."""
    return StructType([StructField(each.name, _kind_of_field(each)) for each in message.fields])


def _kind_of_field(of: Descriptor) -> DataType:
    if is_map(of):
        key, value = (of.message_type.fields_by_name[name] for name in ("key", "value"))
        return MapType(_kind_of_one(key), _kind_of_one(value))
    one = _kind_of_one(of)
    return ArrayType(one) if of.is_repeated else one


def _kind_of_one(of: Descriptor) -> DataType:
    if of.type not in MESSAGES:
        return _KINDS[of.type]
    if is_time(of):
        return TimestampType()
    if is_wrapper(of):
        return _KINDS[of.message_type.fields_by_number[1].type]
    return kind_of(of.message_type)


def name_of(of: Descriptor) -> str:
    """A field's type in a word or two: ``repeated uint64``, ``map<string, bank.Amount>``."""
    if is_map(of):
        key, value = (of.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{name_of(key)}, {name_of(value)}>"
    named = of.message_type or of.enum_type
    return f"{'repeated ' if of.is_repeated else ''}{named.full_name if named else _NAMES[of.type]}"
