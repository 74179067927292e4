"""A record of Debezium's, opened: what of JSON, or of Avro, is the change, and what its row.

Must not know: in which order changes are, what becomes of them, Kafka.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import LongType, StringType, StructField, StructType

from onceflow.errors import ConfigurationError
from onceflow.formats.contract import RecordReading
from onceflow.formats.json_format import Json

if TYPE_CHECKING:
    from pyspark.sql import Column

_CORRUPT = "_onceflow_corrupt"
_TEXT, _NUMBER = StringType(), LongType()
SOURCE = {
    **dict.fromkeys(("connector", "name", "file"), _TEXT),
    **dict.fromkeys(("lsn", "server_id", "pos"), _NUMBER),
}
# What is asked for as a text, Spark gives as it stands in the record, objects too.
_CHANGE = [
    *(StructField(name, _TEXT) for name in ("before", "after", "op", "ddl", "status")),
    StructField("source", StructType([StructField(name, kind) for name, kind in SOURCE.items()])),
]
_ENVELOPE = StructType([*_CHANGE, StructField("payload", StructType(_CHANGE)), StructField(_CORRUPT, _TEXT)])


class Envelope(ABC):
    """How a record is opened, and what of it is the change.

    Attributes:
        is_looked_at_again: ``row_malformed`` and ``row_reason`` need what was opened.
    """

    is_looked_at_again: ClassVar[bool] = False

    @abstractmethod
    def opened(self, column: Column) -> Column:
        """The bytes as one column, which may be costly."""

    @abstractmethod
    def change(self, opened: Column) -> Column:
        """A struct: ``op``, ``before``, ``after``, ``ddl``, ``status`` and ``source``, that with all of ``SOURCE``."""

    @abstractmethod
    def corrupt(self, column: Column, opened: Column, change: Column) -> Column:
        """Why the bytes cannot be opened, null where they can; of a null record too."""

    @abstractmethod
    def row(self, content: Column) -> Column:
        """What is made of ``before`` or ``after``."""

    @abstractmethod
    def values(self, row: Column) -> list[Column]:
        """The columns of a row."""

    @abstractmethod
    def row_malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """Whether the row cannot be read, never null, where nothing else is wrong."""

    @abstractmethod
    def row_reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """Why, in words."""

    def unknown(self, column: Column) -> Column | None:  # noqa: ARG002 - JSON knows all
        """As of ``RecordReading``."""
        return None


@dataclass(frozen=True)
class JsonEnvelope(Envelope):
    """JSON, with its schema beside it or without.

    Args:
        of: How a row is read.
    """

    of: Json

    def opened(self, column: Column) -> Column:
        """By Spark's parser."""
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        return F.from_json(column.cast("string"), _ENVELOPE, options)

    def change(self, opened: Column) -> Column:
        """The payload where a schema stands beside it."""
        return F.coalesce(opened["payload"], opened.dropFields("payload", _CORRUPT))

    def corrupt(self, column: Column, opened: Column, change: Column) -> Column:
        """What is no object of that form."""
        corrupt = column.isNotNull() & (opened[_CORRUPT].isNotNull() | change.isNull())
        return F.when(corrupt, F.lit("it is no JSON object of Debezium's form"))

    def row(self, content: Column) -> Column:
        """The text, parsed."""
        return self.of.parsed(content.cast("binary"))

    def values(self, row: Column) -> list[Column]:
        """As ``Json`` gives them."""
        return self.of.columns(row)

    def row_malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:  # noqa: ARG002 - the contract's
        """As ``Json`` says."""
        return self.of.malformed(parsed["of"]["content"].cast("binary"), parsed["row"], latest)

    def row_reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:  # noqa: ARG002 - the contract's
        """As ``Json`` says."""
        return self.of.reason(parsed["of"]["content"].cast("binary"), parsed["row"], latest)


@dataclass(frozen=True)
class AvroEnvelope(Envelope):
    """Avro, whose schema is that of the whole record.

    Args:
        of: How a record is read.
    """

    is_looked_at_again = True
    of: RecordReading

    def fields_of_row(self) -> StructType:
        """Those of ``after``.

        Raises:
            ConfigurationError: The schema is none of changes.
        """
        found = self._fields()
        kinds = {name: found[name].dataType for name in ("before", "after", "source", "op") if name in found.names}
        row = kinds.get("after")
        if len(kinds) < 4 or not isinstance(row, StructType) or not isinstance(kinds["source"], StructType):
            raise ConfigurationError(
                "the schema is none of Debezium's changes: those have before, after, source and op",
                harmless="always: nothing was read",
                cause=f"it has {', '.join(found.names) or 'no fields'}: the topic is of the schema's history or of "
                "transactions' metadata, or ExtractNewRecordState has unwrapped its changes",
                action="read the topic of a table, whose connector unwraps nothing",
            )
        return row

    def _fields(self) -> StructType:
        return self.of.fields() or StructType()

    def opened(self, column: Column) -> Column:
        """By its schemas."""
        return self.of.parsed(column)

    def change(self, opened: Column) -> Column:
        """``ddl`` and ``status`` are of other topics, which have other schemas."""
        of, nothing = dict(zip(self._fields().names, self.of.columns(opened), strict=True)), F.lit(None).cast("string")
        there = self._fields()["source"].dataType
        assert isinstance(there, StructType)  # noqa: S101 - fields_of_row has looked
        source = (
            (of["source"].getField(name) if name in there.names else F.lit(None)).cast(kind).alias(name)
            for name, kind in SOURCE.items()
        )
        parts = (of[name].alias(name) for name in ("before", "after", "op"))
        return F.struct(*parts, nothing.alias("ddl"), nothing.alias("status"), F.struct(*source).alias("source"))

    def corrupt(self, column: Column, opened: Column, change: Column) -> Column:  # noqa: ARG002 - the contract's
        """What Avro cannot read."""
        malformed = self.of.malformed(column, opened, None)
        return F.when(F.lit(False) if malformed is None else malformed, self.of.reason(column, opened, None))

    def row(self, content: Column) -> Column:
        """The record, as it is."""
        return content

    def values(self, row: Column) -> list[Column]:
        """The fields of the record."""
        return [row.getField(name).alias(name) for name in self.fields_of_row().names]

    def row_malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """A time that is not plausible is found here: the whole record is looked at."""
        found = self.of.malformed(column, parsed["of"]["opened"], latest)
        return F.lit(False) if found is None else found

    def row_reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """As ``Avro`` says."""
        return self.of.reason(column, parsed["of"]["opened"], latest)

    def unknown(self, column: Column) -> Column | None:
        """As ``Avro`` says."""
        return self.of.unknown(column)
