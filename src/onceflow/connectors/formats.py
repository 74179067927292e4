"""Formats: how the bytes of a Kafka key or value become columns, and columns bytes.

Sources decode and sinks encode with the same objects. Must not know: Kafka, topics, sources, sinks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
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

from onceflow.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

__all__ = ["Format", "Json", "Raw", "Text", "column_named"]

_CORRUPT = "_onceflow_corrupt"
# Not dates: Spark reads what comes before a T or a blank, and lets pass what follows.
_WITHOUT_TEXT = (NumericType, BooleanType, TimestampType, TimestampNTZType, BinaryType)


class Format(ABC):
    """Between bytes and columns. Immutable; one object may serve many sources and sinks."""

    @abstractmethod
    def parsed(self, column: Column) -> Column:
        """Binary to this format's one column, which may be costly; to be evaluated once per record."""

    @abstractmethod
    def malformed(self, column: Column, parsed: Column) -> Column | None:
        """True where this format cannot read the bytes, else false (never null); None if it reads any bytes."""

    @abstractmethod
    def fields(self) -> StructType | None:
        """The fields of a record, or None where the whole of it is one column."""

    @abstractmethod
    def encode(self, columns: Sequence[str]) -> Column:
        """The named columns of a row as one binary column."""

    def check_readable(self) -> None:  # noqa: B027 - most formats read anything
        """Raise what can be known without a SparkSession to stand in the way of reading."""


@dataclass(frozen=True)
class Json(Format):
    """One JSON object per record, UTF-8.

    Reading: a field that is missing is null, also one that the schema calls NOT NULL; fields that the schema does
    not name are ignored; names are compared exactly. Malformed are: no JSON object, a field of the wrong type
    (``"1"`` and ``1.5`` are no ``int``), a number that does not fit, an object cut short, bytes that are not
    UTF-8 in a field that is read, an empty value, and a null value (a tombstone). What Spark's ``from_json`` lets
    pass: any JSON is good for a ``string`` field; decimals are rounded to the scale; of a name given twice the last
    counts; what follows the closing brace is ignored.

    Writing: an object with the columns' names, in their order. Null columns are kept as ``"name":null``, so that
    a reader can tell "no value" from "no such field".

    Args:
        schema: DDL (``"user_id string, amount decimal(18,2)"``) or a ``StructType``. Sinks need none. Names that
            differ in case alone are one to Spark, and ``_onceflow_corrupt`` is taken: both are refused.

    Raises:
        ConfigurationError: The schema is empty or of the wrong kind. DDL that Spark cannot parse shows when a
            source is loaded, since only Spark can tell.
    """

    schema: str | StructType | None = None

    def __post_init__(self) -> None:
        if self.schema is None:
            return
        if not isinstance(self.schema, str | StructType):
            raise ConfigurationError(
                f"Json takes a schema as DDL text or StructType, not {type(self.schema).__name__}",
                action='write for example Json("user_id string, amount decimal(18,2)")',
            )
        if not (self.schema.strip() if isinstance(self.schema, str) else self.schema.fields):
            raise ConfigurationError(
                "Json has a schema without fields",
                cause=f"schema={self.schema!r}",
                action='name the fields, for example Json("user_id string, amount decimal(18,2)")',
            )

    def __hash__(self) -> int:
        return hash(self.schema if not isinstance(self.schema, StructType) else self.schema.json())

    def fields(self) -> StructType:
        """The schema as Spark has it.

        Raises:
            ConfigurationError: There is no schema, or Spark cannot parse it.
        """
        self.check_readable()
        if isinstance(self.schema, StructType):
            return self.schema
        try:
            schema = DataType.fromDDL(str(self.schema))
        except PySparkException as error:
            first_line = next((line for line in str(error).splitlines() if line.strip()), "")
            raise ConfigurationError(
                f"the schema of Json is no DDL that Spark understands: {first_line}",
                cause=f"schema={self.schema!r}",
                action="correct it; the types are those of CREATE TABLE in Spark SQL",
            ) from error
        if not isinstance(schema, StructType):
            raise ConfigurationError(
                "the schema of Json is a single type, but a record has named fields",
                cause=f"schema={self.schema!r}",
                action='name the fields, for example Json("user_id string, amount decimal(18,2)")',
            )
        return schema

    def check_readable(self) -> None:
        """Raise if there is no schema. Whether Spark understands its DDL shows when a source is loaded."""
        if self.schema is None:
            raise ConfigurationError(
                "a source cannot read Json without a schema",
                cause="Json() has schema=None",
                action='name the fields, for example Json("user_id string, amount decimal(18,2)")',
            )

    def parsed(self, column: Column) -> Column:
        """A struct of the schema's fields and of one more, which is null where all is well."""
        schema = StructType([*self.fields().fields, StructField(_CORRUPT, StringType())])
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        return F.from_json(column.cast("string"), schema, options)

    def malformed(self, column: Column, parsed: Column) -> Column:
        """See the class."""
        # from_json gives null, and no corrupt record, for null and for text that is empty or blank.
        return parsed.isNull() | parsed[_CORRUPT].isNotNull() | self._not_utf8(column.cast("string"), parsed)

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

    def encode(self, columns: Sequence[str]) -> Column:
        """One object with these fields."""
        row = F.struct(*(column_named(name) for name in columns))
        return F.to_json(row, {"ignoreNullFields": "false"}).cast("binary")


@dataclass(frozen=True)
class Text(Format):
    """UTF-8 text in one column. Null stays null in both directions; bytes that are not UTF-8 are malformed.

    Writing takes one column of any type that Spark casts to string.
    """

    def fields(self) -> None:
        """None: it is one column."""

    def parsed(self, column: Column) -> Column:
        """The text."""
        return column.cast("string")

    def malformed(self, column: Column, parsed: Column) -> Column:  # noqa: ARG002 - the contract's signature
        """See the class."""
        return F.coalesce(~F.is_valid_utf8(parsed), F.lit(False))

    def encode(self, columns: Sequence[str]) -> Column:
        """One column as text."""
        return _only(self, columns).cast("string").cast("binary")


@dataclass(frozen=True)
class Raw(Format):
    """The bytes as they are, in one binary column. Null stays null in both directions; nothing is malformed."""

    def fields(self) -> None:
        """None: it is one column."""

    def parsed(self, column: Column) -> Column:
        """The bytes."""
        return column

    def malformed(self, column: Column, parsed: Column) -> None:
        """None: it reads any bytes."""

    def encode(self, columns: Sequence[str]) -> Column:
        """One column; a type that Spark does not cast to binary is refused when the query is made."""
        return _only(self, columns).cast(BinaryType())


def _only(form: Format, columns: Sequence[str]) -> Column:
    if len(columns) != 1:
        raise ConfigurationError(
            f"{type(form).__name__} writes one column, but {len(columns)} are given: {', '.join(columns)}",
            cause=f"format={form!r}",
            action="select one column, or write Json()",
            columns=list(columns),
        )
    return column_named(columns[0])


def column_named(name: str) -> Column:
    """A top-level column by its exact name, dots and all."""
    return F.col(f"`{name.replace('`', '``')}`")
