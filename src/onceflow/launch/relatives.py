"""A start beside the other jobs of its family: it enters itself with its parent, and writes nothing again unasked.

Must not know: the rules, how a query is started, any particular sink.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from onceflow.checkpoint import family
from onceflow.checkpoint.family import Child, Relative, WriteTarget
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.restored import RestoredFrom, read_restored
from onceflow.connectors.contract import Sink, SinkConnection
from onceflow.errors import CheckpointConflictError, OnceflowError, advised
from onceflow.execution.job_log import JobLog
from onceflow.spark.locations import place_at
from onceflow.twophase.records import HistoryError

log = logging.getLogger(__name__)

_opened = partial(place_at, retain=1 << 31)  # it is read, and nothing of it is declared as purged


def targets_of(sinks: Iterable[Sink], connections: Mapping[str, SinkConnection]) -> tuple[WriteTarget, ...]:
    """Where a job's sinks write."""
    return tuple(
        WriteTarget(sink.name, connections[sink.name].system_id, sink.destination, sink.participates)
        for sink in sinks
        if sink.name in connections
    )


def look(place: Place, targets: tuple[WriteTarget, ...], name: str, takeover: str | None) -> Callable[[], None]:
    """Refuse as ``require_unwritten``, unless the start is told what it is to do with the checkpoint.

    Args:
        place: The job's checkpoint.
        targets: Where it writes.
        name: The job's name.
        takeover: As in ``Job.run``.

    Returns:
        What is left to do when the checkpoint is taken over, and nothing of this start is decided.

    Raises:
        CheckpointConflictError: As of ``require_unwritten``.
    """
    undone = place.has_undone()  # it is committed first: no check comes before that
    if takeover is None and not undone:
        require_unwritten(place, targets)

    def behind() -> None:
        if takeover is None and undone:
            require_unwritten(place, targets)
        begin(place, targets, name)
        if takeover is not None:
            accept(place, targets, JobLog(log, name) if takeover == "claim" else None)

    return behind


def require_unwritten(place: Place, targets: tuple[WriteTarget, ...]) -> None:
    """Refuse to write again what another job of the family has written to these targets, unless that was said.

    A job's first start from a savepoint is asked for what the older job has written since, where nothing was to be told
    of it when the checkpoint was made; else who began it was told before.

    Args:
        place: The job's checkpoint.
        targets: Where it writes.

    Raises:
        CheckpointConflictError: Naming that job, its epochs, and its rows by sink.
    """
    if place.is_empty():
        return
    restored, is_first = read_restored(place.ours), _is_first(place)
    if is_first and (restored is None or restored.claimed or not restored.was_newest):
        return
    others = family.relatives(place, _opened)
    if is_first and restored is not None:
        others = [other for other in others if other.job_id == restored.origin]
    again = _again(place, targets, others)
    if again:
        raise _written_again(place, again, others, is_first=is_first)


def _again(place: Place, targets: tuple[WriteTarget, ...], others: Iterable[Relative]) -> list[Relative]:
    """Of other jobs what a start would write again, or may, and was not said so far."""
    known, found = family.accepted(place.ours), []
    for other in others:
        again = other.beyond(_position(place) if other.is_known else "", targets)
        if other.is_known:
            counts = bool(again.epochs) and again.newest > known.get(other.job_id, -1)
        else:
            counts = bool(again.targets) and other.job_id not in known
        if counts:
            found.append(again)
    return found


def accept(place: Place, targets: tuple[WriteTarget, ...] = (), said: JobLog | None = None) -> None:
    """Keep that what other jobs have written so far may be written again: that was said, or told. It never raises.

    Args:
        place: The job's checkpoint.
        targets: Where it writes.
        said: Where each that is accepted is told; None where its owner was told before.
    """
    try:
        others = family.relatives(place, _opened)
        if said is not None:
            for again in _again(place, targets, others):
                said.warning("the checkpoint is claimed, and this is accepted: %s", _in_words(again, others))
        family.accept(place.ours, others)
    except (OnceflowError, HistoryError) as error:
        (said or log).warning("what other jobs of the family have written is not known, and not kept: %s", error)


def begin(place: Place, targets: tuple[WriteTarget, ...], name: str) -> None:
    """What a start does before it decides anything: it keeps where it writes, and its parent gets to know of it.

    Where the first one from a savepoint cannot enter itself, the log says so.

    Args:
        place: The job's checkpoint.
        targets: Where it writes.
        name: The job's name.
    """
    before = family.read_targets(place.ours)
    targets, restored = family.keep_targets(place.ours, targets), read_restored(place.ours)
    if restored is None:
        return
    child = Child(restored.job_id, place.uri, restored.parent_epoch, targets)
    if not _is_first(place):
        if targets != before and not restored.claimed:
            _enter(restored, child)  # where that cannot be its own checkpoint says it
        return
    said = JobLog(log, name)
    if restored.left_behind:
        said.warning("begun from epoch %d of job %s: %s", restored.parent_epoch, restored.origin, restored.left_behind)
    why = "" if restored.claimed else _enter(restored, child)  # claimed, it is no child
    if why:
        said.warning(
            "job %s, from whose epoch %d this one was begun, does not know of it (%s): a start of that job would write "
            "again, without a word, what this one has written",
            restored.origin or "of the savepoint",
            restored.parent_epoch,
            why,
        )
    accept(place)


def _enter(restored: RestoredFrom, child: Child) -> str:
    """Enter a child with its parent; why that cannot be, "" where it is done."""
    if not restored.parent:
        return "an older version has made this checkpoint, and has not kept where that job's is"
    try:
        parent = _opened(restored.parent)
        if not family.is_of(parent, restored.origin):
            return f"its checkpoint is not in {restored.parent} any more, as seen from here"
        family.enter(parent, child)
    except OnceflowError as error:
        return f"its checkpoint {restored.parent} cannot be written from here: {error.what}"
    return ""


def _is_first(place: Place) -> bool:
    """Whether a job that was made of a savepoint has decided nothing, and done no epoch of its own."""
    restored = read_restored(place.ours)
    if restored is None:
        return False
    newest = place.checkpoint.newest_commit()
    begun = restored.epoch if restored.with_state else -1
    decided = place.journal.history()[0].decided  # one that was claimed has brought its decisions along
    of_before = decided is None or (restored.claimed and decided.epoch <= restored.parent_epoch)
    return of_before and (newest is None or newest <= begun)


def _position(place: Place) -> str:
    """How far the job has read; "" for not at all."""
    decided, newest = place.journal.history()[0].decided, place.checkpoint.newest_commit()
    if decided is not None and (newest is None or decided.epoch >= newest):
        return decided.offsets
    return "" if newest is None else place.checkpoint.offsets(newest)


def _in_words(again: Relative, others: Iterable[Relative]) -> str:
    """What another job has written, or that it is not known."""
    kin = "was begun from this one" if again.is_born else "is of one family with this one"
    if not again.is_known:
        sinks = ", ".join(sorted({target.sink for target in again.targets}))
        here = [other for other in others if other.is_known and other.checkpoint == again.checkpoint]
        where = f"its checkpoint is not in {again.checkpoint} any more, or cannot be read from here"
        if here:
            where = f"in {again.checkpoint} is another job's checkpoint now, that of {here[0].job_id}"
        to = f"the same places (sink {sinks})"
        return f"job {again.job_id} {kin} and writes to {to}; what it has written cannot be told: {where}"
    rows = ", ".join(f"{count} rows to sink {sink}" for sink, count in sorted(again.rows().items()))
    loose = ", ".join(sorted({target.sink for target in again.targets if not target.decides}))
    if loose:
        rows = ", ".join(filter(None, (rows, f"rows to sink {loose}, whose number is not kept")))
    return (
        f"job {again.job_id}, which {kin}, has read what this job has not, and has written it in {len(again.epochs)} "
        f"epochs ({again.epochs[0].number} to {again.newest}): {rows}"
    )


def _written_again(
    place: Place, again: Sequence[Relative], others: Sequence[Relative], *, is_first: bool
) -> CheckpointConflictError:
    told = "; ".join(_in_words(other, others) for other in again)
    unknown = [other for other in again if not other.is_known]
    where = ", ".join(dict.fromkeys(other.checkpoint for other in again))
    cause = f"a run from a savepoint, or from an epoch of a checkpoint, has taken this job's place ({where}), and this "
    cause += "start goes back behind it"
    action = "go on with that job; or end it and take its rows out of the sinks, and then, or to have them twice on "
    action += f"purpose: {advised('claim')}, once (docs/upgrade.md)"
    if unknown:
        cause += "; what is not known was deleted or moved, its volume is not mounted, or this machine cannot read it"
        action = "make what is not known readable from here, so that the start can say what would be written twice; "
        action += f"or, if its rows are gone from the sinks, or are to be there twice: {advised('claim')}, once "
        action += "(docs/upgrade.md); else go on with the newer job"
    if is_first:
        cause = "the checkpoint was made of a savepoint when nothing had come behind that; this job has not run since, "
        cause += f"and the one that it was begun from has gone on ({where})"
        action = "remove the folder of this checkpoint, in which no epoch is done, and run from a newer savepoint of "
        action += "that job; or from the savepoint again, which says what is written twice, and asks"
    rows: dict[str, int] = {}
    for other in again:
        for sink, count in other.rows().items():
            rows[sink] = rows.get(sink, 0) + count
    return CheckpointConflictError(
        f"{told}. This start {'may' if unknown else 'would'} write that a second time",
        harmless="always: nothing was started. And where those sinks replace rows by a key",
        cause=cause,
        action=action,
        checkpoint=place.uri,
        job=", ".join(other.job_id for other in again),
        epochs=sorted({epoch.number for other in again for epoch in other.epochs}),
        rows=rows,
    )
