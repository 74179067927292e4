"""Whose checkpoint it is: this job's, one that is claimed, or a new job's that leaves an older one behind.

Must not know: sinks, the rules, how a query is started. What the checkpoint's own files say of it comes first; what the
systems of the sinks know of it, their marks, is asked when there are committers.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Literal

from onceflow.checkpoint import state_schemas
from onceflow.checkpoint.deleting import require_not_deleting
from onceflow.checkpoint.identity import FILE as IDENTITY_FILE
from onceflow.checkpoint.identity import (
    NO_SINKS,
    JobIdentity,
    Mark,
    NameMark,
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
from onceflow.checkpoint.restored import RestoredFrom, being_made, read_restored, require_finished, who_makes
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.contract import Committer, SinkConnection, marks_of
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError, OnceflowError, advised
from onceflow.execution.driver import Driver
from onceflow.execution.failures import from_failure
from onceflow.execution.job_log import JobLog
from onceflow.spark.session import require_isolated_state
from onceflow.twophase.messages import Failure, FailureKind
from onceflow.twophase.records import History, HistoryError, Start

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


def require_not_lost(place: Place, connections: Iterable[SinkConnection], prefix: str, name: str) -> None:
    """Refuse to begin a new job in an empty place where a job of its name has written to its sinks before.

    Raises:
        CheckpointConflictError: Naming those jobs, and where their checkpoints were.
    """
    restored = read_restored(place.ours)
    if restored is not None and not restored.claimed and not place.has_begun():
        _require_restored_once(place, restored, connections, prefix, name)
    if not place.is_empty():
        return
    jobs = _of_name(connections, prefix, name)
    # Looked at again after the marks: another first start at this moment has made it its own, and that is this job.
    if not jobs or not place.is_empty():
        return
    told = " and ".join(f"job {job}, whose checkpoint was {at or 'elsewhere'}" for job, at in reversed(jobs.items()))
    raise CheckpointConflictError(
        f"there is no checkpoint at {place.checkpoint.where}, and a job named {name} has written to its sinks before: "
        f"{told}",
        harmless="never, if this is the same job: all that its sources hold would be written again",
        cause="the folder was deleted or emptied, its volume is not mounted, or its path is relative and the program "
        "was started in another folder",
        action="give the job its checkpoint back, or correct the path; or, for a new job, which begins where its "
        f"sources say and writes that again: {advised('as-new')}, once. A second job, in another environment for "
        "example, has better a name or a transactional_id_prefix of its own",
        checkpoint=place.uri,
        jobs=sorted(jobs),
    )


def _of_name(connections: Iterable[SinkConnection], prefix: str, name: str) -> dict[str, str]:
    """The jobs of a name that have written to these sinks, and where their checkpoints were, the newest last."""
    marks = [NameMark.loads(connection.read_name_mark(prefix, name) or "") for connection in connections]
    return {job: at for mark in marks for job, at in mark.jobs.items()}


def _require_restored_once(
    place: Place, restored: RestoredFrom, connections: Iterable[SinkConnection], prefix: str, name: str
) -> None:
    """Refuse a second job from one savepoint where the first one's checkpoint was, and is lost.

    A command that has ``-s`` in it would begin that job whenever the checkpoint's volume is not mounted.
    """
    jobs = {job for job, at in _of_name(connections, prefix, name).items() if at == place.uri}
    jobs -= {restored.job_id, restored.origin}
    if not jobs or not restored.origin or place.has_begun():
        return
    raise CheckpointConflictError(
        f"job {' and job '.join(sorted(jobs))}, whose checkpoint was {place.uri}, has written to the sinks of {name}; "
        f"the checkpoint that is there now was just made of savepoint {restored.savepoint}, and no job has run on it",
        harmless="never, if that job was begun from the savepoint, too: all that it wrote would be written again",
        cause="its checkpoint's folder was deleted or emptied, or its volume is not mounted, and the command says -s",
        action="give that job its checkpoint back, in the place of this one; or, to begin from the savepoint once "
        "more, and to have written again what comes behind it, give the new job's checkpoint another folder",
        checkpoint=place.uri,
        jobs=sorted(jobs),
    )


def ids_of(place: Place, prefix: str) -> str:
    """How the transactional ids of the job on a checkpoint begin; "" where none has begun, or that cannot be read."""
    with contextlib.suppress(OnceflowError):  # the start says what is wrong with it
        identity = read_identity(place.ours)
        return "" if identity is None else f"{prefix}-{identity.job_id}"
    return ""


def forget_name(committers: Iterable[Committer], name: str, job_id: str) -> None:
    """Take a job out of the marks of its name, for good: it is deleted, and the next of its name begins unasked.

    Raises:
        OnceflowError: A system was not reached, or refused.
    """
    for marks in marks_of(committers):
        known = NameMark.loads(marks.read_name(name) or "")
        if job_id in known.jobs:
            marks.write_name(name, known.without(job_id).dumps())


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


def require_not_rewound(
    committers: Mapping[str, Committer], journal: Journal, identity: JobIdentity, checkpoint: SparkCheckpoint
) -> dict[str, str | None]:
    """Refuse a checkpoint that is older than a mark that this job left outside of it, or whose mark is gone.

    Args:
        committers: By sink.
        journal: The checkpoint's.
        identity: The job's.
        checkpoint: Spark's files.

    Returns:
        The mark that was found at each sink whose system keeps marks, or None.

    Raises:
        CheckpointConflictError: With what both know.
    """
    kept = {sink: of for sink, of in ((sink, each.marks()) for sink, each in committers.items()) if of is not None}
    marks = {sink: of.read() for sink, of in kept.items()}
    # After the marks: another start at this moment writes the journal first.
    history, entries = journal.history()
    begun = history.job_id == identity.job_id
    if not begun:  # its first start is still to come: a mark of this job says that one was here
        history, entries = History(), []
    nonce = next((entry.nonce for entry in reversed(entries) if isinstance(entry.record, Start)), "")
    newest = checkpoint.newest_commit()
    known = max(history.decided.epoch if history.decided else -1, -1 if newest is None else newest)
    found = [Mark.loads(text) if text is not None else None for text in marks.values()]
    _require_no_late_claim(checkpoint, found, known)
    for mark in found:
        not_rewound(mark, history.incarnation, nonce, known, identity.checkpoint)
    # A sink that was added has none yet, and one may have been written since it was looked for by another first start.
    seen = any(found) or any(Mark.loads(of.read() or "") for of in kept.values())
    if kept and not seen and history.decided is not None:
        raise mark_is_gone(identity.checkpoint, history.decided.epoch)
    return marks


def _require_no_late_claim(checkpoint: SparkCheckpoint, marks: Iterable[Mark | None], known: int) -> None:
    """Refuse to go on as the old job from a savepoint behind which that has decided epochs.

    It would write them again under the same names: a ledger has them with other digests, and a topic has them twice.
    """
    restored = read_restored(checkpoint.store.below(OURS))
    newest = max((mark.epoch for mark in marks if mark is not None), default=-1)
    if restored is not None and restored.claimed and newest > known:
        raise CheckpointConflictError(
            f"{advised('claim')} is refused: job {restored.job_id} has decided epoch {newest}, and the checkpoint "
            f"{checkpoint.where} was made of savepoint {restored.savepoint} with epoch {restored.epoch}",
            harmless="always: nothing was started",
            cause="the job went on after the savepoint was taken",
            action=f"remove {checkpoint.where}, and resume as a new job, which writes again what came behind; "
            "or from a newer savepoint",
            epoch=newest,
        )


def tell_of_moved(marks: Mapping[str, str | None], history: History, job_id: str, name: str) -> None:
    """Warn of a sink that the checkpoint knows, where nothing shows that this job has written there before.

    Its name was kept, and it goes to another place now: what was written stays where it is. A mark is written by best
    effort, so its absence is no proof. And a system that keeps one mark for all of its tables shows nothing of another.

    Args:
        marks: What each sink's system keeps of the job, or None; of those that keep marks.
        history: What the journal says.
        job_id: The job's.
        name: Its name.
    """
    if history.decided is None or history.layout is None or history.job_id != job_id or not any(marks.values()):
        return
    known = {sink for source in history.layout.sources for sink in source.outputs}
    for sink, mark in marks.items():
        if sink in known and mark is None:
            JobLog(log, name).warning(
                "sink %s: nothing shows that this job has written to where it goes now. If that is another place than "
                "before: what is written from epoch %d on goes there, and what is written stays where it is",
                sink,
                history.decided.epoch + 1,
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
