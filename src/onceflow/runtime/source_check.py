"""Before a start: do the source topics still hold what the checkpoint needs, and are they still the same topics?

Must not know: sinks, the rules. Spark itself looks only at offsets: a topic that was deleted, made again and filled
past the checkpoint's offset would be read on in silence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onceflow.checkpoint.spark_checkpoint import SparkCheckpoint
from onceflow.errors import CheckpointCorruptError, ConfigurationError, SourceDataLostError
from onceflow.kafka.client import KafkaClient
from onceflow.source import offsets
from onceflow.source.kafka import KafkaSource
from onceflow.source.offsets import Partition
from onceflow.twophase.records import History


def check_sources(
    sources: Iterable[KafkaSource], checkpoint: SparkCheckpoint, history: History
) -> tuple[tuple[str, str], ...]:
    """Compare the sources' topics with the checkpoint; their ids, for the next start to compare with.

    Only topics read through ``KafkaSource`` are checked: of others the login is not known here.

    Raises:
        SourceDataLostError: Naming topic, partition, wanted and earliest offset, or both topic ids.
    """
    done, planned = _position(checkpoint, history), _ends(checkpoint, checkpoint.newest_offsets())
    known = dict(history.topics)
    ids: dict[str, str] = {}
    for cluster in {source.cluster for source in sources}:
        read = [source for source in sources if source.cluster == cluster]
        topics = {p.topic for p in {**done, **planned} if _any(read, p)}
        with KafkaClient(cluster) as client:
            topics |= {p.topic for source in read for p in offsets.partitions(client.admin, source.topics)}
            found = {name: topic.topic_id for name, topic in client.topics(topics).items()}
            _require_same(known, found)
            mine = {p: at for p, at in done.items() if _any(read, p)}
            held = offsets.bounds(client.admin, mine, isolation="read_uncommitted")
            for partition, at in sorted(mine.items()):
                end = max(at, planned.get(partition, at))
                bounds = held.get(partition)
                if bounds is None or at < bounds.earliest or end > bounds.latest:
                    raise offsets.data_lost(
                        partition, wanted=at, end=end if end > at else None, held=bounds, gone=bounds is None
                    )
        ids |= found
    return tuple(sorted(ids.items()))


def _require_same(known: Mapping[str, str], found: Mapping[str, str]) -> None:
    for topic in sorted(known.keys() & found.keys()):
        if known[topic] != found[topic]:
            raise SourceDataLostError(
                f"topic {topic} was deleted and made again: its id was {known[topic]} and is {found[topic]}",
                harmless="never: the checkpoint's offsets mean nothing in the new topic",
                cause="somebody deleted the topic; what had not been read is gone",
                action="start as a new job with a new checkpoint; what the old one had not read must be brought back "
                "from elsewhere",
                topic=topic,
            )


def _position(checkpoint: SparkCheckpoint, history: History) -> dict[Partition, int]:
    """The first offsets that are still needed: a decided epoch of a stateless query is not read again."""
    newest = checkpoint.newest_commit()
    undone = history.undone(newest)
    if undone is not None and not undone.replaying and not checkpoint.is_stateful():
        return _parse(undone.offsets.splitlines()[2:])
    return _ends(checkpoint, newest)


def _ends(checkpoint: SparkCheckpoint, epoch: int | None) -> dict[Partition, int]:
    """Where an epoch ends. An offsets file that is gone or torn is for the start's own checks to judge."""
    try:
        return {} if epoch is None else _parse(checkpoint.offsets(epoch).splitlines()[2:])
    except CheckpointCorruptError:
        return {}


def _parse(lines: Sequence[str]) -> dict[Partition, int]:
    """Offsets by partition, over all Kafka sources; other sources' lines are not ours to read."""
    found: dict[Partition, int] = {}
    for line in lines:
        try:
            found |= offsets.from_json(line)
        except ConfigurationError:
            continue
    return found


def _any(sources: Iterable[KafkaSource], partition: Partition) -> bool:
    return any(source.reads(partition.topic) for source in sources)
