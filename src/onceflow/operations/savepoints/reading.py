"""Savepoints that are there: found, read, and compared with their manifests.

Must not know: how one is made, what a checkpoint's files mean, how a command line looks. It changes nothing.

A savepoint is a folder: ``manifest.json``, and ``files/`` with what it names. The manifest is written last of all
files: what has none is no savepoint.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence

from onceflow.checkpoint.place import OURS
from onceflow.checkpoint.place import PARTS as CHECKPOINT_PARTS
from onceflow.checkpoint.restored import FILE as RESTORED_FILE
from onceflow.errors import CheckpointCorruptError, CheckpointStoreError, ConfigurationError
from onceflow.operations.savepoints.manifest import NAME, HeldFile, Manifest, differences
from onceflow.operations.savepoints.signing import require_signed
from onceflow.spark.locations import folder_at
from onceflow.storage import envelope
from onceflow.storage.files import Where
from onceflow.storage.making import making_of
from onceflow.storage.tree import UNFINISHED, Folder

FILES = "files"
PARTS = {NAME: (FILES,), f"{OURS}/{RESTORED_FILE}": CHECKPOINT_PARTS}
"""What is made as a whole here, by the file that comes last, and the names of all else in it."""


def read(path: Where) -> Manifest:
    """A savepoint's manifest.

    Raises:
        ConfigurationError: There is no savepoint.
        CheckpointCorruptError: Its manifest is torn or was changed.
        CheckpointConflictError: A newer version made it.
    """
    folder = folder_at(path)
    root = folder.store
    with translating(path):
        who = folder.unfinished(NAME)
    if who:
        raise _not_finished(path, who)
    try:
        data = root.read(NAME)
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path} is no savepoint: it has no {NAME}",
            harmless="always: nothing was changed",
            cause="it is another folder, or a savepoint that was not finished",
            action="name a savepoint's folder: `onceflow savepoint list` shows those in a folder",
        ) from None
    with envelope.named(root.path(NAME), spoiled):
        return Manifest.loads(data)


def _not_finished(path: Where, who: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path} is no savepoint yet: it is being made, or was not finished, by {who}",
        harmless="always: nothing was changed",
        cause="that process is at work, or has died in it",
        action="wait for it; or, where that process is dead, remove what it has left: onceflow savepoint dispose "
        f"{path}",
    )


def is_savepoint(path: Where) -> bool:
    """Whether there is a savepoint, finished once."""
    with translating(path):
        return _is_savepoint(folder_at(path))


def _is_savepoint(folder: Folder) -> bool:
    return folder.has(NAME) and not folder.unfinished(NAME)


def found(folder: Where) -> list[tuple[Where, Manifest]]:
    """The savepoints in a folder, or the one that it is, the oldest first."""
    if is_savepoint(folder):
        return [(folder, read(folder))]
    with translating(folder):
        top = folder_at(folder)
        inside = [top.below(name) for name in sorted(top.names()) if not name.startswith(UNFINISHED)]
        there = [each.where for each in inside if _is_savepoint(each)]
    return sorted(((path, read(path)) for path in there), key=lambda each: each[1].created_at)


def unfinished(folder: Where) -> list[tuple[Where, str]]:
    """What is being made in a folder, or was not finished there, and by whom: savepoints, and checkpoints of such.

    On POSIX file systems and on HDFS nobody is told: what is put together there has no name of its own yet.
    """
    with translating(folder):
        top = folder_at(folder)
        inside = [top, *(top.below(name) for name in sorted(top.names()))]
        return [(each.where, who) for each in inside for last in PARTS if (who := each.unfinished(last))]


def verify(path: Where, key: bytes | None = None) -> Manifest:
    """Compare all of a savepoint's files with its manifest, and that with its signature.

    Args:
        path: The savepoint.
        key: With which it must be signed; None does not ask.

    Raises:
        CheckpointCorruptError: Naming what is missing, changed or added.
        ConfigurationError: There is no savepoint; or it is not signed with the key.
    """
    manifest, root = read(path), folder_at(path)
    require_signed(path, manifest, key)
    with translating(path):
        # From above: what a folder of files that is a link leads to is not the savepoint's.
        there = [name.removeprefix(f"{FILES}/") for name in root.files() if name.startswith(f"{FILES}/")]
        held = held_of(root.below(FILES), [name for name in there if name in manifest.files])
        wrong = differences(manifest, {name: held.get(name, HeldFile(0, "")) for name in there})
        wrong += [f"{name} was added" for name in sorted(root.names()) if name not in (NAME, FILES, making_of(NAME))]
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


def held_of(folder: Folder, paths: Sequence[str]) -> dict[str, HeldFile]:
    """The files' sizes and SHA-256, for a manifest."""
    return {path: HeldFile(*held) for path, held in folder.held(paths).items()}


def spoiled(path: Where, why: str) -> CheckpointCorruptError:
    """The error of a savepoint whose manifest, or whose files, are not what they were."""
    return CheckpointCorruptError(
        f"{path} cannot be used: {why}",
        harmless="never: what the savepoint held cannot be told without it",
        cause="the file was edited or cut, or the disk lost it",
        action="take another copy of the savepoint, or another savepoint",
        file=str(path),
    )


_OF_THE_TARGET = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


@contextlib.contextmanager
def translating(path: Where) -> Iterator[None]:
    """What a file system refuses inside is told as our error; of a file that is not named, this one."""
    try:
        yield
    except OSError as error:
        named = error.filename or path
        if error.errno in _OF_THE_TARGET:  # of a copy the system names the file that was read
            named = error.filename2 or path
        raise CheckpointStoreError(
            f"could not read or write {named}: {error.strerror or error}",
            harmless="always for the data: nothing was made, and nothing of a job was changed",
            cause="the disk is full, read-only or gone, or this user may not read or write there",
            action="mend the file system and ask again",
            file=str(path),
        ) from error
