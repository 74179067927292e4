"""Every error that onceflow raises on purpose, in one tree.

Must not know: Spark, Kafka, files. It only holds facts and turns them into a message.

A message has four parts: what happened, when that is harmless, the likely cause (with the setting's name
and its present value), and what to do now. The facts stay on the error as attributes (``error.facts``),
so that a caller can act on them without parsing text.

The tree (``retriable`` is class data: may the same job be started again, as it is, and go on?)::

    OnceflowError
    ├── ConfigurationError           no    a setting, a plan or a call that cannot work; nothing was started
    │   └── RefusedSettingError      no    it could run, but not with the guarantee that was asked for
    ├── SetupError                   no    Java, a jar or a port is missing or is not what it must be
    ├── SourceError
    │   ├── SourceDataLostError      no    records that the checkpoint still needs are gone from the topic
    │   └── MalformedRecordError     no    a record that the format cannot read, under the policy "fail"
    ├── KafkaError
    │   ├── KafkaUnavailableError    yes   no broker, or not the one that is needed, answered in time
    │   └── KafkaRightsError         no    the broker refused for lack of a right
    ├── CheckpointError
    │   ├── CheckpointCorruptError   no    a file cannot be read, is torn, or fails its checksum
    │   ├── CheckpointConflictError  no    copied, moved, rewound or half deleted, or made by a newer version
    │   └── CheckpointStoreError     yes   the file system failed or cannot do what the journal needs
    ├── FencedError                  no    a newer incarnation of this job runs; this one touched nothing more
    ├── EpochFailedError             yes   failed before its decision; nothing of it is visible
    │   ├── PreCommitError           yes   a shard could not prove that all of its records are in the log
    │   │   └── WriterFencedError    yes   a writer's transaction was ended under its hands
    │   ├── RowRefusedError          no    a row that its sink cannot write as it is, now and at every retry
    │   ├── EpochTooLongError        yes   the epoch outlived transaction.timeout.ms; the next start cuts it smaller
    │   └── TimeoutTooShortError     no    it outlives transaction.timeout.ms, and cannot be cut smaller
    └── RecoveryError                no    decided, but it cannot be finished without a person
        ├── TransactionLostError     yes   positive evidence: a decided transaction was aborted
        ├── OutcomeUnknownError      no    no evidence in either direction
        ├── NotDeterministicError    no    the plan, run again, gives other rows than those decided
        └── StateRebuildError        yes   the output is committed; the run that builds its state failed
"""

from __future__ import annotations

from typing import Any, ClassVar


class OnceflowError(Exception):
    """The root of the tree.

    Args:
        what: What happened, with topic, partition, offset, epoch or file where there is one.
        harmless: When this is nothing to worry about.
        cause: The likely cause: the setting's name and its present value.
        action: What to do now.
        facts: The same facts for programs, kept in ``facts``. Never secrets.
    """

    retriable: ClassVar[bool] = False

    def __init__(self, what: str, *, harmless: str = "", cause: str = "", action: str = "", **facts: Any) -> None:
        self.what = what
        self.harmless = harmless
        self.cause = cause
        self.action = action
        self.facts = facts
        parts = [what]
        if harmless:
            parts.append(f"Harmless when: {harmless}")
        if cause:
            parts.append(f"Likely cause: {cause}")
        if action:
            parts.append(f"What to do: {action}")
        super().__init__("\n  ".join(parts))


class ConfigurationError(OnceflowError, ValueError):
    """A setting, a plan or a call that cannot work. Raised before anything is started."""


class RefusedSettingError(ConfigurationError):
    """It could run, but not with the guarantee that was asked for."""


class SetupError(OnceflowError):
    """Java, a jar or a port is missing or is not what it must be."""


class SourceError(OnceflowError):
    """A source cannot deliver what the checkpoint needs."""


class SourceDataLostError(SourceError):
    """Records that the checkpoint still needs are gone from the topic."""


class MalformedRecordError(SourceError):
    """A record that the format cannot read, under the policy "fail"."""


class KafkaError(OnceflowError):
    """A broker answered with an error, or not at all."""


class KafkaUnavailableError(KafkaError):
    """No broker, or not the one that is needed, answered in time."""

    retriable = True


class KafkaRightsError(KafkaError):
    """The broker refused for lack of a right."""


class CheckpointError(OnceflowError):
    """The checkpoint cannot be used as it is."""


class CheckpointCorruptError(CheckpointError):
    """A file of the checkpoint cannot be read, is torn, or fails its checksum. The message names it."""


class CheckpointConflictError(CheckpointError):
    """The checkpoint was copied, moved, rewound or half deleted, or was made by a newer version."""


class CheckpointStoreError(CheckpointError):
    """The file system failed, or cannot do what the journal needs."""

    retriable = True


class FencedError(OnceflowError):
    """A newer incarnation of this job has started; this one exits and touches nothing more."""


class EpochFailedError(OnceflowError):
    """The epoch failed before its decision: nothing of it is visible, and it will be run again."""

    retriable = True


class PreCommitError(EpochFailedError):
    """A shard could not prove that all of its records are in the log."""


class WriterFencedError(PreCommitError):
    """A writer's transaction was ended while it wrote: it expired, or somebody else's start or tool ended it."""


class RowRefusedError(EpochFailedError):
    """A row that its sink cannot write as it is. The epoch's range is fixed, so the same start meets it again."""

    retriable = False


class EpochTooLongError(EpochFailedError):
    """The epoch took so long that its transactions may expire before they are committed; the next one is smaller."""


class TimeoutTooShortError(EpochFailedError):
    """An epoch that cannot be cut smaller outlives its transactions, and would again."""

    retriable = False


class RecoveryError(OnceflowError):
    """An epoch is decided, but cannot be finished without a person."""


class TransactionLostError(RecoveryError):
    """Positive evidence (an ABORT marker behind the witness) that a decided transaction was aborted."""

    retriable = True


class OutcomeUnknownError(RecoveryError):
    """There is no evidence in either direction about a decided transaction."""


class NotDeterministicError(RecoveryError):
    """The plan, run again over the same offsets, gives other rows than those that were decided."""


class StateRebuildError(RecoveryError):
    """The output of an epoch is committed, but the run that should build its state failed."""

    retriable = True
