"""Rows and records: the formats of SQL's tables, to read a record's bytes and to write a row as bytes.

Must not know: brokers, jobs. Reading is by ``connectors.formats``; here is what Flink's formats have beyond it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import DataType, StructField, StructType

from onceflow.connectors.formats import Format, Json, Raw, Text, column_named
from onceflow.connectors.json_text import as_json, require_form
from onceflow.flinksql.kinds import Kind, quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

_CORRUPT = "_onceflow_corrupt"


@dataclass(frozen=True)
class Whole(Format):
    """Another format's fields as one column, a struct: no field's name can clash with metadata."""

    inner: Format

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

    def encode(self, columns: Sequence[StructField]) -> Column:
        """As the other."""
        return self.inner.encode(columns)

    def check_readable(self) -> None:
        """As the other."""
        self.inner.check_readable()


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


@dataclass(frozen=True)
class Csv(Format):
    """One row of CSV for each record, without a header.

    Args:
        ddl: Its fields.
        options: Spark's options of CSV.
    """

    ddl: str
    options: tuple[tuple[str, str], ...] = ()

    def fields(self) -> StructType:
        """The fields."""
        fields = DataType.fromDDL(self.ddl)
        assert isinstance(fields, StructType)  # noqa: S101 - it is made of columns
        return fields

    def parsed(self, column: Column) -> Column:
        """A struct of the fields, and of one that is null where all is well."""
        told = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, **dict(self.options)}
        return F.from_csv(column.cast("string"), f"{self.ddl}, {_CORRUPT} STRING", told)

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:  # noqa: ARG002 - the contract's
        """No row, or one that does not fit."""
        return (
            parsed.isNull()
            | parsed[_CORRUPT].isNotNull()
            | ~F.coalesce(F.is_valid_utf8(column.cast("string")), F.lit(False))
        )

    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:  # noqa: ARG002 - the contract's
        """There are three."""
        return (
            F.when(column.isNull(), F.lit("it is null, a tombstone"))
            .when(~F.is_valid_utf8(column.cast("string")), F.lit("its bytes are not UTF-8"))
            .otherwise(F.lit("it is no row of CSV with these columns"))
        )

    def columns(self, parsed: Column) -> list[Column]:
        """Each field."""
        return [parsed.getField(field.name).alias(field.name) for field in self.fields()]

    def encode(self, columns: Sequence[StructField]) -> Column:
        """One row."""
        return F.to_csv(F.struct(*(column_named(field.name) for field in columns)), dict(self.options)).cast("binary")


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
        return Whole(Csv(ddl, _csv(options)))
    strict = options.get("json.fail-on-missing-field", "false").lower() == "true"
    return Whole(StrictJson(ddl) if strict else Json(ddl))


_CSV = {
    "csv.field-delimiter": "sep",
    "csv.quote-character": "quote",
    "csv.escape-character": "escape",
    "csv.null-literal": "nullValue",
}


def _csv(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Spark's options. A quote in quotes is doubled and blanks belong to the text, as in Flink."""
    told = {name: options[key].replace("\\t", "\t") for key, name in _CSV.items() if key in options}
    told.setdefault("escape", told.get("quote", '"'))
    return (*told.items(), ("ignoreLeadingWhiteSpace", "false"), ("ignoreTrailingWhiteSpace", "false"))


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
    if form == "csv":
        return F.to_csv(F.struct(*shown), dict(_csv(options))).cast("binary")
    left_out = options.get("json.encode.ignore-null-fields", "false").lower()
    told = {name: (parts[name], DataType.fromDDL(kind.spark())) for name, (_, kind) in columns.items()}
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
