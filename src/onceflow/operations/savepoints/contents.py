"""What a savepoint of a checkpoint consists of: the paths of its files, and what its manifest says of the job.

Must not know: how files are linked or copied, a running job, how a command line looks. It only reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from onceflow.checkpoint.identity import FILE as IDENTITY_FILE
from onceflow.checkpoint.identity import JobIdentity, read_identity
from onceflow.checkpoint.place import OURS, TRAIL, Place
from onceflow.checkpoint.schemas import FOLDER as SCHEMAS
from onceflow.checkpoint.spark_files import positions
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError, ConfigurationError
from onceflow.operations.savepoints.state_files import Listed, UnreadableStateError, files_of
from onceflow.storage.files import numbers
from onceflow.storage.tree import folder_of
from onceflow.twophase.forms import OTHER_FORM
from onceflow.twophase.layout import Layout, folders
from onceflow.twophase.records import Decide, LayoutRecord

TRAIL_FOLDER = f"{OURS}/{TRAIL}"
"""The audit's receipts. Their newest file grows: it is copied, and not linked."""


@dataclass(frozen=True, slots=True)
class Contents:
    """A checkpoint's, as of one epoch.

    Attributes:
        epoch: The newest epoch in it.
        identity: Whose it is.
        offsets: What ``offsets/<epoch>`` holds.
        commit: What ``commits/<epoch>`` holds.
        layout: What stands at Spark's positions.
        sinks: The sinks that take part.
        is_newest: Nothing was decided behind it.
        files: Paths in the checkpoint.
    """

    epoch: int
    identity: JobIdentity
    offsets: str
    commit: str
    layout: Layout
    sinks: tuple[str, ...]
    is_newest: bool
    files: tuple[str, ...]


def contents(place: Place, epoch: int | None = None) -> Contents:
    """What a savepoint of the newest epoch that is done consists of, or of an older one that is retained.

    Args:
        place: The checkpoint.
        epoch: An older epoch, None for the newest.

    Raises:
        ConfigurationError: There is nothing to save, or that epoch is not retained.
        CheckpointConflictError: An epoch is decided and not finished: started once, the job finishes it.
        CheckpointCorruptError: A file that belongs to it is missing or spoiled; the message names it.
    """
    identity, newest = read_identity(place.ours), place.checkpoint.newest_commit()
    if identity is None or newest is None:
        raise ConfigurationError(
            f"{place.uri} holds no epoch of a job",
            harmless="always: nothing was written",
            cause="the job has not run there, or its first epoch is not done" if identity else f"no {OURS}/job.json",
            action="name the job's checkpoint; or run the job until an epoch is done",
        )
    if epoch is None and place.has_undone():
        raise CheckpointConflictError(
            f"an epoch behind {newest} is decided and not finished in {place.uri}",
            harmless="for the data: the next start finishes it",
            cause="the job ended, or was killed, in the middle of a commit",
            action="start the job once, then ask again",
            checkpoint=place.uri,
        )
    at = newest if epoch is None else epoch
    if at > newest:
        raise _not_retained(place, at, f"the newest epoch that is done is {newest}")
    tree = Listed(folder_of(place.checkpoint.store))
    try:
        commit = tree.read(f"commits/{at}").decode()
        offsets = place.checkpoint.offsets(at)
    except (FileNotFoundError, UnicodeDecodeError, CheckpointCorruptError) as error:
        raise _not_retained(place, at, f"Spark's files of it are gone, or cannot be read: {error}") from None
    entries, is_newest = place.journal.up_to(at)
    layouts = [entry.record.layout for entry in entries if isinstance(entry.record, LayoutRecord)]
    if not layouts:
        raise _not_retained(place, at, "the journal has purged what stood at Spark's positions then")
    decided = [entry.record for entry in entries if isinstance(entry.record, Decide)]
    if offsets != _read_of(place, at, offsets):
        raise CheckpointCorruptError(
            f"Spark's offsets/{at} in {place.uri} is not what was decided, or noted at its end",
            harmless="never: another range of the sources would count as read",
            cause="the file was edited, or a driver that slept wrote over it",
            action="start the job once: it puts the file right; then ask again",
            file=str(place.checkpoint.store.below("offsets").path(str(at))),
            epoch=at,
        )
    paths = [*_spark_files(tree, at, offsets, layouts[-1]), f"{OURS}/{IDENTITY_FILE}"]
    paths += [f"{OURS}/journal/{place.journal.file_of(entry)}" for entry in entries]
    paths += [f"{OURS}/{SCHEMAS}/{name}" for name in place.schemas.files()]
    if is_newest:  # an older epoch goes on as a new job only, for which they say nothing
        receipts = place.records.below("receipts")
        paths += [f"{OURS}/journal/receipts/{name}" for name in receipts.names() if not name.startswith(".")]
        paths += [f"{TRAIL_FOLDER}/{name}" for name in place.trail.names() if not name.startswith(".")]
    try:
        paths += files_of(tree, at, commit)
    except (UnreadableStateError, FileNotFoundError) as error:
        if epoch is not None:
            raise _not_retained(place, at, f"its state is not whole: {error}") from None
        raise CheckpointCorruptError(
            f"the state behind epoch {at} in {place.uri} cannot be taken: {error}",
            harmless="never: without it Spark cannot go on from there",
            cause="a file was deleted or cut, or another state store than onceflow's wrote it",
            action="put the checkpoint's files back from a copy",
            epoch=at,
        ) from None
    sinks = decided[-1].sinks if decided else tuple(sorted({s for each in layouts[-1].sources for s in each.outputs}))
    return Contents(at, identity, offsets, commit, layouts[-1], sinks, is_newest, tuple(dict.fromkeys(paths)))


def _read_of(place: Place, epoch: int, found: str) -> str:
    """What an epoch has read, as the journal proves it: decided, moved since by an operator, or noted at its end."""
    moved = place.journal.decided_offsets()
    if epoch in moved:
        return moved[epoch]
    passed = place.journal.passed.newest(own=True)
    return passed[1] if passed is not None and passed[0] == epoch else found


def _spark_files(tree: Listed, epoch: int, offsets: str, layout: Layout) -> Iterator[str]:
    yield from _with_crc(tree, "metadata")
    for name in ("offsets", "commits"):
        for n in (epoch - 1, epoch):  # Spark reads the one before as well
            yield from _with_crc(tree, f"{name}/{n}")
    # Spark has one folder for all positions of one source.
    for number, line in zip(folders(layout.sources), positions(offsets), strict=False):
        for name in _log_files(tree, number, line):
            yield from _with_crc(tree, f"sources/{number}/{name}")


def _log_files(tree: Listed, source: int, position: str) -> list[str]:
    """What Spark keeps of a source: where it began; of files also which were read, up to the position."""
    try:
        last = int(json.loads(position)["logOffset"])
    except OTHER_FORM:
        return ["0"]
    found = sorted(tree.names(f"sources/{source}"))
    return [name for name in found if any(n <= last for n in numbers([name.removesuffix(".compact")]))]


def _with_crc(tree: Listed, path: str) -> Iterator[str]:
    folder, _, name = path.rpartition("/")
    crc = f"{folder}/.{name}.crc" if folder else f".{name}.crc"
    yield from (each for each in (path, crc) if tree.exists(each))


def _not_retained(place: Place, epoch: int, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"epoch {epoch} of {place.uri} cannot be gone back to",
        harmless="always: nothing was changed",
        cause=f"{why}; so many epochs are kept: Checkpointing(retain=...)",
        action="name an epoch that is retained: `onceflow checkpoints` lists them, the newest last; or a savepoint",
        epoch=epoch,
    )
