"""The states of a coordinator and every step that is allowed between them, as one literal table.

Must not know: what an action does or how an event was made. The diagram in the docs is generated from TABLE (``page``);
a step that is not in TABLE is one error and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class State(Enum):
    """Where a coordinator stands; the value says what it waits for."""

    NEW = "nothing has happened"
    STARTING = "the start record is being appended"
    RESTORING = "offsets/N of the undone epoch is made what was decided"
    ASSESSING = "start: the outcomes of the undone epoch are being asked for"
    FINISHING = "start: the undone epoch is being committed"
    LISTING = "open transactions of older incarnations are being listed"
    LISTED = "they are listed: is this still the newest incarnation?"
    SWEEPING = "those that were listed are being aborted"
    FINDING_PLANS = "what Spark has planned and is to be planned anew is being listed"
    PLANS_FOUND = "it is listed: is this still the newest incarnation?"
    TAKING_BACK = "Spark's plan of an undecided epoch is being taken back"
    TAKEN_OVER = "the checkpoint is this driver's; what the plan reads is not looked at yet"
    SURVEYING = "what the plan reads and keeps is being looked at"
    LAYING = "what stands at Spark's positions is being appended"
    SKIPPING = "new positions behind what the source has lost are being appended"
    MOVING = "Spark's files are being given those positions"
    READY = "between epochs"
    PREPARING = "the plan runs and the writers pre-commit"
    SEALING = "participants are being made of what the tasks report"
    SUSPECTING = "a run or a check failed: did a newer incarnation end its transactions?"
    CHECKING = "every pre-commit is checked with its system"
    RECONSIDERING = "another start's rows stand in a replay's way: is what it replaces committed after all?"
    RECORDING = "what a source has grown by is being appended"
    SYNCING = "what the decision rests on is being made durable"
    DECIDING = "the decision is being appended"
    VOIDING = "an unanswered decision's place is being taken by a void"
    COMMITTING = "the decided transactions are being committed"
    JUDGING = "the outcomes of a decided epoch are being asked for"
    REBUILDING = "the plan runs again, writing nothing, to build the state of a finished epoch"
    BEGINNING_REPLAY = "replay-begin is being appended"
    DISCARDING = "what is still open of the replaced set is being aborted"
    WEIGHING = "the outcome of each replaced transaction is being asked for"
    MATCHING = "the plan runs, writing nothing, to find which of its parts are visible already"
    ABORTING = "this run's own transactions are being aborted"
    RECUTTING = "that the epoch is to be cut smaller is being appended"
    DOUBTING = "it cannot go on: is this still the newest incarnation?"
    CONFIRMING = "before Spark records the epoch: is this still the newest incarnation?"
    FENCED = "a newer incarnation runs; nothing more may be touched"
    FAILED = "nothing of the epoch is decided; it will be run again"
    STOPPED = "decided, but it cannot go on by itself; nothing was aborted"


class Input(Enum):
    """What an event means to the rules."""

    START = "start"
    STARTED = "started, nothing is undone"
    STARTED_UNDONE = "started, a decided epoch is undone"
    TWO_UNDONE = "two decided epochs are undone"
    SINKS_CHANGED = "the undone epoch's sinks are not those of now"
    OFFSETS_SAME = "offsets/N is as decided"
    REPLAY_UNFINISHED = "offsets/N is as decided; a replay has begun and not ended"
    NONE_LOST = "every outcome is open or committed"
    SOME_LOST = "one is proven aborted"
    LOST_AFTER_RUN = "one is proven aborted, and this very call ran the plan"
    SOME_UNKNOWN = "one has no evidence"
    SOME_PASSING = "of one nobody said anything yet"
    ALL_COMMITTED = "all are committed"
    ALL_COMMITTED_STATEFUL = "all are committed, the state is still to be built"
    SOME_RETRY = "one gave no answer yet"
    SOME_SUSPECT = "one gave an answer that proves nothing"
    ALL_REFUSED = "the rest is refused, and has been for long"
    LISTING_DONE = "listed"
    SWEPT = "swept"
    SWEPT_PLAN_LEFT = "swept; Spark has planned an epoch that is to be planned anew"
    TAKEN_BACK = "the plan is taken back"
    SETTLE = "settle"
    LAYOUT_SAME = "the layout is as recorded"
    LAYOUT_NEW = "the layout is new, and moves nothing"
    LAYOUT_MOVED = "a position or a state would move to another output"
    SOURCE_LOST = "the source has lost what is needed"
    LOSS_ACCEPTED = "the source has lost what is needed, and an operator gave it up"
    OFFSETS_MOVED = "the positions are moved"
    EPOCH = "a new epoch"
    EPOCH_FINISHED = "an epoch that the start finished"
    EPOCH_FINISHED_STATEFUL = "an epoch that the start finished, with state to build"
    EPOCH_DECIDED = "a decided epoch that is not finished"
    EPOCH_REPLAYING = "an epoch whose replay has begun"
    EPOCH_UNEXPECTED = "an epoch that cannot follow"
    RAN = "every task has reported"
    PREPARED = "every transaction is pre-committed"
    NOTHING_TO_COMMIT = "no transaction was opened"
    NOT_DETERMINISTIC = "the rows differ from those decided"
    RUN_FAILED = "the run failed"
    SOUND = "the checks hold"
    SOUND_NOTHING = "the checks hold, and nothing was written"
    GROWN = "the checks hold, and a source has grown"
    UNSOUND = "a check does not hold"
    CONFLICTING = "a system holds a replay's epoch of another start, or lacks what was before it"
    COMMITTED_AFTER_ALL = "one that is replaced was committed after all"
    NONE_COMMITTED = "none that is replaced was committed"
    SYNCED = "it is durable"
    APPENDED = "the record is durable and is the tail"
    APPENDED_UNDECIDED = "the record is durable, and nothing is undone"
    APPENDED_NOTHING = "the record is durable, and nothing was written"
    UNANSWERED = "there was no answer"
    VOIDED = "the void took the place"
    ADOPTED = "the decision was in its place after all"
    SAME_ROWS = "the rows are those decided"
    NONE_VISIBLE = "all replaced ones are proven aborted"
    MATCHED = "every visible part is found again"
    SOME_VISIBLE = "at least one replaced one is proven committed"
    SOME_OPEN = "some replaced ones are still open"
    ABORTED = "aborts were sent"
    ABORTED_TOO_LONG = "aborts were sent; the epoch outlived its transactions"
    NEWEST = "still the newest"
    SUPERSEDED = "a newer start is in the journal"


class IllegalTransitionError(RuntimeError):
    """An event that the rules do not know in this state: a bug in the caller. Nothing was changed."""


_S, _I = State, Input

# Beside each rule that was once broken, by an attack or by a mutant of the simulation, stands what went wrong then
# (docs/attacks.md, docs/mutants.md; docs/protocol.md has the whole order).
TABLE: Mapping[State, Mapping[Input, State]] = {
    # -- the start of a job -------------------------------------------------------------------
    _S.NEW: {_I.START: _S.STARTING},
    _S.STARTING: {
        _I.STARTED: _S.LISTING,
        _I.STARTED_UNDONE: _S.RESTORING,
        # Spark's files are older than the journal: gone on with, they would write again what is committed.
        _I.TWO_UNDONE: _S.STOPPED,
    },
    # Run over another range under the decided number, rows between the two are lost or doubled. The decision has it;
    # whatever else stands in the file was never decided: a driver that slept in Spark's rename has left it there.
    _S.RESTORING: {
        _I.OFFSETS_SAME: _S.ASSESSING,
        # Some of the old set may be open still. Committed now, their rows would stand beside those of the replay.
        _I.REPLAY_UNFINISHED: _S.LISTING,
    },
    # Consumers are waiting, so what can be finished is finished before Spark starts. When one is lost or
    # unknown nothing is committed: "all lost" must not become "some visible" before all outcomes are known.
    _S.ASSESSING: {
        _I.SOME_PASSING: _S.ASSESSING,
        _I.NONE_LOST: _S.FINISHING,
        _I.ALL_COMMITTED: _S.LISTING,
        _I.SOME_LOST: _S.LISTING,
        _I.SOME_UNKNOWN: _S.LISTING,
    },
    _S.FINISHING: {
        _I.ALL_COMMITTED: _S.LISTING,
        _I.SOME_RETRY: _S.FINISHING,
        # A right was taken away, and only a person gives it back; until somebody does, the decision stands.
        _I.ALL_REFUSED: _S.STOPPED,
        # "Fenced" comes after a commit and after an abort: counted as success it loses rows, as a loss it doubles them.
        _I.SOME_SUSPECT: _S.ASSESSING,
    },
    # Never before the start record is durable. And between the list and the abort somebody looks whether this is still
    # the newest: a sweep by a sleeper takes the transactions that a newer driver is about to decide.
    _S.LISTING: {_I.LISTING_DONE: _S.LISTED},
    _S.LISTED: {_I.NEWEST: _S.SWEEPING, _I.SUPERSEDED: _S.FENCED, _I.UNANSWERED: _S.FAILED},
    _S.SWEEPING: {_I.SWEPT: _S.TAKEN_OVER, _I.SWEPT_PLAN_LEFT: _S.FINDING_PLANS},
    # In the same order: a start that slept would remove the plans of epochs that a newer one has finished since.
    _S.FINDING_PLANS: {_I.LISTING_DONE: _S.PLANS_FOUND},
    _S.PLANS_FOUND: {_I.NEWEST: _S.TAKING_BACK, _I.SUPERSEDED: _S.FENCED, _I.UNANSWERED: _S.FAILED},
    _S.TAKING_BACK: {_I.TAKEN_BACK: _S.TAKEN_OVER, _I.OFFSETS_MOVED: _S.LAYING},
    # Only now may a check end the start: nothing that is decided waits for it any more, or nothing can help it.
    _S.TAKEN_OVER: {_I.SETTLE: _S.SURVEYING},
    _S.SURVEYING: {
        _I.LAYOUT_SAME: _S.READY,
        _I.LAYOUT_NEW: _S.LAYING,
        # Spark would go on at another source's position: rows doubled in one sink and lost in the other.
        _I.LAYOUT_MOVED: _S.STOPPED,
        _I.SINKS_CHANGED: _S.STOPPED,
        _I.SOURCE_LOST: _S.STOPPED,
        _I.LOSS_ACCEPTED: _S.SKIPPING,
    },
    _S.LAYING: {_I.APPENDED: _S.READY, _I.SUPERSEDED: _S.FENCED, _I.UNANSWERED: _S.FAILED},
    _S.SKIPPING: {
        _I.APPENDED: _S.MOVING,
        _I.APPENDED_UNDECIDED: _S.FINDING_PLANS,
        _I.SUPERSEDED: _S.FENCED,
        _I.UNANSWERED: _S.FAILED,
    },
    # The layout comes last: of a topic that was made again it holds the new id, which counts from the new positions on.
    _S.MOVING: {_I.OFFSETS_MOVED: _S.LAYING},
    # -- an epoch -----------------------------------------------------------------------------
    _S.READY: {
        _I.EPOCH: _S.PREPARING,
        _I.EPOCH_FINISHED: _S.CONFIRMING,
        _I.EPOCH_FINISHED_STATEFUL: _S.REBUILDING,
        # Asked before anything is committed, as at the start: "all lost" must not become "some visible".
        _I.EPOCH_DECIDED: _S.JUDGING,
        _I.EPOCH_REPLAYING: _S.WEIGHING,
        _I.EPOCH_UNEXPECTED: _S.DOUBTING,
    },
    # A newer start may have finished the epoch that this one remembers, or have ended what its run was at.
    _S.DOUBTING: {_I.NEWEST: _S.STOPPED, _I.SUPERSEDED: _S.FENCED, _I.UNANSWERED: _S.STOPPED},
    _S.PREPARING: {_I.RAN: _S.SEALING, _I.RUN_FAILED: _S.SUSPECTING},
    # Asked before anything else is said: a driver that is replaced meets what looks like a passing trouble (writers
    # that were fenced, transactions that were aborted), and started again for that it would fence the newer one.
    _S.SUSPECTING: {_I.NEWEST: _S.ABORTING, _I.SUPERSEDED: _S.FENCED, _I.UNANSWERED: _S.ABORTING},
    _S.SEALING: {
        _I.PREPARED: _S.CHECKING,
        # What was read counts in the state and in the position, whether or not it gave rows: unchecked, a topic that
        # was made again would be read on in silence for as long as no row comes of it.
        _I.NOTHING_TO_COMMIT: _S.CHECKING,
        _I.NOT_DETERMINISTIC: _S.ABORTING,
        _I.RUN_FAILED: _S.SUSPECTING,
    },
    _S.CHECKING: {
        _I.SOUND: _S.SYNCING,
        _I.SOUND_NOTHING: _S.CONFIRMING,
        _I.GROWN: _S.RECORDING,
        _I.UNSOUND: _S.SUSPECTING,
        _I.CONFLICTING: _S.RECONSIDERING,
    },
    # Rows that are ours pass: the next start takes them as they are. Another start's stay, and so would each refusal:
    # told as one that passes, a supervisor starts the job for ever.
    _S.RECONSIDERING: {
        _I.SOME_PASSING: _S.RECONSIDERING,
        _I.COMMITTED_AFTER_ALL: _S.SUSPECTING,
        _I.SOME_UNKNOWN: _S.SUSPECTING,
        _I.NONE_COMMITTED: _S.SUSPECTING,
    },
    _S.RECORDING: {
        _I.APPENDED: _S.SYNCING,
        _I.APPENDED_NOTHING: _S.CONFIRMING,
        _I.SUPERSEDED: _S.FENCED,
        _I.UNANSWERED: _S.ABORTING,
    },
    # What is decided must not outlive what it was decided about: a power cut takes offsets/N, and leaves the decision.
    _S.SYNCING: {_I.SYNCED: _S.DECIDING, _I.UNANSWERED: _S.ABORTING},
    # An append that gave no answer may be durable. Aborted on that, its rows are lost: a start that reads the decision
    # holds them for written. Superseded, nothing is aborted either: it is the newer start's business.
    _S.DECIDING: {_I.APPENDED: _S.COMMITTING, _I.SUPERSEDED: _S.FENCED, _I.UNANSWERED: _S.VOIDING},
    _S.VOIDING: {
        _I.VOIDED: _S.ABORTING,
        _I.ADOPTED: _S.COMMITTING,
        _I.SUPERSEDED: _S.FENCED,
        # Decided or not, nobody knows: neither a commit nor an abort is right. The next start reads it.
        _I.UNANSWERED: _S.STOPPED,
    },
    _S.COMMITTING: {
        _I.ALL_COMMITTED: _S.CONFIRMING,
        _I.ALL_COMMITTED_STATEFUL: _S.REBUILDING,
        _I.SOME_RETRY: _S.COMMITTING,
        _I.ALL_REFUSED: _S.STOPPED,
        _I.SOME_SUSPECT: _S.JUDGING,
    },
    _S.JUDGING: {
        _I.SOME_PASSING: _S.JUDGING,
        _I.NONE_LOST: _S.COMMITTING,
        _I.ALL_COMMITTED: _S.CONFIRMING,
        _I.ALL_COMMITTED_STATEFUL: _S.REBUILDING,
        _I.SOME_LOST: _S.BEGINNING_REPLAY,
        # State and output must come from one run. This call's state is that of its first run; a plan that varies would
        # then go on from rows that it never wrote. So a new start replays, with a run of its own.
        _I.LOST_AFTER_RUN: _S.STOPPED,
        _I.SOME_UNKNOWN: _S.STOPPED,
    },
    _S.REBUILDING: {
        _I.SAME_ROWS: _S.CONFIRMING,
        # The state would be of other rows than those that are visible, and every later epoch would go on from it.
        _I.NOT_DETERMINISTIC: _S.STOPPED,
        _I.RUN_FAILED: _S.DOUBTING,
    },
    # -- replay -------------------------------------------------------------------------------
    _S.BEGINNING_REPLAY: {
        _I.APPENDED: _S.WEIGHING,
        _I.SUPERSEDED: _S.FENCED,
        _I.UNANSWERED: _S.STOPPED,
    },
    # And asked again: an abort after a commit is answered with success too, and its rows, visible, would be doubled.
    _S.DISCARDING: {_I.ABORTED: _S.WEIGHING},
    _S.WEIGHING: {
        _I.SOME_PASSING: _S.WEIGHING,
        _I.NONE_VISIBLE: _S.PREPARING,
        _I.SOME_VISIBLE: _S.MATCHING,
        _I.SOME_OPEN: _S.DISCARDING,
        # "Not visible, so aborted" is false where compaction or retention took the records: they would come twice.
        _I.SOME_UNKNOWN: _S.STOPPED,
        # An operator counts what was lost as written, or gives it up since the source cannot give it again.
        _I.ALL_COMMITTED: _S.CONFIRMING,
        _I.ALL_COMMITTED_STATEFUL: _S.REBUILDING,
    },
    # Tasks are not numbered the same in every run, so what is visible is found by its rows, before anything is written.
    # By its number another task would be silenced: its rows are lost, and the visible ones come twice.
    _S.MATCHING: {
        _I.MATCHED: _S.PREPARING,
        _I.NOT_DETERMINISTIC: _S.STOPPED,
        _I.RUN_FAILED: _S.DOUBTING,
    },
    # -- ends ---------------------------------------------------------------------------------
    # An epoch that outlived its transactions would do so for ever: its range is fixed once Spark has planned it.
    _S.ABORTING: {_I.ABORTED: _S.FAILED, _I.ABORTED_TOO_LONG: _S.RECUTTING},
    _S.RECUTTING: {_I.APPENDED: _S.FAILED, _I.SUPERSEDED: _S.FENCED, _I.UNANSWERED: _S.FAILED},
    # The last look before Spark writes commits/N: an older driver's would call done what a newer one is at.
    _S.CONFIRMING: {_I.NEWEST: _S.READY, _I.SUPERSEDED: _S.FENCED, _I.UNANSWERED: _S.STOPPED},
    _S.FENCED: {},
    _S.FAILED: {},
    _S.STOPPED: {},
}


def step(state: State, happened: Input) -> State:
    """The state after ``happened``.

    Raises:
        IllegalTransitionError: The table has no such step.
    """
    try:
        return TABLE[state][happened]
    except KeyError:
        known = ", ".join(i.name for i in TABLE[state]) or "nothing: it is an end"
        raise IllegalTransitionError(f"{happened.name} in state {state.name}; it knows {known}") from None


def page() -> str:
    """The page of the docs that is made from the states and the table, with a Mermaid diagram."""
    lines = [
        "# States of the coordinator",
        "",
        "Generated from `src/onceflow/twophase/state.py` by `make diagram`; a test holds the two together.",
        "",
        "```mermaid",
        "stateDiagram-v2",
        "  [*] --> NEW",
    ]
    for state, row in TABLE.items():
        lines += [f"  {state.name} --> {after.name}: {happened.value}" for happened, after in row.items()]
        if not row:
            lines.append(f"  {state.name} --> [*]")
    lines += ["```", "", "| state | meaning |", "|---|---|"]
    lines += [f"| {state.name} | {state.value} |" for state in State]
    return "\n".join(lines) + "\n"
