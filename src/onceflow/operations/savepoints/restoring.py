"""A checkpoint made of a savepoint, for a new run that goes on from there.

Must not know: Spark sessions, any particular sink, how a command line looks.

The new run is a new job: of the old one it takes Spark's files and what stands at their positions, and neither its
identity nor its journal, so no transaction, mark or ledger row of the old one is met again. A claim takes both: it *is*
the old job, and nothing may have been decided behind the savepoint.

The checkpoint is put together beside its place and renamed when it is whole and durable. Whoever dies on the way leaves
nothing in its place, and does it again. In S3 nothing can be renamed: there it is put together in its place, and
``restored.json`` comes last. What whoever dies on the way leaves is refused by every start, and removed by ``onceflow
savepoint dispose``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import secrets
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from onceflow.checkpoint import state_schemas
from onceflow.checkpoint.identity import read_identity
from onceflow.checkpoint.journal import Journal, above_all
from onceflow.checkpoint.journal_codec import JournalEntry
from onceflow.checkpoint.place import OURS, Place
from onceflow.checkpoint.restored import FILE as RESTORED_FILE
from onceflow.checkpoint.restored import RestoredFrom, read_restored, require_finished
from onceflow.checkpoint.schemas import FOLDER as SCHEMAS
from onceflow.checkpoint.spark_files import positions, watermark_behind
from onceflow.errors import CheckpointConflictError, ConfigurationError, OnceflowError
from onceflow.operations.savepoints.contents import TRAIL_FOLDER
from onceflow.operations.savepoints.manifest import HeldFile, Manifest
from onceflow.operations.savepoints.reading import FILES, PARTS, held_of, spoiled, translating
from onceflow.operations.savepoints.writing import publish
from onceflow.spark.locations import folder_at, place_at
from onceflow.storage.files import Where
from onceflow.storage.store import Store
from onceflow.storage.tree import Draft, Folder, folder_of
from onceflow.twophase.forms import OTHER_FORM
from onceflow.twophase.layout import Layout, folders, read_up_to
from onceflow.twophase.records import LayoutRecord, Start

_JOURNAL = f"{OURS}/journal/"
_SCHEMAS = f"{OURS}/{SCHEMAS}/"
_OF_THE_JOB = (_JOURNAL, f"{TRAIL_FOLDER}/")
_ALL = 1 << 31
_HIDDEN = re.compile(r"(^|/)\.[^/]*\.crc$")


def already(place: Place, savepoint: str, *, claim: bool, with_state: bool = True) -> bool:
    """Whether a checkpoint was made of this savepoint already, and so is simply gone on with.

    Args:
        place: The checkpoint's place.
        savepoint: The savepoint's id.
        claim: The old job is to go on there.
        with_state: Its state is wanted.

    Raises:
        CheckpointConflictError: Something else is there.
    """
    require_finished(place)
    found = read_restored(place.ours)
    if found is not None:
        if (found.savepoint, found.claimed, found.with_state) == (savepoint, claim, with_state):
            return True
        how = f"of savepoint {found.savepoint}, epoch {found.epoch}" + (", claimed" if found.claimed else "")
        how += "" if found.with_state else ", without its state"
        raise _taken(place, f"it was made {how}; this one is {savepoint}")
    if not place.is_empty():
        raise _taken(place, "a job has run there")
    return False


def restore(
    path: Where,
    manifest: Manifest,
    place: Place,
    *,
    claim: bool = False,
    with_state: bool = True,
    partial_windows: bool = False,
) -> RestoredFrom:
    """Make a checkpoint of a savepoint that was verified.

    Args:
        path: The savepoint.
        manifest: Its manifest.
        place: Where the checkpoint is to be; ``already`` has said that nothing is there.
        claim: The old job goes on: its driver, if one still runs on the old checkpoint, is fenced when all is ready.
        with_state: False: the positions alone; whatever state the plan keeps begins empty, at epoch 0.
        partial_windows: Then windows of which a part was left behind are not held back.

    Raises:
        CheckpointConflictError: It cannot be claimed, or something has come to its place meanwhile.
        ConfigurationError: A newer version of Spark wrote it, or its positions cannot be had alone.
        CheckpointStoreError: A file system failed.
    """
    source, target = folder_at(path), folder_of(place.checkpoint.store)
    require_no_newer(manifest)
    if claim:
        _require_not_rescaled(manifest)
        _fence(manifest, only_look=True)
    restored = RestoredFrom(
        manifest.id,
        manifest.epoch,
        manifest.job_id if claim else secrets.token_hex(6),
        claim,
        with_state,
        manifest.job_id,
        manifest.checkpoint,
        manifest.job_epoch,
        "" if with_state else left_behind(path, manifest, partial_windows=partial_windows),
        _decided(manifest),
    )
    with _being_made(place, target) as draft:
        with translating(target.where):
            unfinished = draft.folder
            ours = unfinished.store.below(OURS)
            ours.make()
            files = source.below(FILES)
            entries = _entries(files, manifest)
            layout = _layout(entries)
            if with_state:
                _spark_files(files, unfinished, target.where, manifest, same_query=claim)
            else:
                _beginnings(unfinished, layout, manifest)
            # By these the new job reads as the old one did, whatever their registry says by then.
            _take(unfinished, files, [name for name in manifest.files if name.startswith(_SCHEMAS)], manifest)
            if claim:
                _take(unfinished, files, [name for name in manifest.files if name.startswith(_OF_THE_JOB)], manifest)
            else:
                if not with_state:
                    watermark = watermark_behind(_content(files, f"commits/{manifest.epoch}", manifest).decode())
                    cut = None if partial_windows else read_up_to(layout, watermark)
                    layout = Layout(layout.sources, cut=cut)
                starts = (entry.record.incarnation for entry in entries if isinstance(entry.record, Start))
                _begin_journal(ours.below("journal"), restored.job_id, layout, max(starts, default=0))
            unfinished.sync()
        if claim:  # as late as can be: whatever fails before leaves a running driver alone
            _fence(manifest)
        # Folders in which nothing is, as a check of the job leaves them: only an empty one is renamed over.
        with translating(target.where):
            target.remove_empty([f"{OURS}/journal", OURS])
        if place.has_begun():  # where it is made in its place, a job may have begun there in that moment, and have died
            raise _taken(place, "a job has begun there meanwhile")
        publish(draft, target, restored.dumps())
    return restored


@contextlib.contextmanager
def _being_made(place: Place, target: Folder) -> Iterator[Draft]:
    last = f"{OURS}/{RESTORED_FILE}"
    try:
        with target.making(last, PARTS[last]) as draft:
            yield draft
    except FileExistsError:
        require_finished(place)
        raise _taken(place, "something has come there meanwhile") from None


def layout_of(path: Where) -> Layout:
    """What stands at the positions of a savepoint, as its journal says."""
    return _layout(Journal(folder_at(path).below(f"{FILES}/{OURS}/journal").store).kept())


def _layout(entries: Sequence[JournalEntry]) -> Layout:
    return next(entry.record.layout for entry in reversed(entries) if isinstance(entry.record, LayoutRecord))


def _entries(files: Folder, manifest: Manifest) -> list[JournalEntry]:
    """A savepoint's journal, of a copy that is compared: what is read there may have changed since it was verified."""
    with tempfile.TemporaryDirectory(prefix="onceflow-savepoint-") as folder:
        copy = Folder(Path(folder))
        _take(copy, files, [name for name in manifest.files if name.startswith(_JOURNAL)], manifest)
        return Journal(copy.below(_JOURNAL).store).kept()


def _content(files: Folder, name: str, manifest: Manifest) -> bytes:
    """A file's content, which is what the manifest says."""
    data = files.read(name)
    if HeldFile(len(data), hashlib.sha256(data).hexdigest()) != manifest.files[name]:
        raise spoiled(files.where, f"{name} was changed since it was verified")
    return data


def left_behind(path: Where, manifest: Manifest, *, partial_windows: bool = False) -> str:
    """What of a savepoint is lost where its positions alone are taken, in words; "" where it keeps no state."""
    states = layout_of(path).states
    if not states:
        return ""
    kept = "; ".join(f"state {n} of output {' and '.join(s.outputs)} ({s.shape})" for n, s in enumerate(states))
    rows = watermark = None
    with contextlib.suppress(OnceflowError):  # the old checkpoint is gone, or cannot be reached from here
        old = place_at(manifest.checkpoint, retain=_ALL).statistics.read()
        epoch = next((e for e in reversed(old) if e.epoch <= manifest.job_epoch and e.status == "COMPLETED"), None)
        rows, watermark = (None, None) if epoch is None else (epoch.state_rows, epoch.watermark)
    size = "how many rows is not known here" if rows is None else f"{rows} rows"
    return (
        f"left behind: {kept}: {size}; and the watermark{'' if watermark is None else f', which stood at {watermark}'}"
        ". What those rows had gathered is in no result: "
        + (
            "a window that was open comes out with what is read from here on alone"
            if partial_windows
            else "windows that began before the last of these events are held back (--allow-partial-windows publishes "
            "them), and what else keeps state gives it without"
        )
        + "; rows that were too late for the watermark count again"
    )


def _decided(manifest: Manifest) -> int | None:
    """The newest epoch that the savepoint's job has decided, -1 for none; None where that is not to be seen."""
    with contextlib.suppress(OnceflowError):
        old = place_at(manifest.checkpoint, retain=_ALL)
        identity = read_identity(old.ours)
        if identity is not None and identity.job_id == manifest.job_id:
            decided = old.journal.history()[0].decided
            return -1 if decided is None else decided.epoch
    return None


def require_no_newer(manifest: Manifest) -> None:
    """Refuse the files of a newer Spark: an older one may read them wrongly, or late.

    Raises:
        ConfigurationError: With both versions.
    """
    theirs, ours = manifest.versions.get("pyspark", ""), version("pyspark")
    if _numbers(theirs) > _numbers(ours):
        raise ConfigurationError(
            f"savepoint {manifest.id} was written by PySpark {theirs}",
            harmless="always: nothing was started",
            cause=f"PySpark {ours} is installed, which is older",
            action=f"install PySpark {theirs} or newer",
        )


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())


def _spark_files(files: Folder, to: Folder, target: Where, manifest: Manifest, *, same_query: bool) -> None:
    left_out = set() if same_query else {"metadata", ".metadata.crc"}
    rewritten = {name for name in manifest.files if "/_metadata/v2/" in name}
    if not to.is_local:
        # Hadoop's, of a disk, where it alone sees them. Elsewhere Spark lists them too: of their names, which begin
        # with a dot, its purge of old checksums understands none, and ends at the first.
        left_out |= {name for name in manifest.files if _HIDDEN.search(name)}
    theirs = [name for name in manifest.files if not name.startswith(f"{OURS}/")]
    _take(to, files, [name for name in theirs if name not in left_out | rewritten], manifest)
    for name in rewritten:
        if not name.endswith(".crc"):  # the checksum of what is rewritten is of what it was
            # Left as they are, the new checkpoint would read the old one's schemas, until that is gone.
            to.write(name, state_schemas.moved(_content(files, name, manifest).decode(), target).encode())
    if not same_query:
        # Spark ends, or refuses, a query whose id runs already: the old one's must not be taken for this one.
        to.write("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())


def _take(to: Folder, files: Folder, names: list[str], manifest: Manifest) -> None:
    """Have files of a savepoint that was verified, and compare them again.

    Behind that a person was asked: whoever may write to the savepoint's folder has had the time to change them.
    """
    to.take(files, names)
    wrong = [name for name, held in held_of(to, names).items() if held != manifest.files[name]]
    if wrong:
        raise spoiled(files.where, f"{', '.join(wrong[:5])} came as another file to {to.where}")


def _beginnings(to: Folder, layout: Layout, manifest: Manifest) -> None:
    """Where each source begins, as Spark keeps it before the first epoch: it then plans epoch 0 from there."""
    for folder, line in zip(folders(layout.sources), positions(manifest.offsets), strict=False):
        if not _counts(line):
            raise ConfigurationError(
                f"the position {line} of savepoint {manifest.id} cannot be had without its state",
                harmless="always: nothing was started",
                cause="its source is none of Kafka's: what it has read is kept in files of its own",
                action="resume without --allow-non-restored-state",
            )
        to.write(f"sources/{folder}/0", b"\0v1\n" + line.encode())


def _counts(position: str) -> bool:
    """Whether a position is one of Kafka's: by topic and partition."""
    try:
        topics = json.loads(position)
        return all(isinstance(at, int) for of in topics.values() for at in of.values())
    except OTHER_FORM:
        return False


def _begin_journal(store: Store, job_id: str, layout: Layout, newest: int) -> None:
    """A journal in which nothing is decided: its job has begun, and this stands at the positions.

    Its starts are newer than all of the old job's, and of those that were made of the same savepoint before; newer than
    those in the savepoint also where the clock was set back since.
    """
    store.make()
    journal = Journal(store)
    history = journal.start(job_id, max(above_all(), newest))
    journal.append(LayoutRecord(history.incarnation, layout))


def _require_not_rescaled(manifest: Manifest) -> None:
    """Refuse to go on as the old job where an epoch of Spark's stands that the old job may decide as its own."""
    if manifest.epoch != manifest.job_epoch:
        raise CheckpointConflictError(
            f"--claim is refused: savepoint {manifest.id} was rescaled, and its epoch {manifest.epoch} is none of the "
            "job's",
            harmless="always: nothing was started",
            cause="Spark counts a rescale as an epoch",
            action="resume without --claim: a new job",
            epoch=manifest.epoch,
        )


def copied(path: Where, manifest: Manifest, to: Folder) -> None:
    """All of a savepoint's files, as the checkpoint of nobody: to work on with Spark.

    Args:
        path: The savepoint.
        manifest: Its manifest.
        to: A folder.
    """
    files = folder_at(path).below(FILES)
    _spark_files(files, to, to.where, manifest, same_query=True)
    _take(to, files, [name for name in manifest.files if name.startswith(f"{OURS}/")], manifest)


def _fence(manifest: Manifest, *, only_look: bool = False) -> None:
    """End the power of a driver that still runs on the old checkpoint, and see that nothing is decided behind.

    Where the old checkpoint is not to be seen from here, the marks in the sinks' systems tell: the start asks them.

    Args:
        manifest: The savepoint's.
        only_look: See it, and change nothing.
    """
    old = place_at(manifest.checkpoint, retain=_ALL)  # it stays as it is, and nothing of it is declared as purged
    with contextlib.suppress(FileNotFoundError):
        identity = read_identity(old.ours)
        if identity is None or identity.job_id != manifest.job_id:
            return
        _require_not_behind(old, manifest)
        if not only_look:
            old.journal.start(manifest.job_id)
            _require_not_behind(old, manifest)


def _require_not_behind(old: Place, manifest: Manifest) -> None:
    decided = old.journal.history()[0].decided
    if decided is not None and decided.epoch > manifest.job_epoch:
        raise CheckpointConflictError(
            f"--claim is refused: job {manifest.job_id} has decided epoch {decided.epoch} since, and savepoint "
            f"{manifest.id} is of epoch {manifest.epoch}",
            harmless="always: nothing was started",
            cause="the job went on after the savepoint was taken",
            action="resume without --claim: a new job, which writes again what came behind; or take a newer savepoint",
            checkpoint=old.uri,
            epoch=decided.epoch,
        )


def _taken(place: Place, why: str) -> CheckpointConflictError:
    return CheckpointConflictError(
        f"the job's checkpoint {place.uri} is not new: {why}",
        harmless="always: nothing was changed",
        cause="-s makes the job's checkpoint of a savepoint, once; one that is there is gone on with without it",
        action="start without -s; or name a new folder as the job's checkpoint, and resume there",
        checkpoint=place.uri,
    )
