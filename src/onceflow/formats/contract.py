"""What a format is: how bytes become columns, and columns bytes; and what it must learn elsewhere before it can.

Must not know: any particular format, Kafka, sources, sinks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column
    from pyspark.sql.types import StructField, StructType


class Format(ABC):
    """Between bytes and columns. Immutable; one object may serve many sources and sinks."""

    @abstractmethod
    def parsed(self, column: Column) -> Column:
        """Binary to this format's one column, which may be costly; to be evaluated once per record."""

    @abstractmethod
    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column | None:
        """True where this format cannot read the bytes, else false (never null); None if it reads any bytes.

        Args:
            column: The bytes.
            parsed: What ``parsed`` made of them.
            latest: The latest time that is plausible, None for any.
        """

    @abstractmethod
    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """Why it is malformed, where it is: words and names of fields, never anything of the record's content."""

    @abstractmethod
    def columns(self, parsed: Column) -> list[Column]:
        """The fields of a record, named and typed, from what ``parsed`` made; or the one column."""

    @abstractmethod
    def fields(self) -> StructType | None:
        """The fields of a record, or None where the whole of it is one column."""

    @abstractmethod
    def encode(self, columns: Sequence[StructField]) -> Column:
        """These columns of a row as one binary column."""

    def require_readable(self) -> None:  # noqa: B027 - most formats read anything
        """Raise what can be known without a SparkSession to stand in the way of reading."""


def column_named(name: str) -> Column:
    """A top-level column by its exact name, dots and all."""
    return F.col(f"`{name.replace('`', '``')}`")
