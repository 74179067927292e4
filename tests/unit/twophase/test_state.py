"""The table of states: all are reached, ends have no exits, and the diagram is the table."""

import pytest

from onceflow.twophase.state import TABLE, IllegalTransitionError, Input, State, page, step

ENDS = {State.FENCED, State.FAILED, State.STOPPED}


def test_every_state_has_a_row():
    """A state that the table forgets would raise KeyError instead of saying what is illegal."""
    assert set(TABLE) == set(State)


def test_every_state_is_reached():
    """From NEW every state can be reached: none is a leftover."""
    seen, waiting = {State.NEW}, [State.NEW]
    while waiting:
        for after in TABLE[waiting.pop()].values():
            if after not in seen:
                seen.add(after)
                waiting.append(after)
    assert seen == set(State)


def test_every_input_is_used():
    """No input is a leftover either."""
    assert {i for row in TABLE.values() for i in row} == set(Input)


def test_ends_have_no_exits_and_nothing_else_is_an_end():
    """FENCED, FAILED and STOPPED are final, and only they: no state is a trap."""
    assert {state for state, row in TABLE.items() if not row} == ENDS


def test_every_state_can_come_to_an_end():
    """From everywhere but the ends there is a way to READY or to an end, so nothing must wait for ever."""
    good = ENDS | {State.READY}
    while more := {s for s, row in TABLE.items() if s not in good and good & set(row.values())}:
        good |= more
    assert good == set(State)


def test_nothing_is_aborted_once_decided():
    """From the append of a decision on, only a void leads back to ABORTING, and only replay-begin to DISCARDING."""
    into_aborting = {(s, i) for s, row in TABLE.items() for i, after in row.items() if after is State.ABORTING}
    undecided = {State.SEALING, State.SUSPECTING, State.RECORDING, State.SYNCING}
    assert {s for s, _ in into_aborting} == undecided | {State.VOIDING}
    assert (State.VOIDING, Input.VOIDED) in into_aborting
    into = {s: {b for b, row in TABLE.items() if s in row.values()} for s in (State.DISCARDING, State.WEIGHING)}
    assert into == {
        State.DISCARDING: {State.WEIGHING},
        State.WEIGHING: {State.BEGINNING_REPLAY, State.READY, State.DISCARDING, State.WEIGHING},
    }


def test_only_a_decision_leads_to_a_commit():
    """COMMITTING is entered by a durable decision, by an adopted one, or from outcomes of a decided epoch."""
    into = {(s, i) for s, row in TABLE.items() for i, after in row.items() if after is State.COMMITTING}
    assert into - {(State.COMMITTING, Input.SOME_RETRY)} == {
        (State.DECIDING, Input.APPENDED),
        (State.VOIDING, Input.ADOPTED),
        (State.JUDGING, Input.NONE_LOST),
    }


@pytest.mark.parametrize("state", list(State))
def test_an_unknown_step_says_what_is_known(state):
    """An input that a state does not know is one error that names both and what would have been legal."""
    for happened in set(Input) - set(TABLE[state]):
        with pytest.raises(IllegalTransitionError, match=f"{happened.name} in state {state.name}"):
            step(state, happened)


def test_the_diagram_is_the_table():
    """Every step of the table is an arrow of the page's diagram, and every state has its line."""
    lines = page().splitlines()
    assert sum("-->" in line and "[*]" not in line for line in lines) == sum(len(row) for row in TABLE.values())
    assert all(f"| {state.name} | {state.value} |" in lines for state in State)
