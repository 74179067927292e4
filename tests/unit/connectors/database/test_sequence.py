"""The order of changes on SQLite: single facts, and what a source's log, its snapshots and its restarts send."""

from __future__ import annotations

import sqlite3
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StringType, StructField, StructType

from onceflow.connectors.database import sequence
from onceflow.connectors.database.sink import DatabaseSink
from onceflow.errors import ConfigurationError, RecoveryError, RowRefusedError
from onceflow.testing import conformance
from onceflow.testing.trial import Trial
from tests.support.changes import FACTS, OUTPUT, UNORDERED, Change, Epochs, Ordered, what_nothing_orders_is_refused


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    return Ordered(tmp_path_factory.mktemp("ordered"))


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_sqlite_in_order(check, shared):
    """Each fact of the contract holds, also where rows are ordered."""
    check(shared)


@pytest.fixture
def world(tmp_path):
    return Ordered(tmp_path)


@pytest.fixture
def epochs(world):
    with Trial(world) as t:
        yield Epochs(t, t.start())


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_an_order(fact, world, epochs):
    """Each of the facts holds."""
    fact(world, epochs)


@pytest.mark.parametrize(("before", "then", "said"), UNORDERED)
def test_what_nothing_orders_is_refused(world, epochs, before, then, said):
    """Before the decision; what was there stays."""
    what_nothing_orders_is_refused(world, epochs, before, then, said)


def test_a_table_of_sequences_that_was_dropped_is_not_made_again(world):
    """An empty one would let changes win that are older than what the table has."""
    with Trial(world) as t:
        Epochs(t, t.start()).put([Change.at("a", 1, 10)])
    with sqlite3.connect(world.path) as file:
        file.execute("drop table payments_onceflow_sequence")
    with pytest.raises(RecoveryError, match="payments_onceflow_sequence was dropped"), Trial(world) as t:
        t.start()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sequence_by": "sequence"}, "sequence_by needs a key"),
        ({"sequence_by": "key", "key": "key"}, "cannot be part of the key"),
        ({"sequence_by": "gone", "key": "key", "delete_when": "gone"}, "cannot say what is deleted and"),
    ],
)
def test_arguments_that_cannot_work(tmp_path, more, said):
    """Each by its own sentence."""
    with pytest.raises(ConfigurationError, match=said):
        DatabaseSink(f"sqlite:///{tmp_path}/a.db", "payments", **more)


@pytest.mark.parametrize("name", ["key", "gone", "nothing"])
def test_a_column_that_orders_nothing(tmp_path, name):
    """A text, a truth value, none."""
    sink = DatabaseSink(f"sqlite:///{tmp_path}/a.db", "payments", key="amount", sequence_by=name)
    with pytest.raises(ConfigurationError, match=f"orders rows by '{name}'"):
        sink.columns(OUTPUT)


# -- a source, its log and its connector ----------------------------------------------------------


@dataclass
class Source:
    """A table, its log, and a connector that sends its changes: what each key was at which time is known."""

    lsn: int = 100
    rows: dict[str, int] = field(default_factory=dict)
    open: dict[int, list[Change]] = field(default_factory=dict)  # by transaction
    waiting: list[list[tuple[Change, int]]] = field(default_factory=list)  # committed, not sent yet
    sent: list[tuple[Change, int]] = field(default_factory=list)  # the log's part of what was sent, with its true time
    topic: list[tuple[Change, int]] = field(default_factory=list)
    ghosts: set[str] = field(default_factory=set)  # deleted, and no record says it
    partitions: int = 1
    values: int = 0

    def write(self, transaction, key, gone):
        held = {change.key for number, own in self.open.items() if number != transaction for change in own}
        if key in held:
            return  # its row is locked
        self.lsn += 1
        self.values += 1
        self.open.setdefault(transaction, []).append(Change.at(key, None if gone else self.values, self.lsn))

    def commit(self, transaction):
        self.lsn += 1
        changes = self.open.pop(transaction, [])
        for change in changes:
            if change.value is None:
                self.rows.pop(change.key, None)
            else:
                self.rows[change.key] = change.value
        self.waiting.append([(change, self.lsn) for change in changes])

    def send(self, transactions):
        for _ in range(min(transactions, len(self.waiting))):
            for change, time in self.waiting.pop(0):
                self.sent.append((change, time))
                self._append(change, time)

    def snapshot(self, fresh):
        """Of a fresh slot, whose log begins here; or of one that goes on, where the connector had caught up.

        Had it not, a key may show an older change for as long as it has not: nothing in a record tells it.
        """
        if fresh:
            self.ghosts |= {change.key for of in self.waiting for change, _ in of} - set(self.rows)
            self.waiting, self.sent = [], []
        self.send(len(self.waiting))
        self.lsn += 1
        for key, value in self.rows.items():
            self._append(Change.read(key, value, self.lsn), self.lsn)

    def incremental(self, key):
        """Debezium sends a read of this kind only where the log has no change of the key that is not sent."""
        waits = {change.key for of in self.waiting for change, _ in of}
        if key in self.rows and key not in waits:
            self._append(Change.read(key, self.rows[key]), self.lsn)

    def restart(self, changes):
        """The connector begins again some changes before where it was."""
        again = self.sent[len(self.sent) - changes :] if changes <= len(self.sent) else []
        self.sent = self.sent[: len(self.sent) - len(again)]
        self.waiting = [*([each] for each in again), *self.waiting]

    def _append(self, change, time):
        place = str("ab".index(change.key) % self.partitions)
        made = Change(change.key, change.value, change.not_before, change.not_after, place, len(self.topic), "one", 0)
        self.topic.append((made, time))
        self.ghosts.discard(change.key)


KEYS = st.sampled_from("ab")
STEP = st.one_of(
    st.tuples(st.just("write"), st.integers(0, 1), KEYS, st.booleans()),
    st.tuples(st.just("write"), st.integers(0, 1), KEYS, st.booleans()),
    st.tuples(st.just("commit"), st.integers(0, 1)),
    st.tuples(st.just("send"), st.integers(1, 3)),
    st.just(("send", 1)),
    st.tuples(st.just("snapshot"), st.booleans()),
    st.tuples(st.just("incremental"), KEYS),
    st.tuples(st.just("restart"), st.integers(0, 4)),
    st.just(("epoch",)),
    st.just(("epoch",)),
)
# What a search alone finds late: a key that changes, and a connector that dies behind its snapshot.
STORY = st.one_of(
    STEP.map(lambda step: [step]),
    KEYS.map(lambda key: [("write", 0, key, False), ("commit", 0), ("send", 9), ("epoch",)]),
    st.integers(1, 3).map(lambda n: [("snapshot", False), ("epoch",), ("restart", n), ("send", 1), ("epoch",)]),
)
STEPS = st.lists(STORY, min_size=5, max_size=20).map(lambda stories: [step for story in stories for step in story])


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(STEPS, st.booleans())
def test_what_a_connector_sends_ends_as_the_source_is(steps, grows):
    """Behind each epoch no key is older than it was, and at the end each is as the source has it; or it is refused."""
    with tempfile.TemporaryDirectory() as folder:
        world = Ordered(Path(folder))
        with Trial(world) as t:
            epochs, source, read = Epochs(t, t.start()), Source(), 0
            seen = dict[str, int]()
            every = [*steps, *(("commit", n) for n in range(3)), ("send", 1000), ("epoch",)]
            for at, (what, *told) in enumerate(every):
                if grows and at == len(steps) // 2:
                    source.partitions = 3
                if what != "epoch":
                    getattr(source, what)(*told)
                    continue
                new, read = source.topic[read:], len(source.topic)
                if not new:
                    continue
                halves = [[c for c, _ in new[0::2]], [c for c, _ in new[1::2]]]
                try:
                    epochs.put(*(half for half in halves if half))
                except RowRefusedError as error:
                    event("refused")
                    assert grows, error  # noqa: PT017 - of one partition everything is ordered
                    return
                table = world.table()
                for key in "ab":
                    events = [(time, c) for c, time in source.topic if c.key == key]
                    if not events:
                        assert key not in table
                        continue
                    times = [time for time, c in events if c.value == table.get(key)]
                    assert times, (key, table)
                    assert max(times) >= seen.get(key, 0)
                    seen[key] = max(times)
            found = {key: value for key, value in world.table().items() if key not in source.ghosts}
            assert found == {key: source.rows[key] for key in source.rows if key in seen}
            event("whole")


def test_a_second_snapshot_is_told_once(tmp_path, caplog, monkeypatch):
    """What was deleted between the two stays: said once; not of one that is sent again, nor of a single key's read."""
    monkeypatch.setattr(sequence, "_TOLD_AGAIN", set())
    world = Ordered(tmp_path)
    with Trial(world) as t:
        epochs = Epochs(t, t.start())
        reads = (Change.read("a", 1, 10), Change.read("a", 1, 10), Change.read("a", 1), Change.at("a", 2, 15))
        for arrival, change in enumerate(reads):
            epochs.put([replace(change, arrival=arrival)])
        assert "second snapshot" not in caplog.text
        epochs.put([Change.read("b", 1, 10, arrival=11)])
        epochs.put([Change.read("a", 2, 20, arrival=12), Change.read("b", 1, 20, arrival=13)])
        epochs.put([Change.read("b", 1, 30, arrival=14)])
    assert caplog.text.count("table payments: 1 of its keys are read by a second snapshot") == 1


def test_of_one_order_all_columns_are_written_together(tmp_path):
    """Else a newer row of other columns leaves this one's out as older; a column more is fine."""
    with sqlite3.connect(tmp_path / "bank.db") as file:
        file.execute("create table payments (key text not null unique, amount bigint, other bigint)")

    def start(*columns):
        sink = DatabaseSink(f"sqlite:///{tmp_path / 'bank.db'}", "payments", key="key", sequence_by="version")
        fields = ["amount", "other", "version"]
        of = StructType([StructField(n, LongType()) for n in fields if n in (*columns, "version")])
        sink.connect().make_output(StructType([StructField("key", StringType()), *of.fields]))

    start("amount")
    with pytest.raises(ConfigurationError, match="ordered together with columns that the output does not have: amount"):
        start("other")
    start("amount", "other")
    with pytest.raises(ConfigurationError, match="does not have: other"):
        start("amount")


def test_a_sink_without_deletes_says_that_a_key_is_there(tmp_path):
    """By what is said of deletes old ones may be forgotten: a key that is there again must not be among them."""
    world = Ordered(tmp_path)
    with Trial(world) as t:
        epochs = Epochs(t, t.start())
        epochs.put([Change.at("a", 1, 10)])
        epochs.put([Change.at("a", None, 20)])
    world.more = {"key": "key", "sequence_by": "sequence"}
    world.output = lambda: StructType([field for field in OUTPUT if field.name != "gone"])
    rows = world.rows
    world.rows = lambda keys: rows(keys).drop_columns(["onceflow_delete"])
    with Trial(world) as t:
        Epochs(t, t.start()).put([Change.at("a", 3, 30)])
    with sqlite3.connect(world.path) as file:
        assert file.execute("select onceflow_delete from payments_onceflow_sequence").fetchall() == [(0,)]


@pytest.mark.parametrize(("first", "last"), [(2, 5), (9, 8)])
def test_a_range_that_no_reading_gives_is_refused(tmp_path, first, last):
    """The order of two reads rests on both beginning with the log."""
    world = Ordered(tmp_path)
    with Trial(world) as t, pytest.raises(RowRefusedError, match="rows have no sequence"):
        Epochs(t, t.start()).put([Change("a", 1, first, last)])
