"""A Kafka cluster as an auditor asks it: who leads a partition, where its log begins and ends, what stands in it.

Must not know: receipts, what the records are for, whose login it is. kafka-python sends the requests, over a connection
that is handed in: its consumers hand out records, and keep what is asked here, the batches in which they stand.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self, TypeVar
from uuid import UUID

from kafka.errors import KafkaError
from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

_Answer = TypeVar("_Answer")
Connect = Callable[[], AbstractContextManager[Any]]
"""Opens a connection: kafka-python's ``KafkaConnectionManager``, until the context ends. Raises OSError."""

EARLIEST, LATEST = -2, -1
_OFFSET_OUT_OF_RANGE = 1
_MOVED = (3, 5, 6, 9, 74, 75, 76, 100, 103)  # the partition is not there yet, or has no leader, or another one
_MOVED_FOR_S, _PAUSE_S = 10.0, 0.25
_READ_COMMITTED = 1
_A_TOPIC = 2
"""Among resources that have settings."""


class KafkaAnswerError(Exception):
    """A broker said no, or nothing that is understood."""


class _MovedError(KafkaAnswerError):
    """The broker that was asked does not lead the partition, or gave no answer."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now: its id, and each partition's leader."""

    name: str
    id: str
    leaders: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Page:
    """What a fetch of one partition gave.

    Attributes:
        log_start: The first offset that is there.
        stable: The last stable offset: what readers of committed records see ends here.
        aborted: Aborted transactions that reach into the page: producer id, and first offset.
        records: Record batches, the last one perhaps cut short.
        refused: The offset is outside of the log.
    """

    log_start: int
    stable: int
    aborted: tuple[tuple[int, int], ...]
    records: bytes
    refused: bool = False


class Cluster:
    """A cluster. A context manager: it holds a connection.

    Args:
        connect: Opens it.

    Raises:
        KafkaAnswerError, OSError: It was not reached, or refused.
    """

    def __init__(self, connect: Connect) -> None:
        self._opened = connect()
        self._manager = self._opened.__enter__()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._opened.__exit__(None, None, None)

    def _ask(self, request: Any, node: int | None = None) -> Any:
        """A broker's answer, of any broker where none is named."""

        async def sent() -> Any:
            return await self._manager.send(request, node_id=node)

        try:
            return self._manager.run(sent)
        except KafkaError as error:
            kind = KafkaAnswerError if node is None else _MovedError
            raise kind(f"no answer to {type(request).__name__}: {type(error).__name__}: {error}") from error

    def topic(self, name: str) -> Topic | None:
        """A topic as it is now, None where there is none."""
        asked = MetadataRequest.MetadataRequestTopic(name=name)
        answer = self._ask(MetadataRequest(topics=[asked], allow_auto_topic_creation=False, min_version=10))
        for row in answer.topics:
            if row.name == name and row.error_code == 0:
                return Topic(name, str(row.topic_id), {p.partition_index: p.leader_id for p in row.partitions})
        return None

    def compacts(self, name: str) -> bool | None:
        """Whether a topic is compacted; None where this login may not be told."""
        asked = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=_A_TOPIC, resource_name=name, configuration_keys=["cleanup.policy"]
        )
        answer = self._ask(
            DescribeConfigsRequest(resources=[asked], include_synonyms=False, include_documentation=False)
        )
        if any(row.error_code for row in answer.results):
            return None
        told = (setting for row in answer.results for setting in row.configs)
        return any(setting.name == "cleanup.policy" and "compact" in (setting.value or "") for setting in told)

    def offset(self, topic: Topic, partition: int, when: int) -> int:
        """The earliest, or the latest offset, of the log as it is, not of what can be read."""
        return self._of_the_leader(topic, lambda now: self._offset(now, partition, when))

    def fetch(self, topic: Topic, partition: int, offset: int, most: int) -> Page:
        """What a reader of committed records gets from an offset on."""
        return self._of_the_leader(topic, lambda now: self._fetch(now, partition, offset, most))

    def _of_the_leader(self, topic: Topic, ask: Callable[[Topic], _Answer]) -> _Answer:
        """Ask the partition's leader, which may be another one since the topic was looked up."""
        deadline = time.monotonic() + _MOVED_FOR_S
        while True:
            try:
                return ask(topic)
            except _MovedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE_S)
                now = self.topic(topic.name)
                topic = now if now is not None and now.id == topic.id else topic

    def _offset(self, topic: Topic, partition: int, when: int) -> int:
        row = ListOffsetsRequest.ListOffsetsTopic
        asked = row(name=topic.name, partitions=[row.ListOffsetsPartition(partition_index=partition, timestamp=when)])
        answer = self._ask(
            ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=[asked]), _leader(topic, partition)
        )
        for told in (p for row in answer.topics for p in row.partitions):
            if told.error_code:
                raise _refused(topic.name, partition, told.error_code)
            return int(told.offset)
        raise KafkaAnswerError(f"{topic.name}-{partition}: the broker tells no offset")

    def _fetch(self, topic: Topic, partition: int, offset: int, most: int) -> Page:
        row = FetchRequest.FetchTopic
        wanted = row.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=most)
        asked = FetchRequest(
            max_wait_ms=250,
            min_bytes=1,
            max_bytes=most,
            isolation_level=_READ_COMMITTED,
            topics=[row(topic=topic.name, topic_id=UUID(topic.id), partitions=[wanted])],
            min_version=13,
        )
        answer = self._ask(asked, _leader(topic, partition))
        for told in (p for row in answer.responses for p in row.partitions):
            if told.error_code == _OFFSET_OUT_OF_RANGE:
                return Page(told.log_start_offset, told.last_stable_offset, (), b"", refused=True)
            if told.error_code:
                raise _refused(topic.name, partition, told.error_code)
            aborted = tuple((each.producer_id, each.first_offset) for each in told.aborted_transactions or ())
            return Page(told.log_start_offset, told.last_stable_offset, aborted, bytes(told.records or b""))
        code = answer.error_code
        raise KafkaAnswerError(f"{topic.name}-{partition}: the broker answers a fetch with error {code}")


def _leader(topic: Topic, partition: int) -> int:
    leader = topic.leaders.get(partition, -1)
    if leader < 0:
        raise _MovedError(f"{topic.name}-{partition} has no leader")
    return leader


def _refused(topic: str, partition: int, code: int) -> KafkaAnswerError:
    kind = _MovedError if code in _MOVED else KafkaAnswerError
    return kind(f"{topic}-{partition}: the broker answers with error {code}")
