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
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from onceflow.errors import CheckpointConflictError, CheckpointCorruptError, advised
from onceflow.storage import envelope
from onceflow.storage.files import Where
from onceflow.storage.store import Store
from onceflow.twophase.forms import OTHER_FORM
from onceflow.twophase.names import JOB_ID

FORMAT = 2
"""2: whether ``--as-new`` made the job, and which job it left."""
FILE = "job.json"
NO_SINKS: Mapping[str, str] = {}
LONGEST_MARK = 4000
"""What a broker keeps beside a group's offset: 4,096 letters, unless ``offset.metadata.max.bytes`` says otherwise."""


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
        except OTHER_FORM:
            return None


@dataclass(frozen=True, slots=True)
class NameMark:
    """Which jobs of one name have written to a sink, as kept outside of their checkpoints.

    Attributes:
        jobs: Job id to the checkpoint's URI, the newest last.
    """

    jobs: Mapping[str, str] = field(default_factory=dict)

    def and_of(self, identity: JobIdentity) -> NameMark:
        """With this job as the newest; the one that it has left goes."""
        others = {job: at for job, at in self.jobs.items() if job not in (identity.job_id, identity.left)}
        return NameMark(others | {identity.job_id: identity.checkpoint})

    def without(self, job_id: str) -> NameMark:
        """Without this job."""
        return NameMark({job: at for job, at in self.jobs.items() if job != job_id})

    def dumps(self) -> str:
        """The mark as one line of at most ``LONGEST_MARK`` letters, without the oldest jobs where need be; "" for none.

        Of one whose checkpoint's name is too long, the job is told without it.
        """
        jobs: list[tuple[str, str]] = []
        for each in reversed([*self.jobs.items()]):
            text = json.dumps({"jobs": [each, *jobs]}, separators=(",", ":"))
            if len(text) > LONGEST_MARK:
                break
            jobs = [each, *jobs]
        if not jobs and self.jobs:
            jobs = [(list(self.jobs)[-1], "")]
        text = json.dumps({"jobs": jobs}, separators=(",", ":"))
        return text if jobs and len(text) <= LONGEST_MARK else ""

    @classmethod
    def loads(cls, text: str) -> NameMark:
        """The mark in a line; one without jobs where it is none."""
        try:
            return cls({str(job): str(at) for job, at in json.loads(text)["jobs"]})
        except OTHER_FORM:
            return cls()


def read_identity(store: Store) -> JobIdentity | None:
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


def _spoiled(path: Where, why: str) -> CheckpointCorruptError:
    return CheckpointCorruptError(
        f"{path} cannot be used: {why}",
        harmless="never: without it nobody can tell which open transactions are this job's",
        cause="the file was edited or cut, or the disk lost it",
        action="put the file back from a copy of the checkpoint; or, if nothing newer of this checkpoint exists "
        f"anywhere, {advised('claim')}: it is made again from the journal",
        file=str(path),
    )


def create_identity(store: Store, identity: JobIdentity) -> JobIdentity:
    """Write the first ``job.json``, durably; what it holds then: of two first starts at one moment, one names the job.

    Raises:
        CheckpointCorruptError: Somebody else wrote it at this moment, and it cannot be used.
    """
    with contextlib.suppress(FileExistsError):
        store.create(FILE, _dumps(identity))
    return read_identity(store) or identity


def write_identity(store: Store, identity: JobIdentity) -> None:
    """Write ``job.json`` in the place of what was there, durably."""
    store.replace(FILE, _dumps(identity))


def _dumps(identity: JobIdentity) -> bytes:
    return envelope.seal({"format": FORMAT} | asdict(identity))


def same_place(
    found: JobIdentity, checkpoint: str, cluster_id: str, prefix: str, sinks: Mapping[str, str] = NO_SINKS
) -> None:
    """Refuse a checkpoint that was made at another place, for another cluster or under another prefix.

    Args:
        found: What it was made for.
        checkpoint: Where it is.
        cluster_id: The ids of the systems of its sinks.
        prefix: Of its transactional ids.
        sinks: By their names, the id of each one's system: those that are others now are named.

    Raises:
        CheckpointConflictError: With both values, and what to say if it is meant.
    """
    others = [name for name, system in sorted(sinks.items()) if system not in found.cluster_id.split(",")]
    for what, then, now, why in (
        ("place", found.checkpoint, checkpoint, ""),
        (
            "Kafka cluster, database or lake table",
            found.cluster_id,
            cluster_id,
            f"; or what sink {', '.join(others)} writes to was dropped or renamed, and made again (of a database: "
            "onceflow's tables)"
            if others
            else "",
        ),
        ("transactional id prefix", found.prefix, prefix, ""),
    ):
        if then != now:
            raise CheckpointConflictError(
                f"the checkpoint was made for another {what}: {then or 'none'}; now it is {now or 'none'}",
                harmless="never while the other one may still run: both would write the same epochs",
                cause=f"the checkpoint was copied or moved, or the setting was changed{why}",
                action=f"if the job moved and the old place will never run again: {advised('claim')}; if this is a "
                f"second, independent job: {advised('as-new')}",
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
        CheckpointConflictError: The mark is newer, or belongs to another history; and whether epochs are missing.
    """
    if mark is None:
        return
    other_history = mark.incarnation == incarnation and mark.nonce != nonce
    if mark.incarnation <= incarnation and mark.epoch <= epoch and not other_history:
        return
    known = f"its mark outside is of start {mark.incarnation} and epoch {mark.epoch}, "
    known += f"the checkpoint ends at start {incarnation} "
    if mark.epoch > epoch or other_history:
        what = "is older than what this job has done" if mark.epoch > epoch else "has gone on beside another copy of it"
        raise CheckpointConflictError(
            f"the checkpoint {checkpoint} {what}: {known}and epoch {epoch}",
            harmless="never: epochs that were committed after this copy was taken would be written twice",
            cause="an older copy of the checkpoint was put back, or the job went on from another copy of it",
            action=f"put the newest copy back; or, to write those epochs again on purpose: {advised('claim')}; or, "
            f"for a second, independent job, which writes them again as well: {advised('as-new')}",
            checkpoint=checkpoint,
            epoch=mark.epoch,
        )
    raise CheckpointConflictError(
        f"the checkpoint {checkpoint} misses a start of this job: {known}and epoch {epoch}",
        harmless="the job did not go on from another copy: that start decided no epoch that the mark knows of, so "
        "none is missing here",
        cause="a copy of the checkpoint was put back that was taken before that start; or files of "
        "onceflow/journal/ were deleted; or the job was started on another copy, where it may still run",
        action=f"put the newest copy back; or, if no other copy is there and none is in use: {advised('claim')}, once",
        checkpoint=checkpoint,
        epoch=mark.epoch,
    )


def mark_is_gone(checkpoint: str, epoch: int) -> CheckpointConflictError:
    """The error for a mark that should stand outside the checkpoint and does not."""
    return CheckpointConflictError(
        f"the checkpoint {checkpoint} knows epoch {epoch} as decided, but the systems of its sinks have no mark of "
        "this job: whether this is the newest copy of the checkpoint cannot be told",
        harmless="the job was down for longer than the mark is kept (by Kafka as a group's offsets: "
        "offsets.retention.minutes on the brokers, 7 days by default), or somebody deleted it, and this is the newest "
        "copy",
        cause="the mark expired or was deleted (by Kafka together with the sink's topic, under which it is kept), or "
        "the sinks write elsewhere now; a job that runs writes it again every hour",
        action=f"if nothing newer of this checkpoint exists anywhere: {advised('claim')}, once",
        checkpoint=checkpoint,
        epoch=epoch,
    )


def reclaimed(found: JobIdentity, checkpoint: str, cluster_id: str, prefix: str) -> JobIdentity:
    """The same job at a new place (it was claimed)."""
    return replace(found, checkpoint=checkpoint, cluster_id=cluster_id, prefix=prefix)
