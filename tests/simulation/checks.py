"""The invariants, as things that the simulation asserts while it runs and at its end.

Must not know: how the rules come to what they do. It keeps books of its own: of the journal's records as they become
files, of verdicts as the broker gives them, and of what Spark records.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from onceflow.connectors.database.tables import ABORTED
from onceflow.connectors.kafka import prepared
from onceflow.connectors.kafka.transactional_id import parse_transactional_id
from onceflow.twophase.participants import Participant, ParticipantId
from onceflow.twophase.records import Decide, Record, Replay, ReplayBegin, Resolve, Start
from tests.simulation.fake_broker import Batch, Observer, Transaction
from tests.simulation.fake_database import Content, Entry
from tests.simulation.world import World

PREFIX, JOB = "sim", "simulated"
TIMEOUT_S = 60.0

INVARIANTS: Mapping[str, str] = {
    "1": "a participant is committed only if the journal decided it",
    "2": "a participant of an effective set is never aborted by us, except after replay-begin",
    "3": "for each (epoch, sink, part) at most one transaction is ever visible, and no row twice",
    "4": "when commits/N exists, every participant of N's effective set is committed, and complete",
    "5": "no lingering transaction stays open",
    "6": "no driver appends after a newer start; none aborts a newer one's, or another's before its own start",
    "8": "state and output of an epoch come from the same run, or are proven equal",
    "one epoch, one transaction": "after a verdict no record is written under the same producer epoch",
    "outcomes first": "nothing of a decided epoch is committed while the loss of another part could be known",
    "nothing lost": "at the end every source record is in every sink",
    "decided rows": "a job that stops because of its source or its plan has committed what it had decided",
    "put back": "a database that was put back is told with what is gone, before anything more is decided",
    "receipts": "what was committed is in the journal, or has a receipt",
    "refusals": "a job stops for a person only when it cannot know better",
    "advice": "an error is retriable exactly when starting again, unchanged, is right; doing what a message says helps",
    "ends": "a run without faults comes to its end",
    "real time": "nothing waits by another clock than the world's: what does is not simulated",
    "our errors": "what ends a process is one of our errors, never a programming error",
}

Key = tuple[int, str, int]
Handle = tuple[str, int, int]
Lost = Mapping[str, Mapping[str, Entry]]
"""By sink and handle, what its database has lost."""

OF_DATABASE = -1
"""In the place of a producer id: the handle is an attempt's in a database, with the start that made it."""


@dataclass(frozen=True, slots=True)
class Row:
    """One output row: of which source record, in which epoch, sink and partition, by which run of the plan."""

    record: int
    epoch: int
    sink: str
    partition: int
    run: int


def _row(sink: str, held: tuple[int, ...]) -> Row:
    """As a table has it."""
    record, epoch, partition, run = held
    return Row(record, epoch, sink, partition, run)


@dataclass
class Books:
    """What a decided epoch is, as its files say it."""

    effective: dict[ParticipantId, Participant] = field(default_factory=dict)
    sinks: tuple[str, ...] = ()
    replaying: bool = False
    given_up: bool = False  # what the source has lost of it
    counted: set[Handle] = field(default_factory=set)


def handles_of(participant: Participant) -> list[Handle]:
    """The handles of a participant: one, or those of all tasks whose rows it shows by one step."""
    if "attempts" in participant.transaction:
        start = int(participant.transaction["sealed"]["incarnation"])
        return sorted((attempt, OF_DATABASE, start) for attempt, *_ in participant.transaction["attempts"])
    held = participant.transaction.get("members", [participant.transaction])
    return [(t["transactional_id"], t["producer_id"], t["producer_epoch"]) for t in held]


def _start_of(handle: Handle) -> float:
    """The start that began it; infinity for what is none of the job's."""
    if handle[1] == OF_DATABASE:
        return handle[2]
    parsed = parse_transactional_id(handle[0], PREFIX, JOB)
    return math.inf if parsed is None else parsed.incarnation


def _all_handles(participants: Iterable[Participant]) -> set[Handle]:
    return {handle for p in participants for handle in handles_of(p)}


class Watch(Observer):
    """Keeps the books and asserts.

    Args:
        world: Where a violation stops the run.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.epochs: dict[int, Books] = {}
        self.decided: dict[Handle, list[Key]] = {}
        self.first_of: dict[Handle, Handle] = {}  # of those that are shown by one step, one for all
        self.starts: dict[int, int] = {}  # incarnation -> place
        self.started_at: dict[int, int] = {}  # incarnation -> step
        self.incarnations: dict[str, int] = {}  # actor's name -> incarnation
        self.rolling: set[str] = set()  # actors that finish what others decided
        self.tail = 0
        self.newest = self.highest = 0
        self.aborted_at: dict[Handle, int] = {}
        self.committed: dict[Handle, int] = {}  # at which step
        self.shown: dict[Key, Handle] = {}
        self.shown_again: set[Key] = set()  # somebody was told that this may be
        self.rows: dict[tuple[str, int], Row] = {}
        self.of: dict[Handle, list[Row]] = {}  # what was written in each transaction
        self.may_double: set[tuple[str, int]] = set()
        self.may_lose: set[tuple[str, int]] = set()
        self.accepted: set[int] = set()  # epochs whose state an operator took as it is
        self.older = False  # somebody has put an older copy of the checkpoint in its place
        self.forgotten: set[tuple[int, int]] = set()  # producer ids and epochs of records that are gone
        self.rotten = False
        self.aborted_rows = 0
        self.ledgers: dict[str, dict[str, Entry]] = {}  # by sink: what was committed, and nobody has given up
        self.members: dict[str, list[Handle]] = {}  # of what was decided for a database, by its handle
        self.away: set[Handle] = set()  # committed, and then lost
        self.away_rows: dict[tuple[str, int], Row] = {}
        self.lost_now: Lost = {}
        self.lost_from: list[tuple[int, Lost]] = [(0, {})]  # from which step on that was lost
        self.lost_since: dict[str, int] = {}
        self.done: set[int] = set()
        self.older_at = -1  # the step at which a database was last put back

    # -- the journal ----------------------------------------------------------------------------------------------

    def appended(self, place: int, record: Record) -> None:
        """A record became a file of the journal."""
        if place <= self.tail:
            self._world.marks.add("a record landed in a purged place")
            return
        self.tail = place
        if isinstance(record, Start):
            self.newest = record.incarnation
            self.highest = max(self.highest, self.newest)
            self._give_up(record.claim.given_up if record.claim is not None else ())
            self.starts[record.incarnation] = place
            self.started_at.setdefault(record.incarnation, self._world.steps)
            return
        self._world.check(
            record.incarnation == self.newest, "6", lambda: f"{record} appended after start {self.newest}"
        )
        if isinstance(record, Decide):
            self.epochs[record.epoch] = Books({p.id: p for p in record.participants}, record.sinks)
            self._decide(record.epoch, record.participants)
        elif isinstance(record, ReplayBegin):
            self.epochs[record.epoch].replaying = True
        elif isinstance(record, Replay):
            books = self.epochs[record.epoch]
            kept = {p: c for p, c in books.effective.items() if p in record.kept}
            self._settle(p for p in books.effective if p not in kept)
            books.effective = kept | {p.id: p for p in record.participants}
            books.replaying = False
            self._decide(record.epoch, record.participants)
        elif isinstance(record, Resolve) and record.epoch in self.epochs:
            self._resolved(self.epochs[record.epoch], record)

    def _resolved(self, books: Books, record: Resolve) -> None:
        """A person chose. What may be doubled or lost by that is what the choice's description says, and no more."""
        if record.choice in ("accept-state", "give-up-rows"):
            self.accepted.add(record.epoch)
        books.given_up |= record.choice == "give-up-rows"
        if record.choice in ("count-as-written", "give-up-rows"):
            self._settle(record.participants)
        if record.choice == "write-again" and books.given_up:
            # Told with the choice: what is written again may not come again, and what is open is aborted for it.
            left = _all_handles(books.effective.values()) - self.committed.keys()
            self.may_lose |= {(row.sink, row.record) for handle in left for row in self.of.get(handle, ())}
            books.counted |= left
        for who in record.participants:
            handles = set(handles_of(books.effective[who]))
            rows = {(row.sink, row.record) for handle in handles for row in self.of.get(handle, ())}
            if record.choice == "write-again" and not handles & self.aborted_at.keys():
                self.may_double |= rows
                self.shown_again |= {(record.epoch, *part.id) for part in books.effective[who].parts}
            elif record.choice in ("count-as-written", "give-up-rows") and not handles & self.committed.keys():
                self.may_lose |= rows
                books.counted |= handles

    def claimed(self, copied_at: int) -> None:
        """A person goes on from an older copy, and was told: what was committed since it was taken is written twice."""
        self.older = False
        late = {handle for handle, step in self.committed.items() if step > copied_at}
        self.may_double |= {(row.sink, row.record) for handle in late for row in self.of.get(handle, ())}
        firsts = {self.first_of.get(handle, handle) for handle in late}
        self.shown_again |= {key for key, handle in self.shown.items() if handle in firsts}

    def overtaken_at(self, incarnation: int) -> float:
        """The step at which a newer start than this one came, or infinity."""
        return min((step for newer, step in self.started_at.items() if newer > incarnation), default=math.inf)

    def read_again(self, records: Iterable[tuple[int, Record]]) -> None:
        """A power cut took records that were not durable: the books are what is left."""
        self.epochs, self.decided, self.starts, self.started_at = {}, {}, {}, {}
        self.tail = self.newest = 0
        for place, record in records:
            self.newest = max(self.newest, record.incarnation)  # its start may have been purged from these books
            if not isinstance(record, ReplayBegin | Replay) or record.epoch in self.epochs:
                self.appended(place, record)

    def _decide(self, epoch: int, participants: tuple[Participant, ...]) -> None:
        for p in participants:
            first, *_ = handles = handles_of(p)
            self.first_of |= dict.fromkeys(handles, first)
            self.decided |= {handle: [(epoch, *part.id) for part in p.parts] for handle in handles}
            if first[1] == OF_DATABASE:
                self.members[p.handle] = handles

    def decided_from(self, step: int, record: Decide) -> None:
        """An epoch was decided by who began to check it at this step."""
        for sink, since in self.lost_since.items():
            self._world.check(
                since > step,
                "put back",
                lambda sink=sink: f"epoch {record.epoch} is decided, and sink {sink} has lost {self.lost_now[sink]}",
            )

    # -- databases ------------------------------------------------------------------------------------------------

    def changed(self, sink: str, before: Content, after: Content, by: str) -> None:
        """A database's transaction was committed."""
        held = self.ledgers.setdefault(sink, {})
        for handle in before.ledger.keys() - after.ledger.keys():  # written again behind a claim
            held.pop(handle, None)
        for handle in after.ledger.keys() - before.ledger.keys():
            held[handle] = after.ledger[handle]
            for attempt in self.members.get(handle, [(handle, OF_DATABASE, 0)]):
                self.ending(Transaction(*attempt), commit=True, by=by)
        for attempt, (start, state) in after.attempts.items():
            if state == ABORTED and before.attempts.get(attempt, (0, ""))[1] != ABORTED:
                self.ending(Transaction(attempt, OF_DATABASE, start), commit=False, by=by)
        for place in sorted(after.rows.keys() - before.rows.keys()):
            self._show(_row(sink, after.rows[place]))

    def put_back(self, sink: str, before: Content, after: Content) -> None:
        """A database has become an older one, or a newer one again, or its ledger is empty."""
        self.older_at = self._world.steps
        there = {_row(sink, row) for row in after.rows.values()}
        for at, row in list(self.rows.items()):
            if row.sink == sink and row not in there:
                self.away_rows[at] = self.rows.pop(at)
        for row in there:
            self.rows.setdefault((sink, row.record), row)
        emptied = before.rows.keys() == after.rows.keys()
        handles = before.ledger.keys() - after.ledger.keys() if not emptied else set()
        gone = {attempt for handle in handles for attempt in self.members.get(handle, ())}
        # A ledger that was emptied before does not name what its rows were of.
        gone |= {each for each in self.committed if self._went_away(each, sink, there)}
        gone &= self.committed.keys()
        for attempt in gone:
            del self.committed[attempt]
        self.away |= gone
        firsts = {self.first_of[attempt] for attempt in gone}
        self.shown = {key: of for key, of in self.shown.items() if of not in firsts}
        for handle in after.ledger.keys() - before.ledger.keys():
            for attempt in self.members.get(handle, ()):
                self.committed.setdefault(attempt, self._world.steps)
                self.shown |= dict.fromkeys(self.decided.get(attempt, ()), self.first_of[attempt])
        for attempt, (start, state) in after.attempts.items():
            if state != ABORTED:
                self.aborted_at.pop((attempt, OF_DATABASE, start), None)

    def lost_since_step(self, step: int) -> list[Lost]:
        """What was lost at any time from a step on."""
        ends = [*(begin for begin, _ in self.lost_from[1:]), math.inf]
        return [lost for end, (_, lost) in zip(ends, self.lost_from, strict=True) if end >= step]

    def _went_away(self, attempt: str, sink: str, there: set[Row]) -> bool:
        """Whether a database held an attempt's rows, and has none of them."""
        rows = [row for row in self.of.get(attempt, ()) if row.sink == sink]
        return bool(rows) and not any(row in there for row in rows)

    def missing(self, sink: str, content: Content, newest: int) -> dict[str, Entry]:
        """What was committed, in epochs up to this one, and is not in the ledger."""
        held = self.ledgers.get(sink, {}).items()
        return {handle: of for handle, of in held if of.epoch <= newest and handle not in content.ledger}

    def lost(self, now: Lost) -> None:
        """So much is lost now."""
        if now != self.lost_now:
            self.lost_now = now
            self.lost_from.append((self._world.steps, now))
        self.lost_since = {sink: self.lost_since.get(sink, self._world.steps) for sink in now}

    def _give_up(self, handles: Iterable[str]) -> None:
        """A person gives up what the sinks do not know any more: of each all between the oldest and the newest."""
        for held in self.ledgers.values():
            ends = [held[handle].epoch for handle in handles if handle in held]
            for handle in [h for h, of in held.items() if ends and min(ends) <= of.epoch <= max(ends)]:
                del held[handle]
                rows = (row for attempt in self.members.get(handle, ()) for row in self.of.get(attempt, ()))
                self.may_lose |= {(row.sink, row.record) for row in rows}
                self._world.marks.add("operator: lost rows are given up")

    def _settle(self, participants: Iterable[ParticipantId]) -> None:
        for sink, handle in participants:
            self.ledgers.get(sink, {}).pop(handle, None)

    # -- the broker -----------------------------------------------------------------------------------------------

    def wrote(self, name: str, pid: int, epoch: int, rows: Any, *, after_marker: bool) -> None:
        self._world.check(
            not after_marker, "one epoch, one transaction", lambda: f"{name} {pid}/{epoch} writes after a marker"
        )
        self.of.setdefault((name, pid, epoch), []).append(rows)

    def ending(self, transaction: Transaction, *, commit: bool, by: str) -> None:
        handle = (transaction.name, transaction.pid, transaction.epoch)
        self._world.say(f"    {'COMMIT' if commit else 'ABORT'} {handle} by {by}")
        if handle in self.committed:
            return  # a late duplicate has opened it again, without a record: nothing hangs on how that ends
        if commit:
            self.committed[handle] = self._world.steps
        else:
            self.aborted_at[handle] = self._world.steps
        if by in self.incarnations:
            if commit:
                self._committing(handle, by)
            else:
                self._aborting(handle, by)
        elif by.startswith("operator"):
            self._world.check(not commit, "1", lambda: f"{by} commits {handle}")
            self._aborted_by_hand(handle, by)

    def _aborted_by_hand(self, handle: Handle, by: str) -> None:
        """Without a start of one's own only what nobody can decide any more may be aborted."""
        self._world.check(
            _start_of(handle) < self.newest,
            "6",
            lambda: f"{by} aborts {handle} of the newest start, {self.newest}",
        )
        self._spares_decided(handle, by)

    def _spares_decided(self, handle: Handle, by: str) -> None:
        for epoch, books in self.epochs.items():
            # What a backup has brought back as it was before its commit is somebody's to end, if its epoch is done; so
            # is what it has left of a transaction that an operator then counted as written.
            done = epoch in self.done and handle in self.away | books.counted
            ours = any(handle in handles_of(p) and not self._is_gone(p, handle) for p in books.effective.values())
            self._world.check(
                not ours or done or books.replaying,
                "2",
                lambda epoch=epoch: f"{by} aborts {handle} of decided epoch {epoch}",
            )

    def _is_gone(self, participant: Participant, handle: Handle) -> bool:
        """Whether another one of those that are shown by one step is gone, so that this one can be shown by nobody."""
        return bool(({*handles_of(participant)} - {handle}) & self.aborted_at.keys())

    def _committing(self, handle: Handle, by: str) -> None:
        self._world.check(handle in self.decided, "1", lambda: f"{by} commits {handle}, which nobody decided")
        for key in self.decided[handle]:
            before = self.shown.setdefault(key, self.first_of[handle])
            same = before == self.first_of[handle] or key in self.shown_again
            self._world.check(
                same, "3", lambda key=key, before=before: f"{before} and {handle} of {key} are both visible"
            )
        if by not in self.rolling:
            return
        for epoch, books in self.epochs.items():
            handles = _all_handles(books.effective.values())
            start = self.starts.get(self.incarnations[by], 0)
            known = handles - books.counted
            lost = [h for h in known if h in self.aborted_at and self.aborted_at[h] < self.began.get(by, 0)]
            self._world.check(
                handle not in handles or not lost or books.replaying,
                "outcomes first",
                lambda epoch=epoch, lost=lost, start=start: (
                    f"{by} (start at {start}) commits {handle} of epoch {epoch}, of which {lost} was lost before"
                ),
            )

    began: dict[str, int]

    def _aborting(self, handle: Handle, by: str) -> None:
        mine, of = self.incarnations[by], _start_of(handle)
        self._world.check(
            of == mine or (of < mine and mine in self.starts),
            "6",
            lambda: f"{by}, incarnation {mine}, aborts {handle}",
        )
        self._spares_decided(handle, by)

    def visible(self, pid: int, batches: list[Batch]) -> None:
        for batch in batches:
            if batch.rows is not None:
                self._show(batch.rows)

    def _show(self, row: Row) -> None:
        before = self.rows.get((row.sink, row.record))
        self._world.check(
            before is None or (row.sink, row.record) in self.may_double,
            "3",
            lambda: f"{row} is visible, and so is {before}",
        )
        if before is not None:
            self.may_double.discard((row.sink, row.record))  # once
        self.rows[row.sink, row.record] = row

    # -- Spark ----------------------------------------------------------------------------------------------------

    def sinks_of(self, epoch: int) -> set[str]:
        """The sinks that an epoch was decided with."""
        return set(self.epochs.get(epoch, Books()).sinks)

    def finished(self, epoch: int) -> None:
        """Spark wrote commits/N."""
        self.done.add(epoch)
        books = self.epochs.get(epoch, Books())
        handles = _all_handles(books.effective.values()) - books.counted
        left = [h for h in handles if h not in self.committed and h not in self.away]
        self._world.check(not left, "4", lambda: f"commits/{epoch} exists, and these are not committed: {left}")

    def recorded(self, epoch: int, sink: str, records: list[int], state: int | None) -> None:
        """Spark wrote commits/N; ``state`` is the run that built the epoch's state, None without state."""
        for record in records:
            row = self.rows.get((sink, record))
            self._world.check(
                (row is not None and row.epoch == epoch) or (sink, record) in self.may_lose | self.away_rows.keys(),
                "4",
                lambda record=record, row=row: f"commits/{epoch} exists, record {record} in sink {sink} is {row}",
            )
            self._world.check(
                state is None or row is None or row.run == state or epoch in self.accepted,
                "8",
                lambda row=row: f"the state of epoch {epoch} is of run {state}, its output has {row}",
            )

    def at_the_end(self, wanted: Mapping[str, Iterable[int]], left: Collection[str]) -> None:
        """After healing and a run to the end."""
        missing = [place for s, of in wanted.items() for r in of if (place := (s, r)) not in self.rows]
        missing = [place for place in missing if place not in self.may_lose]
        self._world.check(not missing, "nothing lost", lambda: f"missing: {missing}")
        self._world.check(not left, "5", lambda: f"still open: {left}")

    def receipted(self, known: set[str]) -> None:
        """These handles are in the journal or have a receipt."""
        of_tables = {self.first_of[handle][0] for handle in self.committed if handle[1] == OF_DATABASE}
        of_topics = {str(prepared.Handle(*handle)) for handle in self.committed if handle[1] != OF_DATABASE}
        unknown = (of_topics | of_tables) - known
        self._world.check(not unknown, "receipts", lambda: f"committed, and nowhere written down: {unknown}")

    def at_a_refusal(self) -> None:
        """The job has stopped for a person, in a world without faults: what it had decided is finished all the same."""
        newest = max(self.epochs, default=None)
        handles = _all_handles(self.epochs[newest].effective.values()) if newest is not None else set()
        if handles & self.aborted_at.keys() or {handle[1:] for handle in handles} & self.forgotten:
            return  # one is lost and cannot be written again, or cannot be told: how to go on is for a person to say
        left = sorted(h for h in handles if h not in self.committed)
        self._world.check(
            not left, "decided rows", lambda: f"epoch {newest} is decided, and these are left open: {left}"
        )
