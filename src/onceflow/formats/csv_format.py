"""CSV: one row a record, without a header.

Must not know: Kafka, topics, sources, sinks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from onceflow.errors import ConfigurationError
from onceflow.formats.contract import Format, PartOfRecord, RecordReading, column_named
from onceflow.formats.ddl import require_fields_in, require_given, schema_of
from onceflow.formats.json_text import only_utf8
from onceflow.formats.times import as_written, times_read, times_wrong
from onceflow.options.arguments import named_fields, require_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

_CORRUPT = "_onceflow_corrupt"
_TIMES = "iso-8601"
_EMPTY = "\ue000onceflow-empty\ue000"
"""What an empty text in quotes is read as, which Spark would take for what is missing."""
_TAKEN = (NumericType, BooleanType, StringType, DateType, TimestampType, TimestampNTZType)


@named_fields
@dataclass(frozen=True)
class Csv(Format, RecordReading):
    """One row of CSV for each record, without a header (RFC 4180: a quote in quotes is doubled).

    Columns are numbers, booleans, texts, dates and times. Null is nothing between two delimiters, and an empty text is
    two quotes. Reading: values stand in the schema's order. Malformed are: another number of values, a value that is
    not of its type, bytes that are not UTF-8, a time as of ``Json``, and a null value (a tombstone). Writing: the
    columns in their order; times are ISO 8601 in the session's time zone with milliseconds, what is finer is cut off.
    A text that is not UTF-8 refuses its row.

    Args:
        schema: DDL or a ``StructType``. Sinks need none.
        delimiter: One character between two values.
        quote: One character around a value.
        escape: One character that makes a quote in quotes a part of it; None: it is doubled.
        null: The text that is null.

    Raises:
        ConfigurationError: A character that is none, or a schema without fields.
    """

    schema: str | StructType | None = None
    delimiter: str = ","
    quote: str = '"'
    escape: str | None = None
    null: str = ""

    def __post_init__(self) -> None:
        require_fields(self)
        for name in ("delimiter", "quote", "escape"):
            value = getattr(self, name)
            if value is not None and len(value) != 1:
                raise ConfigurationError(
                    f"Csv takes one character as {name}",
                    cause=f"{name}={value!r}",
                    action="give one; a tab is \\t",
                )
        require_fields_in(self.schema, "Csv")

    def __hash__(self) -> int:
        of = self.schema if not isinstance(self.schema, StructType) else self.schema.json()
        return hash((of, self.delimiter, self.quote, self.escape, self.null))

    def require_readable(self) -> None:
        """Raise if there is no schema."""
        require_given(self.schema, "Csv")

    def reading(self, part: PartOfRecord) -> RecordReading:  # noqa: ARG002 - the contract's
        """As it is: it needs nothing from elsewhere."""
        _require_form(self.fields())
        return self

    def fields(self) -> StructType:
        """The fields.

        Raises:
            ConfigurationError: There is no schema, or Spark cannot parse it.
        """
        return schema_of(self.schema, "Csv")

    @property
    def spark_options(self) -> dict[str, str]:
        """Those of Spark's CSV. Blanks belong to the text."""
        return {
            "sep": self.delimiter,
            "quote": self.quote,
            "escape": self.escape or self.quote,
            "nullValue": self.null,
            "ignoreLeadingWhiteSpace": "false",
            "ignoreTrailingWhiteSpace": "false",
        }

    def parsed(self, column: Column) -> Column:
        """A struct of the fields, times as they are written, and of one that is null where all is well."""
        told = {**self.spark_options, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "emptyValue": _EMPTY}
        asked = [*as_written(self.fields(), _TIMES), StructField(_CORRUPT, StringType())]
        ddl = ", ".join(f"`{field.name.replace('`', '``')}` {field.dataType.simpleString()}" for field in asked)
        return F.from_csv(column.cast("string"), ddl, told)

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """No row, or one that does not fit."""
        # Of one column an empty row is a null.
        empty = F.lit(False) if len(self.fields()) == 1 else F.coalesce(F.length(column) == 0, F.lit(False))
        found = (
            parsed.isNull()
            | empty
            | parsed[_CORRUPT].isNotNull()
            | ~F.coalesce(F.is_valid_utf8(column.cast("string")), F.lit(False))
        )
        for wrong, _ in self._wrong_times(parsed, latest):
            found |= wrong
        return found

    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """The first that holds."""
        found = (
            F.when(column.isNull(), F.lit("it is null, a tombstone"))
            .when(~F.is_valid_utf8(column.cast("string")), F.lit("its bytes are not UTF-8"))
            .when(F.length(column) == 0, F.lit("it is empty"))
            .when(parsed.isNull() | parsed[_CORRUPT].isNotNull(), F.lit("it is no row of CSV with these columns"))
        )
        for wrong, told in self._wrong_times(parsed, latest):
            found = found.when(wrong, F.lit(told))
        return found

    def _wrong_times(self, parsed: Column, latest: Column | None) -> Iterator[tuple[Column, str]]:
        """Conditions, and what is said where they hold."""
        for field in self.fields():
            found = times_wrong(parsed.getField(field.name), field.dataType, _TIMES, latest)
            told = (f"field {field.name} is no time", f"field {field.name} is no plausible time")
            yield from zip(found, told, strict=False)

    def columns(self, parsed: Column) -> list[Column]:
        """Each field, times as times."""

        def read(field: StructField) -> Column:
            column = parsed.getField(field.name)
            if isinstance(field.dataType, StringType):
                return F.when(column == _EMPTY, F.lit("")).otherwise(column)
            return times_read(column, field.dataType, _TIMES)

        return [read(field).alias(field.name) for field in self.fields()]

    def encode(self, columns: Sequence[StructField], part: PartOfRecord) -> Column:  # noqa: ARG002 - the contract's
        """One row.

        Raises:
            ConfigurationError: A column has no form in CSV.
        """
        _require_form(columns)
        parts = {field.name: (column_named(field.name), field.dataType) for field in columns}
        return row_of(self, {name: column for name, (column, _) in parts.items()}, parts)


def row_of(form: Csv, shown: Mapping[str, Column], parts: Mapping[str, tuple[Column, DataType]]) -> Column:
    """A row of these values, as bytes.

    Args:
        form: How.
        shown: The values as they are written, by name.
        parts: The columns that they were made of, with their types.
    """
    row = F.struct(*(column.alias(name) for name, column in shown.items()))
    options = {**form.spark_options, "emptyValue": form.quote * 2}  # whichever is the quote
    return only_utf8(F.to_csv(row, options), parts).cast("binary")


def _require_form(fields: Sequence[StructField] | StructType) -> None:
    wrong = [
        f"{field.name} {field.dataType.simpleString()}" for field in fields if not isinstance(field.dataType, _TAKEN)
    ]
    if wrong:
        raise ConfigurationError(
            f"these columns have no form in CSV: {', '.join(wrong)}",
            harmless="always: nothing was read or written",
            cause="a row of CSV has numbers, booleans, texts, dates and times",
            action="make a text of it in the stream function (F.to_json(column), F.hex(column)); or take Json()",
            columns=wrong,
        )
