"""JSON: one object a record.

Must not know: Kafka, topics, sources, sinks.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from pyspark.sql.utils import get_active_spark_context

from onceflow.errors import ConfigurationError
from onceflow.formats.contract import Format, PartOfRecord, RecordReading, column_named
from onceflow.formats.ddl import require_fields_in, require_given, schema_of
from onceflow.formats.json_text import as_json, require_form
from onceflow.formats.times import FORMATS, as_written, times_read, times_wrong
from onceflow.options.arguments import named_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

_CORRUPT = "_onceflow_corrupt"
# Not dates: Spark reads what comes before a T or a blank, and lets pass what follows.
_WITHOUT_TEXT = (NumericType, BooleanType, TimestampType, TimestampNTZType, BinaryType)


@named_fields
@dataclass(frozen=True)
class Json(Format, RecordReading):
    """One JSON object per record, UTF-8.

    Reading: a field that is missing is null, also one that the schema calls NOT NULL; fields that the schema does
    not name are ignored; names are compared exactly. Malformed are: no JSON object, a field of the wrong type
    (``"1"`` and ``1.5`` are no ``int``), a number that does not fit, an object cut short, bytes that are not
    UTF-8 in a field that is read, an empty value, and a null value (a tombstone). So is a time that is not written as
    ``timestamp_format`` says, is outside of the years 1 to 9999, or is further ahead than the source's ``max_ahead``.
    What Spark's ``from_json`` lets pass: any JSON is good for a ``string`` field; decimals are rounded to the scale; of
    a name given twice the last counts; what follows the closing brace is ignored.

    Writing: an object with the columns' names, in their order. Null columns are kept as ``"name":null``, so that
    a reader can tell "no value" from "no such field". A ``timestamp`` is written as ISO 8601 in the session's time zone
    with milliseconds: what is finer is cut off. A text that is not UTF-8 refuses its row, and a map whose keys are
    neither text nor numbers its column. docs/formats.md has a table of what is read and written.

    Args:
        schema: DDL (``"user_id string, amount decimal(18,2)"``) or a ``StructType``. Sinks need none. Names that
            differ in case alone are one to Spark, and ``_onceflow_corrupt`` is taken: both are refused.
        timestamp_format: How a ``timestamp`` is written in what is read: ``"iso-8601"`` text, of which a time zone that
            is missing is the session's; or ``"epoch-seconds"``, ``"epoch-millis"``, ``"epoch-micros"``, whole numbers
            since 1970 in UTC. ``timestamp_ntz`` and ``date`` are text always.

    Raises:
        ConfigurationError: The schema is empty or of the wrong kind, or there is no such ``timestamp_format``. DDL that
            Spark cannot parse shows when a source is loaded, since only Spark can tell.
    """

    schema: str | StructType | None = None
    timestamp_format: Literal["iso-8601", "epoch-seconds", "epoch-millis", "epoch-micros"] = "iso-8601"

    def __post_init__(self) -> None:
        if self.timestamp_format not in FORMATS:
            raise ConfigurationError(
                f"Json knows no timestamp_format {self.timestamp_format!r}",
                cause=f"timestamp_format={self.timestamp_format!r}",
                action=f"choose one of {', '.join(FORMATS)}",
            )
        if self.schema is None:
            return
        if not isinstance(self.schema, str | StructType):
            raise ConfigurationError(
                f"Json takes a schema as DDL text or StructType, not {type(self.schema).__name__}",
                action='write for example Json("user_id string, amount decimal(18,2)")',
            )
        require_fields_in(self.schema, "Json")

    def __hash__(self) -> int:
        return hash(self.schema if not isinstance(self.schema, StructType) else self.schema.json())

    def fields(self) -> StructType:
        """The schema as Spark has it.

        Raises:
            ConfigurationError: There is no schema, or Spark cannot parse it.
        """
        return schema_of(self.schema, "Json")

    def require_readable(self) -> None:
        """Raise if there is no schema, or, where Spark runs already, if it is none that Spark understands."""
        require_given(self.schema, "Json")
        with contextlib.suppress(PySparkRuntimeError):  # no Spark runs yet
            get_active_spark_context()  # not the active session: Java has one for each of its threads
            self.fields()

    def parsed(self, column: Column) -> Column:
        """A struct of the schema's fields, times as they are written, and of one more, null where all is well."""
        asked = as_written(self.fields(), self.timestamp_format)
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        return F.from_json(
            column.cast("string"), StructType([*asked.fields, StructField(_CORRUPT, StringType())]), options
        )

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """See the class."""
        # from_json gives null, and no corrupt record, for null and for text that is empty or blank.
        found = parsed.isNull() | parsed[_CORRUPT].isNotNull() | self._not_utf8(column.cast("string"), parsed)
        for field in self.fields():
            for wrong in times_wrong(parsed.getField(field.name), field.dataType, self.timestamp_format, latest):
                found |= wrong
        return found

    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """The first that holds of: no value, no UTF-8, no object, fields by name with what is wrong."""
        text, fields = column.cast("string"), self.fields()
        names = F.array(*(F.lit(field.name) for field in fields))
        kinds = F.array(*(F.lit(_spelt(field.dataType, self.timestamp_format)) for field in fields))
        found = F.from_json(text, "map<string,string>")
        given = F.map_keys(F.map_filter(found, lambda name, value: value.isNotNull() & F.array_contains(names, name)))
        read = F.map_keys(F.from_json(F.to_json(parsed), "map<string,string>"))

        def kind_of(name: Column) -> Column:
            return F.get(kinds, (F.array_position(names, name) - 1).cast("int"))

        wrong = F.transform(
            F.array_distinct(F.array_except(given, read)),
            lambda name: F.concat(F.lit("field "), name, F.lit(" is no "), kind_of(name)),
        )
        times = [
            F.when(each, F.lit(f"field {field.name} {said}"))
            for field in fields
            for each, said in zip(
                times_wrong(parsed.getField(field.name), field.dataType, self.timestamp_format, latest),
                (f"is no time as {self.timestamp_format} has it", "is no plausible time: see max_ahead"),
                strict=False,
            )
        ]
        of_fields = F.array_join(F.concat(wrong, F.array_compact(F.array(*times))) if times else wrong, "; ")
        return (
            F.when(column.isNull(), F.lit("it is null, a tombstone"))
            .when(F.length(F.trim(text)) == 0, F.lit("it is empty"))
            .when(~F.is_valid_utf8(text), F.lit("its bytes are not UTF-8"))
            .when(found.isNull(), F.lit("it is no JSON object, or one that is cut short"))
            .when(of_fields == "", F.lit("something inside of a field is not of its type"))
            .otherwise(of_fields)
        )

    def columns(self, parsed: Column) -> list[Column]:
        """Each field, times as times."""
        return [
            times_read(parsed.getField(field.name), field.dataType, self.timestamp_format).alias(field.name)
            for field in self.fields()
        ]

    def _not_utf8(self, text: Column, parsed: Column) -> Column:
        """True where a field was read from bytes that are not UTF-8, for which from_json puts U+FFFD without a word.

        Looking for that character costs less than checking each record's bytes: those are checked where it is found,
        and everywhere if a field can hold text deeper down.
        """
        valid = F.is_valid_utf8(text)
        kinds = {field.name: field.dataType for field in self.fields()}
        if not all(kind == StringType() or isinstance(kind, _WITHOUT_TEXT) for kind in kinds.values()):
            return ~valid
        replaced = F.lit(False)
        for name in (name for name, kind in kinds.items() if kind == StringType()):
            replaced |= F.coalesce(F.contains(parsed[name], F.lit("\ufffd")), F.lit(False))
        return replaced & ~valid

    def reading(self, part: PartOfRecord) -> RecordReading:  # noqa: ARG002 - the contract's
        """As it is: it needs nothing from elsewhere."""
        return self

    def encode(self, columns: Sequence[StructField], part: PartOfRecord) -> Column:  # noqa: ARG002 - the contract's
        """One object with these fields.

        Raises:
            ConfigurationError: ``timestamp_format`` is for reading only; or a column has no form in JSON.
        """
        if self.timestamp_format != "iso-8601":
            raise ConfigurationError(
                "Json writes times as ISO 8601 only",
                cause=f"timestamp_format={self.timestamp_format!r}",
                action="write Json() at the sink, and select the number in the stream function: F.unix_millis(column), "
                "F.unix_micros(column) or F.unix_seconds(column)",
            )
        require_form(columns)
        parts = {field.name: (column_named(field.name), field.dataType) for field in columns}
        row = F.struct(*(column for column, _ in parts.values()))
        return as_json(row, parts, {"ignoreNullFields": "false"}).cast("binary")


def _spelt(kind: DataType, timestamp_format: str) -> str:
    """A type, in words that say what was expected."""
    return f"{kind.simpleString()} ({timestamp_format})" if kind == TimestampType() else kind.simpleString()
