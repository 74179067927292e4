"""What a resume takes, and which output it will write again.

Must not know: Spark sessions, any particular sink, how it is asked.
"""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from onceflow.checkpoint.family import Relative, relatives
from onceflow.checkpoint.identity import read_identity
from onceflow.checkpoint.spark_files import positions, records_between
from onceflow.errors import ConfigurationError, OnceflowError
from onceflow.operations.savepoints.manifest import Manifest
from onceflow.operations.savepoints.reading import is_savepoint, read, verify
from onceflow.operations.savepoints.restoring import layout_of
from onceflow.operations.savepoints.writing import create, dispose
from onceflow.spark.locations import folder_at, place_at
from onceflow.storage.files import Where
from onceflow.twophase.layout import Layout

_EPOCH = re.compile(r"(.+)@(\d+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WrittenAgain:
    """What the old job has written behind the savepoint, as far as its checkpoint tells.

    Attributes:
        known: Its checkpoint is there, and was read.
        epochs: The first and the newest epoch that it decided behind the savepoint, None for none.
        rows: By sink.
        reads: Of each position, what is read again: in words.
        ran: The newest epoch that it has done, decided or not.
        others: Other jobs of its family: what they have written behind the savepoint.
        whole: Its checkpoint has not forgotten the oldest of these epochs.
    """

    known: bool
    epochs: tuple[int, int] | None = None
    rows: tuple[tuple[str, int], ...] = ()
    reads: tuple[str, ...] = ()
    ran: int = -1
    others: tuple[Relative, ...] = ()
    whole: bool = True


def id_of(given: str) -> str:
    """The id of what ``opened`` would open.

    Raises:
        ConfigurationError: It is neither a savepoint nor a retained epoch.
        CheckpointError: It cannot be used.
    """
    at = _EPOCH.fullmatch(given)
    if at is not None and not is_savepoint(given):
        identity = read_identity(place_at(at[1], retain=1).ours)
        return f"{identity.job_id if identity is not None else 'none'}@{at[2]}"
    if not is_savepoint(given) and place_at(given, retain=1).checkpoint.has_run():
        raise ConfigurationError(
            f"{given} is a checkpoint",
            harmless="always: nothing was started",
            cause="-s takes a savepoint, or an epoch that a checkpoint retains",
            action=f"name the epoch: -s {given}@EPOCH; `onceflow checkpoints {given}` shows which are there",
        )
    return read(given).id


@contextlib.contextmanager
def opened(given: str, beside: Where, key: bytes | None = None) -> Iterator[tuple[Where, Manifest]]:
    """The savepoint that a resume is to begin from, verified: one that is there, or one of a retained epoch.

    Args:
        given: A savepoint's folder; or a checkpoint's, with ``@`` and an epoch that it retains.
        beside: Where the new checkpoint is to be: a savepoint of a retained epoch is beside it meanwhile.
        key: With which a savepoint must be signed; None does not ask.

    Raises:
        ConfigurationError: That epoch is not retained.
        CheckpointError: It cannot be used.
    """
    at = _EPOCH.fullmatch(given)
    if at is None or is_savepoint(given):
        yield given, verify(given, key)
        return
    place, epoch = place_at(at[1], retain=1), int(at[2])
    temporary = folder_at(beside).beside(".epoch-", f"-{secrets.token_hex(4)}").where
    manifest = create(place, temporary, epoch=epoch).manifest
    try:
        yield temporary, replace(manifest, id=f"{manifest.job_id}@{epoch}")
    finally:
        dispose(temporary)


def written_again(path: Where, manifest: Manifest) -> WrittenAgain:
    """What the old job has written behind the savepoint: a new job reads it again, and writes it again.

    Args:
        path: The savepoint.
        manifest: Its manifest.
    """
    try:
        old = place_at(manifest.checkpoint, retain=1)
        identity = read_identity(old.ours)
        if identity is None or identity.job_id != manifest.job_id:
            return WrittenAgain(known=False)
        decided = {each.epoch: each for each in old.journal.decided_epochs(manifest.job_id)}
        receipts = [receipt for receipt in old.journal.receipts(waiting=True) if receipt.kind == "decide"]
        newest = old.checkpoint.newest_commit()
        oldest = min([*decided, *(receipt.epoch for receipt in receipts)], default=0)
        whole = oldest <= manifest.job_epoch or old.journal.receipts_are_whole()
        others = relatives(old, partial(place_at, retain=1))
    except OnceflowError:  # it is gone, or in a store that cannot be reached from here: the savepoint has travelled
        return WrittenAgain(known=False)
    rows: dict[str, int] = {}
    for epoch, each in decided.items():
        for participant in each.effective if epoch > manifest.job_epoch else ():
            rows[participant.sink] = rows.get(participant.sink, 0) + participant.rows
    purged = [r for r in receipts if r.epoch > manifest.job_epoch and r.epoch not in decided]
    for receipted in (held for receipt in purged for held in receipt.participants):
        rows[receipted.id[0]] = rows.get(receipted.id[0], 0) + receipted.rows
    beyond = [other.beyond(manifest.offsets) for other in others]
    kin = tuple(other for other in beyond if other.epochs or not other.is_known)
    epochs = sorted({r.epoch for r in purged} | {epoch for epoch in decided if epoch > manifest.job_epoch})
    ran = -1 if newest is None else newest
    if not epochs:
        return WrittenAgain(known=True, ran=ran, others=kin)
    reads = _read_again(layout_of(path), manifest.offsets, decided[epochs[-1]].offsets)
    return WrittenAgain(True, (epochs[0], epochs[-1]), tuple(sorted(rows.items())), reads, ran, kin, whole)


def _read_again(layout: Layout, then: str, now: str) -> tuple[str, ...]:
    """What is read again of each position, once for those that share one."""
    told: dict[int, str] = {}
    for i, (start, end) in enumerate(zip(positions(then), positions(now), strict=False)):
        source = layout.sources[i] if i < len(layout.sources) else None
        first = i if source is None or source.same_as < 0 else source.same_as
        reads = source.reads if source is not None else f"source {i}"
        told.setdefault(first, f"{reads}: from {start} to {end}, at most {records_between(start, end)} records")
    return tuple(told.values())


def lines(manifest: Manifest, again: WrittenAgain, *, claim: bool, left: str | None = None) -> Sequence[str]:
    """What is said before a resume begins.

    Args:
        manifest: The savepoint's.
        again: What is written again.
        claim: The old job goes on.
        left: What of the state is not restored, in words; None where all of it is.
    """
    who = f"{manifest.job} ({manifest.job_id})" if manifest.job else manifest.job_id
    told = [f"savepoint {manifest.id} of job {who}: epoch {manifest.job_epoch}, {manifest.created_at}"]
    if left is not None:
        told.append("its positions alone are restored: whatever state the plan keeps begins empty")
        told += [left] if left else []
    if claim:
        ended = f"whoever runs on {manifest.checkpoint} is ended"
        if not again.known:
            ended = f"{manifest.checkpoint} is not to be seen from here, so whoever runs on it is not ended"
        told.append(f"job {manifest.job_id} goes on here; {ended}; its old checkpoint must never be started again")
        return told + [line for other in again.others for line in _of_another(other)]
    told.append(f"the new run is a new job; job {manifest.job_id} is left as it is")
    if not again.known:
        told.append(
            f"what that job has written behind epoch {manifest.job_epoch} is not known here (its checkpoint "
            f"{manifest.checkpoint} is not to be seen): the new job writes it again, to {_sinks(manifest)}, read from "
            + " ".join(positions(manifest.offsets))
        )
    elif again.epochs is None:
        told.append("that job has decided nothing behind it so far: no decided row is written again")
    else:
        first, last = again.epochs
        told.append(f"WRITTEN AGAIN: what that job has written in epochs {first} to {last}")
        told += [f"  sink {sink}: {rows} rows" for sink, rows in again.rows]
        if not again.whole:
            told.append(f"  and what it has written before epoch {first}, which its checkpoint has forgotten by now")
        told += [f"  read again: {each}" for each in again.reads]
        told.append("rows of that job that are visible stay; those who read both jobs' output see them twice")
    for other in again.others:
        told += _of_another(other)
    if again.ran > (manifest.job_epoch if again.epochs is None else again.epochs[1]):
        told.append(
            f"that job has done epochs up to {again.ran}: a sink that takes no part in decisions gets their rows again"
        )
    return told


def _of_another(other: Relative) -> list[str]:
    who = f"job {other.job_id} (checkpoint {other.checkpoint}), which is of the same family"
    if not other.is_known:
        return [f"{who}: what it has written is not known here; it may be written again"]
    first = other.epochs[0].number
    told = [f"WRITTEN AGAIN, too: what {who}, has written in epochs {first} to {other.newest}"]
    return [*told, *(f"  sink {sink}: {rows} rows" for sink, rows in sorted(other.rows().items()))]


def _sinks(manifest: Manifest) -> str:
    return "sink " + ", ".join(manifest.sinks) if manifest.sinks else "its sinks"
