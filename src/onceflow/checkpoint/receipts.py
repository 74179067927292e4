"""What was decided, in few words: the journal forgets its records, receipts stay for a hundred thousand epochs more.

Must not know: who appends to the journal, when it purges, what a record means.

``receipts/<first>-<last>.json`` holds the receipts of the records in those slots. A file is never changed: a batch is
written with what the newest file holds into a new one, as long as that is not full, and only then the older one goes.
So whoever dies on the way leaves some receipts twice, and a reader takes each slot once. The oldest files go: a job
that runs for years would fill its disk with them, and whoever reads them reads all.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from onceflow.errors import CheckpointConflictError, CheckpointCorruptError
from onceflow.storage import envelope
from onceflow.storage.files import Where
from onceflow.storage.store import Store
from onceflow.twophase.participants import ParticipantId
from onceflow.twophase.records import Decide, Record, Replay, Resolve

FORMAT = 1
_FULL = 1024
"""So many receipts end a file: it is written anew for each batch, and there should not be too many files."""

_FILES = 100
"""So many of the newest files stay: of as many epochs as a database's ledger has."""


@dataclass(frozen=True, slots=True)
class Receipted:
    """A participant as its receipt has it."""

    id: ParticipantId
    rows: int
    digest: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one record of the journal has decided.

    Attributes:
        slot: Of the record.
        kind: "decide", "replay" or "resolve".
        incarnation: Whose start had the power.
        epoch: Spark's batch id.
        participants: What was to be committed by it.
        kept: Of a replay by parts: what stayed; None for every other record.
        choice: Of an operator's choice: which, with ``about``; else "".
        about: The participants that it was about.
    """

    slot: int
    kind: str
    incarnation: int
    epoch: int
    participants: tuple[Receipted, ...] = ()
    kept: tuple[ParticipantId, ...] | None = None
    choice: str = ""
    about: tuple[ParticipantId, ...] = ()


def receipt_of(slot: int, record: Record) -> Receipt | None:
    """The receipt of a record, or None for one that decides nothing about rows."""
    match record:
        case Decide():
            held = tuple(Receipted(p.id, p.rows, p.digest) for p in record.participants)
            return Receipt(slot, "decide", record.incarnation, record.epoch, held)
        case Replay():
            held = tuple(Receipted(p.id, p.rows, p.digest) for p in record.participants)
            kept = record.kept if record.scope == "parts" else None
            return Receipt(slot, "replay", record.incarnation, record.epoch, held, kept)
        case Resolve():
            chosen = record.participants
            return Receipt(slot, "resolve", record.incarnation, record.epoch, choice=record.choice, about=chosen)
    return None


class Receipts:
    """The folder of the receipts.

    Args:
        store: It.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, records: Mapping[int, Record]) -> None:
        """Keep the receipts of these records, by their slots; durable when it returns.

        All slots up to the last one that is kept already are passed over: a record that lands there afterwards was
        held back by a driver that had lost its power, and counts for nothing.

        Raises:
            CheckpointStoreError: The file system failed; the receipts may be kept or not.
        """
        files = self._files()
        # By its last slot: a driver that slept while another joined files leaves one that begins later, ends sooner.
        newest = max(files, default=None, key=lambda file: (file[1], -file[0]))
        after = 0 if newest is None else newest[1]
        slots = [slot for slot in sorted(records) if slot > after]
        if not slots:
            if newest is not None:
                self._make_durable(newest)
            return
        made = (receipt_of(slot, records[slot]) for slot in slots)
        fresh = [_to_line(receipt) for receipt in made if receipt is not None]
        self._store.make()
        held: list[str] = []
        if newest is not None:
            with contextlib.suppress(CheckpointCorruptError, CheckpointConflictError, FileNotFoundError):
                held = self._read(newest)  # what cannot be read stays where it is
        if newest is None or not 0 < len(held) < _FULL:
            self._create((slots[0], slots[-1]), fresh)
            self._let_go()
            return
        whole = (newest[0], slots[-1])
        self._create(whole, [*held, *fresh])
        for file in files:  # the one that was joined, and what somebody who died on the way has left of such
            if whole[0] <= file[0] and file[1] < whole[1]:
                self._store.remove(_name(file))

    def are_whole(self) -> bool:
        """Whether none were let go so far."""
        return len(self._files()) < _FILES

    def _let_go(self) -> None:
        for file in sorted(self._files())[:-_FILES]:
            self._store.remove(_name(file))

    def _create(self, file: tuple[int, int], lines: list[str]) -> None:
        try:
            self._store.create(_name(file), envelope.seal({"format": FORMAT, "receipts": lines}))
        except FileExistsError:  # another driver has kept the same slots
            self._make_durable(file)

    def _make_durable(self, file: tuple[int, int]) -> None:
        """Whoever created it may have had no answer, and then nothing has synced it."""
        self._store.sync(_name(file))
        self._store.sync()

    def read(self, waiting: Mapping[int, Record] = MappingProxyType({})) -> list[Receipt]:
        """All receipts that were not let go, by their slots.

        Args:
            waiting: Records that are to be purged, by their slots: of those that have no receipt yet, what they get.

        Raises:
            CheckpointCorruptError: A file was changed or cut; the message names it.
            CheckpointConflictError: A file was written by another version.
        """
        while True:
            found: dict[int, Receipt] = {}
            files = sorted(self._files())
            try:
                for file in files:
                    for line in self._read(file):
                        receipt = self._receipt(file, line)
                        found.setdefault(receipt.slot, receipt)
            except FileNotFoundError:
                continue  # joined with a newer one since the folder was listed
            after = max((last for _, last in files), default=0)
            made = (receipt_of(slot, waiting[slot]) for slot in sorted(waiting) if slot > after)
            return [found[slot] for slot in sorted(found)] + [receipt for receipt in made if receipt is not None]

    def _files(self) -> list[tuple[int, int]]:
        found = filter(None, map(_NAME.fullmatch, self._store.names()))
        return [(int(name[1]), int(name[2])) for name in found]

    def _read(self, file: tuple[int, int]) -> list[str]:
        name = _name(file)
        data = self._store.read(name)
        with envelope.named(self._store.path(name), _corrupt):
            return list(map(str, envelope.unseal(data, FORMAT)["receipts"]))

    def _receipt(self, file: tuple[int, int], line: str) -> Receipt:
        with envelope.named(self._store.path(_name(file)), _corrupt):
            return _from_line(line)


_NAME = re.compile("([0-9]{20})-([0-9]{20})[.]json")


def _name(file: tuple[int, int]) -> str:
    return f"{file[0]:020d}-{file[1]:020d}.json"


def _to_line(receipt: Receipt) -> str:
    """A receipt as one line of JSON: with the next batch the ones of before are copied as they stand."""
    return json.dumps(
        {
            "place": receipt.slot,
            "kind": receipt.kind,
            "incarnation": receipt.incarnation,
            "epoch": receipt.epoch,
            "participants": [[*p.id, p.rows, p.digest] for p in receipt.participants],
            "kept": receipt.kept,
            "choice": receipt.choice,
            "about": receipt.about,
        },
        separators=(",", ":"),
    )


def _from_line(line: str) -> Receipt:
    value = json.loads(line)
    held = tuple(
        Receipted(_id(sink, handle), int(rows), int(digest)) for sink, handle, rows, digest in value["participants"]
    )
    kept = None if value["kept"] is None else tuple(_id(*who) for who in value["kept"])
    about = tuple(_id(*who) for who in value["about"])
    slot, incarnation, epoch = int(value["place"]), int(value["incarnation"]), int(value["epoch"])
    return Receipt(slot, str(value["kind"]), incarnation, epoch, held, kept, str(value["choice"]), about)


def _id(sink: Any, handle: Any) -> ParticipantId:
    return ParticipantId((str(sink), str(handle)))


def _corrupt(path: Where, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"the receipts in {path} cannot be used: {why}",
        harmless="for the job: it needs none of them; they tell what was decided long ago",
        cause="the file was edited or cut, or the disk lost it",
        action="put the file back from a copy of the checkpoint",
        file=str(path),
    )
