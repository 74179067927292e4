"""Whose checkpoint it is: this job's, one that is claimed, or a new job's that leaves an older one behind.

Must not know: sinks, the rules, how a query is started. What the checkpoint's own files say of it comes first; what the
systems of the sinks know of it, their marks, is asked when there are committers.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from typing import Literal

from onceflow.checkpoint.identity import FILE as IDENTITY_FILE
from onceflow.checkpoint.identity import (
    JobIdentity,
    Mark,
    create_identity,
    mark_is_gone,
    not_rewound,
    read_identity,
    reclaimed,
    same_place,
    write_identity,
)
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.place import OURS, Place
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.contract import Committer
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError
from onceflow.execution.driver import Driver
from onceflow.spark.session import require_isolated_state
from onceflow.twophase.records import History, Start

log = logging.getLogger(__name__)


def identify(place: Place, systems: str, prefix: str, takeover: Literal["claim", "as-new"] | None) -> JobIdentity:
    """The job's identity: the one in the checkpoint, or a new one for a new checkpoint."""
    ours, uri = place.ours, place.uri
    ours.make()
    # Looked at before job.json: another first start at this moment writes that before it makes either of the two.
    was_used = place.checkpoint.has_run() or place.records.folder.exists()
    if takeover == "as-new":
        return _as_new(place, systems, prefix)
    if takeover == "claim":
        identity = reclaimed(claimed(place), uri, systems, prefix)
        write_identity(ours, identity)
        return identity
    found = read_identity(ours)
    if found is not None:
        same_place(found, uri, systems, prefix)
        return found
    if was_used:
        raise CheckpointConflictError(
            f"{uri} holds offsets of a query or a journal, but no {OURS}/job.json",
            harmless="never, if this job has run here: its open transactions could not be told from others'",
            cause=f"the folder {OURS}/ or its job.json was deleted, or the checkpoint is of a query that ran without "
            "onceflow",
            action="put the folder back; or, if journal/ is there, --claim; or, to go on from these offsets as a new "
            "job: --as-new",
            checkpoint=uri,
        )
    identity = create_identity(ours, JobIdentity.new(uri, systems, prefix))
    same_place(identity, uri, systems, prefix)
    return identity


def claimed(place: Place) -> JobIdentity:
    """Whose checkpoint is claimed: as ``job.json`` says, or, where that is gone, spoiled or older, the newest start."""
    job_id = place.journal.history()[0].job_id
    with contextlib.suppress(CheckpointCorruptError):
        found = read_identity(place.ours)
        if found is not None and job_id in ("", found.job_id, found.left):
            return found
    if job_id:
        log.warning("%s is made again for job %s, which the journal names", place.ours.path("job.json"), job_id)
        return JobIdentity(job_id, place.uri, "", "")
    raise CheckpointConflictError(
        f"{place.uri} holds neither {OURS}/job.json nor a journal to claim",
        cause="the folder was deleted, or this is no checkpoint of onceflow",
        action="put the folder back, or start as a new job: --as-new",
        checkpoint=place.uri,
    )


def _as_new(place: Place, systems: str, prefix: str) -> JobIdentity:
    """A new job on the offsets and the state that are here.

    Whatever driver of the old job still runs here is fenced first, and only then is looked for what it has decided.
    """
    require_isolated_state(place.checkpoint)
    found = None
    with contextlib.suppress(CheckpointCorruptError):  # of a job whose file is spoiled nothing can be asked
        found = read_identity(place.ours)
    if found is None:
        _refuse_without_job_json(place)
        _fence(place, place.journal.history()[0].job_id)
        _refuse_without_job_json(place)
    elif found.checkpoint == place.uri:  # whatever else was changed, it is this very job's
        _refuse_forgetting(place, found)
        _fence(place, found.job_id)
        _refuse_forgetting(place, found)
    # As the journal names it: the new job's first start is appended behind starts of the one that it has left.
    left = place.journal.history()[0].job_id or (found.job_id if found is not None else "none")
    identity = JobIdentity.new(place.uri, systems, prefix, left)
    write_identity(place.ours, identity)
    if place.journal.start_nonce and not place.journal.is_newest():
        _take_back_job_json(place, found)
    log.warning(
        "--as-new: job %s leaves job %s behind, whose open transactions nobody ends before they expire; leave the flag "
        "away at the next start, it would be refused",
        identity.job_id,
        left,
    )
    return identity


def _fence(place: Place, job_id: str) -> None:
    """End the power of a driver that still runs here, by one more start of its own job.

    The new job's own start would come too late: what the old one decides before it, the new one does not know. Whoever
    dies behind this has changed nothing: the old job goes on at its next start. No mark goes with it, since
    nothing is decided under it.
    """
    if job_id:
        place.records.make()
        place.journal.start(job_id)


def _take_back_job_json(place: Place, found: JobIdentity | None) -> None:
    """Refuse ``--as-new`` where the old job was started again just now: what that decides would be forgotten."""
    if found is not None:
        write_identity(place.ours, found)
    else:
        place.ours.remove(IDENTITY_FILE)
    raise CheckpointConflictError(
        f"--as-new is refused: the job whose checkpoint {place.uri} is was started at the same moment",
        harmless=f"always: {OURS}/job.json is as it was before",
        cause="a supervisor starts the old job again by itself",
        action="stop the old job for good, then start with --as-new again",
        checkpoint=place.uri,
    )


def refuse_left(place: Place, driver: Driver) -> None:
    """End a start whose job was left by ``--as-new`` at the same moment: it read ``job.json`` before.

    Whoever leaves a job writes the file and then looks for a newer start; this one appends its start and then looks at
    the file. So one of the two, or both, see the other.
    """
    now = read_identity(place.ours)
    if now is not None and now.job_id != place.journal.history()[0].job_id:
        raise driver.fenced()


def refuse_rewound(
    committers: Iterable[Committer], journal: Journal, identity: JobIdentity, checkpoint: SparkCheckpoint
) -> None:
    """Refuse a checkpoint that is older than a mark that this job left outside of it, or whose mark is gone.

    Raises:
        CheckpointConflictError: With what both know.
    """
    marks = [(committer, committer.read_mark()) for committer in committers]
    # After the marks: another start at this moment writes the journal first.
    history, entries = journal.history()
    begun = history.job_id == identity.job_id
    if not begun:  # its first start is still to come: a mark of this job says that one was here
        history, entries = History(), []
    nonce = next((entry.nonce for entry in reversed(entries) if isinstance(entry.record, Start)), "")
    newest = checkpoint.newest_commit()
    known = max(history.decided.epoch if history.decided else -1, -1 if newest is None else newest)
    found = [Mark.loads(text) if text is not None else None for _, text in marks]
    for mark in found:
        not_rewound(mark, history.incarnation, nonce, known, identity.checkpoint)
    # A sink that was added has none yet, and one may have been written since it was looked for by another first start.
    keeping = [committer for committer, _ in marks if committer.keeps_mark]
    seen = any(found) or any(Mark.loads(committer.read_mark() or "") for committer in keeping)
    if keeping and not seen and history.decided is not None:
        raise mark_is_gone(identity.checkpoint, history.decided.epoch)


def _refuse_without_job_json(place: Place) -> None:
    """Refuse ``--as-new`` where nobody can tell whose the undone epoch is: perhaps of this very job."""
    if place.has_undone():
        raise CheckpointConflictError(
            f"--as-new is refused: the journal in {place.uri} has an epoch that is decided and not finished, and "
            f"{OURS}/job.json, which says whose it is, is gone or spoiled",
            harmless="never, if it is this job's: the epoch would be written again",
            cause="the file was deleted or cut",
            action="start with --claim: job.json is made again from the journal, and the epoch is finished; or put the "
            "file back",
            checkpoint=place.uri,
        )


def _refuse_forgetting(place: Place, found: JobIdentity) -> None:
    """Refuse ``--as-new`` on the job's own checkpoint where it would double rows, or is a flag that was left behind.

    A new job would not know of an undone decision and write the epoch again. And with the flag left in a start command
    every start would be a new job, whose predecessor nobody sweeps.
    """
    if found.left:
        raise CheckpointConflictError(
            f"--as-new is refused: it has made this job, {found.job_id}, already (from job {found.left})",
            harmless="always: nothing was changed",
            cause="the flag was left in the start command (a unit file, a supervisor)",
            action="start without --as-new: the job goes on",
            checkpoint=place.uri,
        )
    if place.has_undone():
        raise CheckpointConflictError(
            f"--as-new is refused: an epoch of this very job, {found.job_id}, is decided and not finished",
            harmless="never: the new job would write the epoch again",
            cause="the flag was left in the start command, or this is not the copy that was meant",
            action="start once without --as-new; the epoch is finished then",
            checkpoint=place.uri,
        )
