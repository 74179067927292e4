"""The fenced, append-only log of the checkpoint: one file for each record.

Must not know: what follows from a record (``twophase.records`` does), how it becomes bytes (``journal_codec``), or how
the files are made exclusive (``store``).

``journal/<slot>.json`` holds one record with its slot and the writer's nonce. Whoever creates a slot first has it;
the nonce read back from it decides who that was, whatever the call that created it answered. A ``Start`` in the journal
ends every older driver's power to append.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onceflow.checkpoint.journal_codec import JournalEntry, decode, encode
from onceflow.checkpoint.passed import Passed
from onceflow.checkpoint.receipts import Receipt, Receipts
from onceflow.checkpoint.refusals import Refusals
from onceflow.checkpoint.trail import Trail
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError, CheckpointStoreError, advised
from onceflow.storage import envelope
from onceflow.storage.files import Where
from onceflow.storage.store import Store
from onceflow.twophase.messages import Adopted, Appended, Superseded, Unanswered, Voided
from onceflow.twophase.records import (
    Decide,
    DecidedEpoch,
    History,
    HistoryError,
    LayoutRecord,
    Newest,
    Record,
    Replay,
    Skip,
    Start,
    Void,
)

_2020 = 1_577_836_800


def above_all() -> int:
    """An incarnation above all that any job has had, also in checkpoints that are not to be seen from here.

    A system that keeps (incarnation, epoch) beside a row, and lets an older pair replace nothing, would drop the rows
    of a run that begins anew with low numbers, in silence. The seconds since 2020 rise faster than starts come.
    """
    return int(time.time()) - _2020


@dataclass(frozen=True, slots=True)
class Left:
    """The job that a new one (``--as-new``) has left.

    Attributes:
        job_id: Its id, "" for none.
        had: What the systems of its sinks had of it then.
        systems: By its sinks, the ids of these.
        starts: Its incarnations.
    """

    job_id: str = ""
    had: tuple[Newest, ...] = ()
    systems: Mapping[str, str] = field(default_factory=dict)
    starts: frozenset[int] = frozenset()


class Journal:
    """One driver's view of the journal. One thread appends, and any thread may ask whether this is still the newest.

    For that, every public method that looks at the tail or moves it holds the lock for as long as it takes: between an
    append's link and its note the tail is not what stands there, and a driver would take its own record for another's.
    ``read`` and ``history`` look at the files alone and need none; ``start_nonce`` is set once, by ``start``.

    Args:
        store: The journal's folder.
        retain: How many epochs back records are kept (Spark's ``minBatchesToRetain``); of what is purged a receipt
            stays.

    Attributes:
        refusals: By which refusal an epoch has failed last. No record: no rule reads it.
        passed: What epochs without a decision have read. No record either.
    """

    def __init__(self, store: Store, *, retain: int = 100) -> None:
        self._store = store
        self._receipts = Receipts(store.below("receipts"))
        self.passed = Passed(store.below("passed"), self._own, self.start_before)
        self.refusals = Refusals(store.below("refused"))
        self._retain = retain
        self._lock = threading.RLock()
        self._tail = 0
        self._tail_data = b""
        self._tail_kept_from = 1
        self._floor = 1
        self._index: dict[int, Record] = {}
        self._disputed: tuple[str, Record, bytes] = ("", Start(0), b"")
        self._trail: Trail | None = None
        self._about = ""
        self.start_nonce = ""

    def audited(self, trail: Trail, about: str) -> None:
        """From here on each finished epoch gets its receipt, and no record is purged before it has one.

        Args:
            trail: Where the receipts go.
            about: What this start says of its code, settings and sinks, for its decisions.
        """
        with self._lock:
            self._trail, self._about = trail, about

    # -- reading ----------------------------------------------------------------------------------

    def read(self) -> list[JournalEntry]:
        """All records, oldest first.

        Raises:
            CheckpointCorruptError: A file is missing, torn, or fails its checksum; the message names it.
            CheckpointConflictError: A file was written by a newer version.
        """
        slots, entries = self._read_all()
        kept_from = entries[-1].kept_from if entries else 1
        for expected in range(kept_from, slots[-1] + 1 if slots else kept_from):
            if expected not in slots:
                raise _corrupt(self._store.path(_name(expected)), "the file is missing")
        return entries

    def kept(self) -> list[JournalEntry]:
        """The records that are there, oldest first: of an older epoch's part of a journal, as a savepoint has it.

        Whether a file is missing the manifest tells there. The part's newest record cannot: what it says is kept was
        purged by those behind it, which are no part of it.

        Raises:
            CheckpointCorruptError, CheckpointConflictError: As ``read``, but for a file that is missing.
        """
        return self._read_all()[1]

    def _read_all(self) -> tuple[list[int], list[JournalEntry]]:
        """The slots, and what stands in them. A driver that still runs may purge between the list and a read."""
        while True:
            slots = self._slots()
            try:
                found = self._store.contents([_name(slot) for slot in slots])
                return slots, [self._entry(slot, data) for slot, data in zip(slots, found, strict=True)]
            except CheckpointCorruptError:
                if set(slots) <= set(self._slots()):
                    raise

    def history(self) -> tuple[History, list[JournalEntry]]:
        """What the records mean, and the records.

        What stands below the declared end of the history counts for nothing: whoever was to remove it died on the
        way, or a record that had been held back landed in a slot that was purged by then.

        Raises:
            CheckpointCorruptError: As ``read``; or a record contradicts those before it.
        """
        entries = self.read()
        history = History()
        for history in self._histories(entries):  # noqa: B007 - the last one counts
            pass
        return history, entries

    def starts(self) -> int:
        """How many starts it has: not the newest one's number, since a claim, or a savepoint, makes a leap."""
        return sum(isinstance(entry.record, Start) for entry in self.history()[1])

    def start_before(self) -> int:
        """The incarnation before the newest, 0 for none: it need not be the next lower number."""
        starts = [entry.record.incarnation for entry in self.history()[1] if isinstance(entry.record, Start)]
        return starts[-2] if len(starts) > 1 else 0

    def decided_epochs(self, job_id: str) -> list[DecidedEpoch]:
        """A job's decided epochs, as replays and choices left them, in order; none that were purged."""
        found: dict[int, DecidedEpoch] = {}
        for history in self._histories(self.read()):
            if history.job_id == job_id and history.decided is not None:
                found[history.decided.epoch] = history.decided
        return list(found.values())

    def given_up(self) -> list[tuple[str, ...]]:
        """What each claim has given up, as ``Claim.given_up`` has it."""
        claims = (e.record.claim for e in self.read() if isinstance(e.record, Start))
        return [claim.given_up for claim in claims if claim is not None and claim.given_up]

    def _histories(self, entries: Sequence[JournalEntry]) -> Iterator[History]:
        """What the records mean, up to each that counts."""
        kept = [e for e in entries if e.slot >= entries[-1].kept_from]
        history = History()
        for entry in entries[: len(entries) - len(kept)]:
            history = history.recalled(entry.record)
        if kept:
            first = kept[0].record
            before = first.incarnation - 1 if isinstance(first, Start) else first.incarnation
            history = replace(history, incarnation=before)
        for entry in kept:
            try:
                history = history.then(entry.record)
            except HistoryError as error:
                raise _corrupt(self._store.path(_name(entry.slot)), str(error)) from error
            yield history

    def decided_offsets(self) -> dict[int, str]:
        """What Spark's offsets files must hold: what was decided, and what was passed over since."""
        found: dict[int, str] = {}
        for record in (entry.record for entry in self.history()[1]):
            if isinstance(record, Decide):
                found[record.epoch] = record.offsets
            elif isinstance(record, Skip):
                found |= {
                    n: text for n, text in ((record.epoch - 1, record.before), (record.epoch, record.offsets)) if text
                }
        return found

    def up_to(self, epoch: int) -> tuple[list[JournalEntry], bool]:
        """The records before the first decision of a later epoch, and whether these are all.

        They are the history of a checkpoint of this epoch.
        """
        entries = self.read()
        later = (n for n, e in enumerate(entries) if isinstance(e.record, Decide) and e.record.epoch > epoch)
        first = next(later, len(entries))
        return entries[:first], first == len(entries)

    def file_of(self, entry: JournalEntry) -> str:
        """The name of a record's file."""
        return _name(entry.slot)

    def _own(self) -> int:
        return max((r.incarnation for r in self._index.values() if isinstance(r, Start)), default=0)

    def receipts_are_whole(self) -> bool:
        """Whether all that was purged has its receipt still."""
        return self._receipts.are_whole()

    def receipts(self, *, waiting: bool = False) -> list[Receipt]:
        """Of what was purged, by slot; those of a hundred thousand epochs ago are gone.

        Args:
            waiting: Also of what is to be purged: it has none yet, since they are written for many at once, and is none
                of ``decided_epochs`` any more.

        Raises:
            CheckpointCorruptError, CheckpointConflictError: As ``Receipts.read``; and as ``read``.
        """
        entries = self.read() if waiting else []  # before: a purge in between writes the receipts first
        return self._receipts.read({e.slot: e.record for e in entries if e.slot < entries[-1].kept_from})

    # -- appending --------------------------------------------------------------------------------

    def start(self, job_id: str, above: int = 0, left: str = "", said: Start | None = None) -> History:
        """Append a start with the next incarnation's number, and return the history up to and with it.

        Whoever else starts at the same moment gets another slot; the later one of the two is the newest.

        Args:
            job_id: Whose start it is; with another id than the newest start's a new job begins.
            above: An incarnation that is known from elsewhere; the new one is greater.
            left: The job that this one has left (``--as-new``), whose starts may stand before its first.
            said: What else it says; its number and job are not looked at.

        Raises:
            CheckpointConflictError: The newest start is of a job that this one does not know of. Appended behind it,
                this one would begin a history in which what that job has decided is forgotten.
        """
        with self._lock:
            return self._start(replace(said or Start(0), incarnation=above + 1, job_id=job_id), left)

    def left(self) -> Left:
        """The job that this one has left."""
        starts = [entry.record for entry in self.read() if isinstance(entry.record, Start)]
        first = next((at for at, each in enumerate(starts) if each.job_id == starts[-1].job_id), 0)
        if not first:
            return Left()
        its = [each for each in starts[:first] if each.job_id == starts[first - 1].job_id]
        systems = {sink: system for each in its for sink, system in each.systems.items()}
        return Left(its[0].job_id, starts[first].left, systems, frozenset(each.incarnation for each in its))

    def _start(self, wanted: Start, left: str) -> History:
        job_id = wanted.job_id
        while True:
            history, entries = self.history()
            if history.job_id and history.job_id not in (job_id, left):
                raise CheckpointConflictError(
                    f"the newest start in {self._store.path()} is of job {history.job_id}; this one is of job {job_id}",
                    harmless=f"a start with {advised('as-new')} came at the same moment: this one has written nothing",
                    cause=f"{advised('as-new')} took the checkpoint over, or job.json was put back from an older copy",
                    action="start the job again; if it says the same again, start it once with "
                    f"{advised('claim')}, which goes on as the journal's job",
                )
            self._adopt(entries)
            start = replace(wanted, incarnation=max(history.incarnation + 1, wanted.incarnation))
            slot, nonce, data = self._encode(start)
            try:
                self._store.create(_name(slot), data)
            except FileExistsError:
                continue
            except CheckpointStoreError:
                if self._nonce_at(slot) != nonce:
                    raise
                # It is there, perhaps unsynced: a power cut would take it, and with it the fence of the driver before.
                self._make_durable(slot)
            if self._nonce_at(slot) != nonce or slot < self._read_slot(max(self._slots())).kept_from:
                continue  # lost the slot; or slept so long that others wrote there and purged it
            self.start_nonce = nonce
            self._note(slot, start, data)
            return history.then(start)

    def append(self, record: Record) -> Appended | Superseded | Unanswered:
        """Append a record, if this driver's start is still the newest record's."""
        with self._lock:
            return self._append(replace(record, about=self._about) if isinstance(record, Decide | Replay) else record)

    def _append(self, record: Record) -> Appended | Superseded | Unanswered:
        try:
            if not self.is_newest():
                return Superseded()
            # From here on it may sleep while another starts: the slot is exclusive, and the tail is looked at again.
            slot, nonce, data = self._encode(record)
            self._disputed = nonce, record, data
            answer = self._try_to_create(slot, data)
            found = self._nonce_at(slot)
            if found is None:
                # It may still appear: a file system can answer late. Believed lost, what it decides would be aborted.
                return Unanswered(answer or f"{self._store.path(_name(slot))} was created and is not there")
            if found != nonce:
                return Superseded()
            if answer:
                self._make_durable(slot)
            return self._appended(slot, record, data)
        except (CheckpointStoreError, CheckpointCorruptError) as error:
            return Unanswered(error.what)

    def append_void(self, void: Void) -> Voided | Adopted | Superseded | Unanswered:
        """Take exactly the slot that the last ``append`` was meant for, or find that record in it.

        At any other slot a void would prove nothing: the record could still appear in the disputed one, and a start
        would commit what was aborted on the void's word.
        """
        with self._lock:
            return self._append_void(void)

    def _append_void(self, void: Void) -> Voided | Adopted | Superseded | Unanswered:
        try:
            slot, nonce, data = self._encode(void)
            disputed_nonce, disputed, disputed_data = self._disputed
            answer = self._try_to_create(slot, data)
            found = self._nonce_at(slot)
            if found is None:
                return Unanswered(f"{self._store.path(_name(slot))} could not be created")
            if answer and found in (nonce, disputed_nonce):
                self._make_durable(slot)
            if found == nonce:
                return Voided() if isinstance(self._appended(slot, void, data), Appended) else Superseded()
            if found == disputed_nonce:
                adopted = self._appended(slot, disputed, disputed_data)
                return Adopted() if isinstance(adopted, Appended) else Superseded()
            return Superseded()
        except (CheckpointStoreError, CheckpointCorruptError) as error:
            return Unanswered(error.what)

    def _try_to_create(self, slot: int, data: bytes) -> str:
        """Create the record's file; what the call said, which proves nothing: the slot is read next."""
        try:
            self._store.create(_name(slot), data)
        except FileExistsError:
            return "the slot was taken"
        except CheckpointStoreError as error:
            return error.what
        return ""

    def _make_durable(self, slot: int) -> None:
        """A call that raised may have written the file and not synced it: nothing may rest on it before that."""
        self._store.sync(_name(slot))
        self._store.sync()

    def is_newest(self) -> bool:
        """Whether this driver's last record is there and nobody has appended behind it.

        Numbers alone do not tell: in a journal that another one has taken the place of (an older copy was put back and
        gone on with), another driver's record may stand under the same number.
        """
        with self._lock:
            return max(self._slots(), default=0) == self._tail and self._mine_is_there()

    def is_replaced(self) -> bool:
        """Whether a newer start has ended this driver's power to append.

        Not the same as not being the newest: behind its tail may stand a record of its own whose answer was lost.
        """
        with self._lock:
            if not self._mine_is_there():
                return True
            unreadable: CheckpointCorruptError | None = None
            for slot in sorted((p for p in self._slots() if p > self._tail), reverse=True):
                try:
                    if isinstance(self._read_slot(slot).record, Start):
                        return True
                except CheckpointCorruptError as error:
                    unreadable = error  # of a spoiled one nobody can tell; another may say it
            if unreadable is not None:
                raise unreadable
            return False

    def _appended(self, slot: int, record: Record, data: bytes) -> Appended | Superseded:
        if max(self._slots()) != slot or not self._mine_is_there():
            return Superseded()  # appended by a sleeper behind a newer start, or in a journal that was exchanged
        self._note(slot, record, data)
        return Appended()

    def _mine_is_there(self) -> bool:
        """Whether this driver's last record is still what stands in its slot."""
        try:
            return self._store.read(_name(self._tail)) == self._tail_data
        except FileNotFoundError:
            return False

    # -- purging ----------------------------------------------------------------------------------

    def _kept_from(self) -> int:
        """The slot of the oldest record that is not a start and must stay. Never moves back."""
        kept = {slot: r for slot, r in self._index.items() if slot >= self._floor}
        decided = [(slot, r.epoch) for slot, r in kept.items() if isinstance(r, Decide)]
        if not decided:
            return min(kept, default=self._floor)
        newest = max(epoch for _, epoch in decided)
        last_two = sorted(decided)[-2:]  # the one before the newest proves that no two are undone
        return min(slot for slot, epoch in decided if epoch > newest - self._retain or (slot, epoch) in last_two)

    def keep_receipts(self) -> None:
        """Append to the audit's trail the receipts of decided epochs that have none; all of them are finished.

        Where that fails the job goes on: the journal keeps the records, and the next call makes the receipts.
        """
        with self._lock, contextlib.suppress(CheckpointStoreError):
            self._keep_receipts()

    def _keep_receipts(self) -> None:
        if self._trail is not None:
            self._trail.keep(self._index, self._own(), self.start_nonce)

    def anchor(self) -> str:
        """A line that tells the newest receipt, for a place that only grows; "" for none, or where a newer start is.

        Whether it is replaced is asked behind the sync: a newer start's record comes behind that, and its trail goes on
        from this receipt. So this receipt is never made anew, and the key that sealed it is forgotten.

        Raises:
            CheckpointStoreError: A file system failed.
        """
        with self._lock:
            line = "" if self._trail is None else self._trail.anchor()
            if self._trail is None or not self.is_newest():
                return ""
            self._trail.forget_keys()
            return line

    def purge(self) -> None:
        """Remove what the durable tail has declared as purged, some at a time; no start, nor the oldest epoch's layout.

        For whoever has finished an epoch: nobody who waits for a commit waits for this. Whatever fails in here, and
        wherever its driver dies, more is left than is needed, and the next purge takes it: a record goes only when its
        receipt is durable.

        The slot that a stale driver would take next is the one behind its last record, and a newer start stands
        there: if that could be purged, the stale driver could append. Without the layout a topic that was made again
        would be read on in silence, and so would another output's position. What stays of the layouts is the one that
        the oldest epoch that is kept was run with: whoever goes back behind an upgrade finds what stood there then.
        """
        with self._lock, contextlib.suppress(CheckpointStoreError):
            self._keep_receipts()
            self._purge()

    def _purge(self) -> None:
        kept_from = self._tail_kept_from
        stays = max((p for p, r in self._index.items() if p < kept_from and isinstance(r, LayoutRecord)), default=0)
        old = {p: r for p, r in self._index.items() if p < kept_from and p != stays and not isinstance(r, Start)}
        if len(old) < max(1, self._retain // 2):
            return  # receipts are written for many at once
        if not self.is_newest():
            return  # the same numbers may be another history's: an older copy was put back
        if self._trail is not None:
            self._trail.sync()
        self._receipts.keep(old)
        for slot in sorted(old):
            self._store.remove(_name(slot))
            del self._index[slot]

    # -- bytes ------------------------------------------------------------------------------------

    def _encode(self, record: Record) -> tuple[int, str, bytes]:
        slot, nonce = self._tail + 1, uuid.uuid4().hex
        return slot, nonce, encode(JournalEntry(slot, nonce, self._declared(slot), record))

    def _declared(self, slot: int) -> int:
        """From which slot on nothing may be missing, as a record in this one says."""
        return min(self._kept_from(), slot)

    def _read_slot(self, slot: int) -> JournalEntry:
        (data,) = self._store.contents([_name(slot)])
        return self._entry(slot, data)

    def _entry(self, slot: int, data: bytes | None) -> JournalEntry:
        path = self._store.path(_name(slot))
        if data is None:
            raise _corrupt(path, "the file is missing")
        with envelope.named(path, _corrupt):
            return decode(data, slot)

    def _nonce_at(self, slot: int) -> str | None:
        if slot not in self._slots():
            return None
        return self._read_slot(slot).nonce

    def _slots(self) -> list[int]:
        return sorted(int(name[:-5]) for name in self._store.names() if _SLOT.fullmatch(name))

    def _adopt(self, entries: list[JournalEntry]) -> None:
        self._index = {e.slot: e.record for e in entries}
        self._tail = entries[-1].slot if entries else 0
        self._floor = entries[-1].kept_from if entries else 1

    def _note(self, slot: int, record: Record, data: bytes) -> None:
        self._tail_kept_from = self._declared(slot)  # of this record: that of one that failed is declared nowhere
        self._index[slot] = record
        self._tail = slot
        self._tail_data = data


_SLOT = re.compile("(?:[0-9]{20}|[1-9][0-9]{20,})[.]json")


def _name(slot: int) -> str:
    return f"{slot:020d}.json"


def _corrupt(path: Where, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"the journal record {path} cannot be used: {why}",
        harmless="never: a record that is skipped could be a decision, and its epoch would be written twice or lost",
        cause="the file was edited, deleted or cut, or the disk lost it",
        action="put the file back from a copy of the checkpoint; without one, look by hand which epoch the sinks hold "
        f"last, move the folder journal/ away, and start as a new job ({advised('as-new')})",
        file=str(path),
    )
