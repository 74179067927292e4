"""What became of decided transactions, and what follows: from their systems' answers to a step of the table.

Must not know: how anybody asks, Spark, Kafka, files, time.

Nothing is concluded from what is not told: one of unknown outcome, and no choice of an operator for it, ends the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from onceflow.twophase.memory import Memory, Mode, Reading, failing, open_business
from onceflow.twophase.messages import FailureKind, Outcome, Outcomes, Replies, Reply
from onceflow.twophase.participants import ParticipantId
from onceflow.twophase.state import Input, State

PATIENCE_S = 60.0
"""How long is waited for what may still change by itself: markers are there by then, or need a person."""


def read_outcomes(state: State, m: Memory, event: Outcomes) -> Reading:
    """Of decided transactions, or of those that a replay may replace, what their systems tell."""
    told = {who: evidence.outcome for who, evidence in event.found.items()}
    dark = [evidence for evidence in event.found.values() if evidence.outcome is Outcome.UNKNOWN]
    since = event.at_s if m.asked_since is None else m.asked_since
    if any(evidence.passing for evidence in dark) and event.at_s - since <= PATIENCE_S:
        return Input.SOME_PASSING, replace(m, asked_since=since)
    m = replace(m, asked_since=None)
    found = _as_resolved(m, told)
    unknown = _with(found, Outcome.UNKNOWN)
    untold = all(evidence.passing for evidence in dark)
    kind = FailureKind.OUTCOME_UNTOLD if untold else FailureKind.OUTCOME_UNKNOWN
    if state is State.RECONSIDERING:
        return _reconsider(m, told, bool(dark) and untold)
    if state is State.WEIGHING:
        return _weigh(state, m, told, found, kind)
    if unknown:  # before what is lost: a replay that begins beside an unknown one may double it
        return Input.SOME_UNKNOWN, failing(m, kind, unknown)
    lost = _with(found, Outcome.ABORTED)
    if lost:
        if m.mode is Mode.ROLL_FORWARD or state is State.ASSESSING:
            return Input.SOME_LOST, replace(m, lost=True)
        return Input.LOST_AFTER_RUN, failing(m, FailureKind.LOST_WHILE_RUNNING, lost)
    pending = tuple(p for p in m.pending if found.get(p.id) is not Outcome.COMMITTED)
    return _all_or(state, Input.NONE_LOST, replace(m, pending=pending))


def _weigh(
    state: State,
    m: Memory,
    told: Mapping[ParticipantId, Outcome],
    found: Mapping[ParticipantId, Outcome],
    kind: FailureKind,
) -> Reading:
    still_open = _with(found, Outcome.OPEN)
    # What nobody can prove and an operator wants written again may be open: a torn transaction, for one, which a
    # driver that sleeps in its commit could still make visible beside the rows that take its place.
    perhaps_open = {p for p, o in found.items() if o is Outcome.ABORTED and told.get(p) is Outcome.UNKNOWN}
    ended = {*still_open, *(perhaps_open - m.discarded)}
    if ended:
        # Only these are aborted: aborting a committed one would wipe out what DescribeTransactions says of it.
        pending = tuple(p for p in open_business(m.undone) if p.id in ended)
        return Input.SOME_OPEN, replace(m, pending=pending, discarded=m.discarded | perhaps_open)
    unknown = _with(found, Outcome.UNKNOWN)
    if unknown:
        return Input.SOME_UNKNOWN, failing(m, kind, unknown)
    visible = frozenset(_with(found, Outcome.COMMITTED))
    given_up = m.undone.given_up if m.undone is not None else frozenset()
    if len(visible) == len(found):
        # An operator has said so of what was lost: there is nothing to write, and no run whose rows could differ.
        return _all_or(state, Input.SOME_VISIBLE, replace(m, mode=Mode.ROLL_FORWARD, pending=()))
    # Another one was lost since: all that the source still gives is written, and what is given up is no part that
    # could be found again and silenced.
    visible -= {p for p in given_up if told.get(p) is not Outcome.COMMITTED}
    if visible:
        return Input.SOME_VISIBLE, replace(m, mode=Mode.PARTS, visible=visible)
    return Input.NONE_VISIBLE, replace(m, mode=Mode.WHOLE, visible=visible)


def _reconsider(m: Memory, told: Mapping[ParticipantId, Outcome], untold: bool) -> Reading:
    """What a check found in the way of a replay: late commits of ours, or rows of a start that the journal has not."""
    late = tuple(who for who in _with(told, Outcome.COMMITTED) if who not in m.visible)
    if late:
        return Input.COMMITTED_AFTER_ALL, failing(m, FailureKind.COMMITTED_AFTER_ALL, late)
    if untold:
        return Input.SOME_UNKNOWN, failing(m, FailureKind.OUTCOME_UNTOLD, _with(told, Outcome.UNKNOWN))
    return Input.NONE_COMMITTED, m


def read_replies(state: State, m: Memory, event: Replies) -> Reading:
    """How a round of commits was answered."""
    pending = tuple(p for p in m.pending if event.replies.get(p.id) is not Reply.COMMITTED)
    refused = bool(pending) and all(event.replies.get(p.id) is Reply.REFUSED for p in pending)
    since = event.at_s if m.refused_since is None else m.refused_since
    m = replace(m, pending=pending, rounds=m.rounds + 1, refused_since=since if refused else None)
    if refused and event.at_s - since > PATIENCE_S:
        who = tuple(p.id for p in pending)
        return Input.ALL_REFUSED, failing(m, FailureKind.COMMIT_REFUSED, who)
    if any(event.replies.get(p.id) is Reply.SUSPECT for p in pending):
        # Neither committed nor lost by this answer; sent again it would answer the same for ever. The log knows.
        return Input.SOME_SUSPECT, m
    return _all_or(state, Input.SOME_RETRY, m)


def _all_or(state: State, otherwise: Input, m: Memory) -> Reading:
    """All committed, with or without state still to build; or ``otherwise``."""
    if m.pending:
        return otherwise, m
    if state in (State.ASSESSING, State.FINISHING):
        return Input.ALL_COMMITTED, replace(m, finished=True)
    rebuild = m.stateful and m.mode is Mode.ROLL_FORWARD
    return (Input.ALL_COMMITTED_STATEFUL if rebuild else Input.ALL_COMMITTED), m


def _as_resolved(m: Memory, found: Mapping[ParticipantId, Outcome]) -> dict[ParticipantId, Outcome]:
    """The outcomes, with an operator's choice in the place of UNKNOWN, and of ABORTED where rows are given up."""
    undone = m.undone
    # A choice stands in for evidence and never against it: what is proven by now would be doubled or lost.
    chosen: dict[ParticipantId, Outcome] = {}
    if undone is not None:
        chosen |= dict.fromkeys(undone.counted, Outcome.COMMITTED)
        chosen |= dict.fromkeys(undone.rewritten, Outcome.ABORTED)
        gone = (Outcome.ABORTED, Outcome.UNKNOWN)
        given_up = {p for p in undone.given_up if found.get(p) in gone}
        chosen |= dict.fromkeys(given_up, Outcome.COMMITTED)
        found = dict(found) | dict.fromkeys(given_up, Outcome.COMMITTED)
    return {p: chosen.get(p, o) if o is Outcome.UNKNOWN else o for p, o in found.items()}


def _with(found: Mapping[ParticipantId, Outcome], outcome: Outcome) -> tuple[ParticipantId, ...]:
    return tuple(sorted(p for p, o in found.items() if o is outcome))
