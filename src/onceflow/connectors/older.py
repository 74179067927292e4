"""What a sink says where its system is older than the checkpoint, or the checkpoint is older than its system.

Must not know: any particular sink, how it was found out: by looking, in the transaction that checks or commits.
"""

from __future__ import annotations

from onceflow.connectors.contract import Run
from onceflow.errors import CheckpointConflictError, advised


def put_back(sink: str, where: str, run: Run, newest: int | None) -> CheckpointConflictError:
    """The error for a system that does not know the newest epoch that this job has committed to it.

    Args:
        sink: The sink's name.
        where: What was looked at, in a few words.
        run: Whose epoch is not decided because of it.
        newest: The newest epoch of this job that is known there; None for none.
    """
    holds = "no epoch of this job" if newest is None else f"this job's epochs up to {newest}"
    return CheckpointConflictError(
        f"epoch {run.epoch} was not decided: {where} of sink {sink} does not know the newest epoch any more that this "
        f"job had committed to it; it holds {holds}",
        harmless="for the data that is there: nothing of this epoch is visible",
        cause="it was put back to an older state while the job ran: a backup, or a standby that had not everything; or "
        "its ledger was changed by hand",
        action="bring the newer state back, and start the job: a start says which epochs and how many rows are gone. "
        "Or let `onceflow txn write-again <job file>` write them again; or give them up: start with "
        f"{advised('claim')}, once",
        sink=sink,
        epoch=run.epoch,
    )


def checkpoint_is_older(sink: str, where: str, run: Run, epoch: int, incarnation: int) -> CheckpointConflictError:
    """The error for a system that holds this epoch, or a later one, of another start of this job.

    Args:
        sink: The sink's name.
        where: What was looked at, in a few words.
        run: Whose epoch is not decided because of it.
        epoch: The newest epoch that is there.
        incarnation: The start that wrote it.
    """
    return CheckpointConflictError(
        f"epoch {run.epoch} of start {run.incarnation} was not decided: {where} of sink {sink} holds epoch {epoch} of "
        f"start {incarnation} of this job already: the checkpoint is older than its sinks",
        harmless="for the data that is there: nothing of this epoch is visible",
        cause="an older copy of the checkpoint was put back, and the job's marks are gone, which would have told at "
        "the start",
        action="put the newest copy of the checkpoint back. Or, to write those epochs again on purpose, to all sinks "
        f"of the job, where what was added is then there twice: start with {advised('claim')}, once",
        sink=sink,
        epoch=run.epoch,
    )
