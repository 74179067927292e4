"""Histories: what the journal's records mean, and which orders of records cannot be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.twophase.committable import Committable
from onceflow.twophase.records import (
    Decide,
    History,
    HistoryError,
    Replay,
    ReplayBegin,
    Resolve,
    Start,
    Void,
    read_history,
)


def of(shard, rows=1, mark="old"):
    return Committable("s", shard, 0, rows, 7, {"id": f"{mark}-{shard}"})


A, B, C = of(0), of(1), of(2)


def ids(decided):
    return {c.transaction["id"] for c in decided.effective}


def test_the_newest_decision_counts():
    """The history keeps the newest decided epoch and the number of the one before."""
    history = read_history([Start(1), Decide(1, 4, "o4", (A,)), Decide(1, 5, "o5", (B,))])
    assert (history.incarnation, history.decided.epoch, history.earlier) == (1, 5, 4)


@pytest.mark.parametrize(("newest_commit", "undone"), [(None, True), (3, True), (4, True), (5, False), (9, False)])
def test_an_epoch_is_done_when_spark_is_at_least_there(newest_commit, undone):
    """Done means that Spark's newest commit is at least the epoch: numbers jump, and old entries are purged."""
    history = read_history([Start(1), Decide(1, 5, "o5", (A,))])
    assert (history.undone(newest_commit) is not None) is undone


def test_two_undone_epochs_stop():
    """Two decided epochs of which Spark knows neither cannot come from one order of writes: it is said, not guessed."""
    history = read_history([Start(1), Decide(1, 4, "o4", (A,)), Decide(1, 5, "o5", (B,))])
    with pytest.raises(HistoryError, match="4 and 5"):
        history.undone(3)


def test_a_void_changes_nothing():
    """A void takes a place; what was decided stays, and the epoch may be decided later."""
    history = read_history([Start(1), Void(1, 5), Start(2), Decide(2, 5, "o", (A,))])
    assert history.decided.effective == (A,)


def test_a_whole_replay_replaces_the_whole_set():
    """After a whole replay no shard of the old set is left in the effective set, even one that the new run lacks."""
    new = of(0, mark="new")
    history = read_history(
        [Start(1), Decide(1, 5, "o", (A, B)), Start(2), ReplayBegin(2, 5, 1), Replay(2, 5, 1, "whole", (new,))]
    )
    assert ids(history.decided) == {"new-0"}
    assert not history.decided.replaying


def test_a_replay_of_shards_keeps_those_it_names():
    """After a replay of shards only the kept ones of the old set still count, beside the new ones."""
    new = of(3, mark="new")
    replay = Replay(2, 5, 1, "shards", (new,), (A.participant, C.participant))
    history = read_history([Start(1), Decide(1, 5, "o", (A, B, C)), Start(2), ReplayBegin(2, 5, 1), replay])
    assert ids(history.decided) == {"old-0", "new-3", "old-2"}
    assert not history.decided.replaying


def test_a_replay_that_has_begun_stays_begun_over_a_start():
    """A start that reads replay-begin without its end goes on with the replay; the next one begins with its number."""
    begun = [Start(1), Decide(1, 5, "o", (A,)), Start(2), ReplayBegin(2, 5, 1), Start(3)]
    assert read_history(begun).decided.replaying
    ended = read_history([*begun, Replay(3, 5, 1, "whole", (B,)), Start(4), ReplayBegin(4, 5, 2)])
    assert (ended.decided.replays, ended.decided.replaying) == (2, True)


def test_an_operators_choice_ends_with_the_transaction_it_spoke_of():
    """A choice about a participant is kept as long as a replay keeps that participant."""
    decided = [Start(1), Decide(1, 5, "o", (A, B)), Start(2)]
    choose = Resolve(2, 5, "write-again", (A.participant,), "me", "looked")
    keep = Resolve(2, 5, "count-as-written", (B.participant,), "me", "looked")
    history = read_history([*decided, choose, keep])
    assert (history.decided.rewritten, history.decided.counted) == ({("s", 0)}, {("s", 1)})
    again = [ReplayBegin(2, 5, 1), Replay(2, 5, 1, "shards", (of(2, mark="new"),), (B.participant,))]
    history = read_history(again, history)
    assert (history.decided.rewritten, history.decided.counted) == (frozenset(), {("s", 1)})


def test_a_later_choice_wins():
    """Of two choices about the same participant the later one counts."""
    first = Resolve(1, 5, "write-again", (A.participant,), "me", "")
    second = Resolve(1, 5, "count-as-written", (A.participant,), "me", "")
    accept = Resolve(1, 5, "accept-state", (), "me", "")
    history = read_history([Start(1), Decide(1, 5, "o", (A,)), first, second, accept])
    assert (history.decided.rewritten, history.decided.counted) == (frozenset(), {("s", 0)})
    assert history.decided.state_accepted


@pytest.mark.parametrize(
    "records",
    [
        [Start(2), Start(2)],
        [Start(2), Start(1)],
        [Start(1), Start(2), Decide(1, 5, "o", ())],
        [Start(1), Void(2, 5)],
        [Start(1), Decide(1, 5, "o", ()), Decide(1, 5, "o", ())],
        [Start(1), Decide(1, 5, "o", ()), Decide(1, 4, "o", ())],
        [Start(1), ReplayBegin(1, 5, 1)],
        [Start(1), Decide(1, 5, "o", ()), ReplayBegin(1, 4, 1)],
        [Start(1), Decide(1, 5, "o", ()), ReplayBegin(1, 5, 2)],
        [Start(1), Decide(1, 5, "o", ()), Replay(1, 5, 1, "whole", ())],
        [Start(1), Decide(1, 5, "o", ()), ReplayBegin(1, 5, 1), Replay(1, 5, 2, "whole", ())],
        [Start(1), Resolve(1, 5, "accept-state", (), "", "")],
    ],
)
def test_an_order_that_cannot_be_is_an_error(records):
    """Records that contradict each other are never read as if they made sense."""
    with pytest.raises(HistoryError):
        read_history(records)


@given(st.lists(st.sampled_from([Start(1), Start(2), Void(1, 5), Decide(1, 5, "o", (A,)), ReplayBegin(1, 5, 1)])))
def test_a_refused_record_leaves_the_history_as_it_was(records):
    """``then`` gives a new history or raises; the old one is never changed."""
    history = History()
    for record in records:
        before = (history.incarnation, history.decided, history.earlier)
        try:
            after = history.then(record)
        except HistoryError:
            after = history
        assert (history.incarnation, history.decided, history.earlier) == before
        history = after
