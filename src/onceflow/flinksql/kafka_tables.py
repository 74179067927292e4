"""Tables of kafka and upsert-kafka: the cluster, the source and the sink that their options mean.

Must not know: queries, jobs. Every property of Java's clients that is taken stands here once, with its name elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.sink import KafkaSink
from onceflow.connectors.kafka.source import KafkaSource
from onceflow.flinksql import avro_tables
from onceflow.flinksql.avro_tables import AVRO
from onceflow.flinksql.catalogue import DefinedTable, key_fields, value_fields
from onceflow.flinksql.connectors import FORMATS
from onceflow.flinksql.kinds import Kind, quoted
from onceflow.flinksql.problems import refused, whole_number, wrong
from onceflow.flinksql.records import reader, written
from onceflow.formats.contract import Format
from onceflow.formats.text_format import Raw

if TYPE_CHECKING:
    from pyspark.sql import Column

_SAME = (
    "linger.ms", "batch.size", "compression.type", "delivery.timeout.ms", "request.timeout.ms", "retry.backoff.ms",
    "retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "metadata.max.age.ms",
    "connections.max.idle.ms", "client.dns.lookup", "client.rack",
)  # fmt: skip
_LIBRDKAFKAS = {name: name for name in _SAME} | {
    "buffer.memory": "queue.buffering.max.kbytes",
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
"""What librdkafka calls what a producer of Java's has."""
_CONSUMERS = (
    "fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes", "max.poll.records",
    "max.poll.interval.ms", "session.timeout.ms", "heartbeat.interval.ms", "default.api.timeout.ms", "check.crcs",
    "allow.auto.create.topics", "exclude.internal.topics", "socket.connection.setup.timeout.ms",
    "socket.connection.setup.timeout.max.ms", "request.timeout.ms", "send.buffer.bytes", "receive.buffer.bytes",
    "retry.backoff.ms", "retry.backoff.max.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms",
    "metadata.max.age.ms", "connections.max.idle.ms", "client.dns.lookup", "client.rack",
)  # fmt: skip
_PROPERTIES = "properties."
_Fields = Mapping[str, tuple[str, Kind]]
"""By the name in the record: the column's name in the row, and its type."""
_OFFSETS = re.compile(r"partition:([0-9]{1,9}),offset:([0-9]{1,18})")
_JAAS = re.compile(r"\.(Plain|Scram)LoginModule\s+required\b(.*);\s*$", re.DOTALL)


def _properties(table: DefinedTable) -> dict[str, str]:
    values = table.options.values
    return {key.removeprefix(_PROPERTIES): value for key, value in values.items() if key.startswith(_PROPERTIES)}


def cluster_of(table: DefinedTable, servers: str | None) -> KafkaCluster:
    """The cluster of a table.

    Args:
        table: The table.
        servers: Brokers that go before those of the table.

    Raises:
        ConfigurationError: None are named, or the login cannot be had by all clients.
    """
    given = _properties(table)
    brokers = servers or given.get("bootstrap.servers")
    if not brokers:
        raise wrong(
            table.definition.at,
            f"table {table.name} has no 'properties.bootstrap.servers'",
            action="write it into its WITH",
        )
    more: dict[str, Any] = {}
    if "client.id" in given:
        more["client_id"] = given["client.id"]
    if "security.protocol" in given:
        more["security_protocol"] = given["security.protocol"]
    if "sasl.mechanism" in given:
        more["sasl_mechanism"] = given["sasl.mechanism"]
    if "sasl.jaas.config" in given:
        more |= _login(table, given["sasl.jaas.config"])
    if "ssl.truststore.location" in given:
        if given.get("ssl.truststore.type", "JKS").upper() != "PEM":
            at = table.options.positions["properties.ssl.truststore.location"]
            raise refused(
                at, "a trust store that is no PEM file", "two of three clients read PEM only",
                "write it with keytool as PEM, and 'properties.ssl.truststore.type' = 'PEM'",
            )  # fmt: skip
        more["ssl_ca"] = given["ssl.truststore.location"]
    return KafkaCluster(brokers, **more)


def _login(table: DefinedTable, text: str) -> dict[str, str]:
    """User and password from JAAS text. What it is told of an error is never the text itself."""
    found = _JAAS.search(text)
    words = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[2])) if found is not None else {}
    if not {"username", "password"} <= words.keys():
        raise refused(
            table.options.positions["properties.sasl.jaas.config"],
            "this 'properties.sasl.jaas.config'",
            'it has no PlainLoginModule or ScramLoginModule with username="…" and password="…"',
            "see docs/security.md",
        )
    return {name: re.sub(r"\\(.)", r"\1", words[name]) for name in ("username", "password")}


def source_of(table: DefinedTable, servers: str | None, max_ahead: str | None) -> KafkaSource:
    """What reads a table.

    Raises:
        ConfigurationError: An option that cannot work.
    """
    values, given = table.options.values, _properties(table)
    kinds: dict[str, Kind] = {each.name: each.kind for each in table.physical if each.kind is not None}
    fields, keys = value_fields(table), key_fields(table)
    form = values.get("value.format", values.get("format", "json"))
    key = None
    if keys and values.get("value.fields-include") == "EXCEPT_KEY":
        prefix = values.get("key.fields-prefix", "")
        wanted = {name.removeprefix(prefix): kinds[name] for name in keys}
        key = format_of(table, values["key.format"], wanted, "key.")
    metadata = [name for name in dict.fromkeys(each.metadata for each in table.metadata) if name is not None]
    # Those of keys, where they are read, are the same: a table with others is refused.
    skipping = options_of(table, "value.").get(f"{form}.ignore-parse-errors", "false").lower() == "true"
    topics: Any = re.compile(values["topic-pattern"]) if "topic-pattern" in values else values["topic"].split(";")
    options = {f"kafka.{name}": given[name] for name in _CONSUMERS if name in given}
    return KafkaSource(
        cluster_of(table, servers),
        topics,
        value=format_of(table, form, {name: kinds[name] for name in fields}, "value."),
        key=key,
        metadata=metadata,
        start=_start(table, given.get("group.id")),
        group=given.get("group.id"),
        isolation="read_uncommitted" if given.get("isolation.level") == "read_uncommitted" else "read_committed",
        on_malformed="skip" if skipping else "fail",
        max_ahead=max_ahead,
        options=options,
    )


def format_of(table: DefinedTable, form: str, columns: Mapping[str, Kind], part: str) -> Format:
    """The format of keys, or of values.

    Args:
        table: The table.
        form: The format's name.
        columns: By their names in the record.
        part: ``key.`` or ``value.``.
    """
    options, positions = options_of(table, part), table.options.positions
    if form in AVRO:
        # As in Flink a PRIMARY KEY's columns are NOT NULL.
        prefix = table.options.values.get("key.fields-prefix", "") if part == "key." else ""
        keys = {name.removeprefix(prefix) for name in table.definition.primary_key}
        columns = {name: replace(kind, nullable=kind.nullable and name not in keys) for name, kind in columns.items()}
        where = dict(positions) | {key.removeprefix(part): at for key, at in positions.items() if key.startswith(part)}
        return avro_tables.format_of(form, columns, options, where, table.definition.at)
    return reader(form, columns, options)


def options_of(table: DefinedTable, part: str) -> dict[str, str]:
    """The options of the format of keys, or of values, by their plain names."""
    values = table.options.values
    plain = {key: value for key, value in values.items() if key.startswith(tuple(f"{form}." for form in FORMATS))}
    if part == "key.":
        plain = {}
    return plain | {key.removeprefix(part): value for key, value in values.items() if key.startswith(part)}


def _start(table: DefinedTable, group: str | None) -> Any:
    values = table.options.values
    mode = values.get("scan.startup.mode", "group-offsets" if group else "earliest-offset")
    if mode == "timestamp":
        key = "scan.startup.timestamp-millis"
        at = table.options.positions[key]
        number = whole_number(at, key, values[key])
        try:
            return datetime.fromtimestamp(number / 1000, UTC)
        except (OverflowError, OSError, ValueError):
            raise wrong(at, f"'{key}' is no time up to the year 9999", action="write milliseconds since 1970") from None
    if mode == "specific-offsets":
        return _specific(table, values["scan.startup.specific-offsets"])
    return mode.removesuffix("-offset")


def _memory(table: DefinedTable, text: str) -> int:
    key = "properties.buffer.memory"
    return whole_number(table.options.positions.get(key, table.definition.at), key, text)


def _specific(table: DefinedTable, text: str) -> Mapping[str, Mapping[int, int]]:
    at = table.options.positions["scan.startup.specific-offsets"]
    found = [_OFFSETS.fullmatch(part.strip()) for part in text.rstrip(";").split(";")]
    topic = table.options.values.get("topic", "")
    if not all(found) or not topic or ";" in topic:
        raise wrong(
            at, f"{text!r} are no offsets of one topic", action="write 'partition:0,offset:42;partition:1,offset:300'"
        )
    return {topic: {int(each[1]): int(each[2]) for each in found if each is not None}}


def written_of(table: DefinedTable) -> tuple[Column | None, Column]:
    """A row's key, None where the table has none, and its value: each as bytes, or as what the sink makes bytes of."""
    key, value = (
        _row(fields) if form in AVRO else written(form, fields, options_of(table, part)) if fields else None
        for part, form, fields in _parts_of_record(table)
    )
    assert value is not None  # noqa: S101 - a table has columns
    return key, value


def _row(fields: _Fields) -> Column:
    return F.struct(*(F.col(quoted(column)).alias(name) for name, (column, _) in fields.items()))


def _parts_of_record(table: DefinedTable) -> Iterator[tuple[str, str, _Fields]]:
    """Key and value: the prefix of its options, its format, its fields."""
    values, prefix = table.options.values, table.options.values.get("key.fields-prefix", "")
    kinds = {each.name: each.kind for each in table.written if each.kind is not None}
    keys = {name.removeprefix(prefix): (name, kinds[name]) for name in key_fields(table)}
    yield "key.", values.get("key.format", "raw") if keys else "raw", keys
    form = values.get("value.format", values.get("format", "json"))
    yield "value.", form, {name: (name, kinds[name]) for name in value_fields(table)}


def sink_of(table: DefinedTable, servers: str | None, *, columns: set[str], name: str) -> KafkaSink:
    """What writes a table. Where it names no guarantee, ``execution.checkpointing.mode`` says it, whoever sets that.

    Args:
        table: The table.
        servers: Brokers that go before those of the table.
        columns: Which columns a record has beside its value: key, headers, timestamp.
        name: The sink's name in the job.
    """
    values, given = table.options.values, _properties(table)
    # Avro asks for schemas, and so it is the sink's business; of the others the bytes are made before.
    key, value = (
        format_of(table, form, {name: kind for name, (_, kind) in fields.items()}, part) if form in AVRO else Raw()
        for part, form, fields in _parts_of_record(table)
    )
    producer: dict[str, Any] = {_LIBRDKAFKAS[key]: value for key, value in given.items() if key in _LIBRDKAFKAS}
    if "buffer.memory" in given:
        producer["queue.buffering.max.kbytes"] = max(1, _memory(table, given["buffer.memory"]) // 1024)
    timeout = given.get("transaction.timeout.ms")
    return KafkaSink(
        cluster_of(table, servers),
        values["topic"],
        key="key" if "key" in columns else None,
        key_format=key if "key" in columns else None,
        value=value,
        value_columns=["value"],
        headers="headers" if "headers" in columns else None,
        timestamp="timestamp" if "timestamp" in columns else None,
        name=name,
        guarantee=values.get("sink.delivery-guarantee"),
        transaction_timeout=None if timeout is None else f"{timeout} ms",
        producer=producer,
    )
