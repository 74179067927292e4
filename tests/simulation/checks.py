"""The invariants, as things that the simulation asserts while it runs and at its end.

Must not know: how the rules come to what they do. It keeps books of its own: of the journal's records as they become
files, of verdicts as the broker gives them, and of what Spark records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onceflow.twophase.committable import Committable
from onceflow.twophase.records import Decide, Record, Replay, ReplayBegin, Start
from onceflow.twophase.transactional_id import parse_transactional_id
from tests.simulation.fake_broker import Batch, Observer, Transaction
from tests.simulation.world import World

PREFIX, JOB = "sim", "simulated"

INVARIANTS: Mapping[str, str] = {
    "1": "a participant is committed only if the journal decided it",
    "2": "a participant of an effective set is never aborted by us, except after replay-begin",
    "3": "for each (epoch, sink, shard) at most one transaction is ever visible, and no row twice",
    "4": "when commits/N exists, every participant of N's effective set is committed, and complete",
    "5": "no lingering transaction stays open",
    "6": "no driver appends after a newer start; none aborts a newer one's, or another's before its own start",
    "8": "state and output of an epoch come from the same run, or are proven equal",
    "one epoch, one transaction": "after a verdict no record is written under the same producer epoch",
    "outcomes first": "nothing of a decided epoch is committed while the loss of another part could be known",
    "nothing lost": "at the end every source record is in every sink",
    "refusals": "a job stops for a person only when it cannot know better",
    "ends": "a run without faults comes to its end",
}

Key = tuple[int, str, int]
Handle = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Row:
    """One output row: of which source record, in which epoch, sink and shard, by which run of the plan."""

    record: int
    epoch: int
    sink: str
    shard: int
    run: int


@dataclass
class Books:
    """What a decided epoch is, as its files say it."""

    effective: dict[tuple[str, int], Committable] = field(default_factory=dict)
    replaying: bool = False


def handle_of(committable: Committable) -> Handle | None:
    """The Kafka handle of a committable, or None for an empty shard."""
    t = committable.transaction
    return None if t is None else (t["id"], t["producer_id"], t["producer_epoch"])


class Watch(Observer):
    """Keeps the books and asserts.

    Args:
        world: Where a violation stops the run.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.epochs: dict[int, Books] = {}
        self.decided: dict[Handle, Key] = {}
        self.starts: dict[int, int] = {}  # incarnation -> place
        self.incarnations: dict[str, int] = {}  # actor's name -> incarnation
        self.rolling: set[str] = set()  # actors that finish what others decided
        self.tail = 0
        self.newest = 0
        self.aborted_at: dict[Handle, int] = {}
        self.committed: set[Handle] = set()
        self.shown: dict[Key, Handle] = {}
        self.rows: dict[tuple[str, int], Row] = {}
        self.lost_evidence = False
        self.power_cuts = 0
        self.rotten = False
        self.aborted_rows = 0

    # -- the journal ----------------------------------------------------------------------------------------------

    def appended(self, place: int, record: Record) -> None:
        """A record became a file of the journal."""
        if place <= self.tail:
            self._world.marks.add("a record landed in a purged place")
            return
        self.tail = place
        if isinstance(record, Start):
            self.newest = record.incarnation
            self.starts[record.incarnation] = place
            return
        self._world.check(
            record.incarnation == self.newest, "6", lambda: f"{record} appended after start {self.newest}"
        )
        if isinstance(record, Decide):
            self.epochs[record.epoch] = Books({c.participant: c for c in record.committables})
            self._decide(record.epoch, record.committables)
        elif isinstance(record, ReplayBegin):
            self.epochs[record.epoch].replaying = True
        elif isinstance(record, Replay):
            books = self.epochs[record.epoch]
            kept = {p: c for p, c in books.effective.items() if p in record.kept}
            books.effective = kept | {c.participant: c for c in record.committables}
            books.replaying = False
            self._decide(record.epoch, record.committables)

    def read_again(self, records: Iterable[tuple[int, Record]]) -> None:
        """A power cut took records that were not durable: the books are what is left."""
        self.epochs, self.decided, self.starts = {}, {}, {}
        self.tail = self.newest = 0
        for place, record in records:
            self.newest = max(self.newest, record.incarnation)  # its start may have been purged from these books
            if not isinstance(record, ReplayBegin | Replay) or record.epoch in self.epochs:
                self.appended(place, record)

    def _decide(self, epoch: int, committables: tuple[Committable, ...]) -> None:
        for c in committables:
            if (handle := handle_of(c)) is not None:
                self.decided[handle] = (epoch, *c.participant)

    # -- the broker -----------------------------------------------------------------------------------------------

    def wrote(self, name: str, pid: int, epoch: int, rows: Any, *, after_marker: bool) -> None:
        self._world.check(
            not after_marker, "one epoch, one transaction", lambda: f"{name} {pid}/{epoch} writes after a marker"
        )

    def ending(self, transaction: Transaction, *, commit: bool, by: str) -> None:
        handle = (transaction.name, transaction.pid, transaction.epoch)
        self._world.say(f"    {'COMMIT' if commit else 'ABORT'} {handle} by {by}")
        if handle in self.committed:
            return  # a late duplicate has opened it again, without a record: nothing hangs on how that ends
        if commit:
            self.committed.add(handle)
        else:
            self.aborted_at[handle] = self._world.steps
        if by in self.incarnations:
            if commit:
                self._committing(handle, by)
            else:
                self._aborting(handle, by)

    def _committing(self, handle: Handle, by: str) -> None:
        self._world.check(handle in self.decided, "1", lambda: f"{by} commits {handle}, which nobody decided")
        key = self.decided[handle]
        before = self.shown.setdefault(key, handle)
        self._world.check(before == handle, "3", lambda: f"{before} and {handle} of {key} are both visible")
        if by not in self.rolling:
            return
        for epoch, books in self.epochs.items():
            handles = {handle_of(c) for c in books.effective.values()} - {None}
            start = self.starts.get(self.incarnations[by], 0)
            lost = [h for h in handles if h in self.aborted_at and self.aborted_at[h] < self.began.get(by, 0)]
            self._world.check(
                handle not in handles or not lost or books.replaying,
                "outcomes first",
                lambda epoch=epoch, lost=lost, start=start: (
                    f"{by} (start at {start}) commits {handle} of epoch {epoch}, of which {lost} was lost before"
                ),
            )

    began: dict[str, int]

    def _aborting(self, handle: Handle, by: str) -> None:
        mine = self.incarnations[by]
        parsed = parse_transactional_id(handle[0], PREFIX, JOB)
        self._world.check(
            parsed is not None and (parsed.incarnation == mine or (parsed.incarnation < mine and mine in self.starts)),
            "6",
            lambda: f"{by}, incarnation {mine}, aborts {handle}",
        )
        for epoch, books in self.epochs.items():
            ours = any(handle_of(c) == handle for c in books.effective.values())
            self._world.check(
                not ours or books.replaying, "2", lambda epoch=epoch: f"{by} aborts {handle} of decided epoch {epoch}"
            )

    def visible(self, pid: int, batches: list[Batch]) -> None:
        for batch in batches:
            row: Row = batch.rows
            if row is None:
                continue
            before = self.rows.get((row.sink, row.record))
            self._world.check(
                before is None, "3", lambda row=row, before=before: f"{row} is visible, and so is {before}"
            )
            self.rows[row.sink, row.record] = row

    # -- Spark ----------------------------------------------------------------------------------------------------

    def recorded(self, epoch: int, records: list[int], sinks: tuple[str, ...], state: int | None) -> None:
        """Spark wrote commits/N; ``state`` is the run that built the epoch's state, None without state."""
        for sink in sinks:
            for record in records:
                row = self.rows.get((sink, record))
                self._world.check(
                    row is not None and row.epoch == epoch,
                    "4",
                    lambda sink=sink, record=record, row=row: (
                        f"commits/{epoch} exists, record {record} in sink {sink} is {row}"
                    ),
                )
                self._world.check(
                    state is None or row is None or row.run == state,
                    "8",
                    lambda row=row: f"the state of epoch {epoch} is of run {state}, its output has {row}",
                )

    def at_the_end(self, records: list[int], sinks: tuple[str, ...], transactions: Mapping[str, Transaction]) -> None:
        """After healing and a run to the end."""
        missing = [(s, r) for s in sinks for r in records if (s, r) not in self.rows]
        self._world.check(not missing, "nothing lost", lambda: f"missing: {missing}")
        left = [t.name for t in transactions.values() if t.state == "Ongoing"]
        self._world.check(not left, "5", lambda: f"still open: {left}")
