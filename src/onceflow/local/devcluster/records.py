"""Topics of a development Kafka, and records in and out of them, for ``onceflow dev topic|produce|consume``.

Must not know: the command line, jobs. One attempt of a plain client: whoever runs it sees at once what it did.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from onceflow.errors import ConfigurationError
from onceflow.waiting import turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_WITHIN_S = 30.0
_LOOK_S = 0.5


def make_topic(servers: str, name: str, partitions: int) -> None:
    """Make a topic.

    Raises:
        ConfigurationError: The broker refuses it: there is one of that name, or no topic can be called so.
    """
    admin = AdminClient(_to(servers))  # what it does ends with it
    try:
        admin.create_topics([NewTopic(name, partitions)])[name].result(_WITHIN_S)
    except KafkaException as error:
        raise _refused(f"topic {name} was not made", error) from None
    for _ in turns(_WITHIN_S, _LOOK_S / 10, pause=admin.poll):
        if name in admin.list_topics(timeout=_WITHIN_S).topics:
            break  # the controller has made it; the brokers hear of it a moment later


def produce(servers: str, topic: str, records: Iterable[tuple[bytes | None, bytes]]) -> int:
    """Write records, each with its key, to the partitions that Java's producers take; how many.

    Raises:
        ConfigurationError: The broker refuses one, or there is no such topic; those before it may be there.
    """
    _require(servers, topic)
    settings = _to(servers) | {"partitioner": "murmur2_random", "enable.idempotence": True}
    producer, wrong, written = Producer(settings), list[KafkaError](), 0

    def answered(error: KafkaError | None, _: object) -> None:
        if error is not None:
            wrong.append(error)

    for key, value in records:
        while True:
            try:
                producer.produce(topic, value=value, key=key, on_delivery=answered)
                break
            except BufferError:
                producer.poll(_LOOK_S)
        written += 1
        producer.poll(0)
    left = producer.flush(_WITHIN_S)
    if left:
        raise ConfigurationError(
            f"{left} of {written} records to {topic} have no answer after {_WITHIN_S:g} s: they may be there or not",
            harmless="for all that was answered",
            cause="the broker was stopped, or does not answer",
            action="`onceflow dev status` tells whether it runs; `onceflow dev consume` shows what is there",
        )
    if wrong:
        raise _refused(f"{len(wrong)} of {written} records were not written to {topic}", KafkaException(wrong[0]))
    return written


def consume(servers: str, topic: str, *, follow: bool) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    """Partition, offset, key and value of each committed record, from the beginning.

    Args:
        servers: The brokers.
        topic: Which.
        follow: Wait for further ones, for ever; else end with what is there.

    Raises:
        ConfigurationError: There is no such topic.
    """
    left = _require(servers, topic)
    consumer = Consumer(
        _to(servers)
        | {
            "group.id": "onceflow-dev",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in left])
        while left or follow:
            message = consumer.poll(_LOOK_S)
            if message is None:
                continue
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                left.discard(message.partition())
            elif error is not None:
                raise _refused(f"topic {topic} cannot be read", KafkaException(error))
            else:
                yield message.partition(), message.offset(), message.key(), message.value()
    finally:
        consumer.close()


def _to(servers: str) -> dict[str, str | int | bool]:
    """The brokers; librdkafka's own lines stay out, since what they tell is raised as well."""
    return {"bootstrap.servers": servers, "log_level": 0}


def _require(servers: str, topic: str) -> set[int]:
    """The topic's partitions. Brokers make a topic that a client asks for by its name, so all are asked for."""
    topics = AdminClient(_to(servers)).list_topics(timeout=_WITHIN_S).topics
    if topic not in topics:
        raise ConfigurationError(
            f"there is no topic {topic}",
            harmless="always: nothing was changed",
            cause=f"the topics at {servers} are {', '.join(sorted(n for n in topics if n[:2] != '__')) or 'none'}",
            action=f"make it: onceflow dev topic {topic}; or, where a job makes it, wait until that has started",
        )
    return set(topics[topic].partitions)


def _refused(what: str, error: KafkaException) -> ConfigurationError:
    return ConfigurationError(
        what,
        harmless="for all other topics",
        cause=f"the broker says: {error.args[0].str()}",
        action="correct the name or the number; `onceflow dev status` tells whether the broker runs",
    )
