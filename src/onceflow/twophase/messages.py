"""What the coordinator asks for (actions) and what it is told (events).

Must not know: who performs an action. Each action is answered by one of the events named beside it; an action
with no answer is final for the call.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from onceflow.twophase.layout import Layout
from onceflow.twophase.participants import Participant, ParticipantId, PartId, TaskReport
from onceflow.twophase.records import History, Record, Void


class Outcome(Enum):
    """What is known of a transaction. Only positive evidence gives COMMITTED or ABORTED."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a transaction.

    Attributes:
        outcome: What became of it.
        why: What that rests on, in a sentence for an operator.
        passing: Of an unknown one: waiting may turn it into a known one.
    """

    outcome: Outcome
    why: str
    passing: bool = False


class Reply(Enum):
    """What a commit's answer proves.

    REFUSED is RETRY to the rules: nothing was done for lack of a right, which somebody may give back.
    """

    COMMITTED = "committed"
    RETRY = "retry"
    REFUSED = "refused"
    SUSPECT = "suspect"


class FailureKind(Enum):
    """Why a call ends with an error."""

    RUN_FAILED = "the run of the plan failed"
    UNSOUND = "a check before the decision did not hold"
    COMMITTED_AFTER_ALL = "what a replay was to replace was committed after all"
    MISSEALED = "what a sink sealed is not what its writers prepared"
    DECISION_VOIDED = "the decision could not be written and was voided"
    FENCED = "a newer incarnation has started"
    TWO_UNDONE = "two decided epochs are not recorded as done"
    SINKS_CHANGED = "an undone epoch has other sinks than the job has now"
    OFFSETS_DIFFER = "Spark has read offsets/N before it was made what was decided, or after another driver's rename"
    EPOCH_UNEXPECTED = "Spark began an epoch that cannot follow"
    DECISION_UNCERTAIN = "whether the decision is durable could not be found out"
    LOST_WHILE_RUNNING = "a transaction was lost after its decision; a new start will write it again"
    OUTCOME_UNKNOWN = "a decided transaction left no evidence"
    OUTCOME_UNTOLD = "nobody said what became of a decided transaction"
    UNREPORTED = "not every task of a run has reported"
    COMMIT_REFUSED = "the commit of a decided transaction is refused"
    NOT_CONFIRMED = "whether this is still the newest incarnation could not be read"
    NOT_DETERMINISTIC = "the plan run again gives other rows"
    NOT_FOUND_AGAIN = "other rows are accepted, and which parts hold what is visible cannot be told"
    REBUILD_FAILED = "the state of a finished epoch could not be built again"
    REPLAY_NOT_RECORDED = "replay-begin could not be appended"
    NOT_RECORDED = "a record that decides nothing could not be appended"
    SOURCE_LOST = "records that are still needed are gone from the source"
    SOURCE_REMADE = "a topic of the source was deleted and made again while it was read"
    LAYOUT_MOVED = "a position or a state would become another output's"
    TOO_LONG = "the epoch outlives its transactions; the next start cuts it smaller"


@dataclass(frozen=True, slots=True)
class Failure:
    """Facts for the error that the caller raises; ``detail`` is what a check or a run said."""

    kind: FailureKind
    epoch: int | None = None
    participants: tuple[ParticipantId, ...] = ()
    detail: str = ""


# -- actions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AppendStart:
    """Append a start, then read the journal and Spark's newest commit. Answer: Started."""


@dataclass(frozen=True, slots=True)
class RestoreOffsets:
    """Make ``offsets/<epoch>`` hold ``offsets``, whatever it holds. Answer: Restored.

    ``before``, if there is one, is what ``offsets/<epoch - 1>`` is made to hold.
    """

    epoch: int
    offsets: str
    before: str = ""


@dataclass(frozen=True, slots=True)
class ListPlans:
    """List what Spark has planned of this and all later epochs. Answer: Plans."""

    epoch: int


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Remove these plans of Spark, none of which is decided or done. Answer: TakenBack.

    ``before``, if there is one, is what ``offsets/<epoch - 1>`` is made to hold; ``epoch`` is the first of them.
    """

    epoch: int
    planned: tuple[int, ...]
    before: str = ""


@dataclass(frozen=True, slots=True)
class Survey:
    """Look what the plan reads and keeps now, and whether the source still has what is needed. Answer: Surveyed.

    ``again``: the undone epoch has to be read once more, for its rows or for its state.
    """

    again: bool


@dataclass(frozen=True, slots=True)
class AskOutcomes:
    """Find what is known of each now. ``again``: not for the first time, so after a pause. Answer: Outcomes."""

    participants: tuple[Participant, ...]
    again: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    """Send one commit for each. ``again`` counts the rounds before, for a back-off. Answer: Replies."""

    participants: tuple[Participant, ...]
    again: int = 0


@dataclass(frozen=True, slots=True)
class ListLingering:
    """List open transactions of older incarnations, without the spared ones. Answer: Lingering."""

    spared: tuple[Participant, ...]


@dataclass(frozen=True, slots=True)
class Sweep:
    """Abort exactly these, each by the sink whose committer has listed it. Answer: Aborted."""

    found: Mapping[str, tuple[Participant, ...]]


@dataclass(frozen=True, slots=True)
class RunPlan:
    """Run the epoch's plan once. Answer: Ran or RunFailed.

    Parts in ``silent`` are only counted and digested; ``write=False`` silences all.
    """

    epoch: int
    write: bool = True
    silent: frozenset[PartId] = frozenset()


@dataclass(frozen=True, slots=True)
class Seal:
    """Make participants of what was pre-committed, each report with the parts in it. Answer: Sealed or RunFailed."""

    reports: tuple[TaskReport, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """Check every pre-commit against what its system shows, and the epoch's age. Answer: Checked."""

    participants: tuple[Participant, ...]


@dataclass(frozen=True, slots=True)
class Sync:
    """Make durable what Spark wrote of the epoch's plan and of the epoch before. Answer: Synced or Unanswered."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Append:
    """Append the record at the tail. Answer: Appended, Superseded or Unanswered."""

    record: Record


@dataclass(frozen=True, slots=True)
class AppendVoid:
    """Take exactly the place that the unanswered record was meant for. Answer: Voided, Adopted, ..."""

    record: Void


@dataclass(frozen=True, slots=True)
class AbortOwn:
    """Abort all of this incarnation's open transactions of the epoch, by exact handle. Answer: Aborted."""

    epoch: int
    participants: tuple[Participant, ...]


@dataclass(frozen=True, slots=True)
class Discard:
    """Abort what was found open of a replaced set, by exact handle. Answer: Aborted."""

    participants: tuple[Participant, ...]


@dataclass(frozen=True, slots=True)
class ConfirmNewest:
    """Look whether this incarnation is still the newest. Answer: Confirmed or Unanswered."""


@dataclass(frozen=True, slots=True)
class TakenOver:
    """Final: the checkpoint is this driver's, and what was decided is committed as far as it can be."""


@dataclass(frozen=True, slots=True)
class Ready:
    """Final: the job may start its query."""


@dataclass(frozen=True, slots=True)
class Return:
    """Final: Spark may record the epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Fail:
    """Final: raise."""

    failure: Failure


Action = (
    AppendStart
    | RestoreOffsets
    | ListPlans
    | TakeBack
    | Survey
    | AskOutcomes
    | Commit
    | ListLingering
    | Sweep
    | RunPlan
    | Seal
    | Check
    | Sync
    | Append
    | AppendVoid
    | AbortOwn
    | Discard
    | ConfirmNewest
    | TakenOver
    | Ready
    | Return
    | Fail
)


# -- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """My start is durable; the history up to and with it; Spark's newest ``commits/`` and ``offsets/`` entries."""

    history: History
    newest_commit: int | None
    newest_plan: int | None = None
    stateful: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """``offsets/<epoch>`` holds what was decided."""


@dataclass(frozen=True, slots=True)
class Plans:
    """The epochs that Spark has planned."""

    epochs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The plans are gone."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """What was found.

    Attributes:
        layout: What stands at Spark's positions now.
        loss: What the source has lost of what is needed, "" for nothing.
        before: With a loss: ``offsets`` of the epoch before, the positions moved behind what is lost.
        offsets: With a loss: ``offsets`` of the undone epoch, likewise; "" when none is undone.
    """

    layout: Layout
    loss: str = ""
    before: str = ""
    offsets: str = ""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What was found, for each asked participant; ``at_s`` is the time on a clock that nobody sets."""

    found: Mapping[ParticipantId, Evidence]
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Replies:
    """What each commit's answer proves."""

    replies: Mapping[ParticipantId, Reply]
    at_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Lingering:
    """What is open of older incarnations, by the sink whose committer has listed it."""

    found: Mapping[str, tuple[Participant, ...]]


@dataclass(frozen=True, slots=True)
class Ran:
    """The run ended.

    Attributes:
        reports: What its tasks report.
        sinks: Those of which each task has to report, also sinks that take no part in the decision.
        tasks: How many tasks there were.
        origins: What was read for each partition of the plan, "" where it cannot be told; each task took a group of
            them.
        took_ms: How long it took.
        ends: Where what was read ends, as Spark writes positions; None where it cannot be told.
    """

    reports: tuple[TaskReport, ...]
    sinks: tuple[str, ...]
    tasks: int
    origins: tuple[str, ...]
    took_ms: int = 0
    ends: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Sealed:
    """The participants."""

    participants: tuple[Participant, ...]


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The run failed. ``limit``: it outlived its transactions, and would not with so many records of each source."""

    reason: str
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found wrong, or None.

    ``limit`` is as in RunFailed. ``conflict``: the system holds this epoch of another start, or lacks what was before
    it. ``layout`` is what the plan was found to read after it ran: what it had read is
    of exactly these topics, since a topic's id never comes back. None where nobody looked.
    """

    problem: str | None
    limit: int | None = None
    layout: Layout | None = None
    conflict: bool = False


@dataclass(frozen=True, slots=True)
class Synced:
    """It is durable."""


@dataclass(frozen=True, slots=True)
class Appended:
    """The record is durable and the tail."""


@dataclass(frozen=True, slots=True)
class Superseded:
    """A newer start is in the journal."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """There was no answer: an append raised and its place could not be read; or a sync or a look failed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Voided:
    """The void is durable in the disputed place."""


@dataclass(frozen=True, slots=True)
class Adopted:
    """The disputed place held the decision after all."""


@dataclass(frozen=True, slots=True)
class Aborted:
    """The aborts were sent. What an abort answers proves nothing, so nothing is told of it."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Whether this incarnation is still the newest."""

    newest: bool


Event = (
    Started
    | Restored
    | Plans
    | TakenBack
    | Surveyed
    | Outcomes
    | Replies
    | Lingering
    | Ran
    | Sealed
    | RunFailed
    | Checked
    | Synced
    | Appended
    | Superseded
    | Unanswered
    | Voided
    | Adopted
    | Aborted
    | Confirmed
)
