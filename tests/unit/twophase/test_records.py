"""Histories: what the journal's records mean, and which orders of records cannot be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.twophase.layout import Layout, LayoutSource
from onceflow.twophase.records import (
    Claim,
    Decide,
    History,
    HistoryError,
    LayoutRecord,
    Newest,
    Recut,
    Replay,
    ReplayBegin,
    Resolve,
    Skip,
    Start,
    Void,
)
from tests.support.histories import participant, read_history


def of(number, rows=1, mark="old"):
    return participant(number, rows, mark=mark)


A, B, C = of(0), of(1), of(2)


def ids(decided):
    return {c.transaction["id"] for c in decided.effective}


def test_the_newest_decision_counts():
    """The history keeps the newest decided epoch and the number of the one before."""
    history = read_history([Start(1), Decide(1, 4, "o4", ("s",), (A,)), Decide(1, 5, "o5", ("s",), (B,))])
    assert (history.incarnation, history.decided.epoch, history.earlier) == (1, 5, 4)


@pytest.mark.parametrize(("newest_commit", "undone"), [(None, True), (3, True), (4, True), (5, False), (9, False)])
def test_an_epoch_is_done_when_spark_is_at_least_there(newest_commit, undone):
    """Done means that Spark's newest commit is at least the epoch: numbers jump, and old entries are purged."""
    history = read_history([Start(1), Decide(1, 5, "o5", ("s",), (A,))])
    assert (history.undone(newest_commit) is not None) is undone


def test_two_undone_epochs_stop():
    """Two decided epochs of which Spark knows neither cannot come from one order of writes: it is said, not guessed."""
    history = read_history([Start(1), Decide(1, 4, "o4", ("s",), (A,)), Decide(1, 5, "o5", ("s",), (B,))])
    with pytest.raises(HistoryError, match="4 and 5"):
        history.undone(3)


def test_a_void_changes_nothing():
    """A void takes a place; what was decided stays, and the epoch may be decided later."""
    history = read_history([Start(1), Void(1, 5), Start(2), Decide(2, 5, "o", ("s",), (A,))])
    assert history.decided.effective == (A,)


def test_a_whole_replay_replaces_the_whole_set():
    """After a whole replay no participant of the old set counts, even one that the new run lacks."""
    new = of(0, mark="new")
    history = read_history(
        [Start(1), Decide(1, 5, "o", ("s",), (A, B)), Start(2), ReplayBegin(2, 5, 1), Replay(2, 5, 1, "whole", (new,))]
    )
    assert ids(history.decided) == {"new-0"}
    assert not history.decided.replaying


def test_a_replay_by_parts_keeps_those_it_names():
    """After a replay by parts only the kept ones of the old set still count, beside the new ones."""
    new = of(3, mark="new")
    replay = Replay(2, 5, 1, "parts", (new,), (A.id, C.id))
    history = read_history([Start(1), Decide(1, 5, "o", ("s",), (A, B, C)), Start(2), ReplayBegin(2, 5, 1), replay])
    assert ids(history.decided) == {"old-0", "new-3", "old-2"}
    assert not history.decided.replaying


def test_a_replay_that_has_begun_stays_begun_over_a_start():
    """A start that reads replay-begin without its end goes on with the replay; the next one begins with its number."""
    begun = [Start(1), Decide(1, 5, "o", ("s",), (A,)), Start(2), ReplayBegin(2, 5, 1), Start(3)]
    assert read_history(begun).decided.replaying
    ended = read_history([*begun, Replay(3, 5, 1, "whole", (B,)), Start(4), ReplayBegin(4, 5, 2)])
    assert (ended.decided.replays, ended.decided.replaying) == (2, True)


def test_an_operators_choice_ends_with_the_transaction_it_spoke_of():
    """A choice about a participant is kept as long as a replay keeps that participant."""
    decided = [Start(1), Decide(1, 5, "o", ("s",), (A, B)), Start(2)]
    choose = Resolve(2, 5, "write-again", (A.id,), "me", "looked")
    keep = Resolve(2, 5, "count-as-written", (B.id,), "me", "looked")
    history = read_history([*decided, choose, keep])
    assert (history.decided.rewritten, history.decided.counted) == ({A.id}, {B.id})
    again = [ReplayBegin(2, 5, 1), Replay(2, 5, 1, "parts", (of(2, mark="new"),), (B.id,))]
    history = read_history(again, history)
    assert (history.decided.rewritten, history.decided.counted) == (frozenset(), {B.id})


def test_a_later_choice_wins():
    """Of two choices about the same participant the later one counts."""
    first = Resolve(1, 5, "write-again", (A.id,), "me", "")
    second = Resolve(1, 5, "count-as-written", (A.id,), "me", "")
    accept = Resolve(1, 5, "accept-state", (), "me", "")
    history = read_history([Start(1), Decide(1, 5, "o", ("s",), (A,)), first, second, accept])
    assert (history.decided.rewritten, history.decided.counted) == (frozenset(), {A.id})
    assert history.decided.state_accepted


@pytest.mark.parametrize(
    "records",
    [
        [Start(2), Start(2)],
        [Start(2), Start(1)],
        [Start(1), Start(2), Decide(1, 5, "o", ("s",), ())],
        [Start(1), Void(2, 5)],
        [Start(1), Decide(1, 5, "o", ("s",), ()), Decide(1, 5, "o", ("s",), ())],
        [Start(1), Decide(1, 5, "o", ("s",), ()), Decide(1, 4, "o", ("s",), ())],
        [Start(1), ReplayBegin(1, 5, 1)],
        [Start(1), Decide(1, 5, "o", ("s",), ()), ReplayBegin(1, 4, 1)],
        [Start(1), Decide(1, 5, "o", ("s",), ()), ReplayBegin(1, 5, 2)],
        [Start(1), Decide(1, 5, "o", ("s",), ()), Replay(1, 5, 1, "whole", ())],
        [Start(1), Decide(1, 5, "o", ("s",), ()), ReplayBegin(1, 5, 1), Replay(1, 5, 2, "whole", ())],
        [Start(1), Resolve(1, 5, "accept-state", (), "", "")],
        [Start(1), Resolve(1, 5, "write-again", (), "", "")],
        [Start(1), Decide(1, 5, "o", ("s",), ()), Resolve(1, 6, "count-as-written", (), "", "")],
        [Start(1), Decide(1, 5, "o", ("s",), ()), Resolve(1, 4, "give-up-rows", (), "", "")],
        [Start(1), Decide(1, 5, "o", ("s",), ()), Recut(1, 5, 9)],
        [Start(1), Decide(1, 5, "o", ("s",), ()), Recut(1, 4, 9)],
        [Start(1), Decide(1, 5, "o", ("s",), ()), Skip(1, 4, "b", "")],
        [Start(1), LayoutRecord(2, Layout())],
        [Start(2, "a"), Start(2, "b")],
        [Start(1, "a"), Decide(1, 5, "o", ("s",), ()), Start(2, "b"), ReplayBegin(2, 5, 1)],
    ],
)
def test_an_order_that_cannot_be_is_an_error(records):
    """Records that contradict each other are never read as if they made sense."""
    with pytest.raises(HistoryError):
        read_history(records)


@given(
    st.lists(st.sampled_from([Start(1), Start(2), Void(1, 5), Decide(1, 5, "o", ("s",), (A,)), ReplayBegin(1, 5, 1)]))
)
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


# -- layouts and jobs -------------------------------------------------------------------------------------------------

LAYOUT = Layout((LayoutSource(("s",), "cluster", "topic t", "path"),))
GROWN = Layout((LayoutSource(("s",), "cluster", "topics t, u", "path"),))


def test_the_newest_layout_counts():
    """It stands from its record on, over decisions and starts."""
    history = read_history([Start(1), LayoutRecord(1, LAYOUT), Decide(1, 5, "o", ("s",), (A,)), Start(2)])
    assert history.layout == LAYOUT
    assert history.then(LayoutRecord(2, GROWN)).layout == GROWN


def test_another_jobs_start_begins_anew():
    """--as-new: the numbers of starts go on, and of the job before only the layout counts."""
    said = [Recut(1, 6, 9), Skip(1, 6, "b", ""), Resolve(1, 6, "give-up-rows", (), "", "")]
    before = [
        Start(1, "a"),
        LayoutRecord(1, LAYOUT),
        Decide(1, 4, "o4", ("s",), (A,)),
        Decide(1, 5, "o5", ("s",), (A,)),
        *said,
    ]
    assert read_history([*before, Start(2, "b")]) == History(2, "b", layout=LAYOUT)
    assert read_history([*before, Start(2, "a")]).decided is not None
    assert read_history([*before, Start(2, "b"), Decide(2, 5, "o", ("s",), (B,))]).decided.effective == (B,)


def test_what_stays_of_purged_records_is_recalled():
    """Job and layout, also a layout of the job before: the offsets are the same."""
    assert History().recalled(Start(1, "a")).recalled(LayoutRecord(1, LAYOUT)) == History(0, "a", layout=LAYOUT)
    assert History(0, "a", layout=LAYOUT).recalled(Start(2, "a")).layout == LAYOUT
    assert History(0, "a", layout=LAYOUT).recalled(Start(2, "b")) == History(0, "b", layout=LAYOUT)
    assert History(0, "a").recalled(Decide(1, 5, "o", ("s",), ())) == History(0, "a")


# -- epochs that are not decided --------------------------------------------------------------------------------------


def test_what_was_said_of_an_epoch_ends_with_the_next_decision():
    """Cut smaller, begun behind a loss, given up: of the decided epoch only the decision counts."""
    said = [Recut(1, 6, 9), Skip(1, 6, "b", ""), Resolve(1, 6, "give-up-rows", (), "", "")]
    history = read_history([Start(1), Decide(1, 5, "o", ("s",), (A,)), *said, Start(2)])
    assert (history.recut, history.skip, history.loss_accepted) == (said[0], said[1], 6)
    history = history.then(Decide(2, 6, "o6", ("s",), (B,)))
    assert (history.recut, history.skip, history.loss_accepted) == (None, None, None)


def test_the_first_epoch_may_be_spoken_of_before_any_decision():
    """Nothing is decided yet: a first epoch may be too long, or begin behind a loss."""
    history = read_history([Start(1), Recut(1, 0, 9), Skip(1, 0, "b", "")])
    assert (history.recut.limit, history.skip.before) == (9, "b")
    assert history.undone(None) is None


# -- rows that are given up, and records that are passed over ---------------------------------------------------------


def test_rows_that_are_given_up_take_their_state_with_them():
    """The state can then only be built from what is left: that is accepted with it."""
    history = read_history(
        [Start(1), Decide(1, 5, "o", ("s",), (A, B)), Resolve(1, 5, "give-up-rows", (A.id,), "", "")]
    )
    found = history.decided
    assert (found.given_up, found.loss_accepted, found.state_accepted) == ({A.id}, True, True)
    assert history.loss_accepted is None, "that is of undecided epochs"


def test_a_decided_epoch_that_passes_over_records_has_new_offsets():
    """What it had stays known: it may still stand in Spark's file. A second time that is what the first left."""
    decided = read_history([Start(1), Decide(1, 5, "o5", ("s",), (A,)), Skip(1, 5, "b4", "o5 moved")])
    assert (decided.decided.offsets, decided.decided.before) == ("o5 moved", "b4")
    again = decided.then(Skip(1, 5, "b4 again", "o5 again")).decided
    assert (again.offsets, again.before) == ("o5 again", "b4 again")


def test_a_replay_keeps_where_its_epoch_begins():
    """The offsets and the operator's word about the source stay; choices about its old transactions end."""
    history = read_history(
        [
            Start(1),
            Decide(1, 5, "o5", ("s",), (A, B)),
            Resolve(1, 5, "give-up-rows", (A.id,), "", ""),
            Skip(1, 5, "b4", "o5 moved"),
            ReplayBegin(1, 5, 1),
            Replay(1, 5, 1, "whole", (C,)),
        ]
    )
    found = history.decided
    assert (found.offsets, found.before, found.loss_accepted) == ("o5 moved", "b4", True)
    assert (found.given_up, found.state_accepted) == (frozenset(), False)


def test_a_part_that_was_given_up_stays_given_up_in_a_replay_that_keeps_it():
    """As one that counts as written does: its rows are not owed, and the next start must not find them lost again."""
    history = read_history(
        [
            Start(1),
            Decide(1, 5, "o5", ("s",), (A, B)),
            Resolve(1, 5, "give-up-rows", (A.id,), "", ""),
            ReplayBegin(1, 5, 1),
            Replay(1, 5, 1, "parts", (of(2, mark="new"),), (A.id,)),
        ]
    )
    assert ids(history.decided) == {"old-0", "new-2"}
    assert history.decided.given_up == {A.id}


def test_a_claim_that_gives_up_the_newest_of_a_sink_says_what_is_known_still():
    """What came before it may be gone as well: what the claim has found is asked for. Another sink keeps its own."""
    a, b, other = participant(0), participant(1), participant(2, sink="t")
    two = read_history([Start(1), Decide(1, 0, "o", ("s", "t"), (a, other)), Decide(1, 1, "p", ("s", "t"), (b,))])
    known = Newest("s", "older", 1, -1, 5)
    assert two.newest().keys() == {"s", "t"}
    assert two.then(Start(2, claim=Claim((b.handle,)))).newest().keys() == {"t"}
    claimed = two.then(Start(2, claim=Claim((b.handle,), (known,))))
    assert claimed.newest()["s"] == known
    assert claimed.then(Decide(2, 2, "q", ("s", "t"), ())).newest()["s"] == known
