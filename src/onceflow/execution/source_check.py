"""The Kafka sources of a plan: what they are, whether they still hold what is needed, and whether they stay the same.

Must not know: sinks, the rules. Spark itself looks only at offsets: a topic that was deleted, made again and filled
past the checkpoint's offset would be read on in silence. Each source is looked at by its own position, the line of
``offsets/N`` that is its: names of topics alone would mix two clusters, or two sources of one topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.kafka import durability, offsets
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.source import SOURCE_OPTION, KafkaSource, find
from onceflow.errors import CheckpointCorruptError, ConfigurationError, SourceDataLostError
from onceflow.spark.plan import Leaf
from onceflow.twophase.layout import Layout, Source, State, Topic, remade
from onceflow.twophase.messages import Surveyed
from onceflow.twophase.records import DecidedEpoch

_HEAD = 2  # lines of offsets/N before those of the sources: version, metadata

Positions = list[dict[Partition, int]]
"""For each source, in the plan's order, the next offset of each partition."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that are needed and gone: of one partition, or (``remade``) of a whole topic."""

    position: int
    partition: Partition
    error: SourceDataLostError


class Sources:
    """The sources of one plan, with their connections. Only those made by ``KafkaSource`` can be asked.

    Args:
        leaves: The plan's streaming sources, in order.
        states: Its state operators, in order.
    """

    def __init__(self, leaves: Sequence[Leaf], states: Sequence[State]) -> None:
        self.leaves = tuple(leaves)
        self._states = tuple(states)
        self._sources = tuple(find(leaf.options.get(SOURCE_OPTION, "")) for leaf in leaves)
        self._clients: dict[KafkaCluster, KafkaClient] = {}
        self._warned = False

    @property
    def distinct(self) -> list[KafkaSource | None]:
        """The sources as Spark's progress lists them: one that several outputs start from counts once."""
        seen: dict[str, KafkaSource | None] = {}
        for i, (leaf, source) in enumerate(zip(self.leaves, self._sources, strict=True)):
            seen.setdefault(leaf.options.get(SOURCE_OPTION) or f"unknown {i}", source)
        return list(seen.values())

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def survey(
        self, checkpoint: SparkCheckpoint, undone: DecidedEpoch | None, known: Layout | None, *, again: bool
    ) -> tuple[Surveyed, SourceDataLostError | None]:
        """What stands at each position now, and what is lost of what the checkpoint still needs.

        Args:
            checkpoint: Spark's side of the checkpoint.
            undone: The decided epoch that Spark has not recorded, or None.
            known: The layout of before, or None.
            again: The undone epoch has to be read once more.

        Returns:
            The answer, with positions behind what is lost; and the error that says what is lost, or None.

        Raises:
            ConfigurationError: A topic does not exist, and the checkpoint knows nothing of it.
            KafkaUnavailableError, KafkaRightsError: The cluster was not reached, or refused.
        """
        done = checkpoint.newest_commit()
        start_text = _text(checkpoint, done)
        end_text = undone.offsets if undone is not None else _text(checkpoint, checkpoint.newest_offsets())
        starts, ends = self._parsed(start_text), self._parsed(end_text)
        if done is None:
            starts = [_line(checkpoint.initial_offsets(i)) for i in self._numbers]
        needed = starts if undone is None or again else ends
        layout = self._layout(needed, ends, known)
        found = [loss for i in self._numbers for loss in self._losses(i, needed[i], ends[i], layout, known)]
        if not found:
            return Surveyed(layout), None
        epoch = undone.epoch if undone is not None else (-1 if done is None else done) + 1
        error = _explained(found, epoch)
        behind = [self._behind(i, found) for i in self._numbers]
        moved = Surveyed(
            layout,
            error.what,
            before=_moved(start_text or _initial(starts), behind) if needed is starts else "",
            offsets=_moved(end_text, behind) if undone is not None else "",
        )
        return moved, error

    def sizes(self, checkpoint: SparkCheckpoint, epoch: int) -> list[int]:
        """How many offsets each source reads for an epoch that Spark has planned."""
        ends = self._parsed(_text(checkpoint, epoch))
        if epoch > 0:
            starts = self._parsed(_text(checkpoint, epoch - 1))
        else:
            starts = [_line(checkpoint.initial_offsets(i)) for i in self._numbers]
        return [
            sum(max(0, r.end - r.start) for r in offsets.ranges(start, end))
            for start, end in zip(starts, ends, strict=True)
        ]

    def look_again(self, layout: Layout, text: str) -> Layout:
        """What stands at each position after an epoch ran, asked for the topics that it read.

        A topic's id never comes back: found unchanged after the run, it was the same while the run read.

        Args:
            layout: What was found before.
            text: ``offsets/N`` of the epoch.
        """
        read = [{p.topic for p in line} for line in self._parsed(text)]
        found: list[Source] = []
        cached: dict[KafkaCluster, Mapping[str, Topic]] = {}
        for i, (source, was) in enumerate(zip(self._sources, layout.sources, strict=True)):
            if source is None or not read[i]:
                found.append(was)
                continue
            if source.cluster not in cached:
                names = {n for s, ns in zip(self._sources, read, strict=True) if s and s.cluster == source.cluster
                         for n in ns}  # fmt: skip
                cached[source.cluster] = self._topics(source.cluster, names)
            now = {t.name: t for t in was.topics} | {n: t for n, t in cached[source.cluster].items() if n in read[i]}
            topics = tuple(now[name] for name in sorted(now))
            found.append(replace(was, topics=topics))
        return Layout(tuple(found), layout.states)

    # -- parts ------------------------------------------------------------------------------------

    @property
    def _numbers(self) -> range:
        return range(len(self.leaves))

    def _first_of(self, i: int) -> int:
        """The first position of the source that stands at this one."""
        own = self.leaves[i].options.get(SOURCE_OPTION)
        same = (j for j, leaf in enumerate(self.leaves[:i]) if own and leaf.options.get(SOURCE_OPTION) == own)
        return next(same, i)

    def _client(self, cluster: KafkaCluster) -> KafkaClient:
        if cluster not in self._clients:
            self._clients[cluster] = KafkaClient(cluster)
        return self._clients[cluster]

    def _topics(self, cluster: KafkaCluster, names: Iterable[str]) -> dict[str, Topic]:
        found = self._client(cluster).topics(sorted(names))
        return {name: Topic(name, topic.topic_id, len(topic.leaders)) for name, topic in found.items()}

    def _layout(self, needed: Positions, ends: Positions, known: Layout | None) -> Layout:
        sources = []
        for i, (leaf, source) in enumerate(zip(self.leaves, self._sources, strict=True)):
            if source is None:
                sources.append(Source(leaf.outputs, "", leaf.reads_where, leaf.path, same_as=self._first_of(i)))
                continue
            client = self._client(source.cluster)
            wanted = {p.topic for p in {**needed[i], **ends[i]} if source.reads(p.topic)}
            if isinstance(source.topics, re.Pattern):
                subscribed = {name for name in client.admin.list_topics() if source.topics.fullmatch(name)}
            else:
                subscribed = set(source.topics)
            topics = self._topics(source.cluster, wanted | subscribed)
            if not self._warned:
                durability.warn_of_weak_topics(client, sorted(topics), "records that were not read yet")
            before = known.sources[i].topics if known is not None and i < len(known.sources) else ()
            missing = sorted(subscribed - set(topics) - wanted - {t.name for t in before})
            if missing:
                raise ConfigurationError(
                    f"There is no topic {', '.join(missing)}.",
                    cause=f"topics={list(source.topics) if isinstance(source.topics, tuple) else source.topics}",
                    action="Create it, correct the name, or give the login the right to DESCRIBE it.",
                    topics=missing,
                )
            found = tuple(topics[name] for name in sorted(topics))
            first = self._first_of(i)
            sources.append(Source(leaf.outputs, client.cluster_id, leaf.reads, leaf.path, found, first))
        self._warned = True
        return Layout(tuple(sources), self._states)

    def _losses(
        self, i: int, needed: Mapping[Partition, int], ends: Mapping[Partition, int], now: Layout, known: Layout | None
    ) -> Iterable[Loss]:
        source = self._sources[i]
        if source is None:
            return
        again = {r.topic: r for r in remade(known, now) if r.position == i} if known is not None else {}
        mine = {p: at for p, at in needed.items() if source.reads(p.topic)}
        held = offsets.bounds(self._client(source.cluster).admin, mine, isolation="read_uncommitted")
        for partition, at in sorted(mine.items()):
            end = max(at, ends.get(partition, at))
            bounds = held.get(partition)
            if partition.topic in again:
                was, is_now = again[partition.topic].was, again[partition.topic].now
                yield Loss(i, partition, _remade(partition.topic, was, is_now))
            elif bounds is None or at < bounds.earliest or end > bounds.latest:
                lost = offsets.data_lost(
                    partition, wanted=at, end=end if end > at else None, held=bounds, gone=bounds is None
                )
                yield Loss(i, partition, lost)

    def _behind(self, i: int, found: Sequence[Loss]) -> dict[Partition, offsets.Bounds | None]:
        """What is there of each partition of this source that has lost something; None for one that is gone."""
        source = self._sources[i]
        lost = [loss.partition for loss in found if loss.position == i]
        if source is None or not lost:
            return {}
        held = offsets.bounds(self._client(source.cluster).admin, lost, isolation="read_uncommitted")
        remade_topics = {x.partition.topic for x in found if x.position == i and "topic_id" in x.error.facts}
        # In a topic that was made again nothing was read: it is read from its beginning.
        return {
            p: (b := held.get(p)) and (offsets.Bounds(b.earliest, b.earliest) if p.topic in remade_topics else b)
            for p in lost
        }

    def _parsed(self, text: str) -> Positions:
        """Where each source stands; empty for what is not Kafka's, and without a text."""
        lines = text.splitlines()[_HEAD:]
        return [_line(lines[i]) if i < len(lines) else {} for i in self._numbers]


def _line(text: str) -> dict[Partition, int]:
    try:
        return offsets.from_json(text)
    except ConfigurationError:
        return {}


def _text(checkpoint: SparkCheckpoint, epoch: int | None) -> str:
    """An offsets file. One that is gone or torn is for the start's own checks to judge."""
    try:
        return "" if epoch is None else checkpoint.offsets(epoch)
    except CheckpointCorruptError:
        return ""


def _initial(starts: Positions) -> str:
    """The positions of a query's very first epoch, in the form of an offsets file."""
    return "\n".join(["v1", "{}", *(offsets.to_json(start) for start in starts)])


def _moved(text: str, behind: Sequence[Mapping[Partition, offsets.Bounds | None]]) -> str:
    """An offsets file with every position that points at lost records moved into what is held."""
    lines = text.splitlines()
    for i, partitions in enumerate(behind):
        at = _HEAD + i
        if not partitions or at >= len(lines):
            continue
        moved: dict[Partition, int] = {}
        for partition, offset in _line(lines[at]).items():
            held = partitions[partition] if partition in partitions else offsets.Bounds(offset, offset)
            if held is not None:
                moved[partition] = min(max(offset, held.earliest), held.latest)
        lines[at] = offsets.to_json(moved)
    return "\n".join(lines)


def _remade(topic: str, was: str, now: str) -> SourceDataLostError:
    return SourceDataLostError(
        f"topic {topic} was deleted and made again: its id was {was} and is {now}",
        harmless="never: the checkpoint's offsets mean nothing in the new topic",
        cause="somebody deleted the topic; what had not been read is gone",
        topic=topic,
        topic_id=now,
    )


def _explained(found: Sequence[Loss], epoch: int) -> SourceDataLostError:
    """All losses as one error, which names the command that leads out."""
    first = found[0].error
    known = [loss.error.facts.get("lost") for loss in found]
    total = sum(n for n in known if n is not None)
    more = f" The same holds for {len(found) - 1} more partitions." if len(found) > 1 else ""
    count = f" At most {total} records are lost in all." if len(found) > 1 and None not in known else ""
    return SourceDataLostError(
        first.what + more + count,
        harmless=first.harmless,
        cause=first.cause,
        action="bring the records back if you can, and start the job again. To give up what is lost and go on with "
        f"what the topics hold: `onceflow txn resolve <job file> {epoch} --choice give-up-rows --why ...`, then start "
        "the job",
        **(first.facts | {"epoch": epoch}),
    )
