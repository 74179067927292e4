"""Whose checkpoint is this? The job's identity, and how a copied, moved or rewound checkpoint is noticed.

Must not know: how the mark in Kafka is stored; it is handed in as a value.

``onceflow/job.json`` says for which place and which cluster the checkpoint was made. The newest start and epoch
also stand outside the checkpoint, as a mark in Kafka: a checkpoint that is older than its own mark was rewound, and
running it would write again what the newer one has committed.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from onceflow.checkpoint import envelope
from onceflow.checkpoint.store import LocalStore
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError
from onceflow.twophase.names import JOB_ID

FORMAT = 2
"""2: whether ``--as-new`` made the job, and which job it left."""
FILE = "job.json"


@dataclass(frozen=True, slots=True)
class JobIdentity:
    """What ``job.json`` holds.

    Attributes:
        job_id: Random, in every transactional id; made once.
        checkpoint: The URI that the checkpoint was made at.
        cluster_id: Kafka's id of the sinks' cluster, "" when no sink takes part in the decision.
        prefix: First part of the transactional ids.
        left: The job id that ``--as-new`` found in this very checkpoint and left, "" for a job that began it.
    """

    job_id: str
    checkpoint: str
    cluster_id: str
    prefix: str
    left: str = ""

    @classmethod
    def new(cls, checkpoint: str, cluster_id: str, prefix: str, left: str = "") -> JobIdentity:
        """An identity that nobody has had before."""
        return cls(secrets.token_hex(6), checkpoint, cluster_id, prefix, left)


@dataclass(frozen=True, slots=True)
class Mark:
    """The newest start and the newest decided epoch, as kept outside the checkpoint.

    Attributes:
        incarnation: The newest start's number.
        nonce: Its nonce: the same number with another nonce is another history.
        epoch: The newest decided epoch, or -1.
    """

    incarnation: int
    nonce: str
    epoch: int

    def dumps(self) -> str:
        """The mark as one line."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def loads(cls, text: str) -> Mark | None:
        """The mark in a line, or None when it is not one."""
        try:
            value = json.loads(text)
            return cls(int(value["incarnation"]), str(value["nonce"]), int(value["epoch"]))
        except (ValueError, KeyError, TypeError):
            return None


def read_identity(store: LocalStore) -> JobIdentity | None:
    """The identity in ``job.json``, or None when there is none.

    Raises:
        CheckpointCorruptError: The file is torn or was changed.
        CheckpointConflictError: It was written by a newer version.
    """
    path = store.path(FILE)
    try:
        data = store.read(FILE)
    except FileNotFoundError:
        return None
    with envelope.named(path, _spoiled):
        body = envelope.unseal(data, FORMAT)
        identity = JobIdentity(
            body["job_id"], body["checkpoint"], body["cluster_id"], body["prefix"], str(body["left"])
        )
        if JOB_ID.fullmatch(identity.job_id) is None:
            raise ValueError("it holds no job id")
    return identity


def _spoiled(path: Path, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{path} cannot be used: {why}",
        harmless="never: without it nobody can tell which open transactions are this job's",
        cause="the file was edited or cut, or the disk lost it",
        action="put the file back from a copy of the checkpoint; or, if nothing newer of this checkpoint exists "
        "anywhere, --claim: it is made again from the journal",
        file=str(path),
    )


def create_identity(store: LocalStore, identity: JobIdentity) -> JobIdentity:
    """Write the first ``job.json``, durably; what it holds then: of two first starts at one moment, one names the job.

    Raises:
        CheckpointCorruptError: Somebody else wrote it at this moment, and it cannot be used.
    """
    with contextlib.suppress(FileExistsError):
        store.create(FILE, _dumps(identity))
    return read_identity(store) or identity


def write_identity(store: LocalStore, identity: JobIdentity) -> None:
    """Write ``job.json`` in the place of what was there, durably."""
    store.replace(FILE, _dumps(identity))


def _dumps(identity: JobIdentity) -> bytes:
    return envelope.seal({"format": FORMAT} | asdict(identity))


def same_place(found: JobIdentity, checkpoint: str, cluster_id: str, prefix: str) -> None:
    """Refuse a checkpoint that was made at another place, for another cluster or under another prefix.

    Raises:
        CheckpointConflictError: With both values, and what to say if it is meant.
    """
    for what, then, now in (
        ("place", found.checkpoint, checkpoint),
        ("Kafka cluster", found.cluster_id, cluster_id),
        ("transactional id prefix", found.prefix, prefix),
    ):
        if then != now:
            raise CheckpointConflictError(
                f"the checkpoint was made for another {what}: {then or 'none'}; now it is {now or 'none'}",
                harmless="never while the other one may still run: both would write the same epochs",
                cause="the checkpoint was copied or moved, or the setting was changed",
                action="if the job moved and the old place will never run again: --claim; if this is a second, "
                "independent job: --as-new",
                checkpoint=checkpoint,
            )


def not_rewound(mark: Mark | None, incarnation: int, nonce: str, epoch: int, checkpoint: str) -> None:
    """Refuse a checkpoint that is older than the mark that it left outside itself.

    Args:
        mark: What stands outside, or None when nothing is known.
        incarnation: The newest start in the journal, 0 for none.
        nonce: Its nonce.
        epoch: The newest epoch that the checkpoint knows as decided or done, -1 for none.
        checkpoint: The checkpoint's URI, for the message.

    Raises:
        CheckpointConflictError: The mark is newer, or belongs to another history.
    """
    if mark is None:
        return
    other_history = mark.incarnation == incarnation and mark.nonce != nonce
    if mark.incarnation <= incarnation and mark.epoch <= epoch and not other_history:
        return
    raise CheckpointConflictError(
        f"the checkpoint {checkpoint} is older than what this job has done: Kafka knows start {mark.incarnation} and "
        f"epoch {mark.epoch}, the checkpoint ends at start {incarnation} and epoch {epoch}",
        harmless="never: epochs that were committed after this copy was taken would be written twice",
        cause="an older copy of the checkpoint was put back, or the job went on from another copy of it",
        action="put the newest copy back; or, to write those epochs again on purpose: --claim; or, for a second, "
        "independent job, which writes them again as well: --as-new",
        checkpoint=checkpoint,
        epoch=mark.epoch,
    )


def mark_is_gone(checkpoint: str, epoch: int) -> CheckpointConflictError:
    """The error for a mark that should stand outside the checkpoint and does not."""
    return CheckpointConflictError(
        f"the checkpoint {checkpoint} knows epoch {epoch} as decided, but Kafka has no mark of this job: whether this "
        "is the newest copy of the checkpoint cannot be told",
        harmless="the job was down for longer than Kafka keeps a group's offsets (offsets.retention.minutes on the "
        "brokers, 7 days by default), or somebody deleted the group or the sinks' topics, and this is the newest copy",
        cause="the mark expired or was deleted (Kafka deletes it together with the sink's topic, under which it is "
        "kept), or the sinks have other topics now; a job that runs writes it again every hour",
        action="if nothing newer of this checkpoint exists anywhere: --claim, once",
        checkpoint=checkpoint,
        epoch=epoch,
    )


def reclaimed(found: JobIdentity, checkpoint: str, cluster_id: str, prefix: str) -> JobIdentity:
    """The same job at a new place (``--claim``)."""
    return replace(found, checkpoint=checkpoint, cluster_id=cluster_id, prefix=prefix)
