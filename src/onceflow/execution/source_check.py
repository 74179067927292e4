"""The sources of a plan: what stands at each of Spark's positions, whether it holds what is needed and stays the same.

Must not know: any particular source, sinks, the rules. Each source is looked at by its own position, the line of
``offsets/N`` that is its: names of topics alone would mix two systems, or two sources of one topic.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from onceflow.checkpoint.place import Place
from onceflow.checkpoint.spark_files import SparkCheckpoint, positions, records_between, with_positions
from onceflow.checkpoint.state_names import names_in
from onceflow.connectors.contract import Sink
from onceflow.connectors.source_contract import Connector, Source, SourceConnection, SourcePosition
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointCorruptError,
    ConfigurationError,
    OnceflowError,
    SourceDataLostError,
)
from onceflow.spark.kept import VOCABULARY
from onceflow.spark.plan import Leaf
from onceflow.twophase.layout import (
    Kept,
    Layout,
    LayoutSource,
    StateOperator,
    Watermark,
    folders,
    named_otherwise,
    under,
    with_what_was_known,
)
from onceflow.twophase.messages import Surveyed
from onceflow.twophase.records import DecidedEpoch

log = logging.getLogger(__name__)


class Sources:
    """The sources of one plan, with their connections. Those that no connector knows cannot be asked.

    Args:
        leaves: The plan's streaming sources, in order.
        states: Its state operators, in order.
        kept: What Spark keeps for them.
        connectors: Who may have made the sources.
        connections: Those that are open already, by system; this object's from now on.
        mark: As of ``Layout``.
    """

    def __init__(
        self,
        leaves: Sequence[Leaf],
        states: Sequence[StateOperator],
        kept: Sequence[Kept] = (),
        connectors: Sequence[Connector] = (),
        connections: Mapping[Hashable, SourceConnection] = MappingProxyType({}),
        mark: Watermark | None = None,
    ) -> None:
        self._leaves = tuple(leaves)
        self._states, self._columns = tuple(states), tuple(kept)
        self._connectors = tuple(connectors)
        self._sources = tuple(self._found(leaf) for leaf in leaves)
        self._connections = dict(connections)
        self._mark = mark

    @property
    def distinct(self) -> list[Source | None]:
        """The sources as Spark's progress lists them: one that several outputs start from counts once."""
        first = {folder: i for i, folder in reversed(list(enumerate(self._folders())))}
        return [self._sources[first[folder]] for folder in sorted(first)]

    @property
    def readings(self) -> list[int]:
        """How often the plan reads each of those: once for each output that does not read along with another."""
        counts = dict.fromkeys(sorted(self._folders()), 0)
        for leaf, folder in zip(self._leaves, self._folders(), strict=True):
            counts[folder] += leaf.is_read
        return [max(1, count) for count in counts.values()]

    def require_same_number(self, place: Place) -> None:
        """Refuse the checkpoint of a query without onceflow that read another number, before it is taken over.

        What onceflow has planned there it knows by more than their number.

        Raises:
            CheckpointConflictError: With both numbers.
        """
        held = len(positions(_text(place.checkpoint, place.checkpoint.newest_offsets())))
        now = len(self._leaves)
        if held not in (0, now) and place.journal.history()[0].layout is None:
            raise CheckpointConflictError(
                f"the query whose checkpoint {place.uri} is read {held} sources, and the job reads {now}: each output "
                "counts its source for itself",
                harmless="always: nothing was changed",
                cause="outputs of several queries were put into one job, or it has more or fewer than the query had",
                action="go on with each query's checkpoint as a job of its own; or start one job with a new "
                "checkpoint, from where the old ones stand: docs/existing-programs.md",
                checkpoint=place.uri,
            )

    def require_same_names(self, place: Place) -> None:
        """Refuse a plan that calls its state otherwise than Spark's files do, where no layout says what is kept.

        So it is with a checkpoint of an older onceflow, of a query without it, and of another Spark, whose words cannot
        be compared, until the first start is done.

        Raises:
            CheckpointConflictError: With both names.
        """
        known = place.journal.history()[0].layout
        if (known is not None and known.is_told_like(self._layout())) or place.checkpoint.newest_commit() is None:
            return
        if known is not None and known.kept:
            log.warning(
                "what stands in the state of %s was written down by another onceflow or Spark (%s; now %s): their "
                "words cannot be compared, and at this start Spark's own files alone tell its columns, by their names. "
                "Harmless if the job is as it was; edit it behind this start",
                place.uri,
                known.vocabulary or "an older form",
                VOCABULARY,
            )
        names = names_in(place.checkpoint.store)
        moved = None if names is None else named_otherwise(names, self._columns)
        if moved is not None:
            raise CheckpointConflictError(
                f"the plan does not fit the checkpoint {place.uri}: {moved}",
                harmless="always: nothing was changed",
                cause="the job was edited, above the state or in it, since the checkpoint was written; what stands "
                "there is known by Spark's names alone, as no start of this onceflow has written it down",
                action="start the job once as it was, and edit it then; or start the edited one as a job of its own",
                checkpoint=place.uri,
            )

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def explain(self, message: str) -> OnceflowError | None:
        """Our error for what a source says in a failed query's message, or None."""
        return next(filter(None, (connector.explain(message) for connector in self._connectors)), None)

    def require_not_read(self, sinks: Mapping[Sink, str]) -> None:
        """Refuse sinks of dead letters that the job itself reads: what is malformed would come again for ever.

        Args:
            sinks: The sinks, with their systems' ids.

        Raises:
            ConfigurationError: Which source reads which sink.
        """
        both = [(source, sink) for source in self._sources if source is not None for sink in sinks]
        for source, sink in both:
            if source.reads(sink.destination) and self._connection(source).system_id == sinks[sink]:
                raise ConfigurationError(
                    f"the job reads the dead letters that it writes: sink {sink.name} ({sink.describe()}) writes to "
                    f"what is read as {source.describe()}",
                    harmless="always: nothing was started",
                    cause="each would be malformed again, and be written again, without an end",
                    action="send dead letters to a topic that no source of the job reads (mind their patterns), and "
                    "read that one with a job of its own",
                    sink=sink.name,
                )

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
            ConfigurationError: Something to be read does not exist, and the checkpoint knows nothing of it.
            OnceflowError: A system was not reached, or refused.
        """
        done = checkpoint.newest_commit()
        start_text = _text(checkpoint, done)
        end_text = undone.offsets if undone is not None else _text(checkpoint, checkpoint.newest_offsets())
        starts, ends = self._lines(start_text), self._lines(end_text)
        if done is None:
            starts = [checkpoint.initial_offsets(folder) for folder in self._folders()]
        needed = starts if undone is None or again else ends
        found = [self._look(i, needed[i], ends[i], known) for i in self._numbers]
        now = self._layout(tuple(place for place, _ in found))
        layout = now if known is None else under(with_what_was_known(now, known), known, checkpoint.watermark())
        losses = {  # a source that stands at several positions has lost it once
            (self._first_of(i), error.what): error
            for i, (_, standing) in enumerate(found)
            if standing is not None
            for error in standing.losses
        }
        if not losses:
            return Surveyed(layout), None
        error = _gathered(
            list(losses.values()), (undone.epoch if undone is not None else (-1 if done is None else done) + 1)
        )
        standings = [standing for _, standing in found]
        moved_ends = [end if s is None else s.end for end, s in zip(ends, standings, strict=True)]
        if needed is starts:
            # "{}" leaves where a source begins as it is: it is not known here, or there is nothing to say.
            same = starts if done is not None else ["{}"] * len(starts)
            moved_starts = [at if s is None else s.needed or "{}" for at, s in zip(same, standings, strict=True)]
        else:
            # Nobody reads the epoch again. Spark plans it all the same, and refuses a range that ends before it begins.
            moved_starts = [
                s.end if s is not None and s.losses else start if done is not None else "{}"
                for start, s in zip(starts, standings, strict=True)
            ]
        moved = Surveyed(
            layout,
            error.what,
            before=with_positions(start_text, moved_starts if done is not None else self._by_folder(moved_starts)),
            offsets=with_positions(end_text, moved_ends) if undone is not None else "",
        )
        return moved, error

    def sizes(self, checkpoint: SparkCheckpoint, epoch: int) -> list[int]:
        """How many offsets each source reads for an epoch that Spark has planned."""
        ends = self._lines(_text(checkpoint, epoch))
        if epoch > 0:
            starts = self._lines(_text(checkpoint, epoch - 1))
        else:
            starts = [checkpoint.initial_offsets(folder) for folder in self._folders()]
        return [records_between(start, end) for start, end in zip(starts, ends, strict=True)]

    def look_again(self, layout: Layout, text: str) -> Layout:
        """What stands at each position after an epoch ran, asked for the topics that it read.

        A topic's id never comes back: found unchanged after the run, it was the same while the run read.

        Args:
            layout: What was found before.
            text: ``offsets/N`` of the epoch.
        """
        lines = self._lines(text)
        asked: dict[Hashable, list[int]] = {}
        for i, source in enumerate(self._sources):
            if source is not None and lines[i]:
                asked.setdefault(source.system, []).append(i)
        found = list(layout.sources)
        for numbers in asked.values():
            source = self._sources[numbers[0]]
            if source is None:
                raise AssertionError("only sources that are known are asked")
            answers = self._connection(source).topics([lines[i] for i in numbers])
            for i, answer in zip(numbers, answers, strict=True):
                now = {topic.name: topic for topic in found[i].topics} | dict(answer)
                found[i] = replace(found[i], topics=tuple(now[name] for name in sorted(now)))
        return replace(layout, sources=tuple(found))

    # -- parts ------------------------------------------------------------------------------------

    def _layout(self, sources: tuple[LayoutSource, ...] = ()) -> Layout:
        return Layout(sources, self._states, self._columns, VOCABULARY, self._mark)

    def _found(self, leaf: Leaf) -> Source | None:
        return next(filter(None, (connector.find(leaf.kind, leaf.options) for connector in self._connectors)), None)

    @property
    def _numbers(self) -> range:
        return range(len(self._leaves))

    def _folders(self) -> list[int]:
        """For each position the number of Spark's folder that says where it begins."""
        return folders([LayoutSource(leaf.outputs, "", "", "", (), self._first_of(i))
                        for i, leaf in enumerate(self._leaves)])  # fmt: skip

    def _by_folder(self, lines: Sequence[str]) -> list[str]:
        """A line for each folder, from those for each position."""
        found = dict(zip(reversed(self._folders()), reversed(lines), strict=True))
        return [found[folder] for folder in sorted(found)]

    def _first_of(self, i: int) -> int:
        """The first position of the source that stands at this one."""
        source = self._sources[i]
        return i if source is None else next(j for j in self._numbers if self._sources[j] is source)

    def _connection(self, source: Source) -> SourceConnection:
        if source.system not in self._connections:
            self._connections[source.system] = source.connect()
        return self._connections[source.system]

    def _look(self, i: int, needed: str, end: str, known: Layout | None) -> tuple[LayoutSource, SourcePosition | None]:
        leaf, source = self._leaves[i], self._sources[i]
        if source is None:
            return LayoutSource(leaf.outputs, "", leaf.reads_where, leaf.path, same_as=i), None
        connection = self._connection(source)
        before = known.sources[i] if known is not None and i < len(known.sources) else None
        standing = connection.look(source, needed, end, before)
        first = self._first_of(i)
        place = LayoutSource(leaf.outputs, connection.system_id, leaf.reads, leaf.path, standing.topics, first)
        return place, standing

    def _lines(self, text: str) -> list[str]:
        """Where each source stands; "" where the text says nothing."""
        lines = positions(text)
        return [lines[i] if i < len(lines) else "" for i in self._numbers]


def _text(checkpoint: SparkCheckpoint, epoch: int | None) -> str:
    """An offsets file. One that is gone or torn is for the start's own checks to judge."""
    try:
        return "" if epoch is None else checkpoint.offsets(epoch)
    except CheckpointCorruptError:
        return ""


def _gathered(found: Sequence[SourceDataLostError], epoch: int) -> SourceDataLostError:
    """All losses as one error, which names the command that leads out."""
    first = found[0]
    known = [error.facts.get("lost") for error in found]
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
