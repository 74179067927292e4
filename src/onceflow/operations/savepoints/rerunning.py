"""Spark's files as they were before an epoch, laid out in a folder of their own, to run what came behind once more.

Must not know: Spark, receipts, what is compared. The job's checkpoint is only read, also while the job runs.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from onceflow.checkpoint.identity import read_identity
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.spark_files import StateBefore
from onceflow.errors import CheckpointCorruptError, ConfigurationError
from onceflow.operations.savepoints.restoring import copied, require_no_newer
from onceflow.operations.savepoints.resuming import opened
from onceflow.storage.tree import Folder, folder_of


def lay_out(
    place: Place, first: int, last: int, folder: Path, savepoint: str | None = None, key: bytes | None = None
) -> StateBefore:
    """Lay out the newest state before an epoch, and tell how each epoch behind it was planned.

    Args:
        place: The job's checkpoint.
        first: The first epoch that is run again.
        last: The last one.
        folder: An empty folder on this machine's disk, for Spark to work in, wherever the checkpoint is.
        savepoint: Where to begin; None for the epoch before the first, which the checkpoint must retain.
        key: With which a savepoint must be signed; None does not ask.

    Returns:
        What is there.

    Raises:
        ConfigurationError: The checkpoint does not retain them; or the savepoint is another job's, or too new.
        CheckpointError: A file cannot be read, or is not what it was.
    """
    if savepoint is None and first == 0:
        _beginning(folder_of(place.checkpoint.store), folder)
        epoch = -1
    else:
        given = f"{place.uri}@{first - 1}" if savepoint is None else savepoint
        with opened(given, folder, key) as (path, manifest):
            require_no_newer(manifest)
            epoch = manifest.epoch
            identity = read_identity(place.ours)
            why = (
                f"it is of job {manifest.job_id}"
                if identity is None or manifest.job_id != identity.job_id
                else f"it was rescaled, and its epoch {epoch} is none of the job's"
                if epoch != manifest.job_epoch
                else f"it is of epoch {epoch}, which is not before epoch {first}"
                if epoch >= first
                else ""
            )
            if why:
                raise ConfigurationError(
                    f"savepoint {manifest.id} does not hold the state that epoch {first} began with",
                    harmless="always: nothing was looked at or changed",
                    cause=f"{why}; the checkpoint is {place.uri}, of job {identity.job_id if identity else 'none'}",
                    action=f"name a savepoint of this job, of epoch {first - 1} or an older one",
                )
            copied(path, manifest, Folder(folder))
    moved = place.journal.decided_offsets()
    planned = {n: moved[n] if n in moved else _planned(place, n, epoch) for n in range(epoch + 1, last + 1)}
    return StateBefore(folder, epoch, planned)


def _planned(place: Place, epoch: int, begun: int) -> str:
    """How Spark planned an epoch: its range, its watermark and its time."""
    try:
        return place.checkpoint.offsets(epoch)
    except CheckpointCorruptError as error:
        raise ConfigurationError(
            f"epoch {epoch} cannot be run again: how it was planned is not known any more",
            harmless="always: nothing was looked at or changed",
            cause=f"{error.what}; so many epochs are kept: Checkpointing(retain=...). State needs the plan of every "
            f"epoch behind epoch {begun}, where it begins",
            action="run newer epochs again, or begin with a newer savepoint (--from)",
            epoch=epoch,
        ) from None


def _beginning(checkpoint: Folder, folder: Path) -> None:
    """A query that has done nothing yet: where its sources began."""
    for source in checkpoint.names("sources"):
        path = f"sources/{source}/0"
        if checkpoint.has(path):
            Folder(folder).write(path, checkpoint.read(path))
    (folder / "metadata").write_text(json.dumps({"id": str(uuid.uuid4())}))  # a query of its own
