"""Avro in tables: the schema that Flink makes of columns, the registry that options mean, rows to and from records.

Must not know: brokers, jobs. What Avro's bytes are is ``formats``' business.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import DataType, StructField, StructType

from onceflow.errors import ConfigurationError
from onceflow.flinksql.connectors import CHANGES
from onceflow.flinksql.kinds import Kind
from onceflow.flinksql.problems import Position, refused, wrong
from onceflow.flinksql.records import WholeReading
from onceflow.formats.avro_format import Avro, encoded
from onceflow.formats.avro_schema import NAME, Schema, dumps, of_columns
from onceflow.formats.contract import Format, PartOfRecord, RecordReading
from onceflow.formats.debezium_envelope import SOURCE
from onceflow.formats.debezium_format import Debezium
from onceflow.formats.registry import SchemaRegistry

if TYPE_CHECKING:
    from pyspark.sql import Column

AVRO: Final = ("avro", "avro-confluent", "debezium-avro-confluent")
_SPACE: Final = "org.apache.flink.avro.generated"
_SIMPLE: Final[Mapping[str, Schema]] = {
    "BOOLEAN": "boolean",
    "TINYINT": "int",
    "SMALLINT": "int",
    "INT": "int",
    "BIGINT": "long",
    "FLOAT": "float",
    "DOUBLE": "double",
    "STRING": "string",
    "BYTES": "bytes",
    "DATE": {"type": "int", "logicalType": "date"},
}
_MILLIS, _MICROS = 3, 6  # digits behind the second


def format_of(
    form: str, columns: Mapping[str, Kind], options: Mapping[str, str], positions: Mapping[str, Position], at: Position
) -> RowAvro:
    """The format of keys or of values.

    Args:
        form: One of ``AVRO``.
        columns: By their names in the record.
        options: The format's own, without the prefix of key or value.
        positions: Where each stands, likewise.
        at: Where the table stands.

    Raises:
        ConfigurationError: A column has no form in Avro, or an option cannot work.
    """

    def where(name: str) -> Position:
        return positions.get(name, at)

    of_changes = form in CHANGES
    if of_changes:  # of a row that is gone there may be no more than its key
        columns = {name: replace(kind, nullable=True) for name, kind in columns.items()}
    row = _record("record", columns, at) | {"namespace": _SPACE}
    schema = dumps(_envelope(row) if of_changes else row)
    if form == "avro":
        return RowAvro(Avro(schema), columns)
    given = {name.removeprefix(f"{form}."): value for name, value in options.items()}
    if "url" not in given:
        raise wrong(at, f"'{form}' has no '{form}.url'", action="write the schema registry's address")
    try:
        registry = SchemaRegistry(given["url"], **_login(form, given, where))
        inner = Avro(
            given.get("schema", schema),
            registry=registry,
            subject=given.get("subject"),
            register=not of_changes and given.get("auto.register.schemas", "true").lower() == "true",
        )
    except ConfigurationError as error:
        raise wrong(where(f"{form}.url"), f"'{form}': {error.what}", action=error.cause) from None
    return RowAvro(inner, columns, of_changes)


def _envelope(row: Schema) -> Schema:
    """A change of such a row, as far as it is read."""
    source = of_columns([StructField(name, kind) for name, kind in SOURCE.items()])
    kinds = {
        "before": ["null", row],
        "after": ["null", f"{_SPACE}.{row['name']}"],
        "source": ["null", {**source, "name": "Source"}],
        "op": ["null", "string"],
    }
    fields = [{"name": name, "type": kind, "default": None} for name, kind in kinds.items()]
    return {"type": "record", "name": "Envelope", "namespace": _SPACE, "fields": fields}


def _login(form: str, given: Mapping[str, str], where: Any) -> dict[str, Any]:
    """How to log in. What is told of an error is never what was given."""
    more: dict[str, Any] = {}
    for kind, key in (("basic-auth", "user-info"), ("bearer-auth", "token")):
        source = f"{kind}.credentials-source"
        if source in given and f"{kind}.{key}" not in given:
            action = f"write '{form}.{kind}.{key}'"
            raise wrong(where(f"{form}.{source}"), f"'{form}.{source}' has no login", action=action)
    if "bearer-auth.token" in given:
        more["token"] = given["bearer-auth.token"]
    if "basic-auth.user-info" in given:
        user, colon, password = given["basic-auth.user-info"].partition(":")
        if not colon:
            at = where(f"{form}.basic-auth.user-info")
            raise wrong(at, f"'{form}.basic-auth.user-info' has no colon", action="write user:password")
        more |= {"username": user, "password": password}
    return more


def _record(name: str, columns: Mapping[str, Kind], at: Position) -> dict[str, Any]:
    """As Flink's ``AvroSchemaConverter`` names and nests them, so that its jobs and ours have one schema."""
    fields = []
    for column, kind in columns.items():
        if not NAME.fullmatch(column):
            raise refused(at, f"a column {column} in Avro", "its names are letters, digits and _", "rename it")
        of = _of_kind(kind, f"{name}_{column}", at)
        fields.append({"name": column, "type": of} | ({"default": None} if kind.nullable else {}))
    return {"type": "record", "name": name, "fields": fields}


def _of_kind(kind: Kind, name: str, at: Position) -> Schema:
    match kind.name:
        case "DECIMAL":
            of: Schema = {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        case "TIMESTAMP" | "TIMESTAMP_LTZ" if (kind.precision or 0) <= _MICROS:
            unit = "millis" if (kind.precision or 0) <= _MILLIS else "micros"
            of = {"type": "long", "logicalType": f"timestamp-{unit}"}
        case "ARRAY":
            of = {"type": "array", "items": _of_kind(kind.inner[0], name, at)}
        case "MAP" if kind.inner[0].name == "STRING":
            of = {"type": "map", "values": _of_kind(kind.inner[1], name, at)}
        case "ROW":
            of = _record(name, dict(zip(kind.fields, kind.inner, strict=True)), at)
        case _ if kind.name in _SIMPLE:
            of = _SIMPLE[kind.name]
        case _:
            raise refused(at, f"a column of {kind} in Avro", "there is no such type in Avro", "choose another type")
    return ["null", of] if kind.nullable else of


@dataclass(frozen=True)
class RowAvro(Format):
    """Rows as one column, a struct of a table's columns: no name can clash with metadata, and no row is a tombstone."""

    inner: Avro
    kinds: Mapping[str, Kind]
    of_changes: bool = False

    @property
    def registry(self) -> SchemaRegistry | None:  # type: ignore[override]
        """The other's."""
        return self.inner.registry

    def reading(self, part: PartOfRecord) -> RecordReading:
        """As Avro, in one column, with the table's types."""
        avro = self.inner if self.inner.subject is not None or len(part.topics) == 1 else self._of_first(part)
        reading = (Debezium(avro) if self.of_changes else avro).reading(part)
        found = (reading.fields() or StructType()).fields
        _require_same(StructType(found[: len(self.kinds)] if self.of_changes else found), self.kinds)
        return _RowReading(reading, self.kinds)

    def _of_first(self, part: PartOfRecord) -> Avro:
        """Of several topics the first: the columns are the table's, and its versions are read ahead alone."""
        return Avro(self.inner.schema, registry=self.inner.registry, subject=f"{part.topics[0]}-{part.part}")

    def encode(self, columns: Sequence[StructField], part: PartOfRecord) -> Column:
        """A row's bytes; null where there is none."""
        (only,) = columns
        assert isinstance(only.dataType, StructType)  # noqa: S101 - it is a row
        row = F.col(only.name)
        return F.when(row.isNotNull(), encoded(self.inner, only.dataType.fields, part, row.getField))


def _require_same(found: StructType, kinds: Mapping[str, Kind]) -> None:
    """Refuse a schema that was given, and that is none of the table's columns: what is read is taken as it stands.

    Raises:
        ConfigurationError: Names what the schema has and what the table.
    """
    wanted = StructType([StructField(name, DataType.fromDDL(kind.spark())) for name, kind in kinds.items()])
    if _widened(found) != _widened(wanted):
        raise ConfigurationError(
            "the schema that is given is none of the table's columns",
            harmless="always: nothing was read",
            cause=f"the schema has {found.simpleString()}, and the table {wanted.simpleString()}",
            action="give it the same fields, in their order, of the same types; or remove it",
        )


def _widened(kind: DataType) -> str:
    """A type by what Avro tells apart: it has no smaller numbers than INT, and local times are UTC."""
    text = kind.simpleString()
    for other, same in (("tinyint", "int"), ("smallint", "int"), ("timestamp_ntz", "timestamp")):
        text = re.sub(rf"(^|[:<,]){other}(?=$|[>,])", rf"\1{same}", text)
    return text


@dataclass(frozen=True)
class _RowReading(WholeReading):
    kinds: Mapping[str, Kind]

    def columns(self, parsed: Column) -> list[Column]:
        """One: the row in the table's types (Avro's smallest number is INT), and what a change has beside it."""
        found, kinds = self.inner.columns(parsed), self.kinds.items()
        row = (column.cast(kind.spark()).alias(name) for column, (name, kind) in zip(found, kinds, strict=False))
        return [F.struct(*row, *found[len(kinds) :])]
