"""What the systems of the sinks know of a checkpoint: by their marks one that is older, or lost, is noticed.

Must not know: Spark, the rules, how a query is started, where a system keeps its marks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from onceflow.checkpoint.identity import (
    JobIdentity,
    Mark,
    NameMark,
    mark_is_gone,
    not_rewound,
)
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.place import OURS, Place
from onceflow.checkpoint.restored import RestoredFrom, read_restored
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.connectors.contract import Committer, SinkConnection, marks_of
from onceflow.errors import CheckpointConflictError, advised
from onceflow.execution.job_log import JobLog
from onceflow.twophase.records import History, Start

log = logging.getLogger(__name__)


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


def forget_name(committers: Iterable[Committer], name: str, job_id: str) -> None:
    """Take a job out of the marks of its name, for good: it is deleted, and the next of its name begins unasked.

    Raises:
        OnceflowError: A system was not reached, or refused.
    """
    for marks in marks_of(committers):
        known = NameMark.loads(marks.read_name(name) or "")
        if job_id in known.jobs:
            marks.write_name(name, known.without(job_id).dumps())


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
