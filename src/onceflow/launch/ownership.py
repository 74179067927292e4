"""Whose checkpoint it is: this job's, one that is claimed, or a new job's that leaves an older one behind.

Must not know: sinks, the rules, how a query is started. What the checkpoint's own files say of it comes first; what the
systems of the sinks know of it, their marks, is asked when there are committers.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from typing import Literal

from onceflow.checkpoint import state_schemas
from onceflow.checkpoint.deleting import require_not_deleting
from onceflow.checkpoint.identity import FILE as IDENTITY_FILE
from onceflow.checkpoint.identity import (
    NO_SINKS,
    JobIdentity,
    create_identity,
    read_identity,
    reclaimed,
    same_place,
    write_identity,
)
from onceflow.checkpoint.place import OURS, Place
from onceflow.checkpoint.restored import being_made, read_restored, require_finished, who_makes
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError, OnceflowError, advised
from onceflow.execution.driver import Driver
from onceflow.execution.failures import from_failure
from onceflow.spark.session import require_isolated_state
from onceflow.twophase.messages import Failure, FailureKind
from onceflow.twophase.records import HistoryError

log = logging.getLogger(__name__)


def identify(
    place: Place,
    systems: str | None,
    prefix: str,
    takeover: Literal["claim", "as-new"] | None,
    sinks: Mapping[str, str] = NO_SINKS,
) -> JobIdentity:
    """The job's identity: the one in the checkpoint, or a new one for a new checkpoint.

    Of a claim it is not in ``job.json`` yet: that is changed when nothing but the takeover itself can fail any more.

    Args:
        place: The checkpoint.
        systems: Ids of the systems of the sinks that take part; None where they are not known yet.
        prefix: First part of the transactional ids.
        takeover: As in ``Job.run``.
        sinks: By their names, the id of each one's system.

    Raises:
        CheckpointConflictError: The checkpoint is not this job's.
    """
    ours, uri = place.ours, place.uri
    ours.make()
    require_finished(place)
    # Looked at before job.json: another first start at this moment writes that before it makes either of the two.
    was_used = place.checkpoint.has_run() or place.records.exists()
    if takeover == "as-new":
        return _as_new(place, systems or "", prefix)
    if takeover == "claim":
        return reclaimed(claimed(place), uri, systems or "", prefix)
    found = read_identity(ours)
    if found is not None:
        same_place(found, uri, found.cluster_id if systems is None else systems, prefix, sinks)
        return found
    restored = read_restored(ours)
    if restored is not None:  # its first start
        identity = JobIdentity(restored.job_id, uri, systems or "", prefix)
        # Before the systems are known it is nobody's yet: with none in job.json the start would be another's.
        return identity if systems is None else create_identity(ours, identity)
    if was_used:
        raise CheckpointConflictError(
            f"{uri} holds offsets of a query or a journal, but no {OURS}/job.json",
            harmless="never, if this job has run here: its open transactions could not be told from others'",
            cause=f"the folder {OURS}/ or its job.json was deleted, or the checkpoint is of a query that ran without "
            "onceflow",
            action=f"put the folder back, or {advised('claim')}; or, to go on from these offsets as a new job: "
            f"{advised('as-new')}"
            if place.records.names()
            else f"of a query without onceflow: {advised('as-new')}, at the first start only, goes on where that stood "
            "(docs/existing-programs.md). Of a job of onceflow: put the folder back",
            checkpoint=uri,
        )
    identity = create_identity(ours, JobIdentity.new(uri, systems or "", prefix))
    _require_not_made_meanwhile(place)
    same_place(identity, uri, systems or "", prefix)
    return identity


def _require_not_made_meanwhile(place: Place) -> None:
    """Refuse to begin a job where somebody makes a checkpoint of a savepoint at this moment.

    Whoever makes one says so and then looks for a job; this one has named the job and then looks for a maker. So one of
    the two, or both, see the other. Where a checkpoint gets its name in one step, this one's folder is in its way.
    """
    who = who_makes(place)
    if who or (not place.ours.fs.has_folders and read_restored(place.ours) is not None):
        place.ours.remove(IDENTITY_FILE)
        raise being_made(place, who or "a process that has finished just now")


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
        harmless="always: nothing was started",
        cause="the folder was deleted, or this is no checkpoint of onceflow",
        action=f"put the folder back, or start as a new job: {advised('as-new')}",
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
        _require_job_json(place)
        _fence(place, place.journal.history()[0].job_id)
        _require_job_json(place)
    elif found.checkpoint == place.uri:  # whatever else was changed, it is this very job's
        _require_not_forgetting(place, found)
        _fence(place, found.job_id)
        _require_not_forgetting(place, found)
    # As the journal names it: the new job's first start is appended behind starts of the one that it has left.
    left = place.journal.history()[0].job_id or (found.job_id if found is not None else "none")
    identity = JobIdentity.new(place.uri, systems, prefix, left)
    write_identity(place.ours, identity)
    if place.journal.start_nonce and not place.journal.is_newest():
        _take_back_job_json(place, found)
    what = "goes on where a query without onceflow has stood"
    if left != "none":
        what = f"leaves job {left} behind, whose open transactions nobody ends before they expire"
    elif place.is_empty():
        what = "is new, with a new checkpoint"
    log.warning("%s: job %s %s; the next start would be refused with it", advised("as-new"), identity.job_id, what)
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
        f"{advised('as-new')} is refused: the job whose checkpoint {place.uri} is was started at the same moment",
        harmless=f"always: {OURS}/job.json is as it was before",
        cause="a supervisor starts the old job again by itself",
        action=f"stop the old job for good, then start with {advised('as-new')} again",
        checkpoint=place.uri,
    )


def require_not_left(place: Place, driver: Driver) -> None:
    """End a start whose job was left by ``--as-new``, or is being deleted, since a moment: it had looked before.

    Whoever leaves a job writes the file and then looks for a newer start; this one appends its start and then looks at
    the file. So one of the two, or both, see the other.
    """
    require_not_deleting(place)
    now = read_identity(place.ours)
    if now is not None and now.job_id != place.journal.history()[0].job_id:
        raise driver.fenced()


def ids_of(place: Place, prefix: str) -> str:
    """How the transactional ids of the job on a checkpoint begin; "" where none has begun, or that cannot be read."""
    with contextlib.suppress(OnceflowError):  # the start says what is wrong with it
        identity = read_identity(place.ours)
        return "" if identity is None else f"{prefix}-{identity.job_id}"
    return ""


def require_complete(place: Place, *, whatever_is_undone: bool = False) -> None:
    """Refuse a checkpoint that lacks files of Spark's which nothing can make again, before a start is in its journal.

    Or that holds some of them and nothing else, so that a new job would go on from another's beginning.

    While an epoch is undone that comes first: it is committed, and then this is asked again.

    Args:
        place: The checkpoint.
        whatever_is_undone: What is undone here is committed already, or is none of the job's.

    Raises:
        CheckpointCorruptError, CheckpointConflictError: Naming what is gone.
    """
    _require_no_remains(place)
    if not whatever_is_undone:
        _require_journal(place)
        history = place.journal.history()[0]  # before the commits: a driver that runs records an epoch, then decides
        try:
            if history.undone(place.checkpoint.newest_commit()) is not None:
                return
        except HistoryError as error:
            raise from_failure(Failure(FailureKind.TWO_UNDONE, detail=str(error)), None, place.uri, "") from error
    place.checkpoint.require_complete(place.journal.decided_offsets)
    state_schemas.require_schemas(place.checkpoint.store)


def _require_no_remains(place: Place) -> None:
    """Refuse an empty place where of another query is left where its sources began.

    Spark would begin there, and not where the sources of the new job say.
    """
    left = place.checkpoint.beginning()
    if left is None or not place.is_empty():  # in this order: another first start at this moment names the job first
        return
    raise CheckpointCorruptError(
        f"{left} is left of a query whose offsets/, commits/ and journal are gone: a new one would begin where that "
        "began, and not where its sources say",
        harmless="never: records would be written again, or passed over",
        cause="a part of the checkpoint was deleted, or a query ended here before its first epoch",
        action="put the rest back from a copy of the checkpoint; or, to begin anew, remove "
        f"{place.checkpoint.store.path('sources')}, or name another folder",
        file=str(left),
    )


def _require_journal(place: Place) -> None:
    """Refuse a job whose epochs are here and whose journal is empty: a start is in it before Spark plans anything.

    The mark outside tells as well, for as long as it is kept. One that ``--as-new`` made of a plain query may have died
    before its first start.
    """
    if not place.checkpoint.has_run() or place.records.names():  # in this order: another start may be at work
        return
    with contextlib.suppress(CheckpointCorruptError):  # whose it is, is asked later
        found = read_identity(place.ours)
        if found is not None and not found.left:
            raise CheckpointConflictError(
                f"{place.records.path()} is gone or empty, and epochs of this job, {found.job_id}, are in {place.uri}",
                harmless="never: one of them may be decided and not finished, and would be written again",
                cause="the folder was deleted or emptied, or a copy of the checkpoint was taken without it",
                action="put it back from a copy of the checkpoint; without one, look by hand which epoch the sinks "
                f"hold last, and start as a new job: {advised('as-new')}",
                checkpoint=place.uri,
            )


def _require_job_json(place: Place) -> None:
    """Refuse ``--as-new`` where nobody can tell whose the undone epoch is: perhaps of this very job."""
    if place.has_undone():
        raise CheckpointConflictError(
            f"{advised('as-new')} is refused: the journal in {place.uri} has an epoch that is decided and not "
            f"finished, and {OURS}/job.json, which says whose it is, is gone or spoiled",
            harmless="never, if it is this job's: the epoch would be written again",
            cause="the file was deleted or cut",
            action=f"start with {advised('claim')}: job.json is made again from the journal, and the epoch is "
            "finished; or put the file back",
            checkpoint=place.uri,
        )


def _require_not_forgetting(place: Place, found: JobIdentity) -> None:
    """Refuse ``--as-new`` on the job's own checkpoint where it would double rows, or is a flag that was left behind.

    A new job would not know of an undone decision and write the epoch again. And with the flag left in a start command
    every start would be a new job, whose predecessor nobody sweeps.
    """
    if found.left:
        raise CheckpointConflictError(
            f"{advised('as-new')} is refused: it has made this job, {found.job_id}, already (from job {found.left})",
            harmless="always: nothing was changed",
            cause="it was left in the start command (a unit file, a supervisor) or in the program",
            action="start without it: the job goes on",
            checkpoint=place.uri,
        )
    if place.has_undone():
        raise CheckpointConflictError(
            f"{advised('as-new')} is refused: an epoch of this very job, {found.job_id}, is decided and not finished",
            harmless="never: the new job would write the epoch again",
            cause="it was left in the start command or in the program, or this is not the copy that was meant",
            action="start once without it; the epoch is finished then",
            checkpoint=place.uri,
        )
