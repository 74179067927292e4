"""Of which savepoint a checkpoint was made, and for which job: kept beside ``job.json``, and there before it.

Must not know: savepoints' files, who runs the job, sinks.

A checkpoint that is made of a savepoint gets its name when all of it is there, and this file with it; in S3 this file
comes last. Whose it is stands here until its first start writes ``job.json``: only that knows the systems of the sinks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from onceflow.checkpoint.place import OURS, Place
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError, CheckpointStoreError
from onceflow.storage import envelope
from onceflow.storage.files import Where
from onceflow.storage.store import Store
from onceflow.storage.tree import folder_of

FORMAT = 1
FILE = "restored.json"


@dataclass(frozen=True, slots=True)
class RestoredFrom:
    """Where a checkpoint comes from.

    Attributes:
        savepoint: The savepoint's id; of a retained epoch the job's id with it.
        epoch: The epoch in it.
        job_id: Whose the checkpoint is: a new job's, or, claimed, the old one's.
        claimed: The old job goes on here.
        with_state: The state was restored, and not the positions alone.
        origin: The job that the savepoint is of; "" where an older version has made it.
        parent: The URI of that job's checkpoint when the savepoint was taken; "" likewise.
        parent_epoch: That job's newest epoch in it; -1 likewise.
        left_behind: What of the state was not restored, in words; "" for nothing.
        parent_decided: That job's newest decided epoch when this was made, -1 for none; None where it is not known.
    """

    savepoint: str
    epoch: int
    job_id: str
    claimed: bool
    with_state: bool
    origin: str = ""
    parent: str = ""
    parent_epoch: int = -1
    left_behind: str = ""
    parent_decided: int | None = None

    @property
    def was_newest(self) -> bool:
        """Nothing was decided behind the savepoint when this was made: so nobody was told of rows that come twice."""
        return self.parent_decided is not None and self.parent_decided <= self.parent_epoch

    def dumps(self) -> bytes:
        """The bytes of its file."""
        return envelope.seal({"format": FORMAT} | asdict(self))


def who_makes(place: Place) -> str:
    """Who makes a checkpoint of a savepoint there and has not finished, in words; "" where nobody."""
    try:
        return folder_of(place.checkpoint.store).unfinished(f"{OURS}/{FILE}")
    except OSError as error:
        raise CheckpointStoreError(
            f"could not read {error.filename or place.uri}: {error.strerror or error}",
            harmless="always: nothing was changed",
            cause="the object store does not answer, or this user may not read there",
            action="mend the access and start again",
            file=str(error.filename or place.uri),
        ) from None


def require_finished(place: Place) -> None:
    """Refuse a checkpoint that is being made of a savepoint, or was not finished: a part of it is none.

    Raises:
        CheckpointConflictError: It is.
    """
    who = who_makes(place)
    if who and not place.has_begun():
        raise being_made(place, who)


def being_made(place: Place, who: str) -> CheckpointConflictError:
    """The refusal of a checkpoint that somebody makes."""
    return CheckpointConflictError(
        f"the checkpoint {place.uri} is not whole: it is being made of a savepoint, or was not finished, by {who}",
        harmless="always: nothing was started",
        cause="that process is at work, or has died in it",
        action="wait for it; or, where that process is dead, remove what it has left, and begin again from the "
        f"savepoint: onceflow savepoint dispose {place.uri}",
        checkpoint=place.uri,
    )


def read_restored(store: Store) -> RestoredFrom | None:
    """Where a checkpoint comes from; None for one that a job began.

    Raises:
        CheckpointCorruptError: The file is torn or was changed.
        CheckpointConflictError: A newer version wrote it.
    """
    try:
        data = store.read(FILE)
    except FileNotFoundError:
        return None
    with envelope.named(store.path(FILE), _spoiled):
        body = envelope.unseal(data, FORMAT)
        return RestoredFrom(
            str(body["savepoint"]),
            int(body["epoch"]),
            str(body["job_id"]),
            bool(body["claimed"]),
            bool(body["with_state"]),
            str(body.get("origin", "")),
            str(body.get("parent", "")),
            int(body.get("parent_epoch", -1)),
            str(body.get("left_behind", "")),
            None if body.get("parent_decided") is None else int(body["parent_decided"]),
        )


def _spoiled(path: Where, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{path} cannot be used: {why}",
        harmless="never: it says whose a checkpoint is that was made of a savepoint",
        cause="the file was edited or cut, or the disk lost it",
        action="remove the folder of the checkpoint, if its job has not run there, and start from the savepoint again; "
        "else put the file back from a copy of the checkpoint",
        file=str(path),
    )


def beginning(place: Place) -> Callable[[int], str]:
    """Where Spark has a source begin before its first epoch, by the source's number; "" where nobody knows."""
    restored = read_restored(place.ours)
    # Of a checkpoint that was made of a savepoint with its state, Spark's files say where the old job began.
    known = restored is None or restored.claimed or not restored.with_state
    return place.checkpoint.initial_offsets if known else lambda _: ""
