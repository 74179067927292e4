"""An independent reader: a whole topic, to its end, as any consumer sees it.

It uses another client than the job reads with. Must not know: what the records mean.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from onceflow.errors import KafkaUnavailableError

log = logging.getLogger(__name__)

Isolation = Literal["read_committed", "read_uncommitted"]
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Record:
    """One record and its place."""

    partition: int
    offset: int
    value: bytes | None


def read_all(servers: str, topic: str, isolation: Isolation) -> list[Record]:
    """All records of a topic, up to where a consumer of this isolation level is told that it ends.

    Never counts by offsets: markers and aborted records take offsets too.

    Raises:
        KafkaUnavailableError: The end was not reached in a minute.
    """
    consumer = _consumer(servers, isolation)
    try:
        open_ends = set(_assign(consumer, topic))
        records: list[Record] = []
        deadline = time.monotonic() + _PATIENCE_S
        while open_ends:
            if time.monotonic() > deadline:
                raise KafkaUnavailableError(
                    f"the end of topic {topic} was not reached in {_PATIENCE_S:g} s: partitions {sorted(open_ends)}",
                    action="see the broker's log",
                    topic=topic,
                )
            for message in consumer.consume(5_000, 0.5):
                error = message.error()
                if error is None:
                    records.append(Record(message.partition(), message.offset(), message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - that is its public name
                    open_ends.discard(message.partition())
        return records
    finally:
        consumer.close()


class Follower(threading.Thread):
    """Reads a topic, read_committed, while things happen: what a consumer saw must still be there at the end.

    Args:
        servers: Kafka's address.
        topic: A topic that exists.
        tell: Called with the number of records seen so far.
    """

    def __init__(self, servers: str, topic: str, tell: Callable[[int], None]) -> None:
        super().__init__(name=f"follow-{topic}", daemon=True)
        self.seen: list[Record] = []
        self._servers, self._topic, self._tell = servers, topic, tell
        self._ended = threading.Event()

    def run(self) -> None:
        """Until ``close``."""
        consumer = _consumer(self._servers, "read_committed")
        try:
            _assign(consumer, self._topic)
            while not self._ended.is_set():
                new = [m for m in consumer.consume(1_000, 0.2) if m.error() is None]
                self.seen += [Record(m.partition(), m.offset(), m.value()) for m in new]
                if new:
                    self._tell(len(self.seen))
        finally:
            consumer.close()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self.join(10)


def _consumer(servers: str, isolation: Isolation) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "onceflow-demo-reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "logger": log,
            "log_level": 0,
            "reconnect.backoff.max.ms": 500,
        }
    )


def _assign(consumer: Consumer, topic: str) -> list[int]:
    while True:
        try:
            found = consumer.list_topics(topic, timeout=10).topics[topic]
        except KafkaException as error:
            raise KafkaUnavailableError(
                f"topic {topic} cannot be read: {error}", action="see the broker's log"
            ) from None
        if found.error is None and found.partitions:
            break
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in found.partitions])
    return list(found.partitions)
