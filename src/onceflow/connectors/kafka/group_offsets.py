"""Offsets in Kafka's consumer groups: a job's marks outside its checkpoint, and offsets for monitoring.

Must not know: the journal, Spark. Nothing here is ever read to decide where a job goes on: the checkpoint owns that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kafka.protocol.consumer import OffsetCommitRequest, OffsetFetchRequest

from onceflow.connectors.kafka.client import GROUP, KafkaClient, translated
from onceflow.connectors.kafka.codes import Code
from onceflow.connectors.kafka.rights import missing
from onceflow.errors import KafkaRightsError

_PARTITION = 0
_NO_PARTITION = 2**31 - 1
_TRIES = 50
_VERSION = 8  # by topic name; later versions name topics by id


def write_offsets(
    client: KafkaClient, group: str, offsets: Mapping[str, Mapping[int, int]], metadata: str = ""
) -> bool:
    """Commit offsets of a group that has no members. False: no answer now.

    Args:
        client: The cluster.
        group: The group.
        offsets: Topic to partition to the next offset to read.
        metadata: Kept beside each offset.

    Raises:
        KafkaRightsError, KafkaUnavailableError: The broker refused.
    """
    code = _commit(client, group, offsets, metadata)
    if code is None:
        return False
    if code != Code.NONE:
        raise translated(code, f"writing offsets of group {group}")
    return True


def require_rights(client: KafkaClient, group: str, topic: str, begins: str = "") -> None:
    """Prove that a group's offsets may be read and written, and write none.

    They are for a partition that no topic has: the broker looks at the rights first, and then refuses them anyway.

    Args:
        client: The cluster.
        group: The group.
        topic: A topic that may be read; of one that may not, nothing is said here.
        begins: What the names of all groups begin with that need the same rights; "" for this one alone.

    Raises:
        KafkaRightsError: The right on the group that is missing.
        KafkaUnavailableError: The brokers gave no answer.
    """
    try:
        for _ in range(_TRIES):
            code = _commit(client, group, {topic: {_NO_PARTITION: 0}}, "")
            if code is not None:
                break
            client.wait_a_little()
        else:
            raise translated(Code.COORDINATOR_NOT_AVAILABLE, f"trying to write offsets of group {group}")
    except KafkaRightsError:  # without DESCRIBE nobody tells where the group is; READ has it in it
        code = Code.GROUP_AUTHORIZATION_FAILED
    if code == Code.GROUP_AUTHORIZATION_FAILED:
        raise _refused(client, group, begins)


def _refused(client: KafkaClient, group: str, begins: str) -> KafkaRightsError:
    saw = "the broker refused the offsets of a group in which the job keeps what it has done"
    return missing(client.cluster, saw, "READ", "Group", group, begins=begins)


def _commit(client: KafkaClient, group: str, offsets: Mapping[str, Mapping[int, int]], metadata: str) -> int | None:
    """What the broker answers to offsets of a group: the largest of the codes; None without an answer."""
    topic_row = OffsetCommitRequest.OffsetCommitRequestTopic
    rows = [
        topic_row(
            name=topic,
            partitions=[
                topic_row.OffsetCommitRequestPartition(
                    partition_index=partition, committed_offset=offset, committed_metadata=metadata
                )
                for partition, offset in partitions.items()
            ],
        )
        for topic, partitions in offsets.items()
    ]
    answers = client.send_to_coordinators(
        GROUP,
        [group],
        lambda key: OffsetCommitRequest(
            group_id=key, generation_id_or_member_epoch=-1, member_id="", topics=rows, max_version=_VERSION
        ),
        lambda answer, _: max((p.error_code for t in answer.topics for p in t.partitions), default=Code.NONE),
    )
    if answers[group] is None:
        return None
    return max((int(p.error_code) for t in answers[group].topics for p in t.partitions), default=int(Code.NONE))


def name_group(prefix: str, name: str) -> str:
    """The group that keeps which jobs of a name have written; of no job's id, so it is found when all else is lost."""
    return f"{prefix}-name-{quote(name, safe='')}"


def write_mark(client: KafkaClient, group: str, topic: str, mark: str) -> bool:
    """Keep the mark as metadata of the group's offset for partition 0 of a sink's topic. False: no answer now."""
    return write_offsets(client, group, {topic: {_PARTITION: 0}}, mark)


def read_mark(client: KafkaClient, group: str, topic: str, begins: str = "") -> str | None:
    """The mark, or None when Kafka has none (a group's offsets are forgotten after 7 days without a job).

    Args:
        client: The cluster.
        group: The group.
        topic: The sink's topic.
        begins: As of ``require_rights``.

    Raises:
        KafkaRightsError, KafkaUnavailableError: The broker refused, or gave no answer.
    """
    try:
        found = _fetched(client, group, topic)
    except KafkaRightsError:
        raise _refused(client, group, begins) from None
    codes = [found.error_code, *(p.error_code for t in found.topics for p in t.partitions)]
    code = next((code for code in codes if code != Code.NONE), Code.NONE)
    if code == Code.GROUP_AUTHORIZATION_FAILED:
        raise _refused(client, group, begins)
    if code != Code.NONE:
        raise translated(code, f"reading the mark of group {group}")
    text = next((p.metadata for t in found.topics for p in t.partitions if p.committed_offset >= 0), None)
    return str(text) if text else None


def _fetched(client: KafkaClient, group: str, topic: str) -> Any:
    """What the broker answers to who asks for a group's offset in a topic.

    Raises:
        KafkaRightsError, KafkaUnavailableError: The group's coordinator is not told, or gave no answer.
    """
    row = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [row.OffsetFetchRequestTopics(name=topic, partition_indexes=[_PARTITION])]
    for _ in range(_TRIES):
        answers = client.send_to_coordinators(
            GROUP,
            [group],
            lambda key: OffsetFetchRequest(
                groups=[row(group_id=key, topics=topics)], require_stable=True, min_version=8, max_version=9
            ),
            lambda answer, _: int(answer.groups[0].error_code),
        )
        if answers[group] is not None:
            return answers[group].groups[0]
        client.wait_a_little()
    raise translated(Code.COORDINATOR_NOT_AVAILABLE, f"reading the mark of group {group}")
