"""Jobs that were born of one another: what each has written that another one has not read yet.

Must not know: a start, what is asked of whom, sinks' systems. It reads checkpoints, and writes small files.

A job that begins from a savepoint enters itself in its parent's checkpoint (``children/<job id>.json``) before it
decides anything, and its own says where the parent is (``restored.json``). So each finds the others, as far as their
places can be reached. What its owner has been told of the others is kept, too (``told.json``): it is told once. And
where it has written in all its starts (``targets.json``).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from onceflow.checkpoint.identity import read_identity
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.restored import read_restored
from onceflow.checkpoint.spark_files import positions, reads_beyond
from onceflow.errors import CheckpointCorruptError, OnceflowError
from onceflow.storage import envelope
from onceflow.storage.files import Where
from onceflow.storage.store import Store
from onceflow.twophase.records import HistoryError

log = logging.getLogger(__name__)

FORMAT = 1
FOLDER, TOLD, TARGETS = "children", "told.json", "targets.json"

Opened = Callable[[str], Place]
"""Opens a checkpoint by its URI; where it cannot be reached it raises an ``OnceflowError``."""


@dataclass(frozen=True, slots=True, order=True)
class WriteTarget:
    """Where a sink writes.

    Attributes:
        sink: Its name.
        system: The lasting id of its system; "" where it is not known.
        destination: Its topic or table; "" where it is not known.
        decides: It takes part in decisions, which say how many rows it got.
    """

    sink: str
    system: str = ""
    destination: str = ""
    decides: bool = True

    def is_that_of(self, other: WriteTarget) -> bool:
        """Whether both may write to one place: what is not known of one is told by its name."""
        if self.system and other.system and self.system != other.system:
            return False
        if self.destination and other.destination:
            return self.destination == other.destination
        return bool({self.sink, self.destination} & {other.sink, other.destination} - {""})


@dataclass(frozen=True, slots=True)
class Child:
    """A job that was begun from another one's epoch.

    Attributes:
        job_id: Its id.
        checkpoint: The URI of its checkpoint.
        epoch: The parent's epoch behind which it began.
        targets: Where it writes.
    """

    job_id: str
    checkpoint: str
    epoch: int
    targets: tuple[WriteTarget, ...]


@dataclass(frozen=True, slots=True)
class Epoch:
    """What a job has written in an epoch.

    Attributes:
        number: The epoch's.
        offsets: What it had read at its end, in Spark's form; "" where the journal has forgotten it.
        rows: By sink.
    """

    number: int
    offsets: str
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Relative:
    """Another job of the family.

    Attributes:
        job_id: Its id.
        checkpoint: The URI of its checkpoint.
        is_known: Its checkpoint is there, and was read.
        is_born: It was begun from this job, or from one that was.
        targets: Where it writes.
        epochs: What it has written since the two have parted, in order.
    """

    job_id: str
    checkpoint: str
    is_known: bool
    is_born: bool
    targets: tuple[WriteTarget, ...]
    epochs: tuple[Epoch, ...] = ()

    @property
    def newest(self) -> int:
        """Its newest epoch with rows; -1 for none."""
        return self.epochs[-1].number if self.epochs else -1

    def beyond(self, offsets: str, targets: Sequence[WriteTarget] | None = None) -> Relative:
        """What of it was read behind a position, and went to these targets: who goes on from there writes it again.

        Args:
            offsets: The position, in Spark's form; "" for the beginning.
            targets: Those that are asked for; None for all.
        """
        mine = [one for one in self.targets if targets is None or any(map(one.is_that_of, targets))]
        known = {one.sink for one in self.targets}  # one that came later is told by its name
        names = {one.sink for one in mine}
        names |= {
            sink
            for sink in {sink for epoch in self.epochs for sink in epoch.rows} - known
            if targets is None or any(map(WriteTarget(sink).is_that_of, targets))
        }
        loose = not all(one.decides for one in mine)
        kept = []
        for epoch in reversed(self.epochs):
            if epoch.offsets and not _is_beyond(offsets, epoch.offsets):
                break  # what is older was read before it
            rows = {sink: count for sink, count in epoch.rows.items() if sink in names}
            if rows or (loose and mine):
                kept.append(Epoch(epoch.number, epoch.offsets, rows))
        return replace(self, targets=tuple(mine), epochs=tuple(reversed(kept)))

    def rows(self) -> dict[str, int]:
        """Of its epochs, by sink."""
        found: dict[str, int] = {}
        for epoch in self.epochs:
            for sink, count in epoch.rows.items():
                found[sink] = found.get(sink, 0) + count
        return found


def enter(parent: Place, child: Child) -> None:
    """Write a child into its parent's checkpoint, durably; where it was entered before it keeps its targets of then."""
    store = parent.ours.below(FOLDER)
    store.make()
    name = f"{child.job_id}.json"
    before = _children(store, [name])
    now = replace(child, targets=_union(child.targets, *(other.targets for other in before)))
    if [now] != before:
        store.replace(name, envelope.seal({"format": FORMAT} | asdict(now)))


def read_targets(store: Store) -> tuple[WriteTarget, ...]:
    """Where a job has written in all its starts; nothing where only an older version has run it.

    Args:
        store: Our folder in its checkpoint.
    """
    try:
        data = store.read(TARGETS)
    except FileNotFoundError:
        return ()
    with envelope.named(store.path(TARGETS), _spoiled):
        return _targets(envelope.unseal(data, FORMAT)["targets"])


def keep_targets(store: Store, targets: Iterable[WriteTarget]) -> tuple[WriteTarget, ...]:
    """Keep where a start writes, beside those before it, durably and before it writes; all of them."""
    before = read_targets(store)
    now = _union(before, targets)
    if now != before:
        store.replace(TARGETS, envelope.seal({"format": FORMAT, "targets": [asdict(target) for target in now]}))
    return now


def job_in(place: Place) -> str:
    """The id of the job whose checkpoint it is; "" for none's."""
    identity = read_identity(place.ours)
    return "" if identity is None else identity.job_id


def is_of(place: Place, job_id: str) -> bool:
    """Whether a checkpoint is that of a job."""
    return job_in(place) == job_id


def relatives(place: Place, opened: Opened) -> list[Relative]:
    """All that are found: those that were born of this job, the one it was born of, and theirs.

    A parent that cannot be read is left out: it may be deleted. A child that cannot is not: it has written, or may.

    Args:
        place: The job's checkpoint.
        opened: Opens another one.
    """
    seen = {(place.uri, job_in(place))}
    found = list(_born_of(place, opened, seen, is_born=True))
    restored = read_restored(place.ours)
    is_own = True  # up to here it is the same job, which was claimed from one folder to the next
    while restored is not None and restored.parent:
        is_own = is_own and restored.claimed
        if (restored.parent, restored.origin) in seen:
            break
        seen.add((restored.parent, restored.origin))
        try:
            parent = _opened(restored.parent, restored.origin, opened)
            if parent is None:
                break
            targets = read_targets(parent.ours) or _by_name(parent)
            epochs = _written(parent, restored.origin, restored.parent_epoch, targets)
            others = list(_born_of(parent, opened, seen, is_born=is_own))
            above = read_restored(parent.ours)
        except (OnceflowError, HistoryError) as error:
            log.warning("job %s, from which this one was begun, cannot be read: %s", restored.origin, error)
            break
        if not restored.claimed:  # its decisions came along
            about = Relative(restored.origin, parent.uri, is_known=True, is_born=False, targets=targets, epochs=epochs)
            found.append(about)
        found += others
        restored = above
    return found


def _born_of(place: Place, opened: Opened, seen: set[tuple[str, str]], *, is_born: bool) -> Iterator[Relative]:
    for child in _children(place.ours.below(FOLDER)):
        if (child.checkpoint, child.job_id) in seen:
            continue
        seen.add((child.checkpoint, child.job_id))
        other = _opened(child.checkpoint, child.job_id, opened)
        about = Relative(child.job_id, child.checkpoint, other is not None, is_born, child.targets)
        if other is None:
            yield about
            continue
        try:
            targets = _union(child.targets, read_targets(other.ours))
            told = [replace(about, targets=targets, epochs=_written(other, child.job_id, -1, targets))]
            told += _born_of(other, opened, seen, is_born=is_born)
        except (OnceflowError, HistoryError):
            told = [replace(about, is_known=False)]
        yield from told


def _by_name(place: Place) -> tuple[WriteTarget, ...]:
    """Where a job writes, as far as its plan's layout tells."""
    layout = place.journal.history()[0].layout
    names = {sink for source in layout.sources for sink in source.outputs} if layout is not None else set()
    return tuple(WriteTarget(name) for name in sorted(names))


def _union(*targets: Iterable[WriteTarget]) -> tuple[WriteTarget, ...]:
    return tuple(sorted({target for each in targets for target in each}))


def _targets(told: Iterable[Mapping[str, Any]]) -> tuple[WriteTarget, ...]:
    return tuple(WriteTarget(str(t["sink"]), str(t["system"]), str(t["destination"]), bool(t["decides"])) for t in told)


def _opened(uri: str, job_id: str, opened: Opened) -> Place | None:
    with contextlib.suppress(OnceflowError):
        place = opened(uri)
        return place if is_of(place, job_id) else None
    return None


def _written(place: Place, job_id: str, since: int, targets: Iterable[WriteTarget]) -> tuple[Epoch, ...]:
    """What a job has written behind an epoch, as its journal tells."""
    found: dict[int, Epoch] = {}
    for receipt in place.journal.receipts(waiting=True):
        if receipt.kind == "decide":
            found[receipt.epoch] = Epoch(receipt.epoch, "", _summed((p.id[0], p.rows) for p in receipt.participants))
    for decided in place.journal.decided_epochs(job_id):
        rows = _summed((p.sink, p.rows) for p in decided.effective)
        found[decided.epoch] = Epoch(decided.epoch, decided.offsets, rows)
    newest = place.checkpoint.newest_commit()
    if newest is not None and newest not in found and not all(target.decides for target in targets):
        with contextlib.suppress(FileNotFoundError, CheckpointCorruptError):
            found[newest] = Epoch(newest, place.checkpoint.offsets(newest), {})
    return tuple(found[number] for number in sorted(found) if number > since)


def _summed(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for sink, count in rows:
        found[sink] = found.get(sink, 0) + count
    return found


def _is_beyond(mine: str, theirs: str) -> bool:
    """Whether somebody has read what another one has not; also where that cannot be told."""
    here, there = positions(mine) if mine else [], positions(theirs)
    if len(here) != len(there):
        return True
    return any(reads_beyond(a, b) for a, b in zip(here, there, strict=True))


def _children(store: Store, only: Sequence[str] | None = None) -> list[Child]:
    found = []
    names = sorted(name for name in store.names() if name.endswith(".json") and (only is None or name in only))
    for name, data in zip(names, store.contents(names), strict=True):
        if data is None:
            continue
        with envelope.named(store.path(name), _spoiled):
            body = envelope.unseal(data, FORMAT)
            targets = _targets(body["targets"])
            found.append(Child(str(body["job_id"]), str(body["checkpoint"]), int(body["epoch"]), targets))
    return found


# -- what was told ----------------------------------------------------------------------------------------------------


def accepted(store: Store) -> dict[str, int]:
    """Up to which epoch of each other job its owner was told, and has gone on.

    Args:
        store: Our folder in the job's checkpoint.
    """
    try:
        data = store.read(TOLD)
    except FileNotFoundError:
        return {}
    with envelope.named(store.path(TOLD), _spoiled):
        return {str(job): int(epoch) for job, epoch in envelope.unseal(data, FORMAT)["jobs"].items()}


def accept(store: Store, others: Iterable[Relative]) -> None:
    """Keep that the job's owner goes on, and knows of these."""
    known = accepted(store)
    jobs = known | {other.job_id: max(other.newest, known.get(other.job_id, -1)) for other in others}
    if jobs != known:
        store.replace(TOLD, envelope.seal({"format": FORMAT, "jobs": jobs}))


def _spoiled(path: Where, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{path} cannot be used: {why}",
        harmless="never: it says which other job has read and written what this one may",
        cause="the file was edited or cut, or the disk lost it",
        action="put the file back from a copy of the checkpoint; or remove it, if that other job is known to have "
        "written nothing that this one would write again",
        file=str(path),
    )
