"""A connected KafkaSink: what a start finds out about its topic and brokers, and the checks that it will work.

Must not know: the journal, how epochs run, other sinks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

from onceflow.connectors.contract import Committer, Guarantee, SinkConnection
from onceflow.connectors.examination import ExaminableSink, Expected
from onceflow.connectors.kafka import broker_checks, durability, examination, group_offsets, rights
from onceflow.connectors.kafka.batch import warn_where_unknown
from onceflow.connectors.kafka.broker_checks import BROKER_DEFAULT_MAX_TIMEOUT_MS
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.connectors.kafka.writer import KafkaWriterFactory
from onceflow.errors import ConfigurationError, KafkaError
from onceflow.findings import Checks, Finding

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from onceflow.connectors.kafka.sink import KafkaSink

_BROKER_DEFAULT_MAX_BYTES = 1_048_588
# librdkafka's own: a message by default, a batch by default, a message at most.
_MESSAGE_BYTES, _BATCH_BYTES, _LARGEST_BYTES = 1_000_000, 1_000_000, 1_000_000_000
_QUEUE_KBYTES = 65_536


def connect(sink: KafkaSink) -> KafkaSinkConnection:
    """Connect, and check the topic and the time-out."""
    return _looked_at(sink, KafkaSinkConnection.require_topic)


def attach(sink: KafkaSink) -> KafkaSinkConnection:
    """Connect, and look how long transactions may live: what is lost of a decision is written again in new ones."""
    return _looked_at(sink, KafkaSinkConnection.look_at_timeout)


def row_limits(sink: KafkaSink) -> Mapping[str, Any]:
    """As of ``KafkaSink``."""
    with closing(KafkaSinkConnection(sink, KafkaClient(sink.cluster))) as connection:
        return connection.row_limits()


def _looked_at(sink: KafkaSink, look: Callable[[KafkaSinkConnection], None]) -> KafkaSinkConnection:
    connection = KafkaSinkConnection(sink, KafkaClient(sink.cluster))
    try:
        look(connection)
    except BaseException:
        connection.close()
        raise
    return connection


class KafkaSinkConnection(SinkConnection, ExaminableSink):
    """One start's connection of a KafkaSink.

    Args:
        sink: The description.
        client: An open client, this object's until a committer takes it.
        topic_limits: How large a batch of records may be, in each topic that rows may go to.
    """

    def __init__(
        self, sink: KafkaSink, client: KafkaClient | None, topic_limits: Sequence[int] = (_BROKER_DEFAULT_MAX_BYTES,)
    ) -> None:
        self._sink = sink
        self._client = client
        self._topic_limits = topic_limits
        self._topic_id = ""
        self._timeout_ms = sink.timeout_ms or BROKER_DEFAULT_MAX_TIMEOUT_MS
        self.system_id = "" if client is None else client.cluster_id

    def require_topic(self) -> None:
        """Check the topic, the time-out and what brokers may lose; of a topic that is to be made what is known of it.

        Raises:
            OnceflowError: It cannot work, and why: all that was found.
        """
        sink, client, checks = self._sink, self._open(), Checks()
        topic = client.topics([sink.topic]).get(sink.topic)
        self.is_there = topic is not None
        with checks.one():
            self._require_topic()
        settings = self._settings(client)
        with checks.one():
            self._require_own_times(settings)
        if topic is not None:
            self._topic_id = topic.topic_id
            self._topic_limits = self._limits(client, settings)
            with checks.one():
                broker_checks.require_copies(topic.name, topic.copies, settings)
        if sink.participates:
            with checks.one():
                self._require_timeout(client)
        checks.end()
        if topic is not None:
            durability.warn(self._weak(client, settings))
            if sink.participates:
                warn_where_unknown()

    def look_at_timeout(self) -> None:
        """Take the longest time-out that the broker allows, where none was named."""
        if self._sink.participates and self._sink.timeout_ms is None:
            self._require_timeout(self._open())

    def findings(self, expected: Expected) -> list[Finding]:
        """As ``ExaminableSink`` says."""
        sink, client = self._sink, self._open()
        found = examination.of_cluster(client)
        topic = client.topics([sink.topic]).get(sink.topic)
        if topic is not None:
            found += self._weak(client, self._settings(client))
        if sink.participates:
            broker = client.broker_configs()
            told = broker.get("transaction.max.timeout.ms", "")
            allowed = int(told) if told.isdigit() else BROKER_DEFAULT_MAX_TIMEOUT_MS
            timeout_ms = min(sink.timeout_ms or allowed, allowed)
            found += broker_checks.open_transactions(sink.name, timeout_ms / 1000, broker, expected)
            if rights.has_login(sink.cluster):
                found += broker_checks.own_prefix(expected.prefix, rights.principal(sink.cluster))
            if topic is not None:
                found += examination.clock_of(client, expected.prefix, sink.name, sink.topic)
        return found

    def row_limits(self) -> Mapping[str, Any]:
        """As of ``KafkaSink``."""
        client, new = self._open(), self._sink.create_topic
        topic = client.topics([self._sink.topic]).get(self._sink.topic)
        self.is_there = topic is not None
        settings = self._settings(client)
        self._topic_limits = self._limits(client, settings)
        return {
            "bytes": min(*self._topic_limits, self._sizes(self._sink.producer)["message.max.bytes"]),
            "partitions": len(topic.leaders) if topic is not None else 0 if new is None else new.partitions,
            "keyed": "compact" in settings.get("cleanup.policy", ""),
        }

    def make_output(self, fields: StructType) -> None:  # noqa: ARG002 - the contract's signature
        """Make the topic where it was asked for, and check it."""
        if not self.is_there:
            self._make_topic(self._open())
            self.require_topic()

    def committer(self, prefix: str, job_id: str) -> Committer:
        """What commits this sink's transactions."""
        client, self._client = self._open(), None
        sink = self._sink
        return KafkaCommitter(client, sink.name, sink.topic, prefix, job_id, self._timeout_ms, self._topic_id)

    def read_name_mark(self, prefix: str, name: str) -> str | None:
        """The mark of a job's name, kept with this sink's topic."""
        group = group_offsets.name_group(prefix, name)
        return group_offsets.read_mark(self._open(), group, self._sink.topic, f"{prefix}-")

    def close(self) -> None:
        """Close the client, if no committer has it."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _open(self) -> KafkaClient:
        if self._client is None:
            raise RuntimeError("a committer has taken this connection already")
        return self._client

    def writer_factory(self) -> KafkaWriterFactory:
        """What opens this sink's writers in tasks."""
        told = self._sink.producer | self._sink.cluster.for_librdkafka()
        config: dict[str, Any] = {
            # Java's default; librdkafka's own would put keys on other partitions than every Java producer.
            "partitioner": "murmur2_random",
            "linger.ms": 20,
        }
        if "debug" not in told and not os.environ.get("ONCEFLOW_DEBUG"):
            # What it would write to a worker's standard error is raised as well, or passes by a retry of its own.
            config["log_level"] = 0
        config |= self._sizes(told) | told
        if self._sink.guarantee is not Guarantee.NONE:
            config["acks"] = "all"
        largest, queue = int(config["message.max.bytes"]), int(config["queue.buffering.max.kbytes"])
        if largest > queue * 1024:
            raise ConfigurationError(
                f"sink {self._sink.name} would wait for ever with a record larger than its whole queue",
                cause=f"message.max.bytes is {largest}, queue.buffering.max.kbytes is {queue}",
                action="raise queue.buffering.max.kbytes, or lower message.max.bytes",
            )
        return KafkaWriterFactory(self._sink.name, self._sink.topic, self._sink.guarantee, config, self._timeout_ms)

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

    def _require_topic(self) -> None:
        sink = self._sink
        if not self.is_there and sink.create_topic is None:
            raise ConfigurationError(
                f"topic {sink.topic} of sink {sink.name} does not exist",
                cause="it was not made yet, or this user may not describe it; create_topic is None",
                action="make the topic (kafka-topics.sh --create, or any admin client), or, in Python, pass "
                "create_topic=NewTopic(partitions=...)",
                topic=sink.topic,
            )

    def _settings(self, client: KafkaClient) -> Mapping[str, str]:
        """The topic's settings; of one that is to be made those that it is made with."""
        if self.is_there:
            return client.topic_configs([self._sink.topic]).get(self._sink.topic, {})
        return {} if self._sink.create_topic is None else self._sink.create_topic.config

    def _weak(self, client: KafkaClient, settings: Mapping[str, str]) -> list[Finding]:
        """What brokers may lose of what the sink promises."""
        sink, found = self._sink, []
        if sink.guarantee is not Guarantee.NONE:
            found += durability.weak_topics(client, [sink.topic], "rows of finished epochs")
        if sink.participates:
            found += durability.weak_transaction_log(client)
            found += broker_checks.compacted_sink(sink.topic, sink.name, settings)
        return found

    def _make_topic(self, client: KafkaClient) -> None:
        new = self._sink.create_topic
        if new is None:
            raise AssertionError("check has refused it")
        request = {"num_partitions": new.partitions, "replication_factor": new.replication_factor or -1}
        configs = {"configs": dict(new.config)} if new.config else {}
        try:
            client.admin.create_topics({self._sink.topic: request | configs})
        except Exception as error:
            if self._sink.topic in client.topics([self._sink.topic]):
                return  # somebody else made it at the same moment
            raise KafkaError(
                f"topic {self._sink.topic} of sink {self._sink.name} could not be made: {type(error).__name__}",
                harmless="always for the data: nothing was written",
                cause=f"create_topic is {new}; this user may lack the right CREATE, or the brokers are too few",
                action="make the topic by hand, or correct create_topic",
                topic=self._sink.topic,
            ) from error
        while self._sink.topic not in client.topics([self._sink.topic]):
            client.wait_a_little()

    def _require_timeout(self, client: KafkaClient) -> None:
        told = client.broker_config("transaction.max.timeout.ms")
        allowed = int(told) if told and told.isdigit() else None
        asked = self._sink.timeout_ms
        if asked is None:
            self._timeout_ms = allowed or BROKER_DEFAULT_MAX_TIMEOUT_MS
        elif allowed is not None and asked > allowed:
            raise ConfigurationError(
                f"transaction_timeout of sink {self._sink.name} is {asked} ms; the broker allows {allowed} ms",
                cause=f"transaction.max.timeout.ms={allowed} on the broker",
                action=f"raise it on the brokers, or set transaction_timeout to at most {allowed / 1000:g} s",
            )

    def _limits(self, client: KafkaClient, settings: Mapping[str, str]) -> list[int]:
        """How large a batch of records may be: in the topic, and in those that ``topic_column`` may name."""
        told = [settings.get("max.message.bytes")]
        if self._sink.topic_column is not None:
            told.append(client.broker_config("message.max.bytes"))
        return [int(size) if size and size.isdigit() else _BROKER_DEFAULT_MAX_BYTES for size in told]

    def _require_own_times(self, settings: Mapping[str, str]) -> None:
        if self._sink.timestamp is not None and settings.get("message.timestamp.type") == "LogAppendTime":
            raise ConfigurationError(
                f"topic {self._sink.topic} of sink {self._sink.name} does not keep the times of its records: the "
                "broker writes the present one in their place",
                cause=f"timestamp is {self._sink.timestamp!r}, and message.timestamp.type=LogAppendTime of the topic",
                action="set the topic's message.timestamp.type to CreateTime, or leave timestamp= away",
                topic=self._sink.topic,
            )
