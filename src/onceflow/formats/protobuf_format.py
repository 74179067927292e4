"""Protobuf: a record's fields by a message, alone or with a schema registry's id before them.

Spark's own ``from_protobuf`` (its jar ``spark-protobuf``) is not used: it does not look for fields of another type in
messages inside, which are then their defaults in silence, and knows one schema a column. Google's parser in Python
does the work, in Spark's Python workers.
Must not know: Kafka, the registry's client, checkpoints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from onceflow.errors import ConfigurationError, SetupError
from onceflow.formats.contract import Format, PartOfRecord, RecordReading, column_named
from onceflow.formats.refused import NOT_UTF8, not_utf8, refusing, refusing_by
from onceflow.formats.registry import SchemaRegistry, require_a_schema
from onceflow.formats.schemas import present_schemas, subject_of
from onceflow.formats.times import as_written, times_read, times_wrong
from onceflow.formats.wire_form import unknown_in
from onceflow.options.arguments import named_fields, require_fields

try:
    from onceflow.formats.protobuf_fit import in_micros, names_in, require_fit
    from onceflow.formats.protobuf_reading import Decoder, ReadingPlan
    from onceflow.formats.protobuf_schema import (
        MisfitError,
        ProtobufSchema,
        kind_of,
        loads,
        message_in,
        readable,
        schema_of,
    )
    from onceflow.formats.protobuf_writing import Encoder, WritingPlan, head_of
except ImportError as missing:
    raise SetupError(
        f"protobuf, Google's library, is not installed: {missing}",
        harmless="always: nothing was started",
        cause="onceflow was installed without its extra protobuf",
        action="pip install 'onceflow[protobuf]', also where Spark's executors are",
    ) from None

if TYPE_CHECKING:
    from pyspark.sql import Column

_TIMES = "epoch-micros"


@named_fields
@dataclass(frozen=True)
class Protobuf(Format):
    """One message of Protobuf.

    With a registry a record is in Confluent's wire form: the byte 0, the id of the schema that it was written by, the
    message's place in it, the message. Each record is read by its own schema, and its fields become those of the
    reader's by their numbers, as Protobuf has it. A new id in the middle of the stream is looked up: the epoch
    begins again, and the job goes on with it by itself. Without a registry a record is the message alone.

    Types: numbers are of Spark's type that holds all of them (``uint32`` bigint, ``uint64`` decimal(20,0)), an enum
    is its name, ``google.protobuf.Timestamp`` a timestamp, a wrapper (``google.protobuf.Int32Value``) its value or
    null, ``repeated`` an array, a map a map, another message a struct. A field that is not there is null where the
    schema tells that from its default (``optional``, messages, ``oneof``), else the default. A message that is inside
    of itself, or without fields, is refused.

    Malformed are: what is no message of its schema, a field of another type (in messages inside, too), an enum's
    number without a name, a number that the reader's type does not hold, a time outside of the years 1 to 9999 or not
    plausible, an id or a message that is not known, and a null value (a tombstone).

    Writing: columns and fields are matched by their exact names; a field without a column is not written. What has no
    form (null in a field that is not ``optional``, a text that is none of an enum's names, a number outside of the
    field's) refuses its row by ``RowRefusedError``. The same row gives the same bytes.

    Args:
        schema: A class that protoc has generated (``payments_pb2.Payment``), or the bytes that ``protoc
            --include_imports --descriptor_set_out`` wrote. With a registry it may be left out at a source: then it is
            the subject's newest version; a sink writes by that alone.
        message: The message's full name; with None it is the class's, or the first of its file.
        registry: Where ids are looked up; None for records without an id.
        subject: The registry's name for what is in a topic; ``<topic>-value`` or ``<topic>-key`` where it is None.
        version: Of the subject, for the reader's schema. None is the newest at the first start on a checkpoint, which
            stays until a start names another one.

    Raises:
        ConfigurationError: The schema is none, or arguments do not go together.
    """

    schema: Any = None
    message: str | None = None
    registry: SchemaRegistry | None = None
    subject: str | None = None
    version: int | None = None

    def __post_init__(self) -> None:
        require_fields(self)
        of_registry = {name: getattr(self, name) for name in ("subject", "version")}
        require_a_schema("Protobuf", self.schema, self.registry, of_registry)
        if self.schema is not None:
            self._given()

    def _given(self) -> tuple[ProtobufSchema, str]:
        """The schema that was given, and its message's full name."""
        what = "the schema of Protobuf"
        if isinstance(self.schema, bytes):
            found = ProtobufSchema(self.schema)
            return found, readable(message_in(found, self.message, what), what).full_name
        descriptor = getattr(self.schema, "DESCRIPTOR", None)
        if descriptor is None or not hasattr(descriptor, "fields_by_name"):
            raise ConfigurationError(
                "the schema of Protobuf is neither a generated class nor bytes",
                cause=f"schema={type(self.schema).__name__}",
                action="give the class of a message (payments_pb2.Payment), or the bytes of a descriptor set",
            )
        found = schema_of(descriptor)
        return found, readable(message_in(found, self.message or descriptor.full_name, what), what).full_name

    def reading(self, part: PartOfRecord) -> RecordReading:
        """By the schemas of its registry, as far as they are known."""
        if self.registry is None:
            schema, name = self._given()
            return _ProtobufReading.of(ReadingPlan(schema, name, None), frozenset(), "")
        subject = subject_of(self.subject, part)
        given = None if self.schema is None else self._given()
        known = present_schemas(self.registry, subject).reading(
            self.registry,
            subject,
            "PROTOBUF",
            reader=None if given is None else given[0].dumps(),
            version=self.version,
            fails=part.fails,
        )
        whose = f"the schema of subject {subject}"
        schema = loads(known.reader, whose)
        asked = self.message if given is None else given[1]
        name = readable(message_in(schema, asked, whose, anywhere=given is not None), whose).full_name
        writers = {each: loads(text, f"schema {each}") for each, text in known.writers.items()}
        return _ProtobufReading.of(ReadingPlan(schema, name, writers), known.absent, self.registry.name)

    def encode(self, columns: Sequence[StructField], part: PartOfRecord) -> Column:
        """A message, behind the id of its schema where there is a registry.

        Raises:
            ConfigurationError: The columns do not fit the message, or a schema is given beside a registry.
            OnceflowError: The registry did not answer, or has none.
        """
        if self.registry is None:
            schema, name = self._given()
            whose, head = f"message {name}", b""
            message = message_in(schema, name, whose)
        else:
            if self.schema is not None:
                raise ConfigurationError(
                    "a sink of Protobuf writes by the newest schema of its registry's subject",
                    harmless="always: nothing was written",
                    cause="schema= and registry= are both given",
                    action="register the schema by your own way, and leave schema= away; message= says which message",
                )
            subject = subject_of(self.subject, part)
            found = present_schemas(self.registry, subject).writing(
                self.registry, subject, "PROTOBUF", text="", register=False
            )
            whose = f"schema {found.id} of subject {subject}"
            schema = loads(found.text, whose)
            message = readable(message_in(schema, self.message, whose, anywhere=False), whose)
            head = _head(found.id, message)
        require_fit(columns, message, whose)
        encoder = Encoder(WritingPlan(schema, message.full_name, head, names_in(columns)))
        row = F.struct(*(in_micros(column_named(each.name), each.dataType).alias(each.name) for each in columns))
        texts = [
            (strange, each.name, each.dataType, NOT_UTF8)
            for each in columns
            if (strange := not_utf8(column_named(each.name), each.dataType)) is not None
        ]
        refusal = refusing(texts)
        made = F.udf(encoder, _WRITTEN, useArrow=False)(row)
        whole = F.when(made["why"].isNotNull(), refusing_by(made["column"], made["why"])).otherwise(made["value"])
        return whole if refusal is None else F.when(refusal == F.lit(""), whole)


def _head(schema_id: int, message: Any) -> bytes:
    try:
        return head_of(schema_id, message)
    except MisfitError as error:
        raise ConfigurationError(
            f"schema {schema_id} cannot be written by: {error}",
            harmless="always: nothing was written",
            cause="where a message stands in its schema's file is written before each record",
            action="give the topic a message of its own in the file, not inside of another one",
        ) from None


_WRITTEN = StructType().add("value", BinaryType()).add("column", StringType()).add("why", StringType())


@dataclass(frozen=True)
class _ProtobufReading(RecordReading):
    """Protobuf with its schemas known.

    Attributes:
        reading: By what records are read.
        known: Ids that need not be looked up.
        registry: The registry's name; "" where records have no id.
        kind: The type of a message.
    """

    reading: ReadingPlan
    known: frozenset[int]
    registry: str
    kind: StructType

    @classmethod
    def of(cls, reading: ReadingPlan, absent: frozenset[int], registry: str) -> _ProtobufReading:
        """With what follows from the schemas."""
        kind = kind_of(message_in(reading.reader, reading.message, "the schema of Protobuf"))
        return cls(reading, frozenset(reading.writers or {}) | absent, registry, kind)

    def fields(self) -> StructType:
        """Those of a message."""
        return self.kind

    def parsed(self, column: Column) -> Column:
        """A struct of the fields, times as microseconds, and of why the record is malformed."""
        kind = StructType().add("value", as_written(self.kind, _TIMES)).add("wrong", StringType())
        return F.udf(Decoder(self.reading), kind, useArrow=False)(column)

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:  # noqa: ARG002 - the contract's
        """See ``Protobuf``."""
        return reduce(or_, times_wrong(parsed["value"], self.kind, _TIMES, latest), parsed["wrong"].isNotNull())

    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:  # noqa: ARG002 - the contract's
        """The first that holds."""
        return F.coalesce(parsed["wrong"], F.lit("it has a time that is not plausible: see max_ahead"))

    def columns(self, parsed: Column) -> list[Column]:
        """Each field, times as times."""
        value = parsed["value"]
        return [times_read(value.getField(each.name), each.dataType, _TIMES).alias(each.name) for each in self.kind]

    def unknown(self, column: Column) -> Column | None:
        """The registry's name and the id of a schema that is not known yet."""
        return None if self.reading.writers is None else unknown_in(column, self.registry, self.known)
