"""Formats of one column: text, and bytes as they are.

Must not know: Kafka, topics, sources, sinks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import BinaryType

from onceflow.errors import ConfigurationError
from onceflow.formats.contract import Format, PartOfRecord, RecordReading, column_named
from onceflow.options.arguments import named_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column
    from pyspark.sql.types import StructField


@named_fields
@dataclass(frozen=True)
class Text(Format, RecordReading):
    """UTF-8 text in one column. Null stays null in both directions; bytes that are not UTF-8 are malformed.

    Writing takes one column of any type that Spark casts to string.
    """

    def fields(self) -> None:
        """None: it is one column."""

    def parsed(self, column: Column) -> Column:
        """The text."""
        return column.cast("string")

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:  # noqa: ARG002 - the contract's
        """See the class."""
        return F.coalesce(~F.is_valid_utf8(parsed), F.lit(False))

    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:  # noqa: ARG002 - the contract's
        """There is but one."""
        return F.lit("its bytes are not UTF-8")

    def columns(self, parsed: Column) -> list[Column]:
        """The text."""
        return [parsed]

    def reading(self, part: PartOfRecord) -> RecordReading:  # noqa: ARG002 - the contract's
        """As it is: it needs nothing from elsewhere."""
        return self

    def encode(self, columns: Sequence[StructField], part: PartOfRecord) -> Column:  # noqa: ARG002 - the contract's
        """One column as text."""
        return _only(self, columns).cast("string").cast("binary")


@named_fields
@dataclass(frozen=True)
class Raw(Format, RecordReading):
    """The bytes as they are, in one binary column. Null stays null in both directions; nothing is malformed."""

    def fields(self) -> None:
        """None: it is one column."""

    def parsed(self, column: Column) -> Column:
        """The bytes."""
        return column

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> None:
        """None: it reads any bytes."""

    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:  # noqa: ARG002 - the contract's
        """There is none."""
        return F.lit("")

    def columns(self, parsed: Column) -> list[Column]:
        """The bytes."""
        return [parsed]

    def reading(self, part: PartOfRecord) -> RecordReading:  # noqa: ARG002 - the contract's
        """As it is: it needs nothing from elsewhere."""
        return self

    def encode(self, columns: Sequence[StructField], part: PartOfRecord) -> Column:  # noqa: ARG002 - the contract's
        """One column; a type that Spark does not cast to binary is refused when the query is made."""
        return _only(self, columns).cast(BinaryType())


def _only(form: Format, columns: Sequence[StructField]) -> Column:
    names = [field.name for field in columns]
    if len(names) != 1:
        raise ConfigurationError(
            f"{type(form).__name__} writes one column, but {len(names)} are given: {', '.join(names)}",
            cause=f"format={form!r}",
            action="select one column, or write Json()",
            columns=names,
        )
    return column_named(names[0])
