"""A source's side of a running job: what its topics are and hold, and what consumer groups are told.

Must not know: sinks, the journal, Spark. Spark itself looks only at offsets: a topic that was deleted, made again and
filled past the checkpoint's offset would be read on in silence, so topics are told by their ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onceflow.connectors.examination import ExaminableSource, Expected
from onceflow.connectors.kafka import broker_checks, durability, examination, offsets
from onceflow.connectors.kafka.client import KafkaClient, translated
from onceflow.connectors.kafka.codes import Code
from onceflow.connectors.kafka.group_offsets import write_offsets
from onceflow.connectors.kafka.offsets import Bounds
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.source_contract import Source, SourceConnection, SourcePosition
from onceflow.errors import (
    ConfigurationError,
    KafkaError,
    KafkaRightsError,
    KafkaUnavailableError,
    SourceDataLostError,
)
from onceflow.findings import Finding
from onceflow.twophase.layout import Layout, LayoutSource, Remade, Topic, remade

if TYPE_CHECKING:
    from onceflow.connectors.kafka.source import KafkaSource

_OF_MEMBERS = (Code.ILLEGAL_GENERATION, Code.UNKNOWN_MEMBER_ID, Code.REBALANCE_IN_PROGRESS, Code.STALE_MEMBER_EPOCH)


_SPARKS_GROUP = "spark-kafka-source"
_LOST = "records that were not read yet"


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that are needed and gone: of one partition, or of a whole topic that was made again.

    Attributes:
        partition: Where.
        start: The first that is lost.
        end: The one after the last.
        error: What a start says of it.
        remade: The topic was deleted and made again.
    """

    partition: Partition
    start: int
    end: int
    error: SourceDataLostError
    remade: bool = False


class KafkaSourceConnection(SourceConnection, ExaminableSource):
    """A connection to the cluster of one or more KafkaSources.

    Args:
        client: An open client, this object's from now on.
    """

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._warned: set[str] = set()

    @property
    def system_id(self) -> str:  # type: ignore[override]  # the contract's attribute
        """The cluster's id."""
        return self._client.cluster_id

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def look(self, source: Source, needed: str, end: str, known: LayoutSource | None) -> SourcePosition:
        """As the contract says."""
        kafka: KafkaSource = source  # type: ignore[assignment]  # a connection is asked of its own sources only
        first, last = parsed(needed), parsed(end)
        topics = self._topics_of(kafka, {*first, *last}, known)
        mine = {p: at for p, at in first.items() if kafka.reads(p.topic)}
        found, held = find_losses(self._client, mine, last, added(first, topics), topics, known)
        errors = tuple(loss.error for loss in found)
        behind = {loss.partition: _behind(loss, held) for loss in found}
        return SourcePosition(topics, errors, _moved(needed, first, behind), _moved(end, last, behind))

    def topics(self, positions: Sequence[str]) -> list[Mapping[str, Topic]]:
        """As the contract says."""
        named = [{p.topic for p in parsed(position)} for position in positions]
        found = ask_topics(self._client, {name for names in named for name in names})
        return [{name: found[name] for name in sorted(names) if name in found} for names in named]

    def publish(self, group: str, positions: Sequence[str]) -> None:
        """As the contract says."""
        told = slowest(positions)
        if not told:
            return
        try:
            if not write_offsets(self._client, group, told):
                raise translated(Code.COORDINATOR_NOT_AVAILABLE, f"writing offsets of group {group}")
        except KafkaError as error:
            raise _unpublished(error, group, sorted(told)) from None

    def findings(self, source: Source, expected: Expected) -> list[Finding]:
        """As ``ExaminableSource`` says."""
        kafka: KafkaSource = source  # type: ignore[assignment]  # a connection is asked of its own sources only
        client = self._client
        names = self._subscribed(kafka)
        topics, settings = ask_topics(client, names), client.topic_configs(names)
        found = examination.of_cluster(client)
        found += durability.weak_topics(client, topics, _LOST)
        for name, topic in sorted(topics.items()):
            found += broker_checks.read_topic(name, topic.partitions, settings.get(name, {}), expected)
        group = kafka.group or kafka.options.get("groupIdPrefix") or _SPARKS_GROUP
        found += examination.may_join(client, group)
        if expected.group is not None:
            found += examination.may_publish(client, kafka.group or expected.group, topics)
        return found + examination.may_read(client.cluster, topics)

    def java_client(self) -> Mapping[str, str]:
        """As ``ExaminableSource`` says: without what the names of Spark's options begin with."""
        return {name.removeprefix("kafka."): value for name, value in self._client.cluster.for_spark().items()}

    # -- parts ------------------------------------------------------------------------------------

    def _subscribed(self, source: KafkaSource) -> set[str]:
        if isinstance(source.topics, re.Pattern):
            return {name for name in self._client.admin.list_topics() if source.topics.fullmatch(name)}
        return set(source.topics)

    def _topics_of(
        self, source: KafkaSource, partitions: Iterable[Partition], known: LayoutSource | None
    ) -> tuple[Topic, ...]:
        """What the source reads, and what its position names."""
        wanted = {p.topic for p in partitions if source.reads(p.topic)}
        subscribed = self._subscribed(source)
        topics = ask_topics(self._client, wanted | subscribed)
        fresh = sorted(set(topics) - self._warned)
        if fresh:
            durability.warn(durability.weak_topics(self._client, fresh, _LOST))
            self._warned |= set(fresh)
        before = {topic.name for topic in known.topics} if known is not None else set()
        missing = sorted(subscribed - set(topics) - wanted - before)
        if missing:
            raise ConfigurationError(
                f"there is no topic {', '.join(missing)}",
                cause="nobody has made it, its name is misspelt, or the login may not DESCRIBE it; "
                f"topics={list(source.topics) if isinstance(source.topics, tuple) else source.topics}",
                action="create it (onceflow dev topic, where that made the Kafka), correct the name, or give the right",
                topics=missing,
            )
        return tuple(topics[name] for name in sorted(topics))


def _unpublished(error: KafkaError, group: str, topics: Sequence[str]) -> KafkaError:
    """The error for offsets that a group did not take, with what to do for its lag."""
    off = "set commit.offsets.on.checkpoint=false"
    if isinstance(error, KafkaRightsError):
        return KafkaRightsError(
            error.what,
            harmless="for the data: nothing of it is read from there",
            cause=f"this user lacks READ on group {group}, or on {', '.join(topics)}",
            action=f"give it that right, or {off}",
            group=group,
        )
    if error.facts.get("code") in _OF_MEMBERS:
        return KafkaUnavailableError(
            f"{error.what}: the group has members",
            harmless="for the data: nothing of it is read from there",
            cause="a consumer that runs somewhere has this group id; of a group with members Kafka takes only theirs",
            action=f"give that consumer another group, or the source (group=), or {off}",
            group=group,
        )
    return error


def slowest(positions: Sequence[str]) -> dict[str, dict[int, int]]:
    """Topic to partition to offset: of several positions the lowest, so that who goes on from there misses nothing."""
    told: dict[str, dict[int, int]] = {}
    for position in positions:
        for partition, offset in parsed(position).items():
            topic = told.setdefault(partition.topic, {})
            topic[partition.number] = min(offset, topic.get(partition.number, offset))
    return told


def parsed(position: str) -> dict[Partition, int]:
    """A position by partition; nothing for one that is not Kafka's."""
    try:
        return offsets.from_json(position)
    except ConfigurationError:
        return {}


def ask_topics(client: KafkaClient, names: Iterable[str]) -> dict[str, Topic]:
    """Topics by name, as they are now; what is gone is left out."""
    found = client.topics(sorted(names))
    return {name: Topic(name, topic.topic_id, len(topic.leaders)) for name, topic in found.items()}


def added(needed: Iterable[Partition], topics: Iterable[Topic]) -> set[Partition]:
    """Partitions that a position does not name, of topics that it names."""
    named = {p.topic for p in needed}
    return {Partition(t.name, n) for t in topics if t.name in named for n in range(t.partitions)} - set(needed)


def find_losses(
    client: KafkaClient,
    needed: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    new: Iterable[Partition],
    topics: Iterable[Topic],
    known: LayoutSource | None,
) -> tuple[list[Loss], dict[Partition, Bounds]]:
    """What is lost of what is needed, for a start and for an operator; and what the partitions hold.

    Args:
        client: The cluster.
        needed: The first offset that is needed, by partition.
        ends: The one after the last that is planned.
        new: Partitions that were added since: Spark reads them from offset 0.
        topics: The topics as they are now.
        known: What was there before, or None.

    Raises:
        KafkaError: A partition has no leader now, or the broker refused.
    """
    # Asked once: what is found lost, and what a position is moved to, are of the same moment.
    asked = sorted({*needed, *new})
    held = offsets.bounds(client.admin, asked, isolation="read_uncommitted", within_s=client.timeout_s)
    again = remade_topics(topics, known)
    return [*losses(needed, ends, held, again), *beginnings(new, ends, held, again)], held


def remade_topics(topics: Iterable[Topic], known: LayoutSource | None) -> dict[str, Remade]:
    """Topics that were deleted and made again, by name."""
    now = Layout((LayoutSource((), "", "", "", tuple(topics)),))
    return {r.topic: r for r in remade(Layout((known,)), now)} if known is not None else {}


def losses(
    needed: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    held: Mapping[Partition, Bounds],
    again: Mapping[str, Remade],
) -> Iterator[Loss]:
    """Partitions that do not hold what is needed, or are of a topic that was made again."""
    for partition, at in sorted(needed.items()):
        end = max(at, ends.get(partition, at))
        bounds = held.get(partition)
        if partition.topic in again:
            yield Loss(partition, at, end, _remade(again[partition.topic]), remade=True)
        elif bounds is None or at < bounds.earliest or end > bounds.latest:
            yield _loss(partition, at, end if end > at else None, bounds)


def beginnings(
    new: Iterable[Partition],
    ends: Mapping[Partition, int],
    held: Mapping[Partition, Bounds],
    again: Mapping[str, Remade],
) -> Iterator[Loss]:
    """Partitions that were added to a topic that is read, and do not hold what Spark reads of them from offset 0 on."""
    for partition in sorted(new):
        bounds, end = held.get(partition), ends.get(partition)
        gone = bounds is not None and (bounds.earliest > 0 or (end or 0) > bounds.latest)
        if partition.topic in again and (gone or end is not None):  # what was planned is of the topic that is gone
            yield Loss(partition, 0, end or 0, _remade(again[partition.topic]), remade=True)
        elif gone:
            yield _loss(partition, 0, end, bounds)


def _loss(partition: Partition, at: int, end: int | None, held: Bounds | None) -> Loss:
    """What a partition has lost of the offsets from ``at`` to before ``end``; None: of all from ``at`` on."""
    error = offsets.data_lost(partition, wanted=at, end=end, held=held, gone=held is None)
    after = at if end is None else end
    if held is None:
        return Loss(partition, at, after, error)
    begin = at if at < held.earliest else min(after, held.latest)
    return Loss(partition, begin, max(after, held.earliest), error)


def _behind(loss: Loss, held: Mapping[Partition, Bounds]) -> Bounds | None:
    """What is there of a partition that has lost something; None for one that is gone."""
    bounds = held.get(loss.partition)
    # In a topic that was made again nothing was read: it is read from its beginning.
    return Bounds(bounds.earliest, bounds.earliest) if bounds is not None and loss.remade else bounds


def _moved(text: str, position: Mapping[Partition, int], behind: Mapping[Partition, Bounds | None]) -> str:
    """A position with every offset that points at lost records moved into what is held; untouched where none does."""
    if not behind or not text:
        return text
    moved: dict[Partition, int] = {}
    for partition, offset in position.items():
        held = behind[partition] if partition in behind else Bounds(offset, offset)
        if held is not None:
            moved[partition] = min(max(offset, held.earliest), held.latest)
    for partition, held in behind.items():
        if held is not None and partition not in position:  # it was added, and begins where it still holds records
            moved[partition] = held.earliest
    return offsets.to_json(moved)


def _remade(topic: Remade) -> SourceDataLostError:
    return SourceDataLostError(
        f"topic {topic.topic} was deleted and made again: its id was {topic.was} and is {topic.now}",
        harmless="never: the checkpoint's offsets mean nothing in the new topic",
        cause="somebody deleted the topic; what had not been read is gone",
        action="start the job: it says what is lost, and which command goes on without it",
        topic=topic.topic,
        topic_id=topic.now,
    )
