"""Savepoints on disk: taken of a checkpoint, read, verified, exported and disposed of.

Must not know: what a checkpoint's files mean, a running job, how a command line looks.

A savepoint is a folder: ``manifest.json``, and ``files/`` with what it names. It is made in a temporary folder beside
its place and renamed, and the manifest is written last of all files: what has none is no savepoint. Files of a
checkpoint are never written in place, by Spark or by us, so they are linked where the file system is the same: a
savepoint then costs no room until the checkpoint forgets them. Else they are copied.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from onceflow.checkpoint import envelope
from onceflow.checkpoint.contract import Where
from onceflow.checkpoint.journal_codec import FORMAT as JOURNAL_FORMAT
from onceflow.checkpoint.place import OURS, Place
from onceflow.checkpoint.store import LocalStore
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError, CheckpointStoreError, ConfigurationError
from onceflow.operations.savepoints.contents import Contents, contents
from onceflow.operations.savepoints.manifest import NAME, Held, Manifest, differences, shuffle_partitions
from onceflow.operations.savepoints.state_files import ids_of

FILES = "files"
_STAGED = "savepoint-"
_UNFINISHED = ".unfinished-"


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
    to: Path,
    job: str = "",
    *,
    held: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    epoch: int | None = None,
    job_epoch: int | None = None,
) -> Taken:
    """Make a savepoint of a checkpoint.

    Args:
        place: The checkpoint.
        to: The savepoint's folder; it must not be there.
        job: The job's name.
        held: Holds the running job at an epoch's boundary inside. What is done there: its files are linked.
        epoch: An older epoch that is retained; None for the newest.
        job_epoch: The newest epoch of the job in it, where that is another one.

    Raises:
        ConfigurationError: Something is in its place, or there is nothing to save.
        CheckpointError: The checkpoint cannot be saved as it is, or a file system failed.
    """
    began = time.monotonic()
    to = require_free(to)
    stage = place.checkpoint.folder / OURS / f"{_STAGED}{secrets.token_hex(6)}"
    try:
        with held():
            held_at = time.monotonic()
            of = contents(place, epoch)
            with explained(stage):
                for path in of.files:
                    _second_name(place.checkpoint.folder / path, stage / path)
            held_s = time.monotonic() - held_at
        taken = _finish(stage, to, of, job, of.epoch if job_epoch is None else job_epoch)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
        _clear(place)
    return Taken(taken, held_s, time.monotonic() - began)


def require_free(to: Path) -> Path:
    """A savepoint's place to be, absolute, in which nothing is yet.

    Raises:
        ConfigurationError: Something is there.
    """
    to = to.absolute()
    if to.exists() or to.is_symlink():
        raise ConfigurationError(
            f"{to} is there already",
            harmless="always: nothing was changed",
            cause="a savepoint gets a folder of its own",
            action="name a folder that is not there",
        )
    return to


def _finish(stage: Path, to: Path, of: Contents, job: str, job_epoch: int) -> Manifest:
    """From files that nobody changes any more, a savepoint."""
    with beside(to) as unfinished:
        root = LocalStore(unfinished)
        root.make()
        with explained(to):
            for path in of.files:
                link_or_copy(stage / path, unfinished / FILES / path)
            files = {path: held_of(unfinished / FILES / path, sync=True) for path in of.files}
            sync_folders(unfinished / FILES)
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
        root.replace(NAME, manifest.dumps())
        publish(unfinished, to)
    return manifest


def read(path: Path) -> Manifest:
    """A savepoint's manifest.

    Raises:
        ConfigurationError: There is no savepoint.
        CheckpointCorruptError: Its manifest is torn or was changed.
        CheckpointConflictError: A newer version made it.
    """
    try:
        data = LocalStore(path).read(NAME)
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path} is no savepoint: it has no {NAME}",
            harmless="always: nothing was changed",
            cause="it is another folder, or a savepoint that was not finished",
            action="name a savepoint's folder: `onceflow savepoint list` shows those in a folder",
        ) from None
    with envelope.named(path / NAME, _spoiled):
        return Manifest.loads(data)


def found(folder: Path) -> list[tuple[Path, Manifest]]:
    """The savepoints in a folder, or the one that it is, the oldest first."""
    candidates = [folder] if (folder / NAME).is_file() else sorted(folder.glob(f"*/{NAME}"))
    paths = [path if path == folder else path.parent for path in candidates]
    there = [(path, read(path)) for path in paths if not path.name.startswith(_UNFINISHED)]
    return sorted(there, key=lambda each: each[1].created_at)


def verify(path: Path) -> Manifest:
    """Compare all of a savepoint's files with its manifest.

    Raises:
        CheckpointCorruptError: Naming what is missing, changed or added.
        ConfigurationError: There is no savepoint.
    """
    manifest = read(path)
    with explained(path):
        wrong = differences(manifest, {name: held_of(path / FILES / name) for name in _names(path / FILES)})
        wrong += [f"{each.name} was added" for each in path.iterdir() if each.name not in (NAME, FILES)]
    if wrong:
        more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise CheckpointCorruptError(
            f"the savepoint {path} is not what it was: {'; '.join(wrong[:5])}{more}",
            harmless="never: a job that went on from it could lose or double rows",
            cause="files were edited, copied in part or lost; or the disk failed",
            action="take another copy of it, or another savepoint",
            file=str(path),
            wrong=wrong,
        )
    return manifest


def export(path: Path, to: Path) -> Manifest:
    """Copy a savepoint, all of it, so that nothing of it is shared with a checkpoint; verified on the way.

    Raises:
        ConfigurationError: There is no savepoint, or something is where it is to go.
        CheckpointCorruptError: It is not what it was.
    """
    manifest = verify(path)
    to = require_free(to)
    with beside(to) as unfinished:
        root = LocalStore(unfinished)
        root.make()
        with explained(to):
            for name in manifest.files:
                (unfinished / FILES / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path / FILES / name, unfinished / FILES / name)
            copied = {name: held_of(unfinished / FILES / name, sync=True) for name in manifest.files}
            sync_folders(unfinished / FILES)
        wrong = differences(manifest, copied)
        if wrong:
            raise _spoiled(path, "; ".join(wrong))
        root.replace(NAME, manifest.dumps())
        publish(unfinished, to)
    return manifest


def dispose(path: Path) -> list[str]:
    """Delete a savepoint; what else is in its folder stays, and is returned.

    Its manifest goes first: whoever dies on the way leaves no savepoint that lacks a file.

    Raises:
        ConfigurationError: There is no savepoint.
    """
    manifest = read(path)
    root = LocalStore(path)
    root.remove(NAME)
    root.sync()
    with explained(path):
        for name in manifest.files:
            (path / FILES / name).unlink(missing_ok=True)
        for folder, _, _ in os.walk(path, topdown=False):
            with contextlib.suppress(OSError):  # something else is in it
                Path(folder).rmdir()
    return sorted(_names(path)) if path.exists() else []


def link_or_copy(source: Path, to: Path) -> None:
    """A second name for a file, or a copy of it where its file system is another one, or knows no links."""
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, to)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, to)


def held_of(path: Path, *, sync: bool = False) -> Held:
    """A file's size and SHA-256; with ``sync``, once it is durable."""
    with path.open("rb") as file:
        if sync:
            os.fsync(file.fileno())
        return Held(os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest())


def sync_folders(root: Path) -> None:
    """Make the entries of a folder, and of all below it, durable."""
    for folder, _, _ in os.walk(root):
        LocalStore(Path(folder)).sync()


@contextlib.contextmanager
def beside(to: Path) -> Iterator[Path]:
    """A folder's name beside a place, for what ``publish`` puts there: of whoever fails on the way nothing is left."""
    unfinished = to.with_name(f"{_UNFINISHED}{to.name}-{secrets.token_hex(4)}")
    try:
        yield unfinished
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def publish(unfinished: Path, to: Path) -> None:
    """Give a folder that is whole and durable its name.

    Raises:
        ConfigurationError: Somebody else has made something there meanwhile.
    """
    LocalStore(unfinished).sync()
    try:
        unfinished.rename(to)  # over an empty folder only
    except OSError as error:
        require_free(to)
        raise CheckpointStoreError(
            f"could not rename {unfinished} to {to}: {error.strerror or error}",
            harmless="always for the data: nothing is at its place",
            cause="the disk is full, read-only or gone, or this user may not write there",
            action="mend the file system and ask again",
            file=str(to),
        ) from error
    LocalStore(to.parent).sync()


def _second_name(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, to)
    except FileNotFoundError:
        raise CheckpointConflictError(
            f"{source} was removed while the savepoint was taken",
            harmless="always: no savepoint was made, and the job goes on",
            cause="a job runs on this checkpoint that was not held, and has purged an old epoch",
            action="ask again; for an older epoch, name a newer one",
            file=str(source),
        ) from None


def _names(root: Path) -> Iterator[str]:
    for folder, _, files in os.walk(root):
        yield from (str(Path(folder, name).relative_to(root)) for name in files)


def _clear(place: Place) -> None:
    """Remove what a savepoint that was killed has left in the checkpoint, an hour later."""
    for left in _left(place.ours.names()):
        folder = place.checkpoint.folder / OURS / left
        with contextlib.suppress(OSError):
            if time.time() - folder.stat().st_mtime > 3_600:
                shutil.rmtree(folder, ignore_errors=True)


def _left(names: Iterable[str]) -> Iterator[str]:
    return (name for name in names if name.startswith(_STAGED))


def _spoiled(path: Where, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{path} cannot be used: {why}",
        harmless="never: what the savepoint held cannot be told without it",
        cause="the file was edited or cut, or the disk lost it",
        action="take another copy of the savepoint, or another savepoint",
        file=str(path),
    )


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """What a file system refuses inside is told as our error; of a file that is not named, this one."""
    try:
        yield
    except OSError as error:
        raise CheckpointStoreError(
            f"could not read or write {error.filename or path}: {error.strerror or error}",
            harmless="always for the data: nothing was made, and nothing of a job was changed",
            cause="the disk is full, read-only or gone, or this user may not read or write there",
            action="mend the file system and ask again",
            file=str(path),
        ) from error
