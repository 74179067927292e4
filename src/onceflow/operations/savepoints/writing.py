"""Savepoints: taken of a checkpoint, exported and disposed of.

Must not know: what a checkpoint's files mean, a running job, how a command line looks.

The folder of a savepoint (``reading`` has what is in it) is put together beside its place and renamed; in S3, where
nothing can be renamed, in its place, by one at a time. Files of a checkpoint are never written in place, by Spark or by
us (but for the receipts of a start that runs), so on a POSIX file system they are linked where it is the same: a
savepoint then costs no room until the checkpoint forgets them. Else they are copied.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from onceflow.checkpoint.identity import FILE as IDENTITY_FILE
from onceflow.checkpoint.journal_codec import FORMAT as JOURNAL_FORMAT
from onceflow.checkpoint.place import OURS, Place
from onceflow.errors import CheckpointConflictError, CheckpointStoreError, ConfigurationError
from onceflow.operations.savepoints.contents import TRAIL_FOLDER, Contents, contents
from onceflow.operations.savepoints.manifest import NAME, Manifest, differences, shuffle_partitions
from onceflow.operations.savepoints.reading import FILES, PARTS, held_of, read, spoiled, translating, verify
from onceflow.operations.savepoints.signing import signed
from onceflow.operations.savepoints.state_files import ids_of
from onceflow.spark.locations import folder_at
from onceflow.storage.files import Where
from onceflow.storage.making import making_of
from onceflow.storage.tree import UNFINISHED, Draft, Folder, folder_of

_STAGED = "savepoint-"
_LEFT_AFTER_S = 3_600


@dataclass(frozen=True, slots=True)
class Taken:
    """A savepoint that was made.

    Attributes:
        manifest: Its manifest.
        held_s: How long the job waited for it.
        took_s: How long it took in all.
    """

    manifest: Manifest
    held_s: float
    took_s: float


def create(
    place: Place,
    to: Where,
    job: str = "",
    *,
    held: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    epoch: int | None = None,
    job_epoch: int | None = None,
    key: bytes | None = None,
) -> Taken:
    """Make a savepoint of a checkpoint.

    Args:
        place: The checkpoint.
        to: The savepoint's folder, on whichever kind of file system; it must not be there.
        job: The job's name.
        held: Holds the running job at an epoch's boundary inside. What is done there: its files are linked. On HDFS
            and in S3 they are listed, and all but the state's are copied.
        epoch: An older epoch that is retained; None for the newest.
        job_epoch: The newest epoch of the job in it, where that is another one.
        key: Signs it; None for none.

    Raises:
        ConfigurationError: Something is in its place, or there is nothing to save.
        CheckpointError: The checkpoint cannot be saved as it is, or a file system failed.
    """
    began = time.monotonic()
    target, source = require_free(to), folder_of(place.checkpoint.store)
    with being_made(target) as draft, _staged(source) as stage:
        files = draft.folder.below(FILES)
        with held():
            held_at = time.monotonic()
            with translating(source.where):
                of = contents(place, epoch)
            with translating(target.where), _still_there():
                if stage is not None:
                    stage.link(source, [path for path in of.files if not _grows(path)])
                    stage.copy(source, [path for path in of.files if _grows(path)])
                else:  # what is not the state's is small, and the journal forgets some of it with any epoch
                    files.take(source, [path for path in of.files if not _is_state(path)])
            held_s = time.monotonic() - held_at
        with translating(target.where), _still_there():
            if stage is not None:
                files.take(stage, of.files)
            else:
                files.take(source, [path for path in of.files if _is_state(path)])
        manifest = _finish(draft, target, of, job, of.epoch if job_epoch is None else job_epoch, key)
    _clear(place)
    return Taken(manifest, held_s, time.monotonic() - began)


def require_free(to: Where) -> Folder:
    """A savepoint's place to be, in which nothing is yet.

    Raises:
        ConfigurationError: Something is there.
    """
    folder = folder_at(to)
    with translating(folder.where):
        taken = folder.is_taken()
    if taken:
        raise _taken(folder)
    return folder


def _taken(folder: Folder) -> ConfigurationError:
    with translating(folder.where):
        who = folder.unfinished(NAME)
    return ConfigurationError(
        f"{folder.where} is there already",
        harmless="always: nothing was changed",
        cause=f"a savepoint is being made there, or was not finished, by {who}"
        if who
        else "a savepoint gets a folder of its own",
        action="name another folder; or, where that process is dead, remove what it has left: onceflow savepoint "
        f"dispose {folder.where}"
        if who
        else "name a folder that is not there",
    )


@contextlib.contextmanager
def _staged(checkpoint: Folder) -> Iterator[Folder | None]:
    """A folder in the checkpoint, on the same disk, for second names of its files; None where there are none."""
    stage = checkpoint.below(f"{OURS}/{_STAGED}{secrets.token_hex(6)}")
    if not stage.is_local:
        yield None
        return
    try:
        yield stage
    finally:
        _remove_all(stage)


def _grows(path: str) -> bool:
    return path.startswith(f"{TRAIL_FOLDER}/") and not path.endswith(".gz")


def _is_state(path: str) -> bool:
    return path.startswith("state/")


def _finish(draft: Draft, to: Folder, of: Contents, job: str, job_epoch: int, key: bytes | None) -> Manifest:
    """Of files that nobody changes any more, a savepoint."""
    with translating(to.where):
        draft.folder.sync()
        files = held_of(draft.folder.below(FILES), of.files)
    manifest = Manifest(
        id=secrets.token_hex(8),
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        job=job,
        job_id=of.identity.job_id,
        checkpoint=of.identity.checkpoint,
        prefix=of.identity.prefix,
        systems=of.identity.cluster_id,
        epoch=of.epoch,
        job_epoch=job_epoch,
        offsets=of.offsets,
        sinks=of.sinks,
        versions={"onceflow": version("onceflow"), "pyspark": version("pyspark")},
        formats={
            "journal": str(JOURNAL_FORMAT),
            "offsets": of.offsets.partition("\n")[0],
            "commits": of.commit.partition("\n")[0],
        },
        partitions=shuffle_partitions(of.offsets) if ids_of(of.commit) else None,
        files=files,
    )
    manifest = signed(manifest, key)
    publish(draft, to, manifest.dumps())
    return manifest


def export(path: Where, to: Where, key: bytes | None = None) -> Manifest:
    """Copy a savepoint, all of it, so that nothing of it is shared with a checkpoint; verified on the way.

    It may go to another kind of file system. Its signature goes with it, and with a ``key`` is asked for.

    Raises:
        ConfigurationError: There is no savepoint, or something is where it is to go.
        CheckpointCorruptError: It is not what it was.
    """
    source, target = folder_at(path), require_free(to)
    manifest = verify(path, key)
    names = list(manifest.files)
    with being_made(target) as draft:
        files = draft.folder.below(FILES)
        with translating(target.where):
            files.copy(source.below(FILES), names)
            draft.folder.sync()
            copied = held_of(files, names)
        wrong = differences(manifest, copied)
        if wrong:
            raise spoiled(path, "; ".join(wrong))
        publish(draft, target, manifest.dumps())
    return manifest


def dispose(path: Where) -> list[str]:
    """Delete a savepoint, or what one who is dead has left of one, or of a checkpoint that was made of one.

    What else is in its folder stays, and is returned. Its manifest goes first: whoever dies on the way leaves no
    savepoint that lacks a file.

    Raises:
        ConfigurationError: There is no savepoint.
    """
    root = folder_at(path)
    for last, parts in PARTS.items():
        with translating(path):
            if root.unfinished(last) and not root.has(f"{OURS}/{IDENTITY_FILE}"):  # in a checkpoint no job has begun
                root.discard(last, parts)
                return sorted(root.files())
    manifest = read(path)
    root.store.remove(NAME)
    root.store.sync()
    names = [f"{FILES}/{name}" for name in manifest.files]
    above = {name[:at] for name in names for at, letter in enumerate(name) if letter == "/"}
    with translating(path):
        root.remove(names)
        root.remove([making_of(NAME)])
        root.remove_empty([*sorted(above, key=lambda folder: -folder.count("/")), ""])
        return sorted(root.files())


@contextlib.contextmanager
def being_made(to: Folder) -> Iterator[Draft]:
    """Make a savepoint in its place; of whoever fails on the way nothing is left.

    Raises:
        ConfigurationError: Something is there, or somebody else makes one there.
    """
    try:
        with to.making(NAME, PARTS[NAME]) as draft:
            yield draft
    except FileExistsError:
        raise _taken(to) from None


@contextlib.contextmanager
def beside(to: Folder) -> Iterator[Folder]:
    """A folder beside a place, to work in: it is gone afterwards."""
    work = to.beside(UNFINISHED, f"-{secrets.token_hex(4)}")
    try:
        yield work
    finally:
        _remove_all(work)


def _remove_all(folder: Folder) -> None:
    """Best effort: hiding the first error behind this one would be worse than what is left."""
    with contextlib.suppress(OSError):
        folder.remove_all()


def publish(draft: Draft, to: Folder, last: bytes) -> None:
    """Finish what is being made, with its last file.

    Raises:
        FileExistsError: Somebody else has made something there meanwhile.
        CheckpointStoreError: The file system failed.
    """
    try:
        draft.finish(last)
    except FileExistsError:
        raise
    except OSError as error:
        raise CheckpointStoreError(
            f"could not put {draft.folder.where} in its place, {to.where}: {error.strerror or error}",
            harmless="always for the data: nothing is at its place",
            cause="the disk is full, read-only or gone, or this user may not write there",
            action="mend the file system and ask again",
            file=str(to.where),
        ) from error


@contextlib.contextmanager
def _still_there() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointConflictError(
            f"{error.filename or error} was removed while the savepoint was taken",
            harmless="always: no savepoint was made, and the job goes on",
            cause="a job runs on this checkpoint that was not held, or, on HDFS or in S3, has gone on while the state "
            "was copied, and has purged an old epoch",
            action="ask again; for an older epoch, name a newer one; for much state on HDFS or in S3 keep more epochs "
            "(Checkpointing(retain=...)), or stop the job for it",
            file=str(error.filename or ""),
        ) from None


def _clear(place: Place) -> None:
    """Remove what a savepoint that was killed has left in the checkpoint, an hour later."""
    for left in place.ours.names():
        folder = folder_of(place.ours.below(left))
        if left.startswith(_STAGED) and isinstance(folder.where, Path):
            with contextlib.suppress(OSError):
                if time.time() - folder.where.stat().st_mtime > _LEFT_AFTER_S:
                    folder.remove_all()
