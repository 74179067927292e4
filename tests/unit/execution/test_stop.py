"""Stopping: the table of what a request means at each moment of an epoch, and the two threads that meet over it."""

import contextlib
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.execution.stop import TABLE, OverdueError, Stop, StopAnswer, StopInput, StopRequested, StopState, step
from onceflow.twophase.state import IllegalTransitionError

ASKED = {StopState.CLOSED, StopState.REFUSING, StopState.CANCELLED, StopState.FINISHING, StopState.GIVEN_UP}
OUTSIDE = {StopState.OUTSIDE, StopState.CLOSED}
STEPS = [(state, happened, *told) for state, row in TABLE.items() for happened, told in row.items()]
WITHIN_S = 30.0


# -- the table --------------------------------------------------------------------------------------------------------


def test_every_state_is_reached_and_every_input_is_used():
    """Nothing in the table is a leftover, and no state lacks its row."""
    seen, waiting = {StopState.OUTSIDE}, [StopState.OUTSIDE]
    while waiting:
        for after, _ in TABLE[waiting.pop()].values():
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    assert seen == set(StopState) == set(TABLE)
    assert {happened for _, happened, *_ in STEPS} == set(StopInput)


@pytest.mark.parametrize("happened", StopInput)
@pytest.mark.parametrize("state", StopState)
def test_every_pair_is_a_step_or_one_error(state, happened):
    """A pair that the table does not have names both, and what would have been legal; it moves nothing."""
    if happened in TABLE[state]:
        assert step(state, happened) == TABLE[state][happened]
        return
    with pytest.raises(IllegalTransitionError, match=f"{happened.name} in state {state.name}; it knows "):
        step(state, happened)
    stop = Stop()
    stop._state = state
    with pytest.raises(IllegalTransitionError):
        stop._tell(happened)
    assert stop._state is state


def test_a_request_may_come_at_every_moment_and_is_never_taken_back():
    """STOP is legal in every state and leads to one that was asked; from there no way leads back."""
    for state in StopState:
        assert TABLE[state][StopInput.STOP][0] in ASKED
    assert {after for state, _, after, _ in STEPS if state in ASKED} <= ASKED
    assert all(
        happened is StopInput.STOP for state, happened, after, _ in STEPS if state not in ASKED and after in ASKED
    )


def test_nothing_begins_after_a_request_and_nothing_else_is_refused():
    """An epoch, a plan and a decision are refused wherever the stop was asked for, and go on wherever it was not.

    But for an epoch that took too long.
    """
    beginning = {StopInput.ENTER, StopInput.RUN, StopInput.DECIDE}
    refused = {(state, happened) for state, happened, _, answer in STEPS if answer is StopAnswer.REFUSE}
    ending = {*ASKED, StopState.OVERDUE}
    assert refused == {(state, happened) for state, happened, *_ in STEPS if state in ending and happened in beginning}


def test_what_took_too_long_ends_as_by_a_stop_and_the_job_goes_on():
    """Only before its decision; an epoch that follows begins as any, and a stop that comes meanwhile counts."""
    assert {state for state in StopState if StopInput.EXPIRE in TABLE[state]} == {
        StopState.UNDECIDED,
        StopState.RUNNING,
        StopState.CUT,
    }
    assert TABLE[StopState.OVERDUE][StopInput.LEAVE] == (StopState.OUTSIDE, StopAnswer.GO_ON)
    assert {TABLE[each][StopInput.STOP][0] for each in (StopState.OVERDUE, StopState.CUT)} == {
        StopState.REFUSING,
        StopState.CANCELLED,
    }


def test_what_is_decided_is_refused_nothing():
    """From the decision on there is only the epoch's end: neither the request nor giving up turns it round."""
    assert set(TABLE[StopState.DECIDED]) == {StopInput.LEAVE, StopInput.STOP}
    assert set(TABLE[StopState.FINISHING]) == {StopInput.LEAVE, StopInput.STOP, StopInput.GIVE_UP}


def test_spark_is_told_to_cancel_exactly_while_a_plan_runs():
    """Each time that is asked: a cancel that came before Spark had its job found nothing."""
    cancelled = {(state, happened) for state, happened, _, answer in STEPS if answer is StopAnswer.CANCEL}
    assert cancelled == {
        *((state, StopInput.STOP) for state in (StopState.RUNNING, StopState.CANCELLED, StopState.CUT)),
        *((state, StopInput.EXPIRE) for state in (StopState.RUNNING, StopState.CUT)),
    }


def test_waits_end_by_giving_up_alone_and_that_comes_behind_a_request():
    """A decided epoch that is asked to end still waits for its answers."""
    into = {
        (state, happened) for state, happened, after, _ in STEPS if after is StopState.GIVEN_UP and state is not after
    }
    assert into == {(s, StopInput.GIVE_UP) for s in (StopState.REFUSING, StopState.CANCELLED, StopState.FINISHING)}
    assert {state for state in StopState if StopInput.GIVE_UP in TABLE[state]} == ASKED


def test_a_second_request_and_a_refusal_move_nothing():
    """Where an epoch stands is changed by what it does and by the first request; given up it stays until it is left."""
    stays = {(s, StopInput.STOP) for s in ASKED} | {(s, h) for s, h, _, answer in STEPS if answer is StopAnswer.REFUSE}
    stays |= {(StopState.GIVEN_UP, happened) for happened in set(TABLE[StopState.GIVEN_UP]) - {StopInput.LEAVE}}
    assert all(TABLE[state][happened][0] is state for state, happened in stays)


def test_every_epoch_can_be_left():
    """From everywhere there is a way out of the epoch, so whoever waits for it does not wait for ever."""
    good = set(OUTSIDE)
    while more := {s for s, row in TABLE.items() if s not in good and good & {after for after, _ in row.values()}}:
        good |= more
    assert good == set(StopState)
    assert all(
        (after in OUTSIDE) == (happened is StopInput.LEAVE) for s, happened, after, _ in STEPS if s not in OUTSIDE
    )


# -- a request at any moment ------------------------------------------------------------------------------------------

CALLS = {
    "a new epoch": ["plan", "decide"],
    "one that fails": ["plan"],
    "one that was decided before": [],
    "the same, with state to build": ["plan"],
    "written again by its shards": ["plan", "plan", "decide"],
}
moments = st.lists(st.lists(st.sampled_from(["stop", "give up"]), max_size=2), max_size=30)


class Epochs:
    """What Spark's thread does, over the real thing; at each of its moments comes what another thread asks for.

    Attributes:
        decided, finished, refused: The epochs that were decided, were left as they should be, and were ended.
        cancelled: For each request whether Spark was told to cancel, and whether a plan was running.
    """

    def __init__(self, asked):
        self.stop = Stop()
        self.asked = iter(asked)
        self.decided, self.finished, self.refused, self.cancelled = [], [], [], []
        self.requests = self.given_up = 0
        self.inside = self.running = False

    def moment(self):
        for what in next(self.asked, []):
            if what == "stop":
                self.requests += 1
                cancels = []
                self.stop.request(lambda cancels=cancels: cancels.append(1))
                self.cancelled.append((bool(cancels), self.running and not self.given_up))
            elif self.requests:  # giving up comes behind a request
                self.given_up += self.inside
                self.stop.give_up()
        assert self.stop.asked == bool(self.requests)
        assert self.stop.wait_outside(0) == (not self.inside)
        with pytest.raises(StopRequested) if self.given_up and self.inside else contextlib.nullcontext():
            self.stop.pause(0)

    def call(self, number, kind):
        try:
            with self.stop.epoch():
                before = self.requests
                self.inside = True
                self.moment()
                for part in CALLS[kind]:
                    if part == "decide":
                        self.stop.decide()
                        assert not self.requests
                        self.decided.append(number)
                    else:
                        with self.stop.plan():
                            assert not self.requests
                            self.running = True
                            try:
                                self.moment()
                            finally:
                                self.running = False
                    self.moment()
                self.finished.append(number)
            assert not before
        except StopRequested:
            assert self.requests
            self.refused.append(number)
        finally:
            self.inside = False


@given(st.lists(st.sampled_from(sorted(CALLS)), min_size=1, max_size=4), moments)
def test_a_stop_at_any_moment_of_any_epoch(kinds, asked):
    """Whenever it comes, and however often: no step is illegal, nothing begins behind it, what is decided is finished.

    Spark is told to cancel exactly when a plan runs, and waits end exactly when an epoch was given up.
    """
    epochs = Epochs(asked)
    epochs.moment()
    for number, kind in enumerate(kinds):
        epochs.call(number, kind)
        epochs.given_up = 0  # outside there is nothing that waits
        epochs.moment()
    assert set(epochs.decided) <= set(epochs.finished)
    assert sorted(epochs.finished + epochs.refused) == list(range(len(kinds)))
    assert epochs.refused == sorted(epochs.refused)
    assert not epochs.refused or max(epochs.finished, default=-1) < epochs.refused[0]
    assert all(told == due for told, due in epochs.cancelled)


# -- an epoch that takes too long -------------------------------------------------------------------------------------


def test_time_counts_from_the_plan_to_the_decision():
    """Before its time nothing happens; then the plan is cancelled, each time that one looks, and nothing begins.

    The next epoch is free, and so is one that is being decided.
    """
    stop, cancels = Stop(), []
    with stop.epoch():
        stop.expire(1e9, cancels.append)  # no time was set
        stop.bound(10)
        with stop.plan():
            stop.expire(9, lambda: cancels.append("early"))
            stop.expire(10, lambda: cancels.append("first"))
            stop.expire(11, lambda: cancels.append("second"))
        assert stop.overdue
        assert not stop.asked
        for step_ in (stop.decide, stop.plan().__enter__):
            with pytest.raises(OverdueError):
                step_()
    assert cancels == ["first", "second"]
    with stop.epoch():
        stop.expire(1e9, lambda: cancels.append("an old one"))
        stop.bound(20)
        with stop.plan():
            pass
        stop.decide()
        stop.expire(1e9, lambda: cancels.append("too late"))
        assert not stop.overdue
    assert cancels == ["first", "second"]


def test_a_rest_between_epochs_ends_with_a_stop():
    """Else it takes as long as it was told."""
    stop = Stop()
    resting = in_a_thread(lambda: stop.rest(1e6))
    stop.request(lambda: None)
    resting.join(WITHIN_S)
    assert not resting.is_alive()


# -- two threads ------------------------------------------------------------------------------------------------------


def in_a_thread(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_cancel_that_finds_no_job_yet_is_not_lost():
    """The plan has begun and Spark's job is not there: it runs to its end, and is refused where it would be decided."""
    stop, ran = Stop(), []
    with stop.epoch():
        with stop.plan():
            stop.request(lambda: None)
            ran.append("to its end")
        with pytest.raises(StopRequested):
            stop.decide()
        with pytest.raises(StopRequested), stop.plan():
            ran.append("again")
    assert ran == ["to its end"]


def test_asked_once_more_it_cancels_once_more():
    """Whoever stops a second time reaches the job that was not there the first time."""
    stop, cancelled = Stop(), []
    with stop.epoch(), stop.plan():
        stop.request(lambda: None)
        stop.request(lambda: cancelled.append(True))
    assert cancelled


def test_given_up_while_the_plan_runs():
    """Spark is stopped next and ends the plan: its end and the epoch's are told as ever, and nothing else begins."""
    stop = Stop()
    with stop.epoch():
        with stop.plan():
            stop.request(lambda: None)
            stop.give_up()
        with pytest.raises(StopRequested):
            stop.decide()
    assert stop.wait_outside(0)


def test_the_cancel_may_take_as_long_as_the_plan():
    """It is called without the lock: Java may answer it only when the plan, which tells of its end, has ended."""
    stop, begun, ended = Stop(), threading.Event(), threading.Event()

    def epoch():
        with stop.epoch():
            with stop.plan():
                begun.set()
                assert cancelling.wait(WITHIN_S)
            ended.set()

    cancelling = threading.Event()
    thread = in_a_thread(epoch)
    assert begun.wait(WITHIN_S)

    def cancel():
        cancelling.set()
        assert ended.wait(WITHIN_S)

    stop.request(cancel)
    assert stop.wait_outside(WITHIN_S)
    thread.join(WITHIN_S)


def test_giving_up_wakes_a_decided_epoch_out_of_its_wait():
    """A request alone does not; and whoever waits for the epoch's end is woken by that."""
    stop, waiting, how = Stop(), threading.Event(), []

    def epoch():
        try:
            with stop.epoch():
                stop.decide()
                waiting.set()
                stop.pause(10 * WITHIN_S)
        except StopRequested:
            how.append("given up")

    thread = in_a_thread(epoch)
    assert waiting.wait(WITHIN_S)
    stop.request(lambda: how.append("cancelled"))
    assert not stop.wait_outside(0)
    assert how == []
    stop.give_up()
    assert stop.wait_outside(WITHIN_S)
    thread.join(WITHIN_S)
    assert how == ["given up"]


def test_requests_and_epochs_at_the_same_time():
    """Two threads, 300 times over: either the decision is refused or the epoch is finished, and the waiter sees it."""
    for _ in range(300):
        stop, gate, how = Stop(), threading.Barrier(2), []

        def epoch(stop=stop, gate=gate, how=how):
            gate.wait()
            try:
                with stop.epoch():
                    with stop.plan():
                        pass
                    stop.decide()
                    how.append("finished")
            except StopRequested:
                how.append("refused")

        thread = in_a_thread(epoch)
        gate.wait()
        stop.request(lambda: None)
        assert stop.wait_outside(WITHIN_S)
        assert how in ([], ["finished"], ["refused"])
        thread.join(WITHIN_S)
        assert how in (["finished"], ["refused"])
        with pytest.raises(StopRequested), stop.epoch():
            raise AssertionError("one begins behind the stop")


def test_an_epoch_waits_at_its_entry_while_it_is_held():
    """Of all who hold the last one lets it in; one that is in work, or decided already, is not held."""
    stop, entered = Stop(), threading.Event()

    def epoch():
        with stop.epoch():
            entered.set()

    with stop.epoch():
        stop.hold()  # beside one in work
    stop.hold()
    with stop.epoch(waits=False):
        pass
    thread = threading.Thread(target=epoch)
    thread.start()
    assert stop.wait_outside(0)
    stop.release()
    assert not entered.wait(0.05)
    stop.release()
    assert entered.wait(30)
    thread.join()


def test_a_job_that_is_held_can_be_stopped():
    """The epoch that waits does not begin, and nobody waits for whoever holds it."""
    stop, refused = Stop(), threading.Event()

    def epoch():
        with contextlib.suppress(StopRequested), stop.epoch():
            return
        refused.set()

    stop.hold()
    thread = threading.Thread(target=epoch)
    thread.start()
    stop.request(lambda: None)
    assert refused.wait(30)
    thread.join()
