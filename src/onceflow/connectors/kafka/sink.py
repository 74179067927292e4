"""KafkaSink: what a user writes to send rows to Kafka, and the checks that it will work.

Must not know: the journal, how epochs run. Its writers are in ``writer``, its committer in ``committer``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from onceflow.connectors.contract import Committer, Guarantee, Sink
from onceflow.connectors.formats import Format, Json, Text, column_named
from onceflow.connectors.kafka import durability
from onceflow.connectors.kafka.batch import warn_where_unknown
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.connectors.kafka.partition import is_topic_name
from onceflow.connectors.kafka.writer import KafkaWriterFactory
from onceflow.errors import ConfigurationError, KafkaError, RefusedSettingError
from onceflow.options.checkpointing import duration_ms
from onceflow.twophase.names import SINK_NAME

if TYPE_CHECKING:
    from pyspark.sql import Column

log = logging.getLogger(__name__)

_BROKER_DEFAULT_MAX_TIMEOUT_MS = 900_000
_BROKER_DEFAULT_MAX_BYTES = 1_048_588
# librdkafka's own: a message by default, a batch by default, a message at most.
_MESSAGE_BYTES, _BATCH_BYTES, _LARGEST_BYTES = 1_000_000, 1_000_000, 1_000_000_000
_QUEUE_KBYTES = 65_536
_TRANSACTIONS = "the two-phase commit needs it to be as it sets it"
_CLUSTER = "it belongs to the cluster"
# librdkafka's producer settings that would break the guarantee: why, and what to do instead.
_REFUSED: Mapping[str, tuple[str, str]] = {
    "transactional.id": (_TRANSACTIONS, "use Job(transactional_id_prefix=...)"),
    "transaction.timeout.ms": ("it is checked against the broker's maximum", "use transaction_timeout="),
    "enable.idempotence": ("without it a retry inside librdkafka doubles records", "remove it"),
    "acks": ("a record that only the leader has is lost with it", "remove it: it is always all"),
    "request.required.acks": ("a record that only the leader has is lost with it", "remove it: it is always all"),
    "max.in.flight": ("librdkafka sets it for idempotence", "remove it"),
    "max.in.flight.requests.per.connection": ("librdkafka sets it for idempotence", "remove it"),
    "retries": ("a record that is not tried again fails its epoch", "remove it"),
    "message.send.max.retries": ("a record that is not tried again fails its epoch", "remove it"),
    "delivery.report.only.error": ("the pre-commit is proven by a delivery report", "remove it"),
    "statistics.interval.ms": ("the pre-commit is proven by statistics", "remove it"),
    "enable.gapless.guarantee": (_TRANSACTIONS, "remove it"),
    "partitioner": ("it is murmur2_random, as in every Java producer", "use partition= for partitions of your own"),
    "bootstrap.servers": (_CLUSTER, "use KafkaCluster"),
    "metadata.broker.list": (_CLUSTER, "use KafkaCluster"),
    "security.protocol": (_CLUSTER, "use KafkaCluster"),
}
_REFUSED_PREFIXES = ("sasl.", "ssl.")


@dataclass(frozen=True)
class NewTopic:
    """How to make a topic that does not exist.

    Attributes:
        partitions: Number of partitions.
        replication_factor: Copies; None takes the broker's default.
        config: Topic settings.
    """

    partitions: int
    replication_factor: int | None = None
    config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


class KafkaSink(Sink):
    """Rows to a Kafka topic.

    Args:
        cluster: Where to.
        topic: The topic.
        key: Column or columns of the record key; None writes no key. One column is written as text, several as a JSON
            object, unless ``key_format`` says otherwise.
        value: Format of the record value: ``Json()`` (an object of all columns that are not named below),
            ``Text()`` or ``Raw()`` (of exactly one column).
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
        guarantee: ``"exactly-once"``, ``"at-least-once"`` or ``"none"``.
        transaction_timeout: How long the broker keeps an undecided transaction: ``"10 min"``, seconds, or None for
            the most that the broker allows (``transaction.max.timeout.ms``). A job that is down for longer
            finds its decided transactions expired.
        create_topic: Make the topic like this if it does not exist; None refuses to start.
        producer: More librdkafka settings, for example ``{"compression.type": "zstd"}``. Without
            ``message.max.bytes`` a record may be as large as the topic's ``max.message.bytes`` says at the start, and
            with ``topic_column`` as large as the brokers' default for all topics, if that is more.

    Raises:
        RefusedSettingError: A producer setting would break the guarantee.
        ConfigurationError: A name or a combination that cannot work.
    """

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
        guarantee: Guarantee | str = Guarantee.EXACTLY_ONCE,
        transaction_timeout: str | float | None = None,
        create_topic: NewTopic | None = None,
        producer: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.cluster = cluster
        self.topic = self.destination = topic
        self.name = topic if name is None else name
        self.guarantee = _guarantee(guarantee)
        self._key = () if key is None else (key,) if isinstance(key, str) else tuple(key)
        self._key_format = key_format or (Text() if len(self._key) == 1 else Json())
        self._value = value or Json()
        self._value_columns = value_columns
        self._headers, self._timestamp = headers, timestamp
        self._partition, self._topic_column = partition, topic_column
        self._timeout_ms = None if transaction_timeout is None else duration_ms(transaction_timeout)
        self._create_topic = create_topic
        self._producer = _checked(producer)
        self._client: KafkaClient | None = None
        self._topic_limits: Sequence[int] = (_BROKER_DEFAULT_MAX_BYTES,)
        if not is_topic_name(topic):
            raise ConfigurationError(
                f"KafkaSink cannot write to a topic {topic!r}",
                cause="Kafka's names of topics: letters, digits, '.', '_' and '-', at most 249, and not '.' or '..'",
                action="name the topic that is meant",
            )
        if not isinstance(self.name, str) or SINK_NAME.fullmatch(self.name) is None:
            raise ConfigurationError(
                f"a sink cannot be named {self.name!r}",
                cause="its name is part of transactional ids: letters, digits, '.', '_' and '-', at most 100",
                action="give it another name with name=",
            )

    def describe(self) -> str:
        """The sink in a few words."""
        return f"Kafka topic {self.topic} ({self.guarantee})"

    # -- rows -------------------------------------------------------------------------------------

    def columns(self, names: Sequence[str]) -> list[Column]:
        """Those columns of ``writer.COLUMNS`` that this sink has a use for, from the output's."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415

        named = {c for c in (self._headers, self._timestamp, self._partition, self._topic_column) if c is not None}
        value = list(self._value_columns) if self._value_columns is not None else [n for n in names if n not in named]
        missing = [c for c in (*self._key, *named, *value) if c not in names]
        if missing:
            raise ConfigurationError(
                f"sink {self.name} needs column {', '.join(map(repr, missing))}, which its output does not have",
                cause=f"the output has {', '.join(names)}",
                action="select the column in the stream function, or name another one at the sink",
            )

        columns = [self._value.encode(value).alias("value")]
        if self._key:
            columns.append(self._key_format.encode(self._key).alias("key"))
        if self._partition is not None:
            columns.append(column_named(self._partition).cast("int").alias("partition"))
        if self._topic_column is not None:
            columns.append(column_named(self._topic_column).cast("string").alias("topic"))
        if self._headers is not None:
            headers = column_named(self._headers).cast("array<struct<key:string,value:binary>>")
            columns.append(headers.alias("headers"))
        if self._timestamp is not None:
            columns.append(F.unix_millis(column_named(self._timestamp).cast("timestamp")).alias("timestamp"))
        return columns

    def writer_factory(self) -> KafkaWriterFactory:
        """What opens this sink's writers in tasks."""
        told = self._producer | self.cluster.for_librdkafka()
        config: dict[str, Any] = {
            # Java's default; librdkafka's own would put keys on other partitions than every Java producer.
            "partitioner": "murmur2_random",
            "linger.ms": 20,
        }
        config |= self._sizes(told) | told
        if self.guarantee is not Guarantee.NONE:
            config["acks"] = "all"
        largest, queue = int(config["message.max.bytes"]), int(config["queue.buffering.max.kbytes"])
        if largest > queue * 1024:
            raise ConfigurationError(
                f"sink {self.name} would wait for ever with a record larger than its whole queue",
                cause=f"message.max.bytes is {largest}, queue.buffering.max.kbytes is {queue}",
                action="raise queue.buffering.max.kbytes, or lower message.max.bytes",
            )
        return KafkaWriterFactory(self.name, self.topic, self.guarantee, config, self._transaction_timeout_ms())

    def _sizes(self, told: Mapping[str, Any]) -> dict[str, int]:
        """How large a record, a batch and the queue may be: what the topic takes, unless the user says otherwise.

        A record is measured here as it is and there as it is sent, which may be compressed; so a topic that takes
        less than librdkafka's default does not lower it.
        """
        largest = int(told.get("message.max.bytes", max(_MESSAGE_BYTES, *self._topic_limits)))
        if "queue.buffering.max.kbytes" in told:
            largest = min(largest, int(told["queue.buffering.max.kbytes"]) * 1024)
        return {
            "message.max.bytes": min(largest, _LARGEST_BYTES),
            # Several records that the topic takes, in a batch that it does not, would be refused together.
            "batch.size": min(_BATCH_BYTES, *self._topic_limits),
            # librdkafka's default would let a task's queue grow to 1 GiB.
            "queue.buffering.max.kbytes": max(_QUEUE_KBYTES, -(-largest // 1024)),
        }

    # -- the driver's side ------------------------------------------------------------------------

    def expires_after_s(self) -> float:
        """The transactions' time-out; the broker's default maximum where neither it nor the user has said one yet."""
        return self._transaction_timeout_ms() / 1000

    def connect(self) -> str:
        """Connect, and check the topic and the time-out; the cluster's id."""
        client = KafkaClient(self.cluster)
        try:
            self._client = client
            self._require_topic(client)
            settings = client.topic_configs([self.topic]).get(self.topic, {})
            self._topic_limits = self._limits(client, settings)
            self._require_own_times(settings)
            if self.guarantee is not Guarantee.NONE:
                durability.warn_of_weak_topics(client, [self.topic], "rows of finished epochs")
            if self.participates:
                durability.warn_of_weak_transaction_log(client)
                warn_where_unknown()
                self._require_timeout(client)
                self._warn_of_compaction(settings)
        except BaseException:
            self.close()
            raise
        return client.cluster_id

    def attach(self) -> str:
        """Connect only: the topic may be gone, and is not made; the cluster's id."""
        self._client = KafkaClient(self.cluster)
        return self._client.cluster_id

    def committer(self, prefix: str, job_id: str) -> Committer:
        """What commits this sink's transactions."""
        if self._client is None:
            raise RuntimeError("connect() or attach() comes first")
        client, self._client = self._client, None
        return KafkaCommitter(client, self.name, self.topic, prefix, job_id, self._transaction_timeout_ms())

    def close(self) -> None:
        """Close the driver's connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _transaction_timeout_ms(self) -> int:
        return self._timeout_ms or _BROKER_DEFAULT_MAX_TIMEOUT_MS

    def _require_topic(self, client: KafkaClient) -> None:
        if self.topic in client.topics([self.topic]):
            return
        if self._create_topic is None:
            raise ConfigurationError(
                f"topic {self.topic} of sink {self.name} does not exist",
                cause="it was not made yet, or this user may not describe it; create_topic is None",
                action="make the topic, or pass create_topic=NewTopic(partitions=...)",
                topic=self.topic,
            )
        new = self._create_topic
        request = {"num_partitions": new.partitions, "replication_factor": new.replication_factor or -1}
        configs = {"configs": dict(new.config)} if new.config else {}
        try:
            client.admin.create_topics({self.topic: request | configs})
        except Exception as error:
            if self.topic in client.topics([self.topic]):
                return  # somebody else made it at the same moment
            raise KafkaError(
                f"topic {self.topic} of sink {self.name} could not be made: {type(error).__name__}",
                cause=f"create_topic is {new}; this user may lack the right CREATE, or the brokers are too few",
                action="make the topic by hand, or correct create_topic",
                topic=self.topic,
            ) from error
        while self.topic not in client.topics([self.topic]):
            client.wait_a_little()

    def _require_timeout(self, client: KafkaClient) -> None:
        told = client.broker_config("transaction.max.timeout.ms")
        allowed = int(told) if told and told.isdigit() else None
        if self._timeout_ms is None:
            self._timeout_ms = allowed or _BROKER_DEFAULT_MAX_TIMEOUT_MS
        elif allowed is not None and self._timeout_ms > allowed:
            raise ConfigurationError(
                f"transaction_timeout of sink {self.name} is {self._timeout_ms} ms; the broker allows {allowed} ms",
                cause=f"transaction.max.timeout.ms={allowed} on the broker",
                action=f"raise it on the brokers, or set transaction_timeout to at most {allowed / 1000:g} s",
            )

    def _limits(self, client: KafkaClient, settings: Mapping[str, str]) -> list[int]:
        """How large a batch of records may be: in the topic, and in those that ``topic_column`` may name."""
        told = [settings.get("max.message.bytes")]
        if self._topic_column is not None:
            told.append(client.broker_config("message.max.bytes"))
        return [int(size) if size and size.isdigit() else _BROKER_DEFAULT_MAX_BYTES for size in told]

    def _require_own_times(self, settings: Mapping[str, str]) -> None:
        if self._timestamp is not None and settings.get("message.timestamp.type") == "LogAppendTime":
            raise ConfigurationError(
                f"topic {self.topic} of sink {self.name} does not keep the times of its records: the broker writes the "
                "present one in their place",
                cause=f"timestamp is {self._timestamp!r}, and message.timestamp.type=LogAppendTime of the topic",
                action="set the topic's message.timestamp.type to CreateTime, or leave timestamp= away",
                topic=self.topic,
            )

    def _warn_of_compaction(self, settings: Mapping[str, str]) -> None:
        policy = settings.get("cleanup.policy", "")
        if "compact" in policy:
            log.warning(
                "topic %s of sink %s has cleanup.policy=%s: compaction may remove the record by which a lost "
                "transaction is told from a committed one; then recovery stops and asks (raise "
                "min.compaction.lag.ms above the longest time that the job may be down)",
                self.topic,
                self.name,
                policy,
            )


def _guarantee(value: Guarantee | str) -> Guarantee:
    try:
        return Guarantee(value)
    except ValueError:
        raise ConfigurationError(
            f"there is no guarantee {value!r}",
            action=f"choose one of {', '.join(repr(str(g)) for g in Guarantee)}",
        ) from None


def _checked(producer: Mapping[str, Any]) -> dict[str, Any]:
    for key in producer:
        why, instead = _REFUSED.get(key, ("", ""))
        if not why and key.startswith(_REFUSED_PREFIXES):
            why, instead = _CLUSTER, "use KafkaCluster"
        if why:
            raise RefusedSettingError(f"producer setting {key} is refused: {why}", action=instead, setting=key)
    return dict(producer)
