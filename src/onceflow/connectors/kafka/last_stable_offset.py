"""Who holds a partition's last stable offset: the transactions that keep read_committed consumers waiting.

Must not know: jobs, whose transaction it is. It only looks.

A partition's last stable offset (LSO) is the first offset of its oldest open transaction. ``DescribeProducers`` tells
each producer's ``current_txn_start_offset``; the producer whose offset is the LSO holds it, and ``ListTransactions``
filtered by its producer id tells the transactional id (KIP-664). A producer whose id no coordinator lists is either one
that this user may not describe, or a transaction that its coordinator has forgotten ("hanging").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, ListTransactionsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.codes import Code
from onceflow.connectors.kafka.partition import Partition

_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_LATEST = -1
_CLIENT = -1


@dataclass(frozen=True, slots=True)
class Holder:
    """A producer whose open transaction holds a partition's last stable offset.

    Attributes:
        partition: The partition.
        last_stable_offset: Where read_committed consumers stop.
        high_watermark: Where they would stop without it.
        producer_id: Of the producer.
        producer_epoch: Of the producer.
        transactional_id: Its name, or None when no coordinator tells it to this user.
    """

    partition: Partition
    last_stable_offset: int
    high_watermark: int
    producer_id: int
    producer_epoch: int
    transactional_id: str | None


@dataclass(frozen=True, slots=True)
class Holders:
    """What was found, and a sentence for each thing that could not be looked at."""

    found: tuple[Holder, ...]
    unseen: tuple[str, ...]


def find_holders(client: KafkaClient, topics: Iterable[str]) -> Holders:
    """The holders of the LSO of every partition of these topics.

    Args:
        client: The cluster.
        topics: Names; one that does not exist is said in ``unseen``.

    Raises:
        KafkaUnavailableError: No broker answered.
        KafkaRightsError: This user may not describe one of the topics.
    """
    wanted = sorted(set(topics))
    known = client.topics(wanted)
    unseen = [f"topic {name} does not exist on cluster {client.cluster_id}" for name in wanted if name not in known]
    by_leader: dict[int, list[Partition]] = {}
    for topic in known.values():
        for number, leader in topic.leaders.items():
            by_leader.setdefault(leader, []).append(Partition(topic.name, number))
    unseen += [f"{p} has no leader" for p in by_leader.pop(-1, [])]
    ends = _ends(client, by_leader, _READ_UNCOMMITTED)
    stable = _ends(client, by_leader, _READ_COMMITTED)
    waiting = {partition: at for partition, at in stable.items() if at < ends.get(partition, at)}
    producers = _producers(client, {n: [p for p in led if p in waiting] for n, led in by_leader.items()})
    unseen += [
        f"{p}: its leader did not tell its offsets or its producers"
        for p in sorted(partition for led in by_leader.values() for partition in led)
        if p not in stable or p not in ends or (p in waiting and p not in producers)
    ]
    held = [
        (partition, waiting[partition], row)
        for partition, rows in sorted(producers.items())
        for row in rows
        if row.current_txn_start_offset == waiting[partition]
    ]
    names = _names(client, {row.producer_id for _, _, row in held})
    found = (
        Holder(partition, at, ends[partition], row.producer_id, row.producer_epoch, names.get(row.producer_id))
        for partition, at, row in held
    )
    return Holders(tuple(found), tuple(unseen))


def open_producers(client: KafkaClient, partitions: Iterable[Partition]) -> dict[Partition, frozenset[tuple[int, int]]]:
    """Who has an open transaction in each partition: (producer id, epoch). One without an answer is left out.

    The partition's own word, which may differ from its coordinator's: a log that was lost has nothing open.
    """
    wanted = set(partitions)
    leaders = {name: topic.leaders for name, topic in client.topics({p.topic for p in wanted}).items()}
    by_leader: dict[int, list[Partition]] = {}
    for partition in wanted:
        leader = leaders.get(partition.topic, {}).get(partition.number, -1)
        if leader >= 0:
            by_leader.setdefault(leader, []).append(partition)
    return {
        partition: frozenset((row.producer_id, row.producer_epoch) for row in rows if row.current_txn_start_offset >= 0)
        for partition, rows in _producers(client, by_leader).items()
    }


def _ends(client: KafkaClient, by_leader: Mapping[int, Sequence[Partition]], isolation: int) -> dict[Partition, int]:
    """The end of each partition at an isolation level; a partition without an answer is left out."""
    row = ListOffsetsRequest.ListOffsetsTopic
    requests = [
        (
            ListOffsetsRequest(
                replica_id=_CLIENT,
                isolation_level=isolation,
                topics=[
                    row(
                        name=topic,
                        partitions=[row.ListOffsetsPartition(partition_index=n, timestamp=_LATEST) for n in numbers],
                    )
                    for topic, numbers in _by_topic(led).items()
                ],
            ),
            leader,
        )
        for leader, led in by_leader.items()
    ]
    return {
        Partition(topic.name, page.partition_index): int(page.offset)
        for answer in client.send_all(requests)
        if answer is not None
        for topic in answer.topics
        for page in topic.partitions
        if page.error_code == Code.NONE
    }


def _producers(client: KafkaClient, by_leader: Mapping[int, Sequence[Partition]]) -> dict[Partition, list[Any]]:
    """The active producers of each partition; a partition without an answer is left out."""
    row = DescribeProducersRequest.TopicRequest
    requests = [
        (
            DescribeProducersRequest(
                topics=[row(name=topic, partition_indexes=numbers) for topic, numbers in _by_topic(led).items()]
            ),
            leader,
        )
        for leader, led in by_leader.items()
        if led
    ]
    return {
        Partition(topic.name, page.partition_index): list(page.active_producers)
        for answer in client.send_all(requests)
        if answer is not None
        for topic in answer.topics
        for page in topic.partitions
        if page.error_code == Code.NONE
    }


def _names(client: KafkaClient, producer_ids: Iterable[int]) -> dict[int, str]:
    """The transactional ids of producers, as far as the brokers tell them to this user."""
    ids = sorted(producer_ids)
    if not ids:
        return {}
    requests = [
        (ListTransactionsRequest(state_filters=[], producer_id_filters=ids), broker) for broker in client.brokers()
    ]
    return {
        int(row.producer_id): str(row.transactional_id)
        for answer in client.send_all(requests)
        if answer is not None and answer.error_code == Code.NONE
        for row in answer.transaction_states
    }


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition.number)
    return by_topic
