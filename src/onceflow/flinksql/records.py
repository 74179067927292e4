"""Rows and records: the formats of SQL's tables, to read a record's bytes and to write a row as bytes.

Must not know: brokers, jobs. Reading is by ``formats``; here is what Flink's formats have beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import DataType, StringType, StructField, StructType

from onceflow.flinksql.kinds import Kind, quoted
from onceflow.formats.contract import Format, column_named
from onceflow.formats.json_format import Json
from onceflow.formats.json_text import as_json, require_form
from onceflow.formats.text_format import Raw, Text
from onceflow.formats.times import as_written, times_read, times_wrong

if TYPE_CHECKING:
    from pyspark.sql import Column

_CORRUPT = "_onceflow_corrupt"
_TIMES = "iso-8601"
_EMPTY = "\ue000onceflow-empty\ue000"
"""What an empty text in quotes is read as, which Spark would take for what is missing."""


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

    def require_readable(self) -> None:
        """As the other."""
        self.inner.require_readable()


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

    Times are read as those of JSON: Spark would make of a time of day alone one of the day on which it is read.

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
        """A struct of the fields, times as they are written, and of one that is null where all is well."""
        told = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "emptyValue": _EMPTY, **dict(self.options)}
        asked = (f"{quoted(field.name)} {field.dataType.simpleString()}" for field in as_written(self.fields(), _TIMES))
        return F.from_csv(column.cast("string"), f"{', '.join(asked)}, {_CORRUPT} STRING", told)

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """No row, or one that does not fit."""
        found = (
            parsed.isNull()
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

    def encode(self, columns: Sequence[StructField]) -> Column:
        """One row."""
        row = F.struct(*(column_named(field.name) for field in columns))
        return F.to_csv(row, _writing(self.options)).cast("binary")


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


def _writing(options: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Those to write by: an empty text is two quotes, whichever is the quote."""
    told = dict(options)
    return {"emptyValue": told.get("quote", '"') * 2, **told}


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
        return F.to_csv(F.struct(*shown), _writing(_csv(options))).cast("binary")
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
