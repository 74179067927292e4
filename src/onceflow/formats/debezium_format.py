"""Debezium: changes of a database's rows, each with where it stands in the database's log.

Must not know: Kafka, topics, sources, sinks.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegralType,
    StringType,
    StructField,
    StructType,
)

from onceflow.errors import ConfigurationError
from onceflow.formats.avro_format import Avro
from onceflow.formats.changes import FIRST, LAST, SEQUENCE
from onceflow.formats.contract import Format, PartOfRecord, RecordReading
from onceflow.formats.debezium_envelope import AvroEnvelope, Envelope, JsonEnvelope
from onceflow.formats.json_format import Json
from onceflow.formats.registry import SchemaRegistry
from onceflow.options.arguments import named_fields, require_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

DELETED, SEQUENCED = "debezium_deleted", "debezium_sequence"
_ABSENT = "__debezium_unavailable_value"
_LEFT_OUT = "Debezium has left a value out that is stored apart: set REPLICA IDENTITY FULL for the table"
_READ, _DELETE = "r", "d"
_OF_BINLOG = ("mysql", "mariadb")


@named_fields
@dataclass(frozen=True)
class Debezium(Format):
    """Changes of one table as Debezium's connectors for PostgreSQL, MySQL and MariaDB write them, as JSON or Avro.

    Columns: those of the row; ``debezium_deleted`` boolean, true of a delete, whose row has its key and maybe no more;
    and ``debezium_sequence``, by which a ``DatabaseSink`` orders changes (``sequence_by``). A tombstone is no row, and
    not malformed. Malformed are: what ``row`` cannot read; a truncate; a record of transactions' metadata or of the
    schema's history; what Debezium's ``ExtractNewRecordState`` has made of a change; a row of which Debezium has left a
    value out that is stored apart (TOAST) and has not changed; a server that ``servers`` does not name. For reading
    only.

    A change is known by its position in the log (``source.lsn``; ``source.file`` and ``pos``), a row that a snapshot
    has read is older than the log from the snapshot's ``lsn`` on, and what neither tells is told by the arrival in one
    partition. Positions of two servers do not compare: a server is the connector's ``topic.prefix``, with ``/`` and its
    ``server_id`` for MySQL and MariaDB.

    Args:
        row: How ``before`` and ``after`` are read: ``Json(schema)`` with the table's columns. The connector's
            ``decimal.handling.mode`` is ``string`` for decimals; dates and times without a zone are whole numbers
            (``int`` of days; ``bigint``). Or ``Avro(registry=…)``, whose reader's schema is that of the whole record,
            as the connector has registered it; the columns are those of its ``after``.
        servers: The servers whose changes come, in their order: of two changes of a key the one of the later server is
            the newer, whatever its position. Needed where a source is put back, or is another server, or is read by a
            snapshot again, which then begins under a ``topic.prefix`` of its own. Empty: one server.

    Raises:
        ConfigurationError: ``row`` is no ``Json`` with a schema and no ``Avro``, or a server is named twice.
    """

    row: Json | Avro
    servers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.row, Json | Avro):
            raise ConfigurationError(
                f"Debezium reads rows by Json or Avro, and not by {type(self.row).__name__}",
                cause=f"row={self.row!r}",
                action='write Debezium(Json("id bigint, name string")), and let the connector write JSON '
                "(value.converter=org.apache.kafka.connect.json.JsonConverter); or Debezium(Avro(registry=…))",
            )
        require_fields(self)
        if len(set(self.servers)) < len(self.servers):
            raise ConfigurationError(
                "Debezium's servers are named in their order, each once",
                cause=f"servers={self.servers!r}",
                action="leave one of the two that are the same away",
            )

    @property
    def registry(self) -> SchemaRegistry | None:  # type: ignore[override]
        """The row's."""
        return self.row.registry

    def require_readable(self) -> None:
        """Raise if there is no schema."""
        self.row.require_readable()

    def reading(self, part: PartOfRecord) -> RecordReading:
        """How it reads: values only, since a record's key is no change."""
        if part.part == "key":
            raise ConfigurationError(
                "Debezium is the format of values, not of keys",
                cause=f"key={self!r}",
                action='write value=Debezium(…), and key=Json("id bigint") if the key is asked for',
            )
        if isinstance(self.row, Json):
            return _Reading(JsonEnvelope(self.row), self.row.fields(), self.servers)
        envelope = AvroEnvelope(self.row.reading(part))
        return _Reading(envelope, envelope.fields_of_row(), self.servers)

    def encode(self, columns: Sequence[StructField], part: PartOfRecord) -> Column:  # noqa: ARG002 - the contract's
        """Refused.

        Raises:
            ConfigurationError: Always.
        """
        raise ConfigurationError(
            "Debezium is a format for reading only",
            cause="a sink's value=Debezium(…)",
            action="write Json() at the sink",
        )


@dataclass(frozen=True)
class _Reading(RecordReading):
    envelope: Envelope
    of_row: StructType
    servers: tuple[str, ...]

    def parsed(self, column: Column) -> Column:
        """A struct.

        ``of``: the change, its row as it came, its server and position; ``generation``; ``row``: what was made of that;
        ``said``: why it is malformed, unless its row alone is.
        """

        def change_of(opened: Column) -> Column:
            change = self.envelope.change(opened)
            corrupt = self.envelope.corrupt(column, opened, change)
            again = [opened.alias("opened")] if self.envelope.is_looked_at_again else []
            return F.struct(change.alias("change"), corrupt.alias("corrupt"), *again)

        def placed(of: Column) -> Column:
            change = of["change"]
            content = F.when(change["op"] == _DELETE, change["before"]).otherwise(change["after"])
            position, server = self._position(change["source"]), self._server(change)
            return of.withField("content", content).withField("position", position).withField("server", server)

        def with_row(of: Column) -> Column:
            row, generation = self.envelope.row(of["content"]), self._generation(of["change"]["source"], of["server"])
            return F.struct(of.alias("of"), generation.alias("generation"), row.alias("row"))

        def with_reason(it: Column) -> Column:
            return it.withField("said", self._said(column, it))

        # A function's argument is evaluated once, where Spark would put the parser into each place that asks for it.
        steps = F.array(self.envelope.opened(column))
        for step in (change_of, placed, with_row, with_reason):
            steps = F.transform(steps, step)
        return F.get(steps, F.lit(0))

    def _said(self, column: Column, it: Column) -> Column:
        """The first that holds of what is wrong beside the row."""
        of = it["of"]
        change, content = of["change"], of["content"]
        source, op = change["source"], change["op"]
        known = F.coalesce(source["connector"].isin("postgresql", *_OF_BINLOG), F.lit(False))
        is_change = op != _READ
        corrupt = F.when(column.isNotNull(), of["corrupt"])
        wrong = {
            "it is a record of the schema's history: no change": op.isNull() & change["ddl"].isNotNull(),
            "it is a record of transactions' metadata": op.isNull() & change["status"].isNotNull(),
            "it has no op: it is no change, or ExtractNewRecordState has unwrapped it": op.isNull(),
            "it is a truncate: set the connector's skipped.operations to t, or empty the table": op == "t",
            "it is a message, no change of a row": op == "m",
            "its op is none that is known": ~op.isin("c", "u", _READ, _DELETE),
            "it is a delete without before: the table's REPLICA IDENTITY is NOTHING": content.isNull()
            & (op == _DELETE),
            "it has no after": content.isNull(),
            "it is of a connector of which no order is known": ~known,
            "its source has no name": source["name"].isNull(),
            "its source has no position": is_change & of["position"].isNull(),
            "its source has no server_id": is_change & of["server"].isNull(),
            "it is of a server that servers does not name": it["generation"].isNull(),
            _LEFT_OUT: (op != _DELETE) & self._absent(it["row"]),
        }
        told = (F.when(holds, F.lit(why)) for why, holds in wrong.items())
        return F.coalesce(F.when(column.isNull(), F.lit("it is null, a tombstone")), corrupt, *told)

    def nothing(self, column: Column) -> Column:
        """A tombstone, which follows a delete."""
        return column.isNull()

    def unknown(self, column: Column) -> Column | None:
        """A schema that the registry is to be asked for."""
        return self.envelope.unknown(column)

    def malformed(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """See the class."""
        return parsed["said"].isNotNull() | self.envelope.row_malformed(column, parsed, latest)

    def reason(self, column: Column, parsed: Column, latest: Column | None) -> Column:
        """The first that holds."""
        of_row = self.envelope.row_reason(column, parsed, latest)
        return F.coalesce(parsed["said"], F.concat(F.lit("its row: "), of_row))

    def columns(self, parsed: Column) -> list[Column]:
        """The row's, and whether it was deleted."""
        deleted = parsed["of"]["change"]["op"] == _DELETE
        return [*self.envelope.values(parsed["row"]), deleted.alias(DELETED)]

    def placed(self, parsed: Column, stream: Column, arrival: Column) -> list[Column]:
        """The change's sequence."""
        of = parsed["of"]
        is_read, position = of["change"]["op"] == _READ, of["position"]
        # A binlog's position says no server.
        of_log = F.when(of["change"]["source"]["connector"] == "postgresql", position - 1)
        parts = {
            "generation": parsed["generation"],
            "server": of["server"],
            "not_before": F.when(is_read, F.lit(FIRST)).otherwise(position),
            "not_after": F.when(is_read, F.coalesce(of_log, F.lit(LAST))).otherwise(position),
            "stream": stream,
            "arrival": arrival,
        }
        made = (parts[field.name].cast(field.dataType).alias(field.name) for field in SEQUENCE)
        return [F.struct(*made).alias(SEQUENCED)]

    def fields(self) -> StructType:
        """The row's, and Debezium's."""
        return StructType([*self.of_row.fields, StructField(DELETED, BooleanType()), StructField(SEQUENCED, SEQUENCE)])

    @staticmethod
    def _position(source: Column) -> Column:
        number = F.regexp_extract(source["file"], r"\.([0-9]+)$", 1)
        file = F.when(number != "", number.cast("bigint"))
        binlog = F.when((file < (1 << 31)) & (source["pos"] < (1 << 32)), F.shiftleft(file, 32) + source["pos"])
        return F.when(source["connector"] == "postgresql", source["lsn"]).otherwise(binlog)

    @staticmethod
    def _server(change: Column) -> Column:
        """Whose positions these are; null where a record does not say it, as a snapshot's of MySQL."""
        source = change["source"]
        numbered = F.when(
            (source["server_id"] != 0) & (change["op"] != _READ), F.concat_ws("/", source["name"], source["server_id"])
        )
        return F.when(source["connector"].isin(*_OF_BINLOG), numbered).otherwise(source["name"])

    def _generation(self, source: Column, server: Column) -> Column:
        """The place of its server among those that are named; null where it is not named, or not told from others."""
        if not self.servers:
            return F.lit(0)
        name = source["name"]
        found = F.lit(None).cast("int")
        for at, each in enumerate(self.servers):
            found = F.when(server == each, F.lit(at)).otherwise(found)
        of_prefix = {each.rpartition("/")[0]: at for at, each in enumerate(self.servers) if "/" in each}
        for prefix, at in of_prefix.items():
            if sum(each.rpartition("/")[0] == prefix for each in self.servers) == 1:
                found = F.when(server.isNull() & (name == prefix), F.lit(at)).otherwise(found)
        return found

    def _absent(self, row: Column) -> Column:
        """A column has Debezium's sign for a value that is stored apart and was not sent, in the form of its type."""
        found, octets = F.lit(False), _ABSENT.encode()
        for field in self.of_row:
            value, kind = row.getField(field.name), field.dataType
            if isinstance(kind, StringType):
                signs = (_ABSENT, base64.b64encode(octets).decode(), octets.hex())
                found |= F.coalesce(value.isin(*signs), F.lit(False))
            elif isinstance(kind, BinaryType):
                found |= F.coalesce(value == F.lit(octets), F.lit(False))
            elif isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType):
                found |= F.coalesce(F.array_contains(value, _ABSENT), F.lit(False))
            elif isinstance(kind, ArrayType) and isinstance(kind.elementType, IntegralType):
                sign = F.array(*(F.lit(each) for each in octets)).cast(kind)
                found |= F.coalesce(value == sign, F.lit(False))
        return found
