"""Changes of a table's rows in an order of their own: worlds of it on each database, and what must hold in each."""

from __future__ import annotations

import json
import zlib
from dataclasses import astuple, dataclass, replace

import pyarrow as pa
import pytest
from pyspark.sql.types import BooleanType, LongType, StringType, StructField, StructType

from onceflow.errors import RowRefusedError
from onceflow.formats.changes import FIRST, LAST, SEQUENCE
from tests.support.mariadb import MariaDbWorld
from tests.support.postgres import PostgresWorld
from tests.support.sqlite_worlds import Keyed


@dataclass(frozen=True)
class Change:
    """One event: a key's new value, or None for a delete, and its sequence."""

    key: str
    value: int | None
    not_before: int
    not_after: int
    stream: str = ""
    arrival: int = 0
    server: str | None = "one"
    generation: int = 0

    @classmethod
    def at(cls, key, value, position, **more):
        """One whose position is known."""
        return cls(key, value, position, position, **more)

    @classmethod
    def read(cls, key, value, before=LAST, **more):
        """One of a snapshot, that is older than the log from a position on."""
        return cls(key, value, FIRST, before - 1 if before != LAST else LAST, **more)

    def text(self):
        return json.dumps(astuple(self))


OUTPUT = StructType(
    [
        StructField("key", StringType()),
        StructField("amount", LongType()),
        StructField("gone", BooleanType()),
        StructField("sequence", SEQUENCE),
    ]
)


ORDERED = {"key": "key", "delete_when": "gone", "sequence_by": "sequence"}


def _number(text):
    """As a task makes one of a text."""
    return zlib.crc32(text.encode())


class Ordering:
    """Of a world's table: its changes are ordered."""

    epochs_behind = 20

    def output(self):
        return OUTPUT

    def rows(self, keys):
        """Each text is a change's own, or the name of a key that changes once."""
        changes = [Change(*json.loads(key)) if key.startswith("[") else Change.at(key, 1, 1) for key in keys]
        columns = {
            "key": [each.key for each in changes],
            "amount": [each.value for each in changes],
            "onceflow_delete": [int(each.value is None) for each in changes],
            "onceflow_generation": [each.generation for each in changes],
            "onceflow_server": [None if each.server is None else _number(each.server) for each in changes],
            "onceflow_not_before": [each.not_before for each in changes],
            "onceflow_not_after": [each.not_after for each in changes],
            "onceflow_stream": [_number(each.stream) for each in changes],
            "onceflow_arrival": [each.arrival for each in changes],
            "onceflow_hash": [hash(astuple(replace(each, generation=0))) for each in changes],
        }
        arrays = {name: pa.array(values, None if name == "key" else pa.int64()) for name, values in columns.items()}
        return pa.RecordBatch.from_pydict(arrays)

    def table(self):
        return {row["key"]: row["amount"] for row in self.whole()}


class Ordered(Ordering, Keyed):
    """One in a file."""

    epochs_behind = 200

    def __init__(self, folder) -> None:
        super().__init__(folder, **ORDERED)


class OrderedPostgres(Ordering, PostgresWorld):
    """One of a real PostgreSQL."""


class OrderedMariaDb(Ordering, MariaDbWorld):
    """One of a real MariaDB or MySQL."""


class Epochs:
    """Epochs of changes into a world, one behind the other."""

    def __init__(self, trial, start) -> None:
        self._trial, self._start, self._epoch = trial, start, -1

    def put(self, *shards) -> None:
        """Stage, check and commit an epoch; raises what the check raises."""
        self._epoch += 1
        texts = [[each.text() for each in shard] for shard in shards]
        prepared = self._start.prepare(*texts, epoch=self._epoch)
        assert self._start.committer.check(prepared, self._start.run(self._epoch), 0.0) is None
        self._trial.commit(self._start, prepared)
        self._start.newest = {p.sink: p.handle for p in prepared} or self._start.newest

    def start_again(self) -> None:
        """The job ends, and another start of it goes on."""
        newest = self._start.newest
        self._start = self._trial.start()
        self._start.newest = newest


# -- what must hold in each world ------------------------------------------------------------------


def of_an_epoch_the_newest_stays(world, epochs):
    """Whatever task has it, and though it was staged first."""
    epochs.put([Change.at("a", 3, 30), Change.at("a", 1, 10)], [Change.at("a", 2, 20), Change.at("b", None, 5)])
    assert world.table() == {"a": 3}


def a_change_older_than_a_delete_does_not_win(world, epochs):
    """The delete is kept for as long as it may be asked for: many epochs; also that of a row that was never there."""
    epochs.put([Change.at("a", 1, 10)])
    epochs.put([Change.at("a", None, 30), Change.at("never", None, 31)])
    for n in range(world.epochs_behind):
        epochs.put([Change.at("b", n, 100 + n)])
    epochs.put([Change.at("a", 2, 20), Change.at("never", 1, 25)])
    assert world.table() == {"b": n}
    epochs.put([Change.at("a", 4, 40)])
    assert world.table() == {"a": 4, "b": n}


def a_change_that_is_sent_again_is_none(world, epochs):
    """In an epoch of its own, and twice in one."""
    twice = Change.at("a", 1, 10)
    epochs.put([twice, twice], [twice])
    epochs.put([twice])
    assert world.table() == {"a": 1}


def a_later_generation_is_newer(world, epochs):
    """Whatever its positions are, and on both sides of an epoch."""
    epochs.put([Change.at("a", 1, 1000), Change.at("b", 1, 1000)])
    epochs.put([Change.at("a", 2, 1, server="two", generation=1), Change.at("b", 0, 999)])
    assert world.table() == {"a": 2, "b": 1}
    epochs.put([Change.at("a", 3, 2000)])
    assert world.table() == {"a": 2, "b": 1}


def a_change_that_is_sent_again_does_not_win_against_a_snapshot(world, epochs):
    """A read is no older than what it came behind, in an epoch before it or in its own; a later change wins."""
    epochs.put([Change.at("a", 1, 10, arrival=1), Change.at("a", 2, 20, arrival=2)])
    epochs.put([Change.at("b", 1, 11, arrival=3), Change.at("b", 2, 21, arrival=4), Change.read("b", 3, 50, arrival=6)])
    epochs.put([Change.read("a", 3, 50, arrival=5)])
    again = [Change.at("a", 1, 10, arrival=7), Change.at("b", 1, 11, arrival=8)]
    epochs.put(again)
    epochs.put([Change.at("a", 2, 20, arrival=9), Change.at("b", 2, 21, arrival=10)])
    assert world.table() == {"a": 3, "b": 3}
    epochs.put([Change.at("a", 4, 45, arrival=11), Change.at("b", 4, 46, arrival=12)])
    assert world.table() == {"a": 4, "b": 4}


def changes_of_no_known_server_are_told_by_their_arrival(world, epochs):
    """Their positions are those of nobody knows whom: the later one stays, within an epoch, too."""
    more = {"server": None, "stream": "0"}
    epochs.put([Change.at("a", 1, 900, arrival=1, **more), Change.at("a", 2, 5, arrival=2, **more)])
    assert world.table() == {"a": 2}
    epochs.put([Change.at("a", 3, 4, arrival=3, **more)])
    assert world.table() == {"a": 3}


def another_start_goes_on(world, epochs):
    """It finds the table of the order as the first has made it, and what is older does not win."""
    epochs.put([Change.at("a", 2, 20)])
    epochs.start_again()
    epochs.put([Change.at("a", 1, 10), Change.at("b", 1, 5)])
    assert world.table() == {"a": 2, "b": 1}


FACTS = (
    another_start_goes_on,
    changes_of_no_known_server_are_told_by_their_arrival,
    of_an_epoch_the_newest_stays,
    a_change_older_than_a_delete_does_not_win,
    a_change_that_is_sent_again_is_none,
    a_later_generation_is_newer,
    a_change_that_is_sent_again_does_not_win_against_a_snapshot,
)

UNORDERED = (
    ([], [Change.at("a", 1, 10), Change.at("a", 2, 10)], "several changes of one sequence that differ"),
    ([Change.at("a", 1, 10)], [Change.at("a", 2, 10)], "several changes of one sequence that differ"),
    ([], [Change.at("a", 1, 10), Change.at("a", 2, 20, server="two")], "several servers"),
    ([Change.at("a", 1, 10)], [Change.at("a", 2, 20, server="two")], "several servers"),
    ([Change.read("a", 1, 100, stream="0")], [Change.at("a", 2, 20, stream="1")], "several partitions"),
    (
        [Change.at("a", 1, 200, stream="0", arrival=1)],
        [Change.read("a", 2, 100, stream="0", arrival=2)],
        "the source was put back",
    ),
)
"""What was put before, what comes then, and what is said of it."""


def what_nothing_orders_is_refused(world, epochs, before, then, said):
    """Before the decision; what was there stays."""
    if before:
        epochs.put(before)
    there = world.table() if before else {}
    with pytest.raises(RowRefusedError, match=said):
        epochs.put(then)
    assert not before or world.table() == there
