"""Whether a sink's producer settings are librdkafka's: asked of librdkafka itself, where the sink is made.

Must not know: which settings a sink refuses, brokers. Without it a misspelt name shows in the first epoch, in a worker.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from onceflow.errors import ConfigurationError

OFTEN_SET = (
    "allow.auto.create.topics",
    "batch.num.messages",
    "batch.size",
    "broker.address.family",
    "broker.address.ttl",
    "client.dns.lookup",
    "client.rack",
    "compression.codec",
    "compression.level",
    "compression.type",
    "connections.max.idle.ms",
    "debug",
    "delivery.timeout.ms",
    "enable.metrics.push",
    "linger.ms",
    "log_level",
    "message.copy.max.bytes",
    "message.max.bytes",
    "message.timeout.ms",
    "metadata.max.age.ms",
    "queue.buffering.backpressure.threshold",
    "queue.buffering.max.kbytes",
    "queue.buffering.max.messages",
    "queue.buffering.max.ms",
    "queuing.strategy",
    "receive.message.max.bytes",
    "reconnect.backoff.max.ms",
    "reconnect.backoff.ms",
    "request.timeout.ms",
    "retry.backoff.max.ms",
    "retry.backoff.ms",
    "socket.connection.setup.timeout.ms",
    "socket.keepalive.enable",
    "socket.nagle.disable",
    "socket.receive.buffer.bytes",
    "socket.send.buffer.bytes",
    "socket.timeout.ms",
    "sticky.partitioning.linger.ms",
    "topic.metadata.refresh.interval.ms",
)
"""Names that a message may propose; librdkafka knows more, and takes those as well."""

_JAVAS = {
    "buffer.memory": "queue.buffering.max.kbytes",
    "max.request.size": "message.max.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
}
"""What a Java producer calls it."""

_NO_SUCH = re.compile(r'No such configuration property: "([^"]*)"')
_CONSUMERS = re.compile(r"Configuration property (\S+) is a consumer property")


def require_producer(settings: Mapping[str, Any]) -> None:
    """Make a producer with the settings, which connects to nothing, and let it go.

    Raises:
        ConfigurationError: librdkafka does not take one of them.
    """
    if not settings:
        return
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 - most sinks have no settings

    heard = _Heard()
    try:
        Producer(dict(settings), logger=heard).poll(0)
    except (KafkaException, TypeError, ValueError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        unknown = _NO_SUCH.search(said)
        if unknown is not None:
            raise _unknown(unknown[1]) from None
        raise ConfigurationError(
            f"librdkafka does not take the producer settings: {said.strip()}",
            cause=f"producer has {', '.join(settings)}",
            action="correct the value, or remove the setting",
        ) from None
    for line in heard.lines:
        if (found := _CONSUMERS.search(line)) is not None:
            raise ConfigurationError(
                f"producer setting {found[1]} is a consumer's: a producer would ignore it",
                cause=f"producer has {found[1]}",
                action="remove it; settings of a source's consumer are KafkaSource(options=...)",
                setting=found[1],
            )


def _unknown(name: str) -> ConfigurationError:
    meant = _JAVAS.get(name) or next(iter(get_close_matches(name, OFTEN_SET, n=1)), None)
    return ConfigurationError(
        f"librdkafka has no producer setting {name}",
        cause=f"producer has {name}" + (", which is a Java producer's word" if name in _JAVAS else ""),
        action=f"did you mean {meant}?" if meant else "remove it; the names are librdkafka's, not those of Java",
        setting=name,
    )


class _Heard(logging.Logger):
    """Keeps what librdkafka says, and shows nobody anything."""

    def __init__(self) -> None:
        super().__init__("onceflow.producer", logging.DEBUG)
        self.lines: list[str] = []

    def handle(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
