"""What the job's sinks have lost since their systems were put back, and the power to write it again.

Must not know: Spark, how a plan is run again, which receipts count, how a command line looks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from onceflow.checkpoint.place import Place
from onceflow.checkpoint.restored import beginning, read_restored
from onceflow.checkpoint.spark_files import positions
from onceflow.checkpoint.trail import Trail
from onceflow.connectors.contract import Run
from onceflow.errors import CheckpointCorruptError, ConfigurationError, RecoveryError
from onceflow.execution.put_back import Lost, lost_commits, require_not_exchanged, require_parents_not_put_back
from onceflow.operations.transactions.access import Operator
from onceflow.rerun.lost_epochs import Again, Recomputed


def lost_rows(operator: Operator) -> dict[str, Lost]:
    """By sink, what its system does not know any more of what the job has committed to it.

    Raises:
        CheckpointConflictError: The checkpoint is older than what the job has done.
        OnceflowError: A system was not reached, or refused.
    """
    operator.require_not_rewound()
    systems = {sink: connection.system_id for sink, connection in operator.connections.items()}
    require_not_exchanged(operator.committers, systems, operator.journal, operator.identity)
    lost = lost_commits(operator.committers, systems, operator.journal, operator.identity, operator.checkpoint)
    require_parents_not_put_back(operator.place, operator.committers, operator.connections, lost)
    return lost


def waiting_receipts(operator: Operator) -> list[dict[str, Any]]:
    """The receipts of finished epochs that a job which died has not made any more; the next start makes them."""
    place, newest = operator.place, operator.checkpoint.newest_commit()
    records = {entry.slot: entry.record for entry in operator.journal.read()}
    return Trail(place.trail, begins=beginning(place)).waiting(records, -1 if newest is None else newest)


def receipts_for(
    operator: Operator, lost: Mapping[str, Lost], receipts: Collection[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """The receipts of the lost epochs.

    Args:
        operator: The access to the job.
        lost: What is lost.
        receipts: Those that count.

    Raises:
        ConfigurationError: One of them is not there, so nobody knows what its epoch has read.
    """
    mine = {
        (p["sink"], p["handle"]): body
        for body in receipts
        if body["job"] == operator.identity.job_id
        for p in body["participants"]
    }
    found: dict[int, Mapping[str, Any]] = {}
    for sink, of in lost.items():
        if not of.is_all:
            raise ConfigurationError(
                f"sink {sink} has lost {of.words}, and how many before them is not known any more",
                harmless="always: nothing was written",
                cause=f"the oldest receipt in the checkpoint is of epoch {of.epochs[-1].epoch}, which is lost, too",
                action="bring the system's newer state back; or give the rows up: start with --claim, once",
                sink=sink,
            )
        for each in of.epochs:
            body = mine.get((sink, each.handle))
            if body is None:
                raise ConfigurationError(
                    f"epoch {each.epoch} cannot be written again into sink {sink}: what it has read is not known",
                    harmless="always: nothing was written",
                    cause=f"its receipt is not among those in {operator.place.trail.path()}: it was let go "
                    "(ONCEFLOW_AUDIT_RETENTION), or it is of a job that this one was made of",
                    action="bring the system's newer state back; or give the rows up: start with --claim, once",
                    sink=sink,
                    epoch=each.epoch,
                )
            found[each.epoch] = body
    return [_begun(operator.place, found[epoch]) for epoch in sorted(found)]


def _begun(place: Place, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """A receipt with where its epoch began: that of the first one of a job that was made of a savepoint does not say.

    Spark's file of the savepoint's epoch does, for as long as it is kept.
    """
    if body["number"] > 1 or None not in [source["start"] for source in body["sources"]]:
        return body
    restored = read_restored(place.ours)
    if restored is None or restored.claimed or not restored.with_state:
        return body
    with suppress(CheckpointCorruptError):
        starts = positions(place.checkpoint.offsets(restored.epoch))
        of = zip(body["sources"], starts, strict=True)
        return {**body, "sources": [{**source, "start": start} for source, start in of]}
    return body


def without_state(lost: Mapping[str, Lost], error: ConfigurationError) -> ConfigurationError:
    """The refusal of a plan that keeps state, where the one that the first lost epoch began with is gone.

    Args:
        lost: What is lost.
        error: What of it is not there.
    """
    told = "; ".join(f"sink {sink}: {of.words}" for sink, of in sorted(lost.items()))
    return ConfigurationError(
        f"what is lost cannot be written again ({told}): the plan keeps state, and {error.what}",
        harmless="for what is there: nothing was written",
        cause=error.cause,
        action="bring the system's newer state back. Or run the job from the beginning into a new table; or give the "
        "rows up: start with --claim, once",
    )


def require_same(lost: Mapping[str, Lost], found: Iterable[Recomputed]) -> None:
    """Refuse to write what was not decided.

    Args:
        lost: What is lost.
        found: What the plan gives now, by sink and epoch.

    Raises:
        RecoveryError: With how many epochs and rows it is about.
    """
    asked = {(sink, each.epoch) for sink, of in lost.items() for each in of.epochs}
    differing = [each for each in found if (each.sink, each.epoch) in asked and each.decided != each.now]
    if differing:
        rows = sum(each.decided[0] for each in differing)
        first = differing[0]
        raise RecoveryError(
            f"{len(differing)} of {len(asked)} lost epochs, with {rows} rows, cannot be written again: run again, "
            f"epoch {first.epoch} gives sink {first.sink} {first.now[0]} rows with digest {first.now[1]:016x}, and "
            f"{first.decided[0]} with {first.decided[1]:016x} were decided",
            harmless="for what is there: nothing was written",
            cause="the job was edited since, its source does not have all records any more, or the plan gives other "
            "rows each time that it is run",
            action="give the file as it was then: the epoch's receipt has the hash of it (code). Else bring the "
            "system's newer state back, write to a new table from the beginning, or give the rows up: start with "
            "--claim, once",
            epoch=first.epoch,
        )


def begin(operator: Operator, lost: Mapping[str, Lost]) -> Again:
    """Append a start, which ends the power of every driver that runs on the checkpoint, to write what is lost again.

    Raises:
        FencedError: Something was written, or another start came, in between.
    """
    history = operator.start()
    if lost_rows(operator) != lost:
        raise operator.fenced()
    of = operator.identity
    run = Run(of.job_id, of.prefix, history.incarnation, -1, claimed=history.claimed)

    def require_newest() -> None:
        if not operator.journal.is_newest():
            raise operator.fenced()

    return Again(run, lost, require_newest)
