"""That a job is being deleted: a file in its checkpoint, from before anything of it goes until all of it is gone.

Must not know: what else is kept of a job, sinks, who deletes it.

As long as it is there no start takes what is left for a checkpoint, and whoever deletes the job again goes on.
"""

from __future__ import annotations

from dataclasses import asdict

from onceflow.checkpoint.identity import JobIdentity
from onceflow.checkpoint.place import Place
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError
from onceflow.storage import envelope
from onceflow.storage.files import Where
from onceflow.storage.store import Store

FORMAT = 1
FILE = "deleting.json"


def begin_deleting(store: Store, identity: JobIdentity) -> bool:
    """Say it, durably; whoever goes on needs to know whose the checkpoint was, also when ``job.json`` is gone.

    Returns:
        False: another one has said it before.
    """
    try:
        store.create(FILE, envelope.seal({"format": FORMAT} | asdict(identity)))
    except FileExistsError:
        return False
    return True


def read_deleting(store: Store) -> JobIdentity | None:
    """The job that is being deleted here; None where none is.

    Raises:
        CheckpointCorruptError: The file is torn or was changed.
        CheckpointConflictError: It was written by a newer version.
    """
    try:
        data = store.read(FILE)
    except FileNotFoundError:
        return None
    with envelope.named(store.path(FILE), _spoiled):
        body = envelope.unseal(data, FORMAT)
        return JobIdentity(*(str(body[name]) for name in ("job_id", "checkpoint", "cluster_id", "prefix", "left")))


def require_not_deleting(place: Place) -> None:
    """Refuse to use what is left of a checkpoint.

    Raises:
        CheckpointConflictError: A job is being deleted here, or its deletion has died on its way.
    """
    job = read_deleting(place.ours)
    if job is not None:
        raise CheckpointConflictError(
            f"job {job.job_id} in {place.uri} is being deleted: what is left is no checkpoint",
            harmless="always: nothing was started; what is visible stays",
            cause="`onceflow job delete` is at work, has died on its way, or could not remove a file",
            action="delete it again, which goes on: onceflow job delete FILE --yes; then start the job anew",
            checkpoint=place.uri,
        )


def _spoiled(path: Where, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{path} cannot be used: {why}",
        harmless="for the data: what is visible stays",
        cause="the file was edited or cut, or the disk lost it; it says that a job is being deleted",
        action="remove the folder of the checkpoint, if its job is to be deleted; else remove the file",
        file=str(path),
    )
