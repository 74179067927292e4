"""A source's side of a running job: what its topics are and hold, and what consumer groups are told.

Must not know: sinks, the journal, Spark. Spark itself looks only at offsets: a topic that was deleted, made again and
filled past the checkpoint's offset would be read on in silence, so topics are told by their ids.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onceflow.connectors.contract import Source, SourceConnection, Standing
from onceflow.connectors.kafka import durability, offsets
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.group_offsets import write_offsets
from onceflow.connectors.kafka.offsets import Bounds
from onceflow.connectors.kafka.partition import Partition
from onceflow.errors import ConfigurationError, SourceDataLostError
from onceflow.twophase.layout import Layout, Topic, remade
from onceflow.twophase.layout import Source as LayoutSource

if TYPE_CHECKING:
    from onceflow.connectors.kafka.source import KafkaSource


@dataclass(frozen=True, slots=True)
class _Loss:
    """Records that are needed and gone: of one partition, or of a whole topic that was made again."""

    partition: Partition
    error: SourceDataLostError
    remade: bool = False


class KafkaSourceConnection(SourceConnection):
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

    def look(self, source: Source, needed: str, end: str, known: LayoutSource | None) -> Standing:
        """As the contract says."""
        kafka: KafkaSource = source  # type: ignore[assignment]  # a connection is asked of its own sources only
        first, last = _parsed(needed), _parsed(end)
        topics = self._topics_of(kafka, {*first, *last}, known)
        mine = {p: at for p, at in first.items() if kafka.reads(p.topic)}
        new = _added(first, topics)
        # Asked once: what is found lost, and what a position is moved to, are of the same moment.
        held = offsets.bounds(self._client.admin, sorted({*mine, *new}), isolation="read_uncommitted")
        found = [*_losses(mine, last, held, topics, known), *_beginnings(new, last, held)]
        errors = tuple(loss.error for loss in found)
        behind = {loss.partition: _behind(loss, held) for loss in found}
        return Standing(topics, errors, _moved(needed, first, behind), _moved(end, last, behind))

    def topics(self, positions: Sequence[str]) -> list[Mapping[str, Topic]]:
        """As the contract says."""
        named = [{p.topic for p in _parsed(position)} for position in positions]
        found = self._ask({name for names in named for name in names})
        return [{name: found[name] for name in sorted(names) if name in found} for names in named]

    def publish(self, group: str, positions: Sequence[str]) -> None:
        """As the contract says."""
        told = slowest(positions)
        if told:
            write_offsets(self._client, group, told)

    # -- parts ------------------------------------------------------------------------------------

    def _ask(self, names: Iterable[str]) -> dict[str, Topic]:
        found = self._client.topics(sorted(names))
        return {name: Topic(name, topic.topic_id, len(topic.leaders)) for name, topic in found.items()}

    def _topics_of(
        self, source: KafkaSource, partitions: Iterable[Partition], known: LayoutSource | None
    ) -> tuple[Topic, ...]:
        """What the source reads, and what its position names."""
        wanted = {p.topic for p in partitions if source.reads(p.topic)}
        if isinstance(source.topics, re.Pattern):
            subscribed = {name for name in self._client.admin.list_topics() if source.topics.fullmatch(name)}
        else:
            subscribed = set(source.topics)
        topics = self._ask(wanted | subscribed)
        fresh = sorted(set(topics) - self._warned)
        if fresh:
            durability.warn_of_weak_topics(self._client, fresh, "records that were not read yet")
            self._warned |= set(fresh)
        before = {topic.name for topic in known.topics} if known is not None else set()
        missing = sorted(subscribed - set(topics) - wanted - before)
        if missing:
            raise ConfigurationError(
                f"there is no topic {', '.join(missing)}",
                cause=f"topics={list(source.topics) if isinstance(source.topics, tuple) else source.topics}",
                action="create it, correct the name, or give the login the right to DESCRIBE it",
                topics=missing,
            )
        return tuple(topics[name] for name in sorted(topics))


def slowest(positions: Sequence[str]) -> dict[str, dict[int, int]]:
    """Topic to partition to offset: of several positions the lowest, so that who goes on from there misses nothing."""
    told: dict[str, dict[int, int]] = {}
    for position in positions:
        for partition, offset in _parsed(position).items():
            topic = told.setdefault(partition.topic, {})
            topic[partition.number] = min(offset, topic.get(partition.number, offset))
    return told


def _parsed(position: str) -> dict[Partition, int]:
    try:
        return offsets.from_json(position)
    except ConfigurationError:
        return {}


def _added(needed: Iterable[Partition], topics: Iterable[Topic]) -> set[Partition]:
    """Partitions that a position does not name, of topics that it names."""
    named = {p.topic for p in needed}
    return {Partition(t.name, n) for t in topics if t.name in named for n in range(t.partitions)} - set(needed)


def _losses(
    needed: Mapping[Partition, int],
    ends: Mapping[Partition, int],
    held: Mapping[Partition, Bounds],
    topics: tuple[Topic, ...],
    known: LayoutSource | None,
) -> Iterator[_Loss]:
    """Partitions that do not hold what is needed, or are of a topic that was made again."""
    now = Layout((LayoutSource((), "", "", "", topics),))
    again = {r.topic: r for r in remade(Layout((known,)), now)} if known is not None else {}
    for partition, at in sorted(needed.items()):
        end = max(at, ends.get(partition, at))
        bounds = held.get(partition)
        if partition.topic in again:
            was, is_now = again[partition.topic].was, again[partition.topic].now
            yield _Loss(partition, _remade(partition.topic, was, is_now), remade=True)
        elif bounds is None or at < bounds.earliest or end > bounds.latest:
            lost = offsets.data_lost(
                partition, wanted=at, end=end if end > at else None, held=bounds, gone=bounds is None
            )
            yield _Loss(partition, lost)


def _beginnings(
    added: Iterable[Partition], ends: Mapping[Partition, int], held: Mapping[Partition, Bounds]
) -> Iterator[_Loss]:
    """Partitions that were added to a topic that is read, and whose first records are gone: Spark begins at 0."""
    for partition in sorted(added):
        bounds = held.get(partition)
        if bounds is not None and bounds.earliest > 0:
            end = ends.get(partition)
            yield _Loss(partition, offsets.data_lost(partition, wanted=0, end=end, held=bounds))


def _behind(loss: _Loss, held: Mapping[Partition, Bounds]) -> Bounds | None:
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


def _remade(topic: str, was: str, now: str) -> SourceDataLostError:
    return SourceDataLostError(
        f"topic {topic} was deleted and made again: its id was {was} and is {now}",
        harmless="never: the checkpoint's offsets mean nothing in the new topic",
        cause="somebody deleted the topic; what had not been read is gone",
        action="start the job: it says what is lost, and which command goes on without it",
        topic=topic,
        topic_id=now,
    )
