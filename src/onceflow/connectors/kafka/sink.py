"""KafkaSink: what a user writes to send rows to Kafka.

Must not know: the journal, how epochs run. A description, in which nothing is open: what a start finds out about the
topic stands in ``sink_connection``, its writers in ``writer``, its committer in ``committer``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from onceflow.connectors.contract import Guarantee, Sink, SinkConnection
from onceflow.connectors.kafka.broker_checks import BROKER_DEFAULT_MAX_TIMEOUT_MS
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.partition import is_topic_name
from onceflow.connectors.kafka.producer_names import require_producer
from onceflow.errors import ConfigurationError, RefusedSettingError
from onceflow.formats.contract import Format, PartOfRecord, column_named
from onceflow.formats.json_format import Json
from onceflow.formats.registry import SchemaRegistry
from onceflow.formats.text_format import Text
from onceflow.options.arguments import checked, named_fields, require_fields, wrong
from onceflow.options.durations import duration_ms
from onceflow.options.rules import refuses, rule_for
from onceflow.twophase.names import SINK_NAME

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

log = logging.getLogger(__name__)

_TRANSACTIONS = "the two-phase commit needs it to be as it sets it"
_CLUSTER = "it belongs to the cluster"
# librdkafka's producer settings that would break the guarantee.
_REFUSED = (
    refuses("transactional.id", _TRANSACTIONS, "use Job(transactional_id_prefix=...)"),
    refuses("transaction.timeout.ms", "it is checked against the broker's maximum", "use transaction_timeout="),
    refuses("enable.idempotence", "without it a retry inside librdkafka doubles records", "remove it"),
    refuses("acks", "a record that only the leader has is lost with it", "remove it: it is always all"),
    refuses(
        "request.required.acks", "a record that only the leader has is lost with it", "remove it: it is always all"
    ),
    refuses("max.in.flight", "librdkafka sets it for idempotence", "remove it"),
    refuses("max.in.flight.requests.per.connection", "librdkafka sets it for idempotence", "remove it"),
    refuses("retries", "a record that is not tried again fails its epoch", "remove it"),
    refuses("message.send.max.retries", "a record that is not tried again fails its epoch", "remove it"),
    refuses("delivery.report.only.error", "the pre-commit is proven by a delivery report", "remove it"),
    refuses("statistics.interval.ms", "the pre-commit is proven by statistics", "remove it"),
    refuses("enable.gapless.guarantee", _TRANSACTIONS, "remove it"),
    refuses(
        "partitioner", "it is murmur2_random, as in every Java producer", "use partition= for partitions of your own"
    ),
    refuses("bootstrap.servers", _CLUSTER, "use KafkaCluster"),
    refuses("metadata.broker.list", _CLUSTER, "use KafkaCluster"),
    refuses("security.protocol", _CLUSTER, "use KafkaCluster"),
    refuses(
        "oauth_cb",
        "Spark's Java client, which reads, cannot call Python",
        "use KafkaCluster(oauth_token_endpoint=..., oauth_client_id=..., oauth_client_secret=...)",
    ),
    refuses("sasl.*", _CLUSTER, "use KafkaCluster"),
    refuses("ssl.*", _CLUSTER, "use KafkaCluster"),
)
# The columns that Spark's own Kafka sink knows, and what writes the same of each.
_SPARKS: Mapping[str, str] = {
    "value": 'value=of.{}(), value_columns=["value"]',
    "key": 'key="key"',
    "headers": 'headers="headers"',
    "partition": 'partition="partition"',
    "topic": 'topic_column="topic"',
}


@named_fields
@dataclass(frozen=True)
class NewTopic:
    """How to make a topic that does not exist.

    Attributes:
        partitions: Number of partitions.
        replication_factor: Copies; None takes the broker's default.
        config: Topic settings.

    Raises:
        ConfigurationError: A value that cannot work.
    """

    partitions: int
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        require_fields(self)
        if self.partitions < 1:
            wrong("NewTopic", "partitions", repr(self.partitions), "a number from 1 on")


class KafkaSink(Sink):
    """Rows to a Kafka topic.

    Args:
        cluster: Where to.
        topic: The topic.
        key: Column or columns of the record key; None writes no key. One column is written as text, several as a JSON
            object, unless ``key_format`` says otherwise.
        value: Format of the record value: ``Json()`` (an object of all columns that are not named below),
            ``Text()`` or ``Raw()`` (of exactly one column). It must be given where the output's columns are those of
            Spark's own Kafka sink (``key``, ``value``, ``headers``, ``topic``, ``partition``), which writes the column
            ``value`` alone.
        key_format: Format of the key.
        value_columns: Columns of the value; None takes all that are not named by ``headers``, ``timestamp``,
            ``partition`` or ``topic_column``. Key columns stay in the value.
        headers: A column of type ``array<struct<key: string, value: binary>>``.
        timestamp: A column of type ``timestamp``: the record's time. None lets the client take the present time, as
            null does. Kafka keeps milliseconds: what is finer is cut off, towards the past. A row with
            1970-01-01T00:00:00Z, to the millisecond, fails its epoch: Kafka's client takes it for no time and would
            write the present one. So does one that is further from the present than the topic allows
            (``message.timestamp.after.max.ms``: an hour from Kafka 4.0 on).
        partition: A column of type ``int``; null lets the partitioner choose by key (murmur2, as Java's does).
        topic_column: A string column: the topic of each row, ``topic`` where it is null. Topics must exist.
        name: The sink's name, unique in the job: letters, digits, ``.``, ``_``, ``-``. The topic by default.
        guarantee: ``"exactly-once"``, ``"at-least-once"`` or ``"none"``. None is what the job's mode says
            (``Checkpointing(mode=…)``): exactly-once unless that is another one.
        transaction_timeout: How long the broker keeps an undecided transaction: ``"10 min"``, seconds, or None for
            the most that the broker allows (``transaction.max.timeout.ms``). A job that is down for longer
            finds its decided transactions expired.
        create_topic: Make the topic like this if it does not exist; None refuses to start.
        on_refused: A sink for rows that the topic does not take: larger than it takes a record, in a partition that is
            not there, of 1970-01-01T00:00:00Z, or without a key where it is compacted; with a column ``reason`` before
            their own, in the same epoch and decision. Not beside ``topic_column``. None: one such row stops the job.
        producer: More librdkafka settings, for example ``{"compression.type": "zstd"}``. Without
            ``message.max.bytes`` a record may be as large as the topic's ``max.message.bytes`` says at the start, and
            with ``topic_column`` as large as the brokers' default for all topics, if that is more.

    Raises:
        RefusedSettingError: A producer setting would break the guarantee.
        ConfigurationError: A name or a combination that cannot work, or a producer setting that librdkafka does not
            take.
    """

    @checked
    def __init__(
        self,
        cluster: KafkaCluster,
        topic: str,
        *,
        key: str | Sequence[str] | None = None,
        value: Format | None = None,
        key_format: Format | None = None,
        value_columns: Sequence[str] | None = None,
        headers: str | None = None,
        timestamp: str | None = None,
        partition: str | None = None,
        topic_column: str | None = None,
        name: str | None = None,
        guarantee: Guarantee | str | None = None,
        transaction_timeout: str | float | None = None,
        create_topic: NewTopic | None = None,
        on_refused: Sink | None = None,
        producer: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.cluster = cluster
        self.topic = self.destination = topic
        self.name = topic if name is None else name
        self._named = None if guarantee is None else _guarantee(guarantee)
        self._mode: Guarantee | None = None
        self._key = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        self._key_format = key_format or (Text() if len(self._key) == 1 else Json())
        self._value = value or Json()
        self._says_value = value is not None
        says = {"key": key, "value": value, "key_format": key_format, "value_columns": value_columns}
        says |= {"headers": headers, "timestamp": timestamp, "partition": partition, "topic_column": topic_column}
        self._says = [f"{name}=" for name, given in says.items() if given is not None]
        self._value_columns = value_columns
        self._headers, self.timestamp = headers, timestamp
        self._partition, self.topic_column = partition, topic_column
        self.timeout_ms = None if transaction_timeout is None else duration_ms(transaction_timeout)
        self.create_topic = create_topic
        self.on_refused = on_refused
        self.producer = _checked(producer)
        if not is_topic_name(topic):
            raise ConfigurationError(
                f"KafkaSink cannot write to a topic {topic!r}",
                cause="Kafka's names of topics: letters, digits, '.', '_' and '-', at most 249, and not '.' or '..'",
                action="name the topic that is meant",
            )
        if on_refused is not None and topic_column is not None:
            raise ConfigurationError(
                f"KafkaSink to {topic} cannot tell which rows topics do not take that rows name themselves",
                cause="it is given on_refused= and topic_column=",
                action="leave one of them away",
            )
        if not isinstance(self.name, str) or SINK_NAME.fullmatch(self.name) is None:
            raise ConfigurationError(
                f"a sink cannot be named {self.name!r}",
                cause="its name is part of transactional ids: letters, digits, '.', '_' and '-', at most 100",
                action="give it another name with name=",
            )

    @property
    def guarantee(self) -> Guarantee:  # type: ignore[override]  # nobody sets it
        """What is promised: what was named, or what the job's mode says."""
        return self._named or self._mode or Guarantee.EXACTLY_ONCE

    @property
    def carries_secret(self) -> bool:
        """Whether its cluster has one: librdkafka asks for it where it writes."""
        return self.cluster.has_secret

    def under(self, mode: Guarantee) -> None:
        """Take the guarantee of the job's checkpoints, if none was named."""
        if self._named is Guarantee.EXACTLY_ONCE and mode is not Guarantee.EXACTLY_ONCE:
            raise ConfigurationError(
                f"sink {self.name} names a stronger guarantee than its job's checkpoints have",
                harmless="always: nothing was started",
                cause=f"guarantee is {self._named.value!r}, and execution.checkpointing.mode is AT_LEAST_ONCE",
                action="leave guarantee= away, and the mode says it; or set the mode to EXACTLY_ONCE",
                sink=self.name,
            )
        if self._named is None and self._mode not in (None, mode):
            raise ConfigurationError(
                f"sink {self.name} is one of two jobs with different modes, or of one that was started with both",
                harmless="always: nothing was started",
                cause=f"in this process its guarantee is {self.guarantee.value!r}, and now "
                f"execution.checkpointing.mode says {mode.value!r}",
                action="make a sink of its own for each, or name its guarantee",
                sink=self.name,
            )
        self._mode = mode

    def describe(self) -> str:
        """The sink in a few words."""
        return f"Kafka topic {self.topic} ({self.guarantee})"

    @property
    def registries(self) -> Sequence[SchemaRegistry]:
        """As the contract says."""
        return [form.registry for form in (self._value, self._key_format) if form.registry is not None]

    # -- rows -------------------------------------------------------------------------------------

    def columns(self, fields: StructType) -> list[Column]:
        """Those columns of ``writer.COLUMNS`` that this sink has a use for, from the output's."""
        return [column.alias(name) for name, column in self._record(fields).items()]

    def _record(self, fields: StructType) -> dict[str, Column]:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        self._require_named(fields)
        names = fields.names
        named = {c for c in (self._headers, self.timestamp, self._partition, self.topic_column) if c is not None}
        value = list(self._value_columns) if self._value_columns is not None else [n for n in names if n not in named]
        missing = [c for c in (*self._key, *named, *value) if c not in names]
        if missing:
            raise ConfigurationError(
                f"sink {self.name} needs column {', '.join(map(repr, missing))}, which its output does not have",
                cause=f"the output has {', '.join(names)}",
                action="select the column in the stream function, or name another one at the sink",
            )

        columns = {"value": self._value.encode([fields[name] for name in value], self._part("value"))}
        if self._key:
            key = [fields[name] for name in self._key]
            columns["key"] = self._key_format.encode(key, self._part("key"))
        if self._partition is not None:
            columns["partition"] = column_named(self._partition).cast("int")
        if self.topic_column is not None:
            columns["topic"] = column_named(self.topic_column).cast("string")
        if self._headers is not None:
            columns["headers"] = _headers(column_named(self._headers), fields[self._headers].dataType)
        if self.timestamp is not None:
            columns["timestamp"] = F.unix_millis(column_named(self.timestamp).cast("timestamp"))
        return columns

    def _part(self, part: Literal["key", "value"]) -> PartOfRecord:
        return PartOfRecord((self.topic,), part)

    def row_limits(self) -> Mapping[str, Any]:
        """What the topic takes: ``bytes`` of a batch, how many ``partitions`` it has, whether a record is ``keyed``."""
        from onceflow.connectors.kafka.sink_connection import row_limits  # noqa: PLC0415 - it knows this one

        return row_limits(self)

    def refused(self, fields: StructType, limits: Mapping[str, Any]) -> Column:
        """Why the topic does not take a row; null where it does. It is measured as it is, where batches are compressed.

        Args:
            fields: The output's columns, with their types.
            limits: As of ``row_limits``.
        """
        from onceflow.connectors.kafka.refused_rows import reason  # noqa: PLC0415

        return reason(self._record(fields), limits)

    def dead_letter_columns(self, fields: StructType) -> list[Column]:
        """Key, value and headers as they were read, and behind those headers what is known of the record."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        if self._says:
            raise ConfigurationError(
                f"sink {self.name} is for dead letters, which are written as they were read",
                cause=f"it is given {', '.join(self._says)}",
                action="remove that; its headers say where each record was and why it cannot be read",
                sink=self.name,
            )
        told = {name: F.col(name) for name in ("reason", "topic", "partition", "offset")}
        told["timestamp"] = F.unix_millis("timestamp")
        ours = [
            F.struct(F.lit(f"onceflow.{name}").alias("key"), column.cast("string").cast("binary").alias("value"))
            for name, column in told.items()
        ]
        headers = F.coalesce("headers", F.array().cast(fields["headers"].dataType))
        # As text: nearly all rows of the job have none, and a column of lists would slow down each of them.
        return [F.col("value"), F.col("key"), F.to_json(F.concat(headers, F.array(*ours))).alias("headers")]

    def _require_named(self, fields: StructType) -> None:
        """Refuse rows made for Spark's own Kafka sink where no format of the value is given.

        Taken as they are, all of them would be written as an object, and no reader of the topic would understand it.
        Taken as Spark takes them, a job that means the object would change its records without a word.
        """
        kinds = {field.name: field.dataType.typeName() for field in fields.fields}
        if self._says_value or not kinds.keys() <= _SPARKS.keys() or kinds.get("value") not in ("string", "binary"):
            return
        told = [_SPARKS[name] for name in _SPARKS if name in kinds]
        told[0] = told[0].format("Text" if kinds["value"] == "string" else "Raw")
        told += ["key_format=of.Raw()"] if kinds.get("key") == "binary" else []
        raise ConfigurationError(
            f"sink {self.name} is not told how its records are meant: the output's columns ({', '.join(kinds)}) are "
            "those that Spark's own Kafka sink takes",
            cause="value= is not given: the default, Json(), writes one object of all columns, where Spark's sink "
            "writes the column value as it is",
            action=f"to write what Spark's sink writes: KafkaSink(..., {', '.join(told)}); to write the object: "
            "KafkaSink(..., value=of.Json())",
            sink=self.name,
        )

    # -- the driver's side ------------------------------------------------------------------------

    def expires_after_s(self) -> float:
        """The transactions' time-out; the broker's default maximum where the user has not said one."""
        return (self.timeout_ms or BROKER_DEFAULT_MAX_TIMEOUT_MS) / 1000

    def connect(self) -> SinkConnection:
        """Connect, and check the topic and the time-out."""
        from onceflow.connectors.kafka.sink_connection import connect  # noqa: PLC0415 - it knows this one

        return connect(self)

    def attach(self) -> SinkConnection:
        """Connect only: the topic may be gone, and is not made."""
        from onceflow.connectors.kafka.sink_connection import attach  # noqa: PLC0415 - it knows this one

        return attach(self)


def _headers(column: Column, kind: DataType) -> Column:
    """As the writer takes them. A CAST alone goes by the fields' places, whatever they are called."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415
    from pyspark.sql.types import ArrayType, StructType  # noqa: PLC0415

    item = kind.elementType if isinstance(kind, ArrayType) else None
    if isinstance(item, StructType) and sorted(item.names) == ["key", "value"]:
        column = F.transform(column, lambda each: F.when(each.isNotNull(), F.struct(each["key"], each["value"])))
    return column.cast("array<struct<key:string,value:binary>>")


_GUARANTEES = (Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE, Guarantee.NONE)


def _guarantee(value: Guarantee | str) -> Guarantee:
    if value in _GUARANTEES:
        return Guarantee(value)
    raise ConfigurationError(
        f"a Kafka sink has no guarantee {str(value)!r}",
        cause="a topic keeps each record: no record takes the place of one with the same key",
        action=f"choose one of {', '.join(repr(str(g)) for g in _GUARANTEES)}",
    )


def _checked(producer: Mapping[str, Any]) -> dict[str, Any]:
    for key, value in producer.items():
        if rule := rule_for(key, _REFUSED):
            raise RefusedSettingError(
                f"producer setting {key} is refused: {rule.doc}",
                harmless="always: nothing was started",
                # A login's value may be a secret.
                cause=f"producer has {key}" + ("" if rule.doc is _CLUSTER else f", which is {value!r}"),
                action=rule.instead,
                setting=key,
            )
    require_producer(producer)
    return dict(producer)
