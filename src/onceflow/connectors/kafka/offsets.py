"""Offsets of a source: Spark's JSON, ranges, lag, and what is lost.

An offset is the number of the next record to read, as in Spark's ``offsets/N`` and in committed group offsets.
Numbers of offsets are upper bounds of numbers of records, since transaction markers take offsets, too.

The first part is pure. The second asks a broker through an open ``KafkaAdminClient``. Must not know: Spark's API,
the journal, sinks.
"""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from onceflow.connectors.kafka.codes import Code
from onceflow.connectors.kafka.partition import Partition
from onceflow.errors import ConfigurationError, KafkaUnavailableError, SourceDataLostError
from onceflow.twophase.forms import OTHER_FORM
from onceflow.waiting import turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

log = logging.getLogger(__name__)

_AGAIN_AFTER_S = 0.2


class Range(NamedTuple):
    """The offsets ``start`` to ``end - 1`` of a partition."""

    partition: Partition
    start: int
    end: int


class Bounds(NamedTuple):
    """What a partition holds: from ``earliest`` to before ``latest`` (read_committed: the last stable offset)."""

    earliest: int
    latest: int


def flat(nested: Mapping[str, Mapping[Any, int]]) -> dict[Partition, int]:
    """``{"t": {0: 5}}`` (numbers as text, too) as ``{Partition("t", 0): 5}``."""
    return {Partition(topic, int(number)): at for topic, of in nested.items() for number, at in of.items()}


def from_json(text: str) -> dict[Partition, int]:
    """Spark's Kafka source offset, ``{"topic":{"0":123}}``, by partition.

    What is asked of brokers, and what is lost, hangs on it, so it must be a position of Kafka's. The checkpoint, which
    does not know Kafka, reads the same text a second way, to count what lies between positions of any source.

    Raises:
        ConfigurationError: It is no such JSON.
    """
    try:
        return {partition: int(at) for partition, at in flat(json.loads(text)).items()}
    except OTHER_FORM as error:
        raise ConfigurationError(
            f"this is no offset of Spark's Kafka source: {text[:100]}",
            action='give JSON like {"topic":{"0":123}}',
        ) from error


def to_json(offsets: Mapping[Partition, int]) -> str:
    """The inverse of ``from_json``, topics and partitions in order."""
    nested: dict[str, dict[str, int]] = {}
    for partition, at in sorted(offsets.items()):
        nested.setdefault(partition.topic, {})[str(partition.number)] = at
    return json.dumps(nested, separators=(",", ":"))


def ranges(start: Mapping[Partition, int], end: Mapping[Partition, int]) -> list[Range]:
    """What an epoch read or will read, in order; a partition without a start is new and begins at 0."""
    return [Range(partition, start.get(partition, 0), at) for partition, at in sorted(end.items())]


def data_lost(
    partition: Partition,
    *,
    wanted: int | None = None,
    end: int | None = None,
    held: Bounds | None = None,
    gone: bool = False,
) -> SourceDataLostError:
    """The error for records that are gone; None is for what is not known.

    Its ``facts``: topic, partition, wanted, earliest, lost (offsets).

    Args:
        partition: Where.
        wanted: The first offset that is needed.
        end: The offset after the last one that is needed.
        held: What the partition still holds.
        gone: The partition was deleted, and perhaps made again.
    """
    lost = None
    if gone:
        what = "the partition was deleted"
        lost = None if wanted is None or end is None else end - wanted
    elif held is None:
        what = "the topic does not hold all of them any more"
    elif wanted is not None and wanted < held.earliest:
        what = f"the earliest offset that the topic still holds is {held.earliest}"
        lost = (held.earliest if end is None else min(end, held.earliest)) - wanted
    else:
        what = f"the topic ends before offset {held.latest}: it was deleted and made again, or cut off"
        lost = None if wanted is None or end is None else end - max(wanted, held.latest)
    if wanted is None:
        needed = "its records"
    else:
        needed = f"offset {wanted} and on" if end is None else f"offsets {wanted} to {end - 1}"
    count = "" if lost is None else f"; at most {lost} records are lost"
    return SourceDataLostError(
        f"records are lost: topic {partition.topic}, partition {partition.number}: the query needs {needed}, but "
        f"{what}{count}",
        harmless="never: the job still needs them; what is visible stays as it is",
        cause="the topic's retention.ms or retention.bytes is too small for the time that the job stood still or "
        "lagged behind; or somebody deleted records or the topic",
        action="raise the topic's retention, and start the job: it says all that is lost, and which command goes on "
        "without it",
        topic=partition.topic,
        partition=partition.number,
        wanted=wanted,
        earliest=None if held is None else held.earliest,
        lost=lost,
    )


_PARTITION = r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<number>[0-9]{1,10})"
_OFFSET = "[0-9]{1,19}"
_SPARK_SAYS = (  # the sub-conditions of KAFKA_DATA_LOSS, in the words of Spark 4.2
    rf"Could not read records in offset \[(?P<wanted>{_OFFSET}), (?P<end>{_OFFSET})\) for topic partition {_PARTITION}",
    rf"Partition {_PARTITION} offset was changed from (?P<wanted>{_OFFSET}) to (?P<latest>{_OFFSET})",
    rf"Added partition {_PARTITION} starts from (?P<earliest>{_OFFSET}) instead of (?P<wanted>0)",
    rf"Starting offset for {_PARTITION} was (?P<wanted>{_OFFSET}) but consumer reset to (?P<earliest>{_OFFSET})",
    rf"(?P<gone>Partitions) \w+\({_PARTITION}.* have been deleted",
    rf"Cannot find initial offsets for (?P<gone>partitions) \w+\({_PARTITION}",
)


def data_lost_from(message: str) -> SourceDataLostError | None:
    """The loss that a failed query's message speaks of, if it does.

    Spark names partition and offset, but mostly not what the topic still holds.

    Args:
        message: The text of the StreamingQueryException, or of what it was caused by.
    """
    found = next(filter(None, (re.search(pattern, message) for pattern in _SPARK_SAYS)), None)
    if found is None:
        return None
    said = found.groupdict()
    partition = Partition(said["topic"], int(said["number"]))
    number = {name: int(said[name]) for name in ("wanted", "end", "earliest", "latest") if said.get(name)}
    held = None
    if "earliest" in number:
        held = Bounds(number["earliest"], number["earliest"])
    elif "latest" in number:
        held = Bounds(0, number["latest"])
    gone = said.get("gone") is not None
    return data_lost(partition, wanted=number.get("wanted"), end=number.get("end"), held=held, gone=gone)


def no_topic_from(message: str) -> ConfigurationError | None:
    """The missing topic that a failed query's message speaks of. Which one it is Kafka's client does not say."""
    if "UnknownTopicOrPartitionException" not in message:
        return None
    return ConfigurationError(
        "there is no topic of a name that a source is to read",
        harmless="always for the data: nothing that is not decided is visible",
        cause="a name in the subscribe= of a readStream, or in topics=, is misspelt; or the topic was deleted, or was "
        "not made yet",
        action="correct the name or create the topic, then start the job. A KafkaSource is looked at before the job "
        "starts, and the error names the topic",
    )


# ---- asking a broker ----


def partitions(admin: Any, topics: Sequence[str] | re.Pattern[str]) -> list[Partition]:
    """All partitions of the topics, in order.

    Args:
        admin: An open ``KafkaAdminClient``.
        topics: Names, or a pattern that must match whole names.

    Raises:
        ConfigurationError: A named topic does not exist.
    """
    if isinstance(topics, re.Pattern):
        topics = [name for name in admin.list_topics() if topics.fullmatch(name)]
        if not topics:
            return []
    described = admin.describe_topics(list(topics))
    if missing := sorted(
        topic["name"] for topic in described if topic["error_code"] == Code.UNKNOWN_TOPIC_OR_PARTITION
    ):
        raise ConfigurationError(
            f"there is no topic {', '.join(missing)}",
            cause=f"topics={list(topics)}",
            action="create it, correct the name, or give the login the right to DESCRIBE it",
            topics=missing,
        )
    return sorted(
        Partition(topic["name"], partition["partition_index"])
        for topic in described
        for partition in topic["partitions"]
    )


def bounds(
    admin: Any, wanted: Iterable[Partition], *, isolation: str = "read_committed", within_s: float = 30.0
) -> dict[Partition, Bounds]:
    """What each partition holds now; partitions that do not exist are left out.

    Args:
        admin: An open ``KafkaAdminClient``.
        wanted: Which partitions.
        isolation: ``read_committed``: ``latest`` is the last stable offset, else the high watermark.
        within_s: For how long it is asked again: a topic that was just made has no leader for a moment.

    Raises:
        KafkaUnavailableError, KafkaRightsError: A partition had no leader all the time, or the broker refused.
    """
    from kafka.errors import BrokerResponseError  # noqa: PLC0415 - the pure part needs no client
    from kafka.errors import KafkaError as ClientError  # noqa: PLC0415

    from onceflow.connectors.kafka.client import translated  # noqa: PLC0415

    wanted = list(wanted)
    names = ", ".join(sorted({partition.topic for partition in wanted}))
    said = False
    for last in turns(within_s, _AGAIN_AFTER_S):
        try:
            return _bounds(admin, wanted, isolation)
        except ClientError as error:
            code = error.errno if isinstance(error, BrokerResponseError) else Code.LEADER_NOT_AVAILABLE
            told = translated(code, f"asking what the partitions of {names} hold ({error})")
            if last or not told.retriable:
                raise told from error
            if not said:
                said = True
                log.warning("%s; it is asked again for %.0f s", told.what, within_s)
    raise AssertionError("the last turn returns or raises")


def _bounds(admin: Any, wanted: Sequence[Partition], isolation: str) -> dict[Partition, Bounds]:
    from kafka import TopicPartition  # noqa: PLC0415
    from kafka.admin import OffsetSpec  # noqa: PLC0415
    from kafka.protocol.consumer.offsets import IsolationLevel  # noqa: PLC0415

    described = admin.describe_topics(sorted({partition.topic for partition in wanted})) if wanted else []
    there = {Partition(topic["name"], p["partition_index"]) for topic in described for p in topic["partitions"]}
    known = [TopicPartition(*partition) for partition in wanted if partition in there]
    if not known:
        return {}
    level = IsolationLevel.READ_COMMITTED if isolation == "read_committed" else IsolationLevel.READ_UNCOMMITTED
    earliest = admin.list_partition_offsets(dict.fromkeys(known, OffsetSpec.EARLIEST))
    latest = admin.list_partition_offsets(dict.fromkeys(known, OffsetSpec.LATEST), level)
    return {Partition(*each): Bounds(earliest[each].offset, latest[each].offset) for each in known}


def committed(admin: Any, group: str, *, timeout_s: float = 30.0) -> dict[Partition, int]:
    """The offsets that a consumer group has committed; empty for a group that never did.

    Raises:
        KafkaUnavailableError: The group's coordinator did not answer in time.
        KafkaRightsError: The login may not DESCRIBE the group.
    """
    from kafka.errors import AuthorizationError, KafkaError, RetriableError  # noqa: PLC0415 - the pure part needs none

    from onceflow.connectors.kafka.client import translated  # noqa: PLC0415

    for last in turns(timeout_s, _AGAIN_AFTER_S):
        try:
            found = admin.list_group_offsets(group)[group]
        except AuthorizationError as error:
            raise translated(error.errno, f"asking for the committed offsets of group {group}") from error
        except KafkaError as error:
            # On a fresh cluster the first question makes the broker create its offsets topic.
            if last or not isinstance(error, RetriableError):
                raise KafkaUnavailableError(
                    f"the committed offsets of group {group} cannot be read: {error}",
                    harmless="the cluster is just starting or moving a coordinator",
                    cause=f"the coordinator of group={group} does not answer",
                    action="look at the brokers, then start the job again",
                    group=group,
                ) from error
        else:
            return {Partition(*each): at.offset for each, at in found.items() if at.offset >= 0}
    raise AssertionError("the last turn returns or raises")
