"""The job and its sources: outputs that somebody edits between two starts, and topics that are made again.

Must not know: how onceflow notices. Modelled is what Spark does: ``offsets/N`` has one line for each source, in the
order of the plan, and whatever stands at a line's place in the plan of now goes on at that line's position.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from onceflow.twophase.layout import Layout

Draw = Callable[[str, Sequence[Any]], Any]
EDITS = ("order", "rename", "filter", "add", "share", "remove", "undo")


class Place(NamedTuple):
    """A topic's name on a cluster."""

    cluster: str
    topic: str


@dataclass
class Topic:
    """A source topic as long as it lives; its records have numbers that no other record has.

    Attributes:
        id: Another one when the topic is made again.
        first: The number of its first record.
        size: How many records it has.
        earliest: The first offset that retention has left.
        partitions: How many partitions it has; records are in the first one.
    """

    id: str
    first: int
    size: int
    earliest: int = 0
    partitions: int = 1

    @property
    def records(self) -> range:
        return range(self.first, self.first + self.size)


@dataclass(frozen=True)
class Output:
    """One output of the job, with a source of its own.

    Attributes:
        sinks: Names of the sinks that get its rows, in order.
        reads: The source's topic.
        limit: How many records it reads for an epoch; 0: now so many, now so many.
        drops: Its filter: every so many-th record is dropped; 0 for none.
    """

    sinks: tuple[str, ...]
    reads: Place
    limit: int = 0
    drops: int = 0

    @property
    def path(self) -> str:
        """What lies between the source and the sinks."""
        return f"drops {self.drops}"


class Job:
    """The job's plan as somebody edits it, and the topics that it reads.

    Args:
        outputs: What it gives.
        sizes: How many records each topic has.
    """

    def __init__(self, outputs: Sequence[Output], sizes: dict[Place, int]) -> None:
        self._ids = itertools.count(1)
        self._next = 0
        self.topics = {place: self._make(size) for place, size in sizes.items()}
        self.outputs = tuple(outputs)
        self.original = self.outputs
        self.planned: tuple[Output, ...] = ()  # by which Spark's positions were written
        self.since: frozenset[str] | None = None  # sinks that were there in every epoch so far
        self.filters = {0}
        self.remade: set[Place] = set()
        self.gone: set[int] = set()  # records that nobody can read any more
        self.quiet: tuple[str, ...] = ()  # sinks that get the first records only

    @classmethod
    def of_one_output(cls, sinks: tuple[str, ...], records: int) -> Job:
        """A job that nobody edits."""
        place = Place("cluster", "orders")
        return cls([Output(sinks, place)], {place: records})

    @classmethod
    def of_two_outputs(cls, draw: Draw) -> Job:
        """Two outputs, of one topic, of two topics, or of topics of one name on two clusters."""
        here, there, more = Place("cluster", "orders"), Place("other", "orders"), Place("cluster", "more")
        sizes = {place: draw("size of a topic", [9, 6, 12]) for place in (here, there, more)}
        first, second = draw("sources", [(here, here), (here, there), (here, more)])
        return cls([Output(("a",), first, 4), Output(("b",), second, 2)], sizes)

    def _make(self, size: int) -> Topic:
        made = Topic(f"id-{next(self._ids)}", self._next, size)
        self._next += size
        return made

    @property
    def sinks(self) -> tuple[str, ...]:
        """Names of the present sinks."""
        return tuple(sink for output in self.outputs for sink in output.sinks)

    @property
    def moved(self) -> bool:
        """What stands at Spark's positions is, or may be, not what stood there when they were written."""
        then, now = in_positions(self.planned), in_positions(self.outputs)
        if not then or len(then) != len(now):
            return bool(then)
        strange = (not set(a.sinks) & set(b.sinks) or a.reads != b.reads for a, b in zip(then, now, strict=True))
        filtered = sum(a.drops != b.drops for a, b in zip(then, now, strict=True))
        return any(strange) or filtered > 1

    @property
    def has_other_sinks(self) -> bool:
        """Other sinks than those of the plan by which Spark's positions were written."""
        return bool(self.planned) and {s for o in self.planned for s in o.sinks} != set(self.sinks)

    def laid(self, layout: Layout) -> None:
        """The journal says what stands at Spark's positions."""
        limits = {sink: output.limit for output in (*self.original, *self.outputs) for sink in output.sinks}
        self.planned = tuple(
            Output(
                source.outputs,
                Place(source.system, source.reads.removeprefix("topic ")),
                max(limits.get(sink, 3) for sink in source.outputs),
                int(source.path.removeprefix("drops ")),
            )
            for source in layout.sources
        )

    def went_on(self) -> None:
        """An epoch of the present plan is decided, or recorded: a sink that is not in it misses what the epoch read."""
        sinks = frozenset(sink for output in self.planned for sink in output.sinks)
        self.since = sinks if self.since is None else self.since & sinks

    # -- what happens to it -------------------------------------------------------------------------------------------

    def edit(self, draw: Draw) -> str:
        """Somebody edits the job while it is down; what."""
        what: str = draw("edit", EDITS)
        first, *others = self.outputs
        match what:
            case "order":
                self.outputs = (*others, first)
            case "rename":
                self.outputs = (replace(first, sinks=tuple(f"{sink}x" for sink in first.sinks)), *others)
            case "filter":
                drops = draw("filter", [0, 3, 5])
                self.filters.add(drops)
                self.outputs = (replace(first, drops=drops), *others)
            case "add" if len(others) < 2:
                name = draw("name", ["c", "A"])
                if name not in self.sinks:
                    self.outputs = (*self.outputs, Output((name,), first.reads, 3))
            case "share":
                name = draw("name", ["s", "S"])
                if name not in self.sinks:
                    self.outputs = (replace(first, sinks=tuple(sorted((*first.sinks, name)))), *others)
            case "remove" if len(first.sinks) > 1:
                self.outputs = (replace(first, sinks=first.sinks[1:]), *others)
            case "remove" if others:
                self.outputs = (first, *others[1:])
            case "undo":
                self.outputs = self.original
        return what

    def take_back(self) -> None:
        """The outputs are those that the checkpoint's positions were written by."""
        self.outputs = self.planned

    def make_again(self, draw: Draw) -> Place:
        """A topic is deleted and made again, with fewer or more records."""
        place: Place = draw("topic", [output.reads for output in self.original])
        self.gone |= set(self.topics[place].records)
        self.topics[place] = self._make(draw("new size", [20, 3, 9]))
        self.remade.add(place)
        return place

    def grow(self, draw: Draw) -> Place:
        """A topic is given one more partition, which stays empty."""
        place: Place = draw("topic", [output.reads for output in self.original])
        self.topics[place].partitions += 1
        return place

    def retain(self, draw: Draw) -> Place:
        """Retention takes the first records of a topic."""
        place: Place = draw("topic", [output.reads for output in self.original])
        topic = self.topics[place]
        topic.earliest = min(topic.size, topic.earliest + draw("so many", [4, 1, 9]))
        self.gone |= set(topic.records[: topic.earliest])
        return place

    # -- what must be true at the end --------------------------------------------------------------------------------

    def keeps(self, record: int) -> bool:
        """Whether no filter that was ever in force drops it. Some epochs have no output at all."""
        return record not in (8, 9, 10) and not any(n and record % n == 0 for n in self.filters)

    def gives(self, sink: str, record: int) -> bool:
        """Whether the sink gets a row of it."""
        return sink not in self.quiet or record < 4

    def wanted(self) -> dict[str, list[int]]:
        """The records that each sink must hold: of the topics of now, what no filter that was ever in force drops."""
        found: dict[str, list[int]] = {}
        for output in self.outputs:
            for sink in (self.since or frozenset()).intersection(output.sinks):
                there = (r for r in self.topics[output.reads].records if self.keeps(r) and r not in self.gone)
                found[sink] = [r for r in there if self.gives(sink, r)]
        return found

    # -- Spark ------------------------------------------------------------------------------------------------------

    def read(self, output: Output, first: int, last: int) -> list[int] | None:
        """The records that an output gives of a range of its topic; None when the topic does not hold it."""
        topic = self.topics[output.reads]
        if last > topic.size or first < min(topic.earliest, last):
            return None
        kept = [r for r in topic.records[first:last] if r not in (8, 9, 10)]
        return [r for r in kept if not (output.drops and r % output.drops == 0)]


def in_positions(outputs: Sequence[Output]) -> list[Output]:
    """The outputs in the order of the plan that is handed to Spark: by the names of their sinks."""
    return sorted(outputs, key=lambda output: tuple(sorted(output.sinks)))


def to_text(outputs: Sequence[Output], ends: Sequence[int]) -> str:
    """Spark's ``offsets/N``."""
    lines = [f'{{"{output.reads.topic}":{{"0":{end}}}}}' for output, end in zip(outputs, ends, strict=True)]
    return "\n".join(["v1", "{}", *lines])


def from_text(text: str) -> Iterator[tuple[str, int]]:
    """The topic and the position of each line; a topic without a position is read from its beginning."""
    for line in text.splitlines()[2:]:
        of = json.loads(line)
        yield next(((topic, int(at["0"])) for topic, at in of.items()), ("", 0))
