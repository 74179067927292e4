"""From a failure to the error that a user sees: the rules' reasons, and what Spark's workers said.

Must not know: how an epoch runs; Spark's words, which are in ``spark/sentences.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onceflow.errors import (
    CheckpointConflictError,
    CheckpointStoreError,
    ConfigurationError,
    EpochFailedError,
    EpochTooLongError,
    FencedError,
    KafkaUnavailableError,
    NotDeterministicError,
    OnceflowError,
    OutcomeUnknownError,
    PreCommitError,
    SinkContractError,
    SourceDataLostError,
    StateRebuildError,
    TransactionLostError,
    advised,
)
from onceflow.execution import carried
from onceflow.spark import sentences
from onceflow.spark.raised import Raised, in_a_task
from onceflow.twophase.messages import Failure, FailureKind

Explain = Callable[[str], OnceflowError | None]

_SHORT = 300


class EpochEnded(Exception):  # noqa: N818 - it only speaks of one
    """What Spark is told of an error that ended an epoch: its kind and the beginning of its first line.

    Spark looks for its own exceptions in the text of what a ``foreachBatch`` raises, causes included, by a pattern that
    overflows Java's stack where the text is long and speaks of py4j's. So it gets neither; the driver keeps the error.

    Args:
        error: The error.
    """

    def __init__(self, error: Exception) -> None:
        first = next(iter(str(error).strip().splitlines()), "")
        kind = f"{type(error).__module__}." if isinstance(error, OnceflowError) else ""
        cut = first if len(first) <= _SHORT else f"{first[:_SHORT]}…"
        super().__init__(f"{kind}{type(error).__name__}: {cut}")


def unexplained(_: str) -> None:
    """What sources say where there are none."""


def from_spark(error: BaseException, explain: Explain = unexplained) -> OnceflowError | None:
    """Our error inside one of Spark's, or None when there is none.

    Args:
        error: What was raised.
        explain: What the sources say to a message.
    """
    if isinstance(error, OnceflowError):
        return error
    text = str(error)
    return (
        carried.find(text)
        or explain(text)
        or sentences.two_drivers(text)
        or sentences.of_values(text)
        or sentences.no_buffer(text)
        or sentences.other_python(text)
        or sentences.raised_in_worker(text.partition(carried.MARKER)[0])  # its line is cut off, or it has none
    )


def from_failure(
    failure: Failure, cause: BaseException | None, checkpoint: str, evidence: str, explain: Explain = unexplained
) -> OnceflowError:
    """The error for what the rules could not go on with.

    Args:
        failure: Kind, epoch, participants.
        cause: What the run or a check raised.
        checkpoint: The checkpoint's URI.
        evidence: What is known of each participant, a line each.
        explain: What the sources say to a message.
    """
    spoken = from_spark(cause, explain) if cause is not None else None
    if spoken is not None and failure.kind in _SPOKEN_FOR:
        return spoken
    theirs = in_a_task(str(cause)) if failure.kind is FailureKind.RUN_FAILED else None
    if theirs is not None:
        return _function_failed(failure, theirs)
    if failure.kind is FailureKind.FENCED:
        return fenced(checkpoint, failure.epoch)
    return _TOLD[_TOLD_ALIKE.get(failure.kind, failure.kind)].error(failure, checkpoint, evidence)


@dataclass(frozen=True, slots=True)
class _Told:
    """What is told of one kind of failure: the error's four parts, in which a failure's own parts stand in braces.

    Attributes:
        kind: The error.
        what, harmless, cause, action: Its parts.
        facts: Which parts of the failure it carries.
    """

    kind: type[OnceflowError]
    what: str
    harmless: str = field(kw_only=True)
    cause: str = field(kw_only=True)
    action: str = field(kw_only=True)
    facts: tuple[str, ...] = ("epoch",)

    def error(self, failure: Failure, checkpoint: str, evidence: str) -> OnceflowError:
        """The error of a failure."""
        who = _who(failure)
        parts: dict[str, Any] = {
            "epoch": failure.epoch,
            "participants": failure.participants,
            "checkpoint": checkpoint,
            "detail": failure.detail,
            "who": who,
            "detail_or_who": failure.detail or who,
            "evidence": evidence,
        }
        what, harmless, cause, action = (
            text.format_map(parts) for text in (self.what, self.harmless, self.cause, self.action)
        )
        facts = {name: parts[name] for name in self.facts}
        return self.kind(what, harmless=harmless, cause=cause, action=action, **facts)


def _who(failure: Failure) -> str:
    return ", ".join(f"sink {sink} {handle}" for sink, handle in failure.participants)


def _function_failed(f: Failure, raised: Raised) -> OnceflowError:
    hidden = (
        "" if raised.words else "; its words may hold a record's value, and are not told (ONCEFLOW_DEBUG=1 shows all)"
    )
    return EpochFailedError(
        f"epoch {f.epoch} failed before its decision: {raised}",
        harmless="always: nothing of it is visible, and it is run again at the next start",
        cause=f"your function raised it while it worked on the epoch's records{hidden}",
        action="mend that line, then start the job again. For a record that it cannot take let it return null: such "
        "rows can be filtered out, or sent to another sink",
        epoch=f.epoch,
        # What the same records raise again is a refusal, and at its third start in a row one for a person.
        refusal=f"{raised.kind} at {raised.place}" if raised.comes_again else "",
    )


def fenced(checkpoint: str, epoch: int | None) -> FencedError:
    """The error for a start that came after this one."""
    return FencedError(
        f"a newer start of this job has taken over the checkpoint {checkpoint}; this one ends and touches nothing more",
        harmless="the job was started again on purpose while this one still ran",
        cause="two starts of one job at the same time (a supervisor that starts too early, a forgotten terminal), or "
        "`onceflow txn` took over",
        action="nothing for the data's sake; see to it that only one runs; after `onceflow txn` start the job again",
        epoch=epoch,
    )


_TOLD: Mapping[FailureKind, _Told] = {
    FailureKind.RUN_FAILED: _Told(
        EpochFailedError,
        "epoch {epoch} failed before its decision: {detail}",
        harmless="always: nothing of it is visible, and it is run again at the next start",
        cause="the plan or a function in it raised, or an executor died more often than Spark retries",
        action="mend the cause, then start the job again",
    ),
    FailureKind.UNSOUND: _Told(
        PreCommitError,
        "epoch {epoch} was not decided: {detail}",
        harmless="always: its transactions were aborted, and it is run again at the next start",
        cause="a transaction was aborted or initialised by somebody else, or a task attempt that Spark gave up still "
        "writes",
        action="start the job again; if it happens at every epoch, look for another job with the same transactional "
        "id prefix",
    ),
    FailureKind.COMMITTED_AFTER_ALL: _Told(
        PreCommitError,
        "epoch {epoch} was not written again: what was to be replaced is committed after all: {who}\n{evidence}",
        harmless="always: what was written again was aborted, and each row is there once",
        cause="an older driver of the job slept in its commit until now",
        action="start the job again: it takes what is visible as it is",
        facts=("epoch", "participants"),
    ),
    FailureKind.MISSEALED: _Told(
        SinkContractError,
        "epoch {epoch} was not decided: a sink did not seal what its writers had prepared: {detail}",
        harmless="for the data: its transactions were aborted, and nothing of it is visible",
        cause="an error in the sink's committer: `seal` has to put each part that has rows into one participant of its "
        "own sink, under a handle that never comes again",
        action="mend the sink (onceflow.testing.conformance shows what it breaks), then start the job again",
    ),
    FailureKind.DECISION_VOIDED: _Told(
        CheckpointStoreError,
        "the decision of epoch {epoch} could not be written: {detail}",
        harmless="always: the decision was voided, its transactions were aborted, and the epoch is run again",
        cause="the file system under {checkpoint} failed",
        action="mend the file system and start the job again",
    ),
    FailureKind.TWO_UNDONE: _Told(
        CheckpointConflictError,
        "Spark's commits/ in {checkpoint} are older than the journal: {detail}",
        harmless="never: which of the two epochs' records were counted in the state cannot be told",
        cause="files of commits/ were deleted, or an older copy of them was put back",
        action="put the checkpoint's newest copy back",
        facts=("checkpoint",),
    ),
    FailureKind.SINKS_CHANGED: _Told(
        ConfigurationError,
        "epoch {epoch} is decided, its plan has to run once more (for its state, or for rows that are lost), and "
        "the job's sinks have changed since: {detail}",
        harmless="for what is decided and was open: it is committed",
        cause="a sink was added, removed or renamed while the job was down",
        action="start the job once with the sinks of before, let it finish the epoch and stop it; then change them",
        facts=("epoch", "checkpoint"),
    ),
    FailureKind.OFFSETS_DIFFER: _Told(
        EpochFailedError,
        "Spark has read another offsets/{epoch} in {checkpoint} than epoch {epoch} was decided with",
        harmless="always for the data: nothing was run over it, and the next start puts the file right",
        cause="a driver of an older start slept while it planned the epoch, and has written over the file since this "
        "one has looked at it",
        action="see to it that only one runs, then start the job again",
    ),
    FailureKind.EPOCH_UNEXPECTED: _Told(
        CheckpointConflictError,
        "Spark began epoch {epoch}, but the journal's newest decided epoch is {detail}",
        harmless="never: an epoch that is decided would be written again under another number",
        cause="Spark's offsets/ and commits/ in {checkpoint} are older than the journal beside them",
        action="put the checkpoint's newest copy back",
    ),
    FailureKind.DECISION_UNCERTAIN: _Told(
        CheckpointStoreError,
        "whether the record of epoch {epoch} is in the journal could not be found out: {detail}",
        harmless="always: nothing was committed or aborted; the next start reads the journal and goes on from there",
        cause="the file system under {checkpoint} does not answer",
        action="mend the file system and start the job again",
    ),
    FailureKind.LOST_WHILE_RUNNING: _Told(
        TransactionLostError,
        "epoch {epoch} is decided, and transactions of it are proven aborted: {who}\n{evidence}",
        harmless="for what is visible: it stays as it is, and the next start writes the rest again",
        cause="the transactions expired (transaction_timeout) or were aborted by somebody else's tool",
        action="start the job again: it writes them again from the checkpoint's offsets",
        facts=("epoch", "participants"),
    ),
    FailureKind.OUTCOME_UNKNOWN: _Told(
        OutcomeUnknownError,
        "epoch {epoch} is decided, and nothing proves whether these were committed: {who}\n{evidence}",
        harmless="never: writing them again may double them, leaving them may lose them",
        cause="the records that would prove it are gone (retention, compaction, the topic made again), a table was "
        "dropped, or the brokers do not answer",
        action="if brokers are down, start the job again when they are up; if a table is gone, put it back. Otherwise "
        "look in the topics and tables whether the epoch's rows are there, and say what shall count: `onceflow txn "
        "resolve <job file> {epoch}`",
        facts=("epoch", "participants"),
    ),
    # Only brokers that do not answer know it: nobody has to choose anything.
    FailureKind.OUTCOME_UNTOLD: _Told(
        KafkaUnavailableError,
        "epoch {epoch} is decided, and brokers did not say what became of: {who}\n{evidence}",
        harmless="the brokers come back: the decision stands, and the next start goes on with it",
        cause="a broker is down, or a coordinator is moving or loading",
        action="look at the brokers, then start the job again",
        facts=("epoch", "participants"),
    ),
    FailureKind.NOT_CONFIRMED: _Told(
        CheckpointStoreError,
        "whether another start of the job has taken over could not be read: {detail}",
        harmless="always: nothing was decided, committed or aborted without knowing it",
        cause="the file system under {checkpoint} failed",
        action="mend the file system and start the job again",
    ),
    FailureKind.UNREPORTED: _Told(
        PreCommitError,
        "epoch {epoch}: {detail}",
        harmless="always: nothing of this epoch is visible, and it is run again",
        cause="Spark lost a task's result, or two tasks took the same partition",
        action="start the job again",
    ),
    FailureKind.NOT_DETERMINISTIC: _Told(
        NotDeterministicError,
        "epoch {epoch} gave other rows when it was run again: {detail_or_who}\n{evidence}",
        harmless="never: state and output would come from different runs",
        cause="the plan is not deterministic (rand(), uuid(), the clock, a sum of doubles, a changed function or "
        "table, other partitions than before), or compaction has taken records of the source since",
        action="run the job with the code, tables and settings of before; make the plan deterministic (money is "
        "decimal, not double). To go on with other rows: "
        "`onceflow txn resolve <job file> {epoch} --choice accept-state --why ...`",
        facts=("epoch", "participants"),
    ),
    FailureKind.NOT_FOUND_AGAIN: _Told(
        NotDeterministicError,
        "other rows are accepted for epoch {epoch}, but which tasks of this run would write again what is visible "
        "cannot be told: {who}\n{evidence}",
        harmless="never: rows would be doubled or lost",
        cause="no task of this run reads exactly what was read for the visible rows: the sources are cut into tasks "
        "otherwise than before (minPartitions, the number of partitions, spark.sql.shuffle.partitions)",
        action="start the job once with the settings of before, by which its tasks read as they did; the choice is "
        "recorded, and another one changes nothing",
        facts=("epoch", "participants"),
    ),
    FailureKind.REBUILD_FAILED: _Told(
        StateRebuildError,
        "the output of epoch {epoch} is committed, but its state could not be built again: {detail}",
        harmless="the cause is passing: the output is safe, and the next start tries again",
        cause="the plan failed, or the source's records of this epoch are gone",
        action="mend the cause and start the job again",
    ),
    FailureKind.NOT_RECORDED: _Told(
        CheckpointStoreError,
        "a record of the journal could not be written: {detail}",
        harmless="always: nothing was decided by it",
        cause="the file system under {checkpoint} failed",
        action="mend the file system and start the job again",
    ),
    FailureKind.SOURCE_LOST: _Told(
        SourceDataLostError,
        "{detail}",
        harmless="never: the job still needs them; what is visible stays as it is",
        cause="the topic's retention, or somebody deleted records or the topic",
        action="start the job: it says what is lost, and which command goes on without it",
    ),
    FailureKind.SOURCE_REMADE: _Told(
        SourceDataLostError,
        "a topic was deleted and made again while epoch {epoch} read it: {detail}",
        harmless="never: what had not been read of the old topic is gone",
        cause="somebody deleted the topic",
        action="start the job: it says what is lost, and which command goes on without it",
    ),
    FailureKind.LAYOUT_MOVED: _Told(
        CheckpointConflictError,
        "the plan does not fit the checkpoint {checkpoint}: {detail}",
        harmless="never: Spark tells sources and states by their numbers alone, so records would be lost, written "
        "twice or counted in another output's state",
        cause="an output was added, removed, renamed or given another source, key or function while the job was down",
        action="start the job as it was before (a sink keeps its name with name=). Or let the new plan begin from a "
        "savepoint of it, in a new checkpoint folder and with empty state: onceflow run FILE -s SAVEPOINT "
        "--allow-non-restored-state (docs/upgrade.md). Or begin a new job: a new checkpoint folder, "
        f'{advised("as-new")} once, and the source\'s start= where it shall begin, since with start="earliest" all is '
        "written again (docs/existing-programs.md, 'Changing a job')",
        facts=("checkpoint",),
    ),
    FailureKind.TOO_LONG: _Told(
        EpochTooLongError,
        "epoch {epoch} outlived its transactions: {detail}",
        harmless="always: nothing of it is visible",
        cause="it read more records than can be written within transaction_timeout",
        action="start the job again: it reads fewer records for each epoch",
    ),
}
_TOLD_ALIKE = {FailureKind.REPLAY_NOT_RECORDED: FailureKind.DECISION_UNCERTAIN}

# Where the cause says more than the rules know.
_SPOKEN_FOR = frozenset({FailureKind.RUN_FAILED, FailureKind.UNSOUND, FailureKind.SOURCE_LOST, FailureKind.TOO_LONG})


def evidence_lines(found: Sequence[str]) -> str:
    """What is known of each participant, as the indented lines of a message."""
    return "\n".join(f"    {line}" for line in found)
