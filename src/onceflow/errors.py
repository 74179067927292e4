"""Every error that onceflow raises on purpose, in one tree.

Must not know: Spark, Kafka, files. It only holds facts and turns them into a message.

A message has four parts: what happened, when that is harmless, the likely cause (with the setting's name
and its present value), and what to do now. The second, and a cause that the first names already, may be left
out where something is refused before anything runs (``ConfigurationError``, ``SetupError``). The facts stay on
the error as attributes (``error.facts``), so that a caller can act on them without parsing text.

The tree (``retriable`` is class data: may the same job be started again, as it is, and go on?)::

    OnceflowError
    ├── ConfigurationError           no    a setting, a plan or a call that cannot work; nothing was started
    │   └── RefusedSettingError      no    it could run, but not with the guarantee that was asked for
    ├── SetupError                   no    Java, a jar or a port is missing or is not what it must be
    ├── NotEndedError                no    a job that was ordered to end has not, in the time that was given
    ├── SourceError
    │   ├── SourceDataLostError      no    records that the checkpoint still needs are gone from the topic
    │   ├── MalformedRecordError     no    a record that the format cannot read, under the policy "fail"
    │   └── UnknownSchemaError       yes   a record of a schema that is looked up as the query begins again
    ├── RegistryError                no    a schema registry answered with an error, or does not have what is needed
    │   ├── RegistryUnavailableError yes   it did not answer in time, or what answers is no registry
    │   └── RegistryRightsError      no    it refused the login, or for lack of a right
    ├── KafkaError
    │   ├── KafkaUnavailableError    yes   no broker, or not the one that is needed, answered in time
    │   └── KafkaRightsError         no    the broker refused for lack of a right
    ├── DatabaseError
    │   ├── DatabaseUnavailableError yes  the database did not answer, or somebody holds a lock
    │   └── DatabaseRightsError      no    the database refused for lack of a right, or a table is not there
    ├── LakeError
    │   ├── LakeUnavailableError     yes   the table's catalog or its store did not answer
    │   └── LakeRightsError          no    they refused for lack of a right, or the table is not there
    ├── CheckpointError
    │   ├── CheckpointCorruptError   no    a file cannot be read, is torn, or fails its checksum
    │   ├── CheckpointConflictError  no    copied, moved, rewound or half deleted, or made by a newer version
    │   └── CheckpointStoreError     yes   the file system failed or cannot do what the journal needs
    ├── FencedError                  no    a newer incarnation of this job runs; this one touched nothing more
    ├── EpochFailedError             yes   failed before its decision; nothing of it is visible
    │   ├── PreCommitError           yes   a shard could not prove that all of its records are in the log
    │   │   └── WriterFencedError    yes   a writer's transaction was ended under its hands
    │   ├── SinkContractError        no    a sink's committer did not seal what its writers had prepared
    │   ├── RowRefusedError          no    a row that its sink cannot write as it is, now and at every retry
    │   ├── EpochRefusedError        no    refused, or raised by a function, in the same way at three starts in a row
    │   ├── EpochTimedOutError       yes   not ready for its decision within execution.checkpointing.timeout
    │   ├── EpochTooLongError        yes   the epoch outlived transaction.timeout.ms; the next start cuts it smaller
    │   └── TimeoutTooShortError     no    it outlives transaction.timeout.ms, and cannot be cut smaller
    └── RecoveryError                no    decided, but it cannot be finished without a person
        ├── TransactionLostError     yes   positive evidence: a decided transaction was aborted; a start writes it again
        ├── OutcomeUnknownError      no    no evidence in either direction
        ├── NotDeterministicError    no    the plan, run again, gives other rows than those decided
        └── StateRebuildError        yes   the output is committed; the run that builds its state failed
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Literal, Self

from onceflow.masking import printable

_by_command: ContextVar[bool] = ContextVar("_by_command", default=False)


@contextlib.contextmanager
def advice_by_command() -> Iterator[None]:
    """What is advised inside is said as the command line's flags: the caller has these, and no arguments."""
    token = _by_command.set(True)
    try:
        yield
    finally:
        _by_command.reset(token)


def advised(takeover: Literal["claim", "as-new"]) -> str:
    """How the caller says it: ``--claim`` on the command line, ``takeover="claim"`` in Python."""
    return f"--{takeover}" if _by_command.get() else f'takeover="{takeover}"'


class OnceflowError(Exception):
    """The root of the tree.

    Args:
        what: What happened, with topic, partition, offset, epoch or file where there is one.
        harmless: When this is nothing to worry about.
        cause: The likely cause: the setting's name and its present value.
        action: What to do now.
        others: What was found beside it, and would be refused as well once this is mended.
        facts: The same facts for programs, kept in ``facts``. Never secrets.
    """

    retriable: ClassVar[bool] = False

    def __init__(
        self,
        what: str,
        *,
        harmless: str = "",
        cause: str = "",
        action: str = "",
        others: Sequence[OnceflowError] = (),
        **facts: Any,
    ) -> None:
        self.what = what = printable(what)
        self.harmless = harmless = printable(harmless)
        self.cause = cause = printable(cause)
        self.action = action = printable(action)
        self.others = tuple(others)
        self.facts = facts
        parts = [what]
        if harmless:
            parts.append(f"Harmless when: {harmless}")
        if cause:
            parts.append(f"Likely cause: {cause}")
        if action:
            parts.append(f"What to do: {action}")
        parts += [f"Found as well: {o.what}" + (f" (what to do: {o.action})" if o.action else "") for o in others]
        super().__init__("\n  ".join(parts))

    def beside(self, others: Sequence[OnceflowError]) -> Self:
        """This error, which tells of others as well."""
        parts = {"harmless": self.harmless, "cause": self.cause, "action": self.action}
        made = type(self)(self.what, **parts, others=others, **self.facts).with_traceback(self.__traceback__)
        made.__cause__ = self.__cause__
        return made


class ConfigurationError(OnceflowError, ValueError):
    """A setting, a plan or a call that cannot work. Raised before anything is started."""


class RefusedSettingError(ConfigurationError):
    """It could run, but not with the guarantee that was asked for."""


class SetupError(OnceflowError):
    """Java, a jar or a port is missing or is not what it must be."""


class NotEndedError(OnceflowError):
    """A job that was ordered to end has not ended in the time that was given."""


class SourceError(OnceflowError):
    """A source cannot deliver what the checkpoint needs."""


class SourceDataLostError(SourceError):
    """Records that the checkpoint still needs are gone from the topic."""


class MalformedRecordError(SourceError):
    """A record that the format cannot read, under the policy "fail"."""


class UnknownSchemaError(SourceError):
    """A record names a schema that is not known yet: the job looks it up and begins again by itself."""

    retriable = True


class RegistryError(OnceflowError):
    """A schema registry answered with an error, or not at all."""


class RegistryUnavailableError(RegistryError):
    """The schema registry did not answer in time, or not as one answers."""

    retriable = True


class RegistryRightsError(RegistryError):
    """The schema registry refused the login, or for lack of a right."""


class KafkaError(OnceflowError):
    """A broker answered with an error, or not at all."""


class KafkaUnavailableError(KafkaError):
    """No broker, or not the one that is needed, answered in time."""

    retriable = True


class KafkaRightsError(KafkaError):
    """The broker refused for lack of a right."""


class DatabaseError(OnceflowError):
    """A database answered with an error, or not at all."""


class DatabaseUnavailableError(DatabaseError):
    """The database did not answer, or somebody holds a lock for too long."""

    retriable = True


class DatabaseRightsError(DatabaseError):
    """The database refused for lack of a right, or a table is not there."""


class LakeError(OnceflowError):
    """A lake table's catalog or store answered with an error, or not at all."""


class LakeUnavailableError(LakeError):
    """The table's catalog or its store did not answer."""

    retriable = True


class LakeRightsError(LakeError):
    """The table's catalog or its store refused for lack of a right, or the table is not there."""


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


class SinkContractError(EpochFailedError):
    """A sink's committer broke its contract; by itself it would break it again."""

    retriable = False


class RowRefusedError(EpochFailedError):
    """A row that its sink cannot write as it is. The epoch's range is fixed, so the same start meets it again."""

    retriable = False


class EpochRefusedError(EpochFailedError):
    """The same epoch was refused by a system, or raised by a function, in the same way at three starts in a row."""

    retriable = False


class EpochTimedOutError(EpochFailedError):
    """The epoch was not ready for its decision within ``execution.checkpointing.timeout``, and was cancelled."""


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
