"""Avro: a record's fields by a schema, alone or with a schema registry's id before them.

Spark's own ``from_avro`` and ``to_avro`` (its jar ``spark-avro``, Java's Avro inside) do the work, in the JVM. They
know no registry and one writer's schema; so the plan has one ``from_avro`` for each schema that records are written
by, chosen by the five bytes that Confluent's serializers put before a record (0, and the id, big-endian).

Must not know: Kafka, the registry's client, checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.avro.functions import from_avro, to_avro
from pyspark.sql.types import DataType, StructField, StructType

from onceflow.errors import ConfigurationError
from onceflow.formats.avro_fit import fitted, refusals, require_fit
from onceflow.formats.avro_resolution import resolution
from onceflow.formats.avro_schema import END, Schema, dumps, for_spark, framed, of_columns, parse, resolved
from onceflow.formats.contract import Format, PartOfRecord, RecordReading, column_named
from onceflow.formats.refused import not_utf8, refusing
from onceflow.formats.registry import SchemaRegistry, require_a_schema
from onceflow.formats.schemas import present_schemas, subject_of
from onceflow.formats.times import AS_TIMES, times_wrong
from onceflow.formats.wire_form import HEAD, WITHOUT_ID, has_head, head, id_in, is_one_of, unknown_in
from onceflow.options.arguments import named_fields, require_fields

if TYPE_CHECKING:
    from pyspark.sql import Column

_READING = {"mode": "PERMISSIVE", "enableStableIdentifiersForUnionType": "true", "datetimeRebaseMode": "CORRECTED"}


@named_fields
@dataclass(frozen=True)
class Avro(Format):
    """One record of Avro's binary encoding.

    With a registry a record is in Confluent's wire form: the byte 0, the id of the schema that it was written by, the
    record. A topic may have records of several such schemas; each is read by its own, and its fields become those of
    the reader's schema as Avro resolves them (defaults, aliases, wider types). A new id in the middle of the stream
    is looked up: the epoch begins again, and the job goes on with it by itself. Without a registry a record is its
    bytes, all of one schema.

    Types are Spark's: ``date``, ``timestamp-millis`` and ``-micros`` (``timestamp``), ``local-timestamp-…``
    (``timestamp_ntz``), ``decimal`` (up to 38 digits), ``uuid`` (``string``), an enum (``string``), ``fixed``
    (``binary``); times of day and nanoseconds are their whole numbers; a union of more than null and one type is a
    struct of which one field is not null. A schema that is inside of itself is refused.

    Malformed are: no id before the record, an id that the registry does not have, what is no record of its schema or
    does not fit the reader's, bytes behind the record, a text that is not UTF-8, a time that is not plausible, an
    empty value and a null one (a tombstone).

    Writing: columns and fields are matched by their exact names. What has no form (null where the schema allows none,
    a text that is none of an enum's symbols) refuses its row by ``RowRefusedError``.

    Args:
        schema: As JSON. At a source, what becomes columns (the reader's schema); at a sink, what is written. With a
            registry it may be left out: then it is the subject's newest version, or, at a sink that may register one,
            made of the columns, of which each may be null.
        registry: Where ids are looked up; None for records without an id.
        subject: The registry's name for what is in a topic; ``<topic>-value`` or ``<topic>-key`` where it is None.
        version: Of the subject, for the reader's schema. None is the newest at the first start on a checkpoint, which
            stays until a start names another one.
        register: A sink may register its schema, at its start and nowhere else, if it is compatible with the
            subject's. Without it the schema must be there.

    Raises:
        ConfigurationError: The schema is none, or arguments do not go together.
    """

    schema: str | None = None
    registry: SchemaRegistry | None = None
    subject: str | None = None
    version: int | None = None
    register: bool = False

    def __post_init__(self) -> None:
        require_fields(self)
        if self.schema is not None:
            parse(self.schema, "the schema of Avro")
        of_registry = {name: getattr(self, name) for name in ("subject", "version", "register")}
        require_a_schema("Avro", self.schema, self.registry, of_registry)

    def reading(self, part: PartOfRecord) -> RecordReading:
        """By the schemas of its registry, as far as they are known."""
        if self.registry is None:
            return reading_by(str(self.schema), None, frozenset(), "")
        subject = subject_of(self.subject, part)
        known = present_schemas(self.registry, subject).reading(
            self.registry, subject, "AVRO", reader=self.schema, version=self.version, fails=part.fails
        )
        return reading_by(known.reader, known.writers, known.absent, self.registry.name)

    def encode(self, columns: Sequence[StructField], part: PartOfRecord) -> Column:
        """A record, behind the id of its schema where there is a registry.

        Raises:
            ConfigurationError: The columns do not fit the schema.
            OnceflowError: The registry did not answer, or has none.
        """
        return encoded(self, columns, part, column_named)

    def require_readable(self) -> None:
        """Refuse what only a sink may do."""
        if self.register:
            raise ConfigurationError(
                "a source registers no schema",
                cause="register=True",
                action="leave it away; whoever writes the records registers it",
            )


def encoded(avro: Avro, columns: Sequence[StructField], part: PartOfRecord, of: Callable[[str], Column]) -> Column:
    """``Avro.encode`` of columns that stand elsewhere than in the row itself.

    Args:
        avro: By which.
        columns: Their names and types.
        part: Which bytes they become.
        of: Where each is, by its name.
    """
    if avro.registry is None:
        return _written(columns, parse(str(avro.schema), "the schema of Avro"), "the schema of Avro", of)
    asked = avro.schema or (dumps(of_columns(columns)) if avro.register else "")
    subject = subject_of(avro.subject, part)
    schemas = present_schemas(avro.registry, subject)
    found = schemas.writing(avro.registry, subject, "AVRO", text=asked, register=avro.register)
    whose = f"schema {found.id} of subject {subject}"
    body = _written(columns, parse(found.text, whose), whose, of)
    return F.concat(F.lit(head(found.id)), body)


@dataclass(frozen=True)
class _AvroReading(RecordReading):
    """Avro with its schemas known.

    Attributes:
        reader: The reader's schema, with its frame.
        writers: By id those of the writers that fit, and the reader's for each; None where records have no id.
        misfits: By id why the other writers' records do not fit.
        absent: Ids that the registry does not have.
        registry: Its name.
        kind: The type of a whole record.
    """

    reader: str
    writers: Mapping[int, tuple[str, str]] | None
    misfits: Mapping[int, str]
    absent: frozenset[int]
    registry: str
    kind: DataType

    def fields(self) -> StructType | None:
        """Those of a record; None where the schema is none of a record."""
        return self.kind if isinstance(self.kind, StructType) else None

    def parsed(self, column: Column) -> Column:
        """A struct of the record and of what was found behind it; null where its writer's schema is not known."""
        if self.writers is None:
            return self._decoded(column, self.reader, self.reader)
        first, body = F.substring(column, 1, HEAD), column.substr(F.lit(HEAD + 1), F.length(column))
        found: Column | None = None
        for each, (writer, reader) in self.writers.items():
            is_it, decoded = first == F.lit(head(each)), self._decoded(body, writer, reader)
            found = F.when(is_it, decoded) if found is None else found.when(is_it, decoded)
        nothing = F.lit(None).cast("binary")
        return self._decoded(nothing, self.reader, self.reader) if found is None else found

    def _decoded(self, body: Column, writer: str, reader: str) -> Column:
        found = from_avro(F.concat(body, F.lit(END)), writer, {**_READING, "avroSchema": reader})
        # By a writer's scale it has narrower decimals.
        return found if reader == self.reader else found.cast(StructType().add("value", self.kind).add("end", "binary"))

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:  # noqa: ARG002 - the contract's
        """See ``Avro``."""
        value = parsed["value"]
        found = ~F.coalesce(parsed["end"] == F.lit(END), F.lit(False))
        strange = not_utf8(value, self.kind)
        others = [*times_wrong(value, self.kind, AS_TIMES, latest), *([] if strange is None else [strange])]
        return reduce(or_, others, found)

    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """The first that holds."""
        value, whole = parsed["value"], F.coalesce(parsed["end"] == F.lit(END), F.lit(False))
        told = F.when(column.isNull(), F.lit("it is null, a tombstone")).when(
            F.length(column) == 0, F.lit("it is empty")
        )
        whose = F.lit("the schema")
        if self.writers is not None:
            whose = F.concat(F.lit("schema "), id_in(column).cast("string"))
            told = told.when(~has_head(column), F.lit(WITHOUT_ID))
            for each, why in self.misfits.items():
                told = told.when(
                    is_one_of(column, [each]), F.concat(whose, F.lit(f" does not fit the reader's: {why}"))
                )
            told = told.when(
                is_one_of(column, self.absent),
                F.concat(whose, F.lit(f" is not in the registry {self.registry}, or is none of Avro that can be read")),
            )
        said = (
            "it has a time that is none",
            "it has a time that is not plausible: see max_ahead",
        )
        fits = F.concat(F.lit("it is no record of "), whose, F.lit(", or does not fit the reader's schema"))
        told = told.when(~whole, fits)
        for wrong, words in zip(times_wrong(value, self.kind, AS_TIMES, latest), said, strict=False):
            told = told.when(wrong, F.lit(words))
        return told.otherwise(F.lit("it has a text that is not UTF-8"))

    def columns(self, parsed: Column) -> list[Column]:
        """Each field; or the one value."""
        if not isinstance(self.kind, StructType):
            return [parsed["value"]]
        return [parsed["value"].getField(field.name).alias(field.name) for field in self.kind]

    def unknown(self, column: Column) -> Column | None:
        """The registry's name and the id of a schema that is not known yet."""
        if self.writers is None:
            return None
        return unknown_in(column, self.registry, {*self.writers, *self.misfits, *self.absent})


def reading_by(reader: str, writers: Mapping[int, str] | None, absent: frozenset[int], registry: str) -> _AvroReading:
    """How records are read whose schemas are known.

    Args:
        reader: The reader's schema.
        writers: By id those of the writers; None where records have no id.
        absent: Ids that the registry does not have.
        registry: Its name.

    Raises:
        ConfigurationError: Spark has no jar of Avro, or no type for the reader's schema.
    """
    whole = parse(reader, "the schema of Avro")
    frame, frames, misfits = framed(whole), None, {}
    if writers is not None:
        frames = {}
        for each, text in sorted(writers.items()):
            writer = parse(text, f"schema {each}")
            found = resolution(whole, writer)
            if found.misfits:
                misfits[each] = "; ".join(found.misfits)
            else:
                frames[each] = framed(writer), framed(found.reader)
    return _AvroReading(frame, frames, misfits, absent, registry, kind_in(SparkSession.active(), frame))


def kind_in(session: SparkSession, frame: str) -> DataType:
    """The type of a record in its frame.

    Raises:
        ConfigurationError: Spark has no jar of Avro, or no type for the schema.
    """
    try:
        probe = session.range(0).select(from_avro(F.lit(None).cast("binary"), frame, _READING).alias("framed"))
        of = probe.schema["framed"].dataType
    except Exception as error:  # noqa: BLE001 - Java's Avro has errors of its own
        raise _no_avro(error) from None
    assert isinstance(of, StructType)  # noqa: S101 - it is a frame
    return of["value"].dataType


def _no_avro(error: Exception) -> ConfigurationError:
    first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    missing = "AVRO_NOT_LOADED" in str(error) or isinstance(error, TypeError)
    return ConfigurationError(
        "Spark cannot read Avro: its jar spark-avro is not there" if missing else f"Spark cannot read Avro: {first}",
        harmless="always: nothing was read",
        cause="the session was made without it, or ONCEFLOW_JARS names a connector, which leaves out onceflow's own "
        "jars"
        if missing
        else "the schema",
        action="let the Job make its session; or add spark-avro_2.13 of Spark's version to spark.jars, or to "
        "ONCEFLOW_JARS"
        if missing
        else "correct the schema",
    )


def _written(columns: Sequence[StructField], schema: Schema, whose: str, of: Callable[[str], Column]) -> Column:
    """Columns as a record, without an id."""
    known = resolved(schema)
    require_fit(columns, known, whose)
    if isinstance(known, dict) and known.get("type") == "record":
        types = {field["name"]: field["type"] for field in known["fields"]}
        named = {field.name: field for field in columns}
        inner = [
            fitted(of(name), named[name].dataType, kind).alias(name) for name, kind in types.items() if name in named
        ]
        value = F.struct(*inner)
        found = [
            each
            for field in columns
            for each in refusals(field.name, of(field.name), field.dataType, types[field.name])
        ]
    else:
        (only,) = columns
        value = fitted(of(only.name), only.dataType, known)
        found = list(refusals(only.name, of(only.name), only.dataType, known))
    refusal = refusing(found)
    # What is written is asked for behind the refusal: to_avro would fail by words that name no column.
    whole = value if refusal is None else F.when(refusal == F.lit(""), value)
    return to_avro(whole, dumps(for_spark(schema)))
