"""An independent reader: what a read_committed consumer sees of a topic, and whether it is what it should be.

Must not know: which system wrote the topic.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from bench.workload import Alert, Digest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

_PATIENCE_S = 120.0


def consumer(servers: str, **settings: Any) -> Consumer:
    """A read_committed consumer that belongs to no group's protocol."""
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"bench-{uuid.uuid4().hex}",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "log_level": 0,
            **settings,
        }
    )


def assign(reader: Consumer, topic: str, *, at_end: bool = False) -> list[int]:
    """Take all partitions of a topic, from their beginnings or from where they end now."""
    numbers: list[int] = sorted(reader.list_topics(topic, timeout=30).topics[topic].partitions)
    partitions = [TopicPartition(topic, number) for number in numbers]
    for one in partitions:
        one.offset = reader.get_watermark_offsets(one, 30)[1] if at_end else OFFSET_BEGINNING
    reader.assign(partitions)
    return numbers


def batches(servers: str, topic: str) -> Iterator[list[Message]]:
    """All records up to the topic's present end, in batches."""
    reader = consumer(servers, **{"enable.partition.eof": True, "queued.min.messages": 500_000})
    try:
        left = set(assign(reader, topic))
        quiet_since = time.monotonic()
        while left:
            messages = reader.consume(10_000, 0.5)
            records = []
            for message in messages:
                error = message.error()
                if error is None:
                    records.append(message)
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - that is its public name
                    left.discard(message.partition())
            if records:
                quiet_since = time.monotonic()
                yield records
            elif time.monotonic() - quiet_since > _PATIENCE_S:
                raise RuntimeError(f"the end of {topic} was not reached: an open transaction holds it back")
    finally:
        reader.close()


def digest_of(servers: str, topic: str, value_bytes: int) -> Digest:
    """Count and hash of a topic's committed records, which should have values of so many bytes."""
    digest = Digest(value_bytes)
    for messages in batches(servers, topic):
        digest.add([m.key() or b"" for m in messages], [m.value() or b"" for m in messages])
    return digest


def alerts_of(servers: str, topic: str) -> Counter[Alert]:
    """A topic's committed alerts, however each system spells a window."""
    return Counter(alert(m.value()) for messages in batches(servers, topic) for m in messages)


def alert(value: bytes) -> Alert:
    """An alert from a record's value."""
    fields = json.loads(value, parse_float=Decimal)
    start = fields["window"]["start"] if "window" in fields else fields["window_start"]
    total = Decimal(fields["total"]).quantize(Decimal("0.01")) * 100
    return fields["user_id"], str(start).replace(" ", "T")[:19], int(fields["transactions"]), int(total)
