"""The coordinator, event by event: what it asks for next, and that an illegal event changes nothing."""

import random

import pytest

from onceflow.twophase.committable import Committable
from onceflow.twophase.coordinator import Coordinator, Mode
from onceflow.twophase.messages import (
    Aborted,
    AbortOwn,
    Adopted,
    Append,
    Appended,
    AppendVoid,
    AskOutcomes,
    Check,
    Checked,
    Commit,
    Confirmed,
    ConfirmNewest,
    Discard,
    Fail,
    FailureKind,
    Outcome,
    Outcomes,
    Prepared,
    Ready,
    Replies,
    Reply,
    Restored,
    RestoreOffsets,
    Return,
    RunFailed,
    RunPlan,
    Started,
    Superseded,
    Sweep,
    Unanswered,
    Voided,
)
from onceflow.twophase.records import Decide, History, Replay, ReplayBegin, Resolve, Start, read_history
from onceflow.twophase.state import IllegalTransitionError, State

OPEN, GONE, SEEN, DARK = Outcome.OPEN, Outcome.ABORTED, Outcome.COMMITTED, Outcome.UNKNOWN
EVENTS = [
    Started(History(), None),
    Restored(same=True),
    Outcomes({}),
    Replies({}),
    Prepared(()),
    RunFailed("x"),
    Checked(None),
    Appended(),
    Superseded(),
    Unanswered("x"),
    Voided(),
    Adopted(),
    Aborted(),
    Confirmed(newest=True),
]


def of(shard, rows=1, digest=7, mark="old", sink="s"):
    return Committable(sink, shard, 0, rows, digest, {"id": f"{mark}-{shard}"} if mark else None)


A, B = of(0), of(1)
EMPTY = of(2, 0, 0, mark="")


def outcomes(*found):
    return Outcomes({c.participant: o for c, o in zip((A, B), found, strict=False)})


def replies(*found):
    return Replies({c.participant: r for c, r in zip((A, B), found, strict=False)})


def decided(*more):
    return read_history([Start(1), Decide(1, 5, "o5", (A, B, EMPTY)), *more])


def fresh():
    """A coordinator that is READY, with nothing undone."""
    coordinator = Coordinator(["s"])
    coordinator.start()
    assert isinstance(coordinator.receive(Started(History().then(Start(1)), None)), Sweep)
    assert coordinator.receive(Confirmed(newest=True)) == Ready()
    return coordinator


NEXT_START = (Start(2),)


def undone(*found, records=NEXT_START):
    """A coordinator that found epoch 5 decided and these outcomes, up to the action that follows them."""
    coordinator = Coordinator(["s"])
    coordinator.start()
    assert coordinator.receive(Started(decided(*records), 4)) == RestoreOffsets(5, "o5")
    action = coordinator.receive(Restored(same=True))
    if found:
        assert action == AskOutcomes((A, B)), "an empty shard has no outcome"
        action = coordinator.receive(outcomes(*found))
    return coordinator, action


def ready(coordinator):
    return coordinator.receive(Confirmed(newest=True))


# -- an epoch ---------------------------------------------------------------------------------------------------------


def test_an_epoch():
    """Prepare, check, decide, commit, confirm, return: in this order, and the decision names every shard."""
    c = fresh()
    assert c.begin(0, "o0", stateful=True) == RunPlan(0)
    assert c.receive(Prepared((A, B, EMPTY))) == Check((A, B, EMPTY))
    assert c.receive(Checked(None)) == Append(Decide(1, 0, "o0", (A, B, EMPTY)))
    assert c.receive(Appended()) == Commit((A, B))
    assert c.receive(replies(Reply.COMMITTED, Reply.RETRY)) == Commit((B,), 1)
    assert c.receive(Replies({B.participant: Reply.COMMITTED})) == ConfirmNewest()
    assert c.receive(Confirmed(newest=True)) == Return(0)
    assert c.begin(1, "o1", stateful=True) == RunPlan(1)


def test_an_epoch_without_output_writes_no_decision():
    """No participant, no decision; but it must still be the newest before Spark records it."""
    c = fresh()
    c.begin(0, "o0", stateful=False)
    assert c.receive(Prepared((EMPTY,))) == ConfirmNewest()
    assert c.receive(Confirmed(newest=True)) == Return(0)


@pytest.mark.parametrize(
    ("event", "kind"), [(RunFailed("boom"), FailureKind.RUN_FAILED), (Checked("torn"), FailureKind.UNSOUND)]
)
def test_what_fails_before_the_decision_is_aborted(event, kind):
    """A failed run or check aborts this run's own transactions and fails the epoch, with the reason."""
    c = fresh()
    c.begin(0, "o0", stateful=False)
    written = ()
    if isinstance(event, Checked):
        written = (A, B)
        c.receive(Prepared(written))
    assert c.receive(event) == AbortOwn(0, written)
    failed = c.receive(Aborted())
    assert isinstance(failed, Fail)
    assert (failed.failure.kind, failed.failure.epoch) == (kind, 0)


def deciding():
    c = fresh()
    c.begin(0, "o0", stateful=False)
    c.receive(Prepared((A, B)))
    c.receive(Checked(None))
    return c


def test_a_fenced_decision_touches_nothing():
    """A newer start was in the way: no abort, no commit, only the failure."""
    failed = deciding().receive(Superseded())
    assert isinstance(failed, Fail)
    assert failed.failure.kind is FailureKind.FENCED


def test_an_unanswered_decision_is_voided_before_anything_is_aborted():
    """Only a void in the disputed place makes the abort safe."""
    c = deciding()
    assert isinstance(c.receive(Unanswered("io")), AppendVoid)
    assert c.receive(Voided()) == AbortOwn(0, (A, B))
    failed = c.receive(Aborted())
    assert (failed.failure.kind, failed.failure.detail) == (FailureKind.DECISION_VOIDED, "io")


def test_a_decision_that_is_there_after_all_is_committed():
    """The disputed place held the decision: the epoch goes on as if the answer had come."""
    c = deciding()
    c.receive(Unanswered("io"))
    assert c.receive(Adopted()) == Commit((A, B))


@pytest.mark.parametrize(
    ("event", "kind"),
    [(Unanswered("io"), FailureKind.DECISION_UNCERTAIN), (Superseded(), FailureKind.FENCED)],
)
def test_an_uncertain_decision_aborts_nothing(event, kind):
    """Neither decision nor void is known: nothing is aborted; the next start reads the journal."""
    c = deciding()
    c.receive(Unanswered("io"))
    failed = c.receive(event)
    assert isinstance(failed, Fail)
    assert failed.failure.kind is kind


def committing():
    c = deciding()
    c.receive(Appended())
    return c


def test_a_suspect_answer_is_asked_of_the_oracle():
    """An answer that proves nothing leads to the outcomes of those still pending, and then to another commit."""
    c = committing()
    assert c.receive(replies(Reply.COMMITTED, Reply.SUSPECT)) == AskOutcomes((B,))
    assert c.receive(Outcomes({B.participant: OPEN})) == Commit((B,), 1)
    c.receive(Replies({B.participant: Reply.SUSPECT}))
    assert c.receive(Outcomes({B.participant: SEEN})) == ConfirmNewest()


@pytest.mark.parametrize(
    ("outcome", "kind"), [(GONE, FailureKind.LOST_WHILE_RUNNING), (DARK, FailureKind.OUTCOME_UNKNOWN)]
)
def test_a_loss_after_the_run_stops_the_call(outcome, kind):
    """State and output must come from one run, so what is lost after this call's run is replayed by a new start."""
    c = committing()
    c.receive(replies(Reply.COMMITTED, Reply.SUSPECT))
    failed = c.receive(Outcomes({B.participant: outcome}))
    assert isinstance(failed, Fail)
    assert (failed.failure.kind, failed.failure.participants) == (kind, (B.participant,))


def test_a_superseded_driver_does_not_return():
    """All is committed, but a newer start is there: Spark must not record the epoch from here."""
    c = committing()
    c.receive(replies(Reply.COMMITTED, Reply.COMMITTED))
    assert c.receive(Confirmed(newest=False)).failure.kind is FailureKind.FENCED


# -- the start --------------------------------------------------------------------------------------------------------


def test_what_is_open_is_committed_at_the_start():
    """None lost: committed before the sweep, and the epoch then returns without a run when there is no state."""
    c, action = undone(OPEN, SEEN)
    assert action == Commit((A,))
    sweep = c.receive(replies(Reply.COMMITTED))
    assert sweep == Sweep((A, B))
    assert ready(c) == Ready()
    assert c.begin(5, "o5", stateful=False) == ConfirmNewest()


def test_state_is_built_by_a_run_that_writes_nothing_and_must_be_equal():
    """A stateful epoch that the start finished runs its plan silently; equal rows may be recorded."""
    c, _ = undone(SEEN, SEEN)
    ready(c)
    assert c.begin(5, "o5", stateful=True) == RunPlan(5, write=False)
    again = (of(0, mark=""), of(1, mark=""), EMPTY)
    assert c.receive(Prepared(again)) == ConfirmNewest()


def test_state_from_other_rows_stops():
    """The plan gave other rows: state and output would come from different runs."""
    c, _ = undone(SEEN, SEEN)
    ready(c)
    c.begin(5, "o5", stateful=True)
    failed = c.receive(Prepared((of(0, mark=""), of(1, digest=8, mark=""))))
    assert failed.failure.kind is FailureKind.NOT_DETERMINISTIC
    assert "sink s" in failed.failure.detail


@pytest.mark.parametrize("found", [(OPEN, GONE), (OPEN, DARK), (GONE, GONE)])
def test_nothing_is_committed_at_the_start_while_one_is_lost_or_unknown(found):
    """The start commits nothing before all outcomes are known, and its sweep spares what is decided."""
    c, action = undone(*found)
    assert action == Sweep((A, B))
    assert ready(c) == Ready()
    assert c.begin(5, "o5", stateful=False) == AskOutcomes((A, B))


def test_a_suspect_answer_at_the_start_is_asked_again():
    """Lost between outcome and commit: back to the outcomes."""
    c, _ = undone(OPEN, OPEN)
    assert c.receive(replies(Reply.COMMITTED, Reply.SUSPECT)) == AskOutcomes((B,))
    assert isinstance(c.receive(Outcomes({B.participant: GONE})), Sweep)


def test_other_offsets_stop_the_start():
    """offsets/N is not what was decided: nothing is committed, nothing aborted."""
    c = Coordinator(["s"])
    c.start()
    c.receive(Started(decided(Start(2)), 4))
    assert c.receive(Restored(same=False)).failure.kind is FailureKind.OFFSETS_DIFFER


@pytest.mark.parametrize("sinks", [["s", "t"], ["t"]])
def test_other_sinks_stop_the_start(sinks):
    """An undone epoch must be finished with the sinks that it was decided with."""
    c = Coordinator(sinks)
    c.start()
    assert c.receive(Started(decided(Start(2)), 4)).failure.kind is FailureKind.SINKS_CHANGED


def test_two_undone_epochs_stop_the_start():
    """Two decided epochs that Spark knows nothing of: a failure like any other, not an exception."""
    c = Coordinator(["s"])
    c.start()
    history = decided(Decide(1, 6, "o6", (A,)), Start(2))
    failed = c.receive(Started(history, 4))
    assert isinstance(failed, Fail)
    assert failed.failure.kind is FailureKind.TWO_UNDONE
    assert c.state is State.STOPPED


def test_a_start_that_is_fenced_while_sweeping_ends():
    """A newer start appeared before the aborts."""
    c = Coordinator(["s"])
    c.start()
    c.receive(Started(History().then(Start(1)), None))
    assert c.receive(Confirmed(newest=False)).failure.kind is FailureKind.FENCED


@pytest.mark.parametrize(
    ("epoch", "offsets", "kind"),
    [(6, "o5", FailureKind.EPOCH_UNEXPECTED), (5, "other", FailureKind.OFFSETS_DIFFER)],
)
def test_an_epoch_that_cannot_follow_stops(epoch, offsets, kind):
    """Spark began another epoch than the undone one, or with other offsets."""
    c, _ = undone(GONE, OPEN)
    ready(c)
    assert c.begin(epoch, offsets, stateful=False).failure.kind is kind


def test_an_epoch_that_is_done_is_not_run_again():
    """Spark's offsets/ and commits/ are older than the journal: the epoch would be written under another number."""
    c = Coordinator(["s"])
    c.start()
    c.receive(Started(decided(Start(2)), 5))
    ready(c)
    assert c.begin(5, "o5", stateful=False).failure.kind is FailureKind.EPOCH_UNEXPECTED


# -- replay -----------------------------------------------------------------------------------------------------------


def losing(*found, stateful=False):
    """A coordinator in epoch 5 that has just been told these outcomes, one of them a loss."""
    c, _ = undone(*found)
    ready(c)
    c.begin(5, "o5", stateful=stateful)
    assert c.receive(outcomes(*found)) == Append(ReplayBegin(2, 5, 1))
    return c


def test_only_what_is_open_is_discarded():
    """After replay-begin every outcome is asked again; only the open ones are aborted, so no evidence is destroyed."""
    c = losing(OPEN, GONE)
    assert c.receive(Appended()) == AskOutcomes((A, B))
    assert c.receive(outcomes(OPEN, GONE)) == Discard((A,))
    assert c.receive(Aborted()) == AskOutcomes((A, B))
    assert c.receive(outcomes(GONE, GONE)) == RunPlan(5)


def test_nothing_visible_is_written_again_freely():
    """All proven aborted: the plan runs freely, other rows are welcome, and the record replaces the whole set."""
    c = losing(GONE, GONE, stateful=True)
    c.receive(Appended())
    c.receive(outcomes(GONE, GONE))
    new = (of(0, 9, 9, mark="new"), of(3, 1, 1, mark="new"))
    c.receive(Prepared(new))
    assert c.receive(Checked(None)) == Append(Replay(2, 5, 1, "whole", new))
    assert c.receive(Appended()) == Commit(new)
    done = c.receive(Replies({n.participant: Reply.COMMITTED for n in new}))
    assert done == ConfirmNewest(), "the state comes from the same run"


def matching():
    """A replay of which A is visible and B is lost, while the plan runs to find A's rows."""
    c = losing(SEEN, GONE)
    c.receive(Appended())
    assert c.receive(outcomes(SEEN, GONE)) == RunPlan(5, write=False)
    return c


A_AGAIN, B_AGAIN = of(1, mark=""), of(0, 9, 9, mark="")


def test_only_what_is_lost_is_written_when_some_are_visible():
    """The part with the visible rows, whatever its number, stays silent; the rest is written and numbered behind."""
    c = matching()
    assert c.receive(Prepared((B_AGAIN, A_AGAIN, EMPTY))) == RunPlan(5, silent=frozenset([A_AGAIN.participant]))
    new = of(0, 9, 9, mark="new")
    c.receive(Prepared((new, A_AGAIN, EMPTY)))
    append = c.receive(Checked(None))
    record = append.record
    assert (record.scope, record.kept) == ("shards", (A.participant,))
    assert [(x.shard, x.transaction) for x in record.committables] == [(3, new.transaction), (5, None)]
    assert c.receive(Appended()) == Commit((record.committables[0],))
    done = c.receive(Replies({("s", 3): Reply.COMMITTED}))
    assert done == ConfirmNewest()


@pytest.mark.parametrize("again", [of(1, digest=8, mark=""), of(1, rows=2, mark=""), None])
def test_visible_rows_that_do_not_come_again_stop_before_anything_is_written(again):
    """Part of the epoch is visible and the plan does not give its rows: stopped, with the shard's name."""
    failed = matching().receive(Prepared(tuple(x for x in (again, B_AGAIN) if x)))
    assert isinstance(failed, Fail)
    assert (failed.failure.kind, failed.failure.participants) == (FailureKind.NOT_DETERMINISTIC, (A.participant,))


@pytest.mark.parametrize("written", [(of(0, 9, 8, mark="new"), A_AGAIN), (A_AGAIN,)])
def test_a_run_that_differs_from_the_one_before_is_aborted(written):
    """State is built by the first run of a call and output by the second: they must be equal, part by part."""
    c = matching()
    c.receive(Prepared((B_AGAIN, A_AGAIN)))
    assert isinstance(c.receive(Prepared(written)), AbortOwn)
    assert c.receive(Aborted()).failure.kind is FailureKind.NOT_DETERMINISTIC


def test_an_operator_may_accept_other_rows_for_what_is_lost():
    """accept-state: the visible parts stay by their numbers, the others are written, and the two runs may differ."""
    accepted = (*NEXT_START, ReplayBegin(2, 5, 1), Start(3), Resolve(3, 5, "accept-state", (), "op", "checked by hand"))
    c, _ = undone(records=accepted)
    ready(c)
    assert c.begin(5, "o5", stateful=False) == AskOutcomes((A, B))
    assert c.receive(outcomes(SEEN, GONE)) == RunPlan(5, write=False)
    assert c.receive(Prepared((of(0, 5, 5, mark=""), of(1, 6, 6, mark="")))) == RunPlan(5, silent={A.participant})
    c.receive(Prepared((of(0, 7, 7, mark=""), of(1, 8, 8, mark="new"))))
    record = c.receive(Checked(None)).record
    assert (record.scope, record.kept, [x.rows for x in record.committables]) == ("shards", (A.participant,), [8])


def test_a_check_that_fails_because_a_newer_start_aborted_says_so():
    """Superseded instead of a problem: the call ends as fenced, and aborts nothing."""
    c = fresh()
    c.begin(0, "o0", stateful=False)
    c.receive(Prepared((A, B)))
    failed = c.receive(Superseded())
    assert isinstance(failed, Fail)
    assert failed.failure.kind is FailureKind.FENCED


def test_a_run_that_fails_while_matching_aborts_nothing():
    """Nothing was written yet; the next start tries again."""
    failed = matching().receive(RunFailed("boom"))
    assert isinstance(failed, Fail)
    assert failed.failure.kind is FailureKind.REBUILD_FAILED


def test_an_unknown_outcome_stops_a_replay():
    """Never guess: what cannot be proven is neither written again nor counted."""
    c = losing(SEEN, GONE)
    c.receive(Appended())
    failed = c.receive(outcomes(DARK, GONE))
    assert (failed.failure.kind, failed.failure.participants) == (FailureKind.OUTCOME_UNKNOWN, (A.participant,))


@pytest.mark.parametrize(
    ("event", "kind"),
    [(Superseded(), FailureKind.FENCED), (Unanswered("io"), FailureKind.REPLAY_NOT_RECORDED)],
)
def test_a_replay_that_is_not_begun_aborts_nothing(event, kind):
    """Fenced or unanswered at replay-begin: nothing is discarded."""
    assert losing(OPEN, GONE).receive(event).failure.kind is kind


def test_a_start_goes_on_with_a_replay_that_has_begun():
    """Nothing of the old set is committed any more, whatever its outcome: the epoch goes straight to the outcomes."""
    c, action = undone(records=(Start(2), ReplayBegin(2, 5, 1), Start(3)))
    assert action == Sweep((A, B))
    ready(c)
    assert c.begin(5, "o5", stateful=False) == AskOutcomes((A, B))
    assert c.receive(outcomes(OPEN, OPEN)) == Discard((A, B))


# -- whatever happens ------------------------------------------------------------------------------------------------


def test_an_illegal_event_changes_nothing():
    """Whatever a random walk reaches, an event that the table does not know leaves state and memory as they were."""
    reached = set()
    for seed in range(600):
        rng = random.Random(seed)
        c = Coordinator(["s"])
        for step in range(150):
            before, memory = c.state, c.memory
            if step == 0:
                c.start()
                continue
            if c.state is State.READY and rng.random() < 0.7:
                epoch = c.memory.undone.epoch if c.memory.undone else 9
                c.begin(epoch, f"o{epoch}", stateful=rng.random() < 0.5)
                continue
            event = rng.choice(
                [
                    Started(decided(Start(2)), rng.choice([4, 5])),
                    Restored(same=rng.random() < 0.9),
                    outcomes(*rng.choices([OPEN, GONE, SEEN, DARK], k=2)),
                    replies(*rng.choices(list(Reply), k=2)),
                    Prepared(rng.choice([(A, B), (A,), (EMPTY,), (of(0, digest=9), B)])),
                    *EVENTS[5:],
                    Confirmed(newest=False),
                ]
            )
            reached.add(before)
            try:
                c.receive(event)
            except IllegalTransitionError:
                assert (c.state, c.memory) == (before, memory)
                assert c.memory is memory
    assert reached >= set(State) - {State.NEW}


def test_a_call_at_the_wrong_time_changes_nothing():
    """A second start, or an epoch before the start is over, is the caller's bug and leaves no trace."""
    c = Coordinator(["s"])
    with pytest.raises(IllegalTransitionError):
        c.begin(0, "o", stateful=False)
    assert c.state is State.NEW
    c.start()
    memory = c.memory
    with pytest.raises(IllegalTransitionError):
        c.start()
    assert (c.state, c.memory) == (State.STARTING, memory)


def test_modes_say_why_the_plan_runs():
    """Every mode has a reason in words."""
    assert all(mode.value for mode in Mode)
