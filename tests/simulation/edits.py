"""A job that is edited between its starts, and sources that are not what they were: Spark's positions are numbers.

Must not know: how onceflow notices. Modelled is what Spark does: ``offsets/N`` has one line for each source, in the
order of the plan, and whatever stands at a line's place in the plan of now goes on at that line's position.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

Draw = Callable[[str, Sequence[Any]], Any]
EDITS = ("order", "rename", "filter", "add", "remove", "undo")


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
    """

    id: str
    first: int
    size: int


@dataclass(frozen=True)
class Output:
    """One output of the job, with a source of its own.

    Attributes:
        sink: The sink's name.
        reads: The source's topic.
        limit: How many records it reads for an epoch.
        drops: Its filter: every so many-th record is dropped; 0 for none.
    """

    sink: str
    reads: Place
    limit: int
    drops: int = 0


class Job:
    """The job's plan as somebody edits it, and the topics that it reads.

    Args:
        draw: Who decides.
    """

    def __init__(self, draw: Draw) -> None:
        self._ids = itertools.count(1)
        self._next = 0
        eu, us, more = Place("eu", "orders"), Place("us", "orders"), Place("eu", "more")
        self.topics = {place: self._make(draw("size of a topic", [9, 6, 12])) for place in (eu, us, more)}
        first, second = draw("sources", [(eu, eu), (eu, us), (eu, more)])
        self.outputs: tuple[Output, ...] = (Output("a", first, 4), Output("b", second, 2))
        self.original = self.outputs
        self.planned: tuple[Output, ...] = ()
        self.filters = {0}
        self.remade: set[Place] = set()

    def _make(self, size: int) -> Topic:
        made = Topic(f"id-{next(self._ids)}", self._next, size)
        self._next += size
        return made

    @property
    def sinks(self) -> tuple[str, ...]:
        """Names of the present outputs."""
        return tuple(output.sink for output in self.outputs)

    @property
    def moved(self) -> bool:
        """What stands at Spark's positions is not what stood there when they were written, or decided about."""
        then, now = ([(o.sink, o.reads) for o in of] for of in (self.planned, self.outputs))
        return bool(then) and then != now

    # -- what happens to it -------------------------------------------------------------------------------------------

    def edit(self, draw: Draw) -> str:
        """Somebody edits the job while it is down; what."""
        what: str = draw("edit", EDITS)
        first, *others = self.outputs
        match what:
            case "order":
                self.outputs = (*others, first)
            case "rename":
                self.outputs = (replace(first, sink=f"{first.sink}x"), *others)
            case "filter":
                drops = draw("filter", [0, 3, 5])
                self.filters.add(drops)
                self.outputs = (replace(first, drops=drops), *others)
            case "add" if len(others) < 2:
                self.outputs = (*self.outputs, replace(first, sink="c", limit=3))
            case "remove" if others:
                self.outputs = (first, *others[1:])
            case "undo":
                self.undo()
        return what

    def undo(self) -> None:
        """The outputs are those of the beginning again."""
        self.outputs = self.original

    def take_back(self) -> None:
        """The outputs are those that the checkpoint's positions were written by."""
        self.outputs = self.planned

    def make_again(self, draw: Draw) -> Place:
        """A topic is deleted and made again, with fewer or more records."""
        place: Place = draw("topic", [output.reads for output in self.original])
        self.topics[place] = self._make(draw("new size", [20, 3, 9]))
        self.remade.add(place)
        return place

    # -- what must be true at the end --------------------------------------------------------------------------------

    def wanted(self) -> dict[str, list[int]]:
        """The records that each sink must hold: of the topics of now, what no filter that was ever in force drops."""
        there = {output.sink: output for output in self.outputs}
        return {
            output.sink: [r for r in self._records(output.reads) if not any(n and r % n == 0 for n in self.filters)]
            for output in self.original
            if output.sink in there and there[output.sink].reads == output.reads
        }

    def _records(self, place: Place) -> range:
        topic = self.topics[place]
        return range(topic.first, topic.first + topic.size)

    # -- Spark ------------------------------------------------------------------------------------------------------

    def read(self, output: Output, first: int, last: int) -> list[int] | None:
        """The records that an output gives of a range of its topic; None when the topic does not hold it."""
        there = self._records(output.reads)
        if last > len(there):
            return None
        return [r for r in there[first:last] if not (output.drops and r % output.drops == 0)]


def in_positions(outputs: Sequence[Output]) -> Sequence[Output]:
    """The outputs in the order of the plan that is handed to Spark: that of the dict that the job returns."""
    return outputs


def to_text(outputs: Sequence[Output], ends: Sequence[int]) -> str:
    """Spark's ``offsets/N``."""
    lines = [json.dumps({output.reads.topic: {"0": end}}) for output, end in zip(outputs, ends, strict=True)]
    return "\n".join(["v1", "{}", *lines])


def from_text(text: str) -> Iterator[tuple[str, int]]:
    """The topic and the position of each line."""
    for line in text.splitlines()[2:]:
        ((topic, of),) = json.loads(line).items()
        yield topic, int(of["0"])
