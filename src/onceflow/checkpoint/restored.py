"""Of which savepoint a checkpoint was made, and for which job: kept beside ``job.json``, and there before it.

Must not know: savepoints' files, who runs the job, sinks.

A checkpoint that is made of a savepoint gets its name when all of it is there, and this file with it. Whose it is
stands here until its first start writes ``job.json``: only that knows the systems of the sinks.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from onceflow.checkpoint import envelope
from onceflow.checkpoint.contract import Store, Where
from onceflow.errors import CheckpointCorruptError

FORMAT = 1
FILE = "restored.json"


@dataclass(frozen=True, slots=True)
class Restored:
    """Where a checkpoint comes from.

    Attributes:
        savepoint: The savepoint's id; of a retained epoch the job's id with it.
        epoch: The epoch in it.
        job_id: Whose the checkpoint is: a new job's, or, claimed, the old one's.
        claimed: The old job goes on here.
        with_state: The state was restored, and not the positions alone.
        origin: The job that the savepoint is of; "" where an older version has made it.
    """

    savepoint: str
    epoch: int
    job_id: str
    claimed: bool
    with_state: bool
    origin: str = ""

    def dumps(self) -> bytes:
        """The bytes of its file."""
        return envelope.seal({"format": FORMAT} | asdict(self))


def read_restored(store: Store) -> Restored | None:
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
        return Restored(
            str(body["savepoint"]),
            int(body["epoch"]),
            str(body["job_id"]),
            bool(body["claimed"]),
            bool(body["with_state"]),
            str(body.get("origin", "")),
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
