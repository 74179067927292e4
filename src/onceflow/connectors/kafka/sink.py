"""KafkaSink: what a user writes to send rows to Kafka.

Must not know: the journal, how epochs run. A description, in which nothing is open: what a start finds out about the
topic stands in ``sink_connection``, its writers in ``writer``, its committer in ``committer``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from onceflow.connectors.contract import Guarantee, Sink, SinkConnection
from onceflow.connectors.formats import Format, Json, Text, column_named
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.partition import is_topic_name
from onceflow.errors import ConfigurationError, RefusedSettingError
from onceflow.options.durations import duration_ms
from onceflow.twophase.names import SINK_NAME

if TYPE_CHECKING:
    from pyspark.sql import Column

log = logging.getLogger(__name__)

BROKER_DEFAULT_MAX_TIMEOUT_MS = 900_000
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
        self._headers, self.timestamp = headers, timestamp
        self._partition, self.topic_column = partition, topic_column
        self.timeout_ms = None if transaction_timeout is None else duration_ms(transaction_timeout)
        self.create_topic = create_topic
        self.producer = _checked(producer)
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

        named = {c for c in (self._headers, self.timestamp, self._partition, self.topic_column) if c is not None}
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
        if self.topic_column is not None:
            columns.append(column_named(self.topic_column).cast("string").alias("topic"))
        if self._headers is not None:
            headers = column_named(self._headers).cast("array<struct<key:string,value:binary>>")
            columns.append(headers.alias("headers"))
        if self.timestamp is not None:
            columns.append(F.unix_millis(column_named(self.timestamp).cast("timestamp")).alias("timestamp"))
        return columns

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
