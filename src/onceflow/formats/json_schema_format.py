"""JSON behind a schema's id, as Confluent's serializer of JSON Schema writes it.

Must not know: Kafka, the registry's client, checkpoints; what a JSON Schema says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import StructField, StructType

from onceflow.errors import ConfigurationError
from onceflow.formats.contract import Format, PartOfRecord, RecordReading
from onceflow.formats.json_format import Json
from onceflow.formats.registry import SchemaRegistry
from onceflow.formats.schemas import present_schemas, subject_of
from onceflow.formats.wire_form import HEAD, WITHOUT_ID, has_head, head
from onceflow.options.arguments import named_fields, require_fields

if TYPE_CHECKING:
    from pyspark.sql import Column


@named_fields
@dataclass(frozen=True)
class JsonSchema(Format):
    """One JSON object behind the id of its JSON Schema: the byte 0, the id in four more, the object.

    Reading: the object is read as ``Json`` reads it, by the fields that are given here. The registry is not asked:
    a JSON Schema says what an object may be, and not how it is read. What has no id before it is malformed, and what
    is malformed to ``Json``.

    Writing: as ``Json`` writes, behind the id of the newest schema of the registry's subject, which the checkpoint
    keeps. Nothing is registered, and no object is compared with the schema.

    Args:
        schema: DDL or a ``StructType``. Sinks need none.
        registry: A sink's: where the id is looked up.
        subject: The registry's name for what is in a topic; ``<topic>-value`` or ``<topic>-key`` where it is None.
        timestamp_format: As of ``Json``.

    Raises:
        ConfigurationError: As of ``Json``, or a subject is given without a registry.
    """

    schema: str | StructType | None = None
    registry: SchemaRegistry | None = None
    subject: str | None = None
    timestamp_format: Literal["iso-8601", "epoch-seconds", "epoch-millis", "epoch-micros"] = "iso-8601"

    def __post_init__(self) -> None:
        require_fields(self)
        _ = self._json
        if self.subject is not None and self.registry is None:
            raise ConfigurationError(
                "JsonSchema is given a subject without a registry",
                cause=f"subject={self.subject}, registry=None",
                action="give registry=SchemaRegistry(url), or leave subject away",
            )

    def __hash__(self) -> int:
        return hash((self._json, self.registry, self.subject))

    @property
    def _json(self) -> Json:
        return Json(self.schema, timestamp_format=self.timestamp_format)

    def require_readable(self) -> None:
        """Raise if there is no schema, or, where Spark runs already, if it is none that Spark understands."""
        self._json.require_readable()

    def reading(self, part: PartOfRecord) -> RecordReading:  # noqa: ARG002 - the contract's
        """As ``Json`` reads what stands behind the id."""
        return _BehindAnId(self._json)

    def encode(self, columns: Sequence[StructField], part: PartOfRecord) -> Column:
        """One object with these fields, behind an id.

        Raises:
            ConfigurationError: There is no registry; or as of ``Json``.
            OnceflowError: The registry did not answer, or has no schema under the subject.
        """
        if self.registry is None:
            raise ConfigurationError(
                "a sink of JsonSchema needs the registry that has its schema",
                harmless="always: nothing was written",
                cause="registry=None",
                action="give registry=SchemaRegistry(url); or write Json(), without an id",
            )
        subject = subject_of(self.subject, part)
        found = present_schemas(self.registry, subject).writing(self.registry, subject, "JSON", text="", register=False)
        return F.concat(F.lit(head(found.id)), self._json.encode(columns, part))


@dataclass(frozen=True)
class _BehindAnId(RecordReading):
    """JSON behind an id.

    Attributes:
        json: How it reads.
    """

    json: Json

    def fields(self) -> StructType:
        """Those of the object."""
        return self.json.fields()

    def parsed(self, column: Column) -> Column:
        """As ``Json`` does."""
        return self.json.parsed(_behind(column))

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """What has no id, and what is malformed to ``Json``."""
        return self.json.malformed(_behind(column), parsed, latest)

    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """The first that holds."""
        has_none = column.isNotNull() & (F.length(column) > 0) & ~has_head(column)
        return F.when(has_none, F.lit(WITHOUT_ID)).otherwise(self.json.reason(_behind(column), parsed, latest))

    def columns(self, parsed: Column) -> list[Column]:
        """Each field, times as times."""
        return self.json.columns(parsed)


def _behind(column: Column) -> Column:
    """What stands behind an id; null where there is none."""
    return F.when(has_head(column), column.substr(F.lit(HEAD + 1), F.length(column)))
