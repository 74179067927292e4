"""What a format is: how bytes become columns, and columns bytes; and what it must learn elsewhere before it can.

Must not know: any particular format, Kafka, sources, sinks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

from onceflow.formats.registry import SchemaRegistry

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column
    from pyspark.sql.types import StructField, StructType


@dataclass(frozen=True, slots=True)
class PartOfRecord:
    """Which bytes a format is asked for.

    Attributes:
        topics: Of which topic; several, or a pattern's text, where a source reads them.
        part: Its records' key, or their value.
        fails: A record that cannot be read ends the job; else it is left out.
    """

    topics: tuple[str, ...]
    part: Literal["key", "value"]
    fails: bool = True


class RecordReading(ABC):
    """How bytes become columns, with all that is needed for it known. Immutable."""

    @abstractmethod
    def parsed(self, column: Column) -> Column:
        """Binary ``column`` to this format's one column, which may be costly; to be evaluated once per record."""

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
        """Why it is malformed, where it is: words and names of fields, never anything of the record's content.

        Args:
            column: The bytes.
            parsed: What ``parsed`` made of them.
            latest: As of ``malformed``.
        """

    @abstractmethod
    def columns(self, parsed: Column) -> list[Column]:
        """The fields of a record, named and typed, from what ``parsed`` made; or the one column."""

    @abstractmethod
    def fields(self) -> StructType | None:
        """The fields of a record, or None where the whole of it is one column."""

    def nothing(self, column: Column) -> Column | None:  # noqa: ARG002 - most formats have none
        """True where a record says nothing: it gives no row, and is not malformed; never null. None for never."""
        return None

    def placed(self, parsed: Column, stream: Column, arrival: Column) -> list[Column]:  # noqa: ARG002 - few need it
        """Fields behind those of ``columns``, where it matters how a record came.

        Args:
            parsed: As of ``columns``.
            stream: A text: through what it came in an order.
            arrival: A whole number: of one stream, a greater one came later.
        """
        return []

    def unknown(self, column: Column) -> Column | None:  # noqa: ARG002 - most formats know all that they need
        """A text that says what must be learned before these bytes can be read, null where nothing; None for never.

        The epoch fails by it, the query begins again, and ``Format.reading`` learns it.
        """
        return None


class Format(ABC):
    """Between bytes and columns. Immutable; one object may serve many sources and sinks.

    Attributes:
        registry: Where it asks for schemas; None for nowhere.
    """

    registry: SchemaRegistry | None = None

    @abstractmethod
    def reading(self, part: PartOfRecord) -> RecordReading:
        """How it reads; asked once when a source is loaded.

        What it must learn elsewhere it asks ``schemas.present_schemas``, which keeps what a second run needs.

        Raises:
            OnceflowError: It cannot read, or cannot learn how.
        """

    @abstractmethod
    def encode(self, columns: Sequence[StructField], part: PartOfRecord) -> Column:
        """These columns of a row as one binary column.

        Args:
            columns: Their names and types, in their order; of the row they are ``F.col(name)``.
            part: Which bytes they become.

        Raises:
            OnceflowError: They have no form here, or it cannot learn how.
        """

    def require_readable(self) -> None:  # noqa: B027 - most formats read anything
        """Raise what can be known without a SparkSession to stand in the way of reading."""


def column_named(name: str) -> Column:
    """A top-level column by its exact name, dots and all."""
    return F.col(f"`{name.replace('`', '``')}`")
