"""The oracle: was this transaction committed or aborted? Positive evidence only.

Must not know: decisions, epochs. It reads the log at the witness (the offset of the transaction's last acknowledged
record), uncommitted, so it works behind somebody else's open transaction. A batch there must carry our producer id and
epoch; the next control batch of that producer id says which. Anything else is unknown:
"not visible to read_committed, so it was aborted" is false on a compacted topic, after retention, and on a topic that
was made again.
"""

from __future__ import annotations

import struct
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords

from onceflow.connectors.kafka.client import KafkaClient, TopicMetadata, translated
from onceflow.connectors.kafka.codes import TOPIC_GONE, Code, named
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.prepared import Handle, Witness
from onceflow.connectors.kafka.rights import missing
from onceflow.twophase.messages import Evidence, Outcome

_READ_UNCOMMITTED = 0
_FETCH_BYTES = 1 << 20
_TRIES = 50
_ABORT, _COMMIT = 0, 1


class _Purged(Evidence):
    """Nothing is known, since retention took the record."""


def ask(client: KafkaClient, handle: Handle, witness: Witness) -> Evidence:
    """Find what the log itself says of one transaction."""
    other = _another_log(client, witness)
    if other is not None:
        return other
    seen = False
    position = witness.offset
    while True:
        page = _fetch(client, _leader(client, witness), witness, position)
        if isinstance(page, Evidence):
            return page
        records, high_watermark = page
        while (batch := records.next_batch()) is not None:
            position = batch.next_offset
            if not seen:
                if not _holds(batch, handle, witness.offset):
                    return Evidence(Outcome.UNKNOWN, f"the record at {witness} is gone or is not ours")
                seen = True
            elif batch.is_control_batch and batch.producer_id == handle.producer_id:
                # The next one is ours: one producer epoch holds one transaction. The marker's own epoch may be a later
                # one, since an expiry or a v5 end moves it first.
                return _verdict(batch)
        if position >= high_watermark:
            # A leader that was just elected tells the end of its log late.
            why = "no marker behind {} yet" if seen else "the log ends before {}, or its end is not told yet"
            return Evidence(Outcome.UNKNOWN, why.format(witness), passing=True)


def look_for(client: KafkaClient, handle: Handle, witness: Witness) -> Evidence | None:
    """Why the log does not hold the record at the witness; None if it does, or if retention took it since."""
    other = _another_log(client, witness)
    if other is not None:
        return other
    page = _fetch(client, _leader(client, witness), witness, witness.offset)
    if isinstance(page, _Purged):  # retention takes what is old, whether it is committed or not: no loss of ours
        return None
    if isinstance(page, Evidence):
        return page
    batch = page[0].next_batch()
    if batch is None or not _holds(batch, handle, witness.offset):
        return Evidence(Outcome.UNKNOWN, f"the record at {witness} is gone or is not ours")
    return None


def require_read(client: KafkaClient, topic: str) -> None:
    """Prove that the log of a topic may be asked: a record of it is fetched, or its end.

    Raises:
        KafkaRightsError: This user may not read it: what becomes of a transaction whose driver dies could not be told.
        KafkaUnavailableError: No leader of it answered.
    """
    code = int(Code.NO_ANSWER)
    for _ in range(_TRIES):
        there = client.topics([topic]).get(topic)
        where = None if there is None else _led(there)
        if there is not None and where is not None:
            page = _page(client, where[1], where[0], there.topic_id, 0, 1)
            code = int(Code.NO_ANSWER) if page is None else page.error_code
            if code in (Code.NONE, Code.OFFSET_OUT_OF_RANGE):
                return
            if code == Code.TOPIC_AUTHORIZATION_FAILED:
                saw = f"the broker refused to give a record of topic {topic}, by which commits are proven after a death"
                raise missing(client.cluster, saw, "READ", "Topic", topic)
        client.wait_a_little()
    raise translated(code, f"reading topic {topic}")


def _led(topic: TopicMetadata) -> tuple[Partition, int] | None:
    """A partition that has a leader, and which."""
    led = ((Partition(topic.name, number), leader) for number, leader in topic.leaders.items() if leader >= 0)
    return next(led, None)


def _leader(client: KafkaClient, witness: Witness) -> int:
    topic = client.topics([witness.partition.topic]).get(witness.partition.topic)
    return -1 if topic is None else topic.leaders.get(witness.partition.number, -1)


def _another_log(client: KafkaClient, witness: Witness) -> Evidence | None:
    """Why the witness cannot be in this cluster's topic of that name; None if it can."""
    if witness.cluster_id != client.cluster_id:  # where another log has the same name, and is no proof
        return Evidence(Outcome.UNKNOWN, f"the witness is in cluster {witness.cluster_id}, this is {client.cluster_id}")
    name = witness.partition.topic
    topic = client.topics([name]).get(name)
    if topic is None:
        return Evidence(Outcome.UNKNOWN, f"topic {name} does not exist")
    if topic.topic_id != witness.topic_id:  # another log: a record at the same offset would prove nothing
        return Evidence(
            Outcome.UNKNOWN,
            f"topic {name} was made again: its id was {witness.topic_id} and is {topic.topic_id}",
        )
    return None


def _holds(batch: Any, handle: Handle, offset: int) -> bool:
    return bool(
        batch.base_offset <= offset <= batch.last_offset
        and not batch.is_control_batch
        and batch.is_transactional
        and (batch.producer_id, batch.producer_epoch) == (handle.producer_id, handle.producer_epoch)
    )


def _verdict(batch: Any) -> Evidence:
    record = next(iter(batch))
    _version, kind = struct.unpack_from(">hh", record.key)
    if kind == _COMMIT:
        return Evidence(Outcome.COMMITTED, f"a COMMIT marker at offset {batch.base_offset}")
    if kind == _ABORT:
        return Evidence(Outcome.ABORTED, f"an ABORT marker at offset {batch.base_offset}")
    return Evidence(Outcome.UNKNOWN, f"a control record of type {kind} at offset {batch.base_offset}")


def _fetch(client: KafkaClient, leader: int, witness: Witness, offset: int) -> Evidence | tuple[Any, int]:
    """Batches from ``offset`` on and the high watermark; or why there are none."""
    if leader < 0:
        return Evidence(Outcome.UNKNOWN, f"{witness.partition} has no leader", passing=True)
    page = _page(client, leader, witness.partition, witness.topic_id, offset, _FETCH_BYTES)
    if page is None:
        return Evidence(Outcome.UNKNOWN, f"broker {leader} did not answer a fetch of {witness}", passing=True)
    if page.error_code == Code.OFFSET_OUT_OF_RANGE:
        if page.log_start_offset > offset:
            return _Purged(
                Outcome.UNKNOWN, f"the record at {witness} is gone: the log begins at {page.log_start_offset}"
            )
        return Evidence(Outcome.UNKNOWN, f"the record at {witness} is gone: the log ends before it")
    if page.error_code in TOPIC_GONE:
        return Evidence(Outcome.UNKNOWN, f"topic {witness.partition.topic} with id {witness.topic_id} is gone")
    if page.error_code != Code.NONE:
        return Evidence(Outcome.UNKNOWN, f"fetching {witness} failed: {named(page.error_code)}", passing=True)
    return MemoryRecords(bytes(page.records or b"")), page.high_watermark


def _page(client: KafkaClient, leader: int, partition: Partition, topic_id: str, offset: int, most: int) -> Any:
    """What the leader has of a partition from ``offset`` on, uncommitted; None where it did not answer."""
    wanted = FetchRequest.FetchTopic.FetchPartition(
        partition=partition.number,
        fetch_offset=offset,
        partition_max_bytes=most,
    )
    topic = FetchRequest.FetchTopic(topic=partition.topic, topic_id=UUID(topic_id), partitions=[wanted])
    request = FetchRequest(
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=most,
        isolation_level=_READ_UNCOMMITTED,
        topics=[topic],
        min_version=13,
    )
    (answer,) = client.send_all([(request, leader)])
    if answer is None or answer.error_code != Code.NONE or not answer.responses:
        return None
    return answer.responses[0].partitions[0]
