"""Rows and records: the formats of SQL's tables, to read a record's bytes and to write a row as bytes.

Must not know: brokers, jobs. Reading is by ``formats``; here is what Flink's formats have beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import DataType, StructField

from onceflow.flinksql.kinds import Kind, quoted
from onceflow.formats.contract import Format, PartOfRecord, RecordReading, column_named
from onceflow.formats.csv_format import Csv, row_of
from onceflow.formats.debezium_format import Debezium
from onceflow.formats.json_format import Json
from onceflow.formats.json_text import as_json, require_form
from onceflow.formats.text_format import Raw, Text

if TYPE_CHECKING:
    from pyspark.sql import Column


@dataclass(frozen=True)
class Whole(Format):
    """Another format's fields as one column, a struct: no field's name can clash with metadata."""

    inner: Format

    def reading(self, part: PartOfRecord) -> RecordReading:
        """As the other, in one column."""
        return WholeReading(self.inner.reading(part))

    def encode(self, columns: Sequence[StructField], part: PartOfRecord) -> Column:
        """As the other."""
        return self.inner.encode(columns, part)

    def require_readable(self) -> None:
        """As the other."""
        self.inner.require_readable()


@dataclass(frozen=True)
class WholeReading(RecordReading):
    """How another format reads, with its fields in one column.

    Attributes:
        inner: How the other reads.
    """

    inner: RecordReading

    def fields(self) -> None:
        """None: it is one column."""

    def parsed(self, column: Column) -> Column:
        """As the other."""
        return self.inner.parsed(column)

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column | None:
        """As the other."""
        return self.inner.malformed(column, parsed, latest)

    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """As the other."""
        return self.inner.reason(column, parsed, latest)

    def columns(self, parsed: Column) -> list[Column]:
        """One."""
        return [F.struct(*self.inner.columns(parsed))]

    def nothing(self, column: Column) -> Column | None:
        """As the other."""
        return self.inner.nothing(column)

    def placed(self, parsed: Column, stream: Column, arrival: Column) -> list[Column]:
        """As the other, beside the one column."""
        return self.inner.placed(parsed, stream, arrival)

    def unknown(self, column: Column) -> Column | None:
        """As the other."""
        return self.inner.unknown(column)


class StrictJson(Json):
    """Json of which a record without one of the fields is malformed."""

    def _missing(self, column: Column) -> Column:
        names = F.array(*(F.lit(field.name) for field in self.fields()))
        return F.array_except(names, F.json_object_keys(column.cast("string")))

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """See the class."""
        return super().malformed(column, parsed, latest) | F.coalesce(F.size(self._missing(column)) > 0, F.lit(False))

    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """Which fields are missing, or as ever."""
        missing = self._missing(column)
        told = F.concat(F.lit("it has no field "), F.array_join(missing, ", "))
        return F.when(F.coalesce(F.size(missing) > 0, F.lit(False)), told).otherwise(
            super().reason(column, parsed, latest)
        )


def reader(form: str, columns: Mapping[str, Kind], options: Mapping[str, str]) -> Format:
    """A format that reads these columns into one struct.

    Args:
        form: Its name.
        columns: What it reads.
        options: Its own, without the prefix of key or value.
    """
    if form == "raw":
        return Raw() if next(iter(columns.values())).name == "BYTES" else Text()
    ddl = ", ".join(f"{quoted(name)} {kind.spark()}" for name, kind in columns.items())
    if form == "csv":
        return Whole(_csv(ddl, options))
    if form == "debezium-json":
        return Whole(Debezium(Json(ddl)))
    strict = options.get("json.fail-on-missing-field", "false").lower() == "true"
    return Whole(StrictJson(ddl) if strict else Json(ddl))


def _csv(ddl: str, options: Mapping[str, str]) -> Csv:
    """A quote in quotes is doubled unless an escape is named, as in Flink."""

    def option(name: str, default: str) -> str:
        return options.get(f"csv.{name}", default).replace("\\t", "\t")

    escape = option("escape-character", "") or None
    return Csv(
        ddl or None, option("field-delimiter", ","), option("quote-character", '"'), escape, option("null-literal", "")
    )


def written(form: str, columns: Mapping[str, tuple[str, Kind]], options: Mapping[str, str]) -> Column:
    """Columns as the bytes of a record.

    Args:
        form: The format's name.
        columns: By the name in the record: the column's name in the row, and its type.
        options: The format's own.
    """
    parts = {name: column_named(column) for name, (column, _) in columns.items()}
    if form == "raw":
        return next(iter(parts.values())).cast("binary")
    iso = options.get("json.timestamp-format.standard", "SQL").upper() == "ISO-8601"
    shown = [_shown(parts[name], kind, iso=iso).alias(name) for name, (_, kind) in columns.items()]
    left_out = options.get("json.encode.ignore-null-fields", "false").lower()
    told = {name: (parts[name], DataType.fromDDL(kind.spark())) for name, (_, kind) in columns.items()}
    if form == "csv":
        return row_of(_csv("", options), dict(zip(columns, shown, strict=True)), told)
    require_form([StructField(name, of) for name, (_, of) in told.items()])
    return as_json(F.struct(*shown), told, {"ignoreNullFields": left_out}).cast("binary")


def _shown(column: Column, kind: Kind, *, iso: bool) -> Column:
    """A value as Flink's formats write it: times as text, wherever they are."""
    if not _has_time(kind):
        return column
    match kind.name:
        case "ARRAY":
            return F.transform(column, lambda item: _shown(item, kind.inner[0], iso=iso))
        case "MAP":
            return F.transform_values(column, lambda _, value: _shown(value, kind.inner[1], iso=iso))
        case "ROW":
            fields = (
                _shown(column.getField(name), of, iso=iso).alias(name)
                for name, of in zip(kind.fields, kind.inner, strict=True)
            )
            return F.when(column.isNotNull(), F.struct(*fields))
        case _:
            # Spark's text of a time has the digits behind the second that are not zero, as Flink's.
            text = column.cast("string")
            text = F.replace(text, F.lit(" "), F.lit("T")) if iso else text
            return F.concat(text, F.lit("Z")) if kind.name == "TIMESTAMP_LTZ" else text


def _has_time(kind: Kind) -> bool:
    return kind.is_time or any(map(_has_time, kind.inner))
