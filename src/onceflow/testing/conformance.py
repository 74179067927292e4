"""Whether a sink keeps its contract: checks that anybody can run against a sink of theirs.

Must not know: any particular sink, Spark, the journal. It does to a sink what drivers and tasks do, and what happens to
them: deaths, retries, two starts at once.

A user's test, once ``World`` is written for the sink::

    @pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
    def test_my_sink(check):
        check(MyWorld())
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from threading import Event
from typing import Any
from unittest import SkipTest

from onceflow.connectors.contract import Guarantee, Writer, WriterFactory
from onceflow.connectors.inspection import Inspectable, Inspection, Phase, Seen
from onceflow.connectors.shards import ShardCommitter
from onceflow.errors import EpochTooLongError, OnceflowError
from onceflow.testing.trial import PREFIX, Start, Trial, World, each_line, elsewhere, forked, through_json
from onceflow.twophase.messages import Outcome, Reply
from onceflow.twophase.participants import Participant, TaskReport, parts_of, uncovered


class Broken(AssertionError):  # noqa: N818 - it is said of a sink
    """A sink does not keep its contract.

    Args:
        name: The check's name.
        why: What was seen.
    """

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self.why = why
        super().__init__(f"{name}: {why}")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A check that was not made, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Report:
    """What the whole suite found."""

    broken: tuple[Broken, ...]
    skipped: tuple[Skipped, ...]


@dataclass(frozen=True, slots=True)
class Check:
    """One fact about a sink; call it with a world.

    Attributes:
        name: The fact, as a name.
        proves: The fact, as a sentence.
        of: Sinks of which guarantees must hold it.
        part: Whether it is asked of sinks that take part in the decision, or of those that do not; None: of both.
    """

    name: str
    proves: str
    of: frozenset[Guarantee]
    part: bool | None
    body: Callable[[Trial], None]

    def __str__(self) -> str:
        return self.name

    def __call__(self, world: World) -> None:
        """Look whether it holds.

        Raises:
            Broken: It does not.
            unittest.SkipTest: It cannot be asked of this sink, or of this world; pytest shows the reason.
        """
        try:
            sink = world.sink()
            if not isinstance(sink.guarantee, Guarantee):
                raise TypeError(f"the sink's guarantee is {sink.guarantee!r}; it must be one of onceflow.Guarantee")
            if sink.guarantee not in self.of:
                raise SkipTest(
                    f"it is asked of sinks that are {' or '.join(sorted(self.of))}; this is {sink.guarantee}"
                )
            if self.part is not None and sink.participates is not self.part:
                raise SkipTest(f"this sink, which is {sink.guarantee}, takes {'no ' * self.part}part in the decision")
            with Trial(world) as trial:
                self.body(trial)
        except AssertionError as error:
            raise Broken(self.name, str(error)) from error
        except SkipTest:
            raise
        except Exception as error:
            raise Broken(self.name, f"{type(error).__name__}: {error}") from error


def run(world: World) -> Report:
    """Make all checks, whatever the ones before have found."""
    broken, skipped = [], []
    for check in CHECKS:
        try:
            check(world)
        except Broken as error:
            broken.append(error)
        except SkipTest as reason:
            skipped.append(Skipped(check.name, str(reason)))
    return Report(tuple(broken), tuple(skipped))


_found: list[Check] = []


def _check(*of: Guarantee, part: bool | None = None) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    def add(body: Callable[[Trial], None]) -> Callable[[Trial], None]:
        _found.append(Check(body.__name__, (body.__doc__ or "").strip(), frozenset(of), part, body))
        return body

    return add


# Of an idempotent sink that takes part: its rows may be seen early and stay after an abort (``Trial.none_visible``).
_in_two_phases = _check(Guarantee.EXACTLY_ONCE, Guarantee.IDEMPOTENT_UPSERT, part=True)


# -- the pre-commit -------------------------------------------------------------------------------


@_check(Guarantee.EXACTLY_ONCE, part=True)
def nothing_is_visible_before_the_commit(t: Trial) -> None:
    """Rows that are written, pre-committed, sealed and checked can be seen by nobody yet."""
    start, keys = t.start(), t.keys()
    writer = start.open()
    writer.write(t.world.rows(keys))
    t.none_visible(keys, "after write")
    written = start.report(writer.prepare(), keys)
    t.none_visible(keys, "after prepare")
    sealed = start.seal([written])
    t.demand(start.committer.check(sealed, start.run(), 0.0) is None, "check refuses a good pre-commit")
    t.none_visible(keys, "after check")
    t.outcomes_are(Outcome.OPEN, start, sealed, "after check")


@_in_two_phases
def a_commit_shows_each_row_once(t: Trial) -> None:
    """After the commit of all shards each row of each batch can be seen, exactly once, epoch after epoch."""
    start = t.start()
    for epoch in range(3):
        shards = t.keys(5), t.keys(1), t.keys(4)
        prepared = start.prepare(*shards, epoch=epoch)
        problem = start.committer.check(prepared, start.run(epoch), 0.0)
        t.demand(problem is None, f"check refuses a good pre-commit: {problem}")
        t.commit(start, prepared)
        t.all_visible_once([key for keys in shards for key in keys], f"after the commit of epoch {epoch}")


@_in_two_phases
def a_precommit_survives_its_writer(t: Trial) -> None:
    """When the writer is gone, another connection commits from the participant alone."""
    keys = t.keys()
    prepared = t.start().prepare(keys)
    later = t.start(2, attach=True)
    t.outcomes_are(Outcome.OPEN, later, prepared, "after its writer is gone")
    t.commit(later, prepared)
    t.all_visible_once(keys, "after the commit")


@_in_two_phases
def a_precommit_survives_its_process(t: Trial) -> None:
    """When the writer's process was killed after the pre-commit, the driver commits from the task's report alone."""
    start, keys = t.start(), t.keys()
    factory = start.connection.writer_factory()
    said = elsewhere(_prepare, t.world, t.job_id, factory, keys, dies=True)
    sealed = start.seal([TaskReport.loads(said)])
    t.none_visible(keys, "after the death of the writer's process")
    t.commit(start, sealed)
    t.all_visible_once(keys, "after the commit")


def _prepare(world: World, job_id: str, factory: WriterFactory, keys: list[str]) -> str:
    start = Start(world, job_id)
    writer = start.open(factory=factory)
    writer.write(world.rows(keys))
    _held.append(writer)  # what this process still holds must not matter
    return start.report(writer.prepare(), keys).dumps()


_held: list[Writer] = []


@_in_two_phases
def a_refused_row_fails_the_precommit(t: Trial) -> None:
    """Where the system refuses one of the rows, write or prepare raises: no report stands for a part of them."""
    start, keys = t.start(), t.keys()
    rows = t.world.refused(keys)
    writer = start.open()
    try:
        writer.write(rows)
        writer.prepare()
    except Exception:  # noqa: BLE001 - which one is the sink's business
        writer.abort()
    else:
        raise AssertionError("prepare returns, though the system has refused a row")
    start.committer.abort_run(start.run())
    t.none_visible(keys, "after a refused row")


@_in_two_phases
def a_failed_task_leaves_nothing_visible(t: Trial) -> None:
    """A writer can be told to abort before and after its pre-commit, twice too, and raises nothing."""
    start, keys = t.start(), t.keys()
    early = start.open(0)
    early.write(t.world.rows(keys[:2]))
    late = start.open(1)
    late.write(t.world.rows(keys[2:]))
    late.prepare()
    for writer in (early, late, early, late):
        writer.abort()
    start.committer.abort_run(start.run())
    t.none_visible(keys, "after the writers' abort")


@_in_two_phases
def nothing_is_no_error(t: Trial) -> None:
    """An epoch may have no row for a sink: its committer is called all the same, and passes over what is not there."""
    start = t.start()
    t.demand(not start.seal([]), "seal makes something of nothing")
    t.demand(start.committer.check([], start.run(), 0.0) is None, "check refuses nothing")
    t.demand(not start.committer.commit([]), "commit answers for nothing")
    t.demand(not start.committer.outcomes([]), "outcomes answers for nothing")
    start.committer.abort([])
    start.committer.abort_run(start.run())


@_in_two_phases
def a_seal_covers_each_part_once(t: Trial) -> None:
    """What was sealed covers each part of the reports, as it is, exactly once; no two have one handle, ever."""
    handles = set[str]()
    # The last one is the first one's epoch, which another start writes again.
    for start, epoch in ((first := t.start(), 0), (first, 1), (first, 2), (t.start(2), 0)):
        fresh = [start.write(t.keys(3), 0, attempt=2, epoch=epoch), start.write(t.keys(2), 1, epoch=epoch)]
        sealed = start.seal(fresh, epoch)
        wrong = uncovered(parts_of(fresh), sealed, frozenset())
        t.demand(wrong is None, f"seal does not cover what was reported: {wrong}")
        t.demand({p.sink for p in sealed} == {fresh[0].sink}, "seal gives another sink's participants")
        again = handles.intersection(p.handle for p in sealed)
        t.demand(len({p.handle for p in sealed}) == len(sealed) and not again, "two participants have one handle")
        handles |= {p.handle for p in sealed}
        start.committer.abort(sealed)


@_in_two_phases
def what_is_kept_is_json_without_secrets(t: Trial) -> None:
    """A participant is JSON values that come back equal, and no secret is in it, in evidence or in words."""
    start = t.start()
    fresh = [start.report(transaction := _transaction_of(start, t), t.keys(2))]
    t.demand(json.loads(json.dumps(transaction, allow_nan=False)) == transaction, "prepare gives more than JSON values")
    told = start.committer.seal(fresh, start.run())
    t.demand([through_json(p) for p in told] == told, "seal gives more than JSON values")
    words = [json.dumps(p.to_json()) for p in told] + [t.world.sink().describe()]
    words += [e.why for e in start.committer.outcomes(told).values()]
    start.committer.abort(told)
    words += [e.why for e in t.outcomes(start, told).values()]
    try:
        words.append(start.committer.check(told, start.run(), 0.0) or "")
    except OnceflowError as error:
        words.append(str(error))
    for secret in t.world.secrets:
        t.demand(not any(secret in text for text in words), "a secret stands in what is kept or shown")


def _transaction_of(start: Start, t: Trial) -> dict[str, object]:
    writer = start.open()
    writer.write(t.world.rows(t.keys(2)))
    transaction = writer.prepare()
    t.demand(transaction is not None, "prepare gives None, though the sink takes part in the decision")
    return dict(transaction or {})


# -- commit and abort -----------------------------------------------------------------------------


@_in_two_phases
def a_commit_from_another_process_counts(t: Trial) -> None:
    """A process that has only the participant's JSON commits it; ours sees that it did."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    elsewhere(_commit, t.world, t.job_id, [p.to_json() for p in prepared])
    t.outcomes_are(Outcome.COMMITTED, start, prepared, "after another process's commit")
    t.all_visible_once(keys, "after another process's commit")


def _commit(world: World, job_id: str, told: list[dict[str, Any]]) -> None:
    with Trial(world) as trial:
        trial.commit(trial.start(2, job_id=job_id, attach=True), [Participant.from_json(each) for each in told])


@_in_two_phases
def a_commit_again_changes_nothing(t: Trial) -> None:
    """A commit may be repeated, by the same start and by another: each row stays visible once."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    t.commit(start, prepared)
    t.commit(start, prepared, "at its second commit")
    t.commit(t.start(2, attach=True), prepared, "at its third commit, by another start")
    t.all_visible_once(keys, "after three commits")


@_in_two_phases
def an_abort_leaves_nothing_visible(t: Trial) -> None:
    """After an abort no row can be seen, and the outcome is ABORTED for every start that asks."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    t.abort(start, prepared)
    t.outcomes_are(Outcome.ABORTED, t.start(2, attach=True), prepared, "after its abort, for another start")
    t.none_visible(keys, "after the abort")


@_in_two_phases
def an_abort_again_changes_nothing(t: Trial) -> None:
    """An abort may be repeated, by the same start and by another."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    t.abort(start, prepared)
    t.abort(start, prepared, "after its second abort")
    t.abort(t.start(2, attach=True), prepared, "after its third abort, by another start")
    t.none_visible(keys, "after three aborts")


@_in_two_phases
def a_commit_after_the_abort_says_so(t: Trial) -> None:
    """A commit of what was aborted is never answered with COMMITTED, shows nothing, and leaves the outcome ABORTED."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    t.abort(start, prepared)
    replies = t.send_commits(start, prepared)
    t.demand(Reply.COMMITTED not in replies.values(), "the commit of an aborted transaction is answered COMMITTED")
    t.outcomes_are(Outcome.ABORTED, start, prepared, "after an abort and a commit")
    t.none_visible(keys, "after an abort and a commit")


@_in_two_phases
def an_abort_after_the_commit_changes_nothing(t: Trial) -> None:
    """An abort of what was committed hides no row, and the outcome stays COMMITTED."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    t.commit(start, prepared)
    t.all_visible_once(keys, "after the commit")
    start.committer.abort(prepared)
    t.outcomes_are(Outcome.COMMITTED, start, prepared, "after a commit and an abort")
    t.all_visible_once(keys, "after a commit and an abort")


@_in_two_phases
def an_end_hits_exactly_its_transaction(t: Trial) -> None:
    """Aborts and commits of an ended transaction leave a later one of the same shard and attempt as it is."""
    start = t.start()
    first, second, third = t.keys(), t.keys(), t.keys()
    aborted = start.prepare(first)
    t.abort(start, aborted)
    later = start.prepare(second)
    start.committer.abort(aborted)
    t.outcomes_are(Outcome.OPEN, start, later, "after an abort of the one before")
    replies = t.send_commits(start, aborted)
    t.demand(Reply.COMMITTED not in replies.values(), "the commit of an aborted transaction is answered COMMITTED")
    t.outcomes_are(Outcome.OPEN, start, later, "after a commit of the one before")
    t.none_visible([*first, *second], "after ends of the one before")
    t.commit(start, later)
    t.all_visible_once(second, "after its commit")
    latest = start.prepare(third, epoch=2)
    start.committer.abort(later)
    t.outcomes_are(Outcome.OPEN, start, latest, "after an abort of the committed one before")
    t.commit(start, latest)
    t.all_visible_once([*second, *third], "after the commit of both")
    t.none_visible(first, "after the commit of later ones")


@_in_two_phases
def a_participant_is_shown_whole_or_not_at_all(t: Trial) -> None:
    """Where one of its shards was ended beneath it, a participant's answers hold for all its rows."""
    start, shards = t.start(), (t.keys(), t.keys(), t.keys())
    prepared = start.prepare(*shards)
    late = start.open(len(shards) - 1)  # of the same shard and attempt: it may end the one before
    late.write(t.world.rows(t.keys()))
    replies = t.send_commits(start, prepared)
    for p in prepared:
        keys = [key for part in p.parts for key in shards[part.number]]
        outcome = t.outcomes(start, [p])[p.id].outcome
        t.demand(
            outcome is Outcome.COMMITTED or replies[p.id] is not Reply.COMMITTED,
            f"a commit is answered COMMITTED, and the outcome is {outcome.name}",
        )
        t.demand(outcome is not Outcome.OPEN, "the outcome is OPEN behind a commit: it would be sent again without end")
        if outcome is Outcome.COMMITTED:
            t.all_visible_once(keys, "after the commit of a participant of which a shard may have been ended")
        elif outcome is not Outcome.UNKNOWN:
            t.none_visible(keys, "after the commit of a participant of which a shard was ended")
    late.abort()
    start.committer.abort(prepared)
    start.committer.abort_run(start.run())


@_in_two_phases
def a_death_inside_of_a_commit_is_finished(t: Trial) -> None:
    """When a process is killed inside of its commit, wherever, another start's commit leaves each row visible once."""
    start = t.start()
    epochs = [t.keys() for _ in (None, *_SHARES)]
    told = [[p.to_json() for p in each] for each in _prepared_each(start, epochs)]
    died = elsewhere(_die_inside_commits, t.world, t.job_id, told)
    t.demand(died, "no process could be killed inside of its commit")
    t.all_visible_once([key for keys in epochs for key in keys], "after deaths inside of commits")


def _prepared_each(start: Start, epochs: Sequence[list[str]]) -> list[list[Participant]]:
    """Epochs that are open at the same time: a shard of another number in each."""
    return [start.seal([start.write(keys, n, epoch=n)], n) for n, keys in enumerate(epochs)]


# The first of all commits runs whole, and its lines are counted; the others die behind these shares of them.
_SHARES = (0.0, 0.4, 0.6, 0.8, 0.95)


def _die_inside_commits(world: World, job_id: str, told: list[list[dict[str, Any]]]) -> int:
    total, died = 0, 0
    for share, each in zip((None, *_SHARES), told, strict=True):
        participants = [Participant.from_json(p) for p in each]
        until = None if share is None else int(share * total)
        ran = forked(partial(_commit_until, world, job_id, participants, until))
        total, died = (ran, 0) if share is None else (total, died + (ran is None))
        forked(partial(_commit, world, job_id, each))
    return died


def _commit_until(world: World, job_id: str, participants: list[Participant], until: int | None) -> int:
    committer, lines = Start(world, job_id, 2, attach=True).committer, 0

    def counted() -> None:
        nonlocal lines
        if lines == until:
            os.kill(os.getpid(), signal.SIGKILL)
        lines += 1

    with each_line(type(committer), counted):
        committer.commit(participants)
    return lines


@_in_two_phases
def a_reader_inside_of_a_commit_sees_it_once(t: Trial) -> None:
    """Who reads inside of a commit sees no row twice and none that goes away, and of a ShardCommitter's shard all."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    reader = _Reader(t, keys, whole=isinstance(start.committer, ShardCommitter) and not t.seen_early)
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(reader.read)
        try:
            with each_line(type(start.committer), reader.let_look):
                t.commit(start, prepared)
        finally:
            reader.done.set()
        reading.result()
    t.all_visible_once(keys, "after a commit beside a reader")


class _Reader:
    """Reads again and again, in a thread of its own.

    Args:
        t: The trial.
        keys: The rows that are looked for.
        whole: Whether one step shows all of them.
    """

    def __init__(self, t: Trial, keys: list[str], *, whole: bool) -> None:
        self._t, self._keys, self._whole = t, keys, whole
        self._looks = 0
        self._waits_until = time.monotonic() + _LET_LOOK_S
        self.done = Event()

    def read(self) -> None:
        before: set[str] = set()
        while not self.done.is_set():
            seen = [key for key in self._t.world.visible() if key in self._keys]
            many = f"{len(seen)} of {len(self._keys)} rows"
            self._t.demand(len(seen) == len(set(seen)), "inside of a commit a row is visible more than once")
            self._t.demand(before <= set(seen), "inside of a commit a row is visible and then is not")
            self._t.demand(
                not self._whole or len(seen) in (0, len(self._keys)),
                f"inside of a commit {many} of one shard are visible: `end` must show them by one step",
            )
            before, self._looks = set(seen), self._looks + 1

    def let_look(self) -> None:
        """Wait for a look from its beginning to its end; not for long, since a lock may keep the reader out."""
        enough, deadline = self._looks + 2, time.monotonic() + _LOOK_WITHIN_S
        while self._looks < enough and time.monotonic() < min(deadline, self._waits_until) and not self.done.is_set():
            time.sleep(0.001)


_LET_LOOK_S, _LOOK_WITHIN_S = 3.0, 0.1


@_in_two_phases
def two_ends_at_once_leave_one(t: Trial) -> None:
    """Where one process commits what another aborts at that moment, one of them has it: all rows are there, or none."""
    start = t.start()
    epochs = [t.keys() for _ in range(6)]
    prepared = _prepared_each(start, epochs)
    told = [[p.to_json() for p in each] for each in prepared]
    with ThreadPoolExecutor(2) as threads:
        committing = threads.submit(elsewhere, _commit_each, t.world, t.job_id, told)
        threads.submit(elsewhere, _abort_each, t.world, t.job_id, told[::-1]).result()
        answered = committing.result()
    for keys, participants, by_answer in zip(epochs, prepared, answered, strict=True):
        found = {e.outcome for e in t.outcomes(start, participants).values()}
        t.demand(len(found) == 1 and found <= {Outcome.COMMITTED, Outcome.ABORTED}, f"after both, it is {found}")
        if Outcome.COMMITTED in found:
            t.all_visible_once(keys, "after a commit that an abort came upon")
        else:
            t.none_visible(keys, "after an abort that a commit came upon")
            t.demand(not by_answer, "a commit is answered COMMITTED, and an abort has had it")


def _commit_each(world: World, job_id: str, told: list[list[dict[str, Any]]]) -> list[bool]:
    with Trial(world) as t:
        start = t.start(2, job_id=job_id, attach=True)
        replies = [t.send_commits(start, [Participant.from_json(p) for p in each]) for each in told]
    return [Reply.COMMITTED in each.values() for each in replies]


def _abort_each(world: World, job_id: str, told: list[list[dict[str, Any]]]) -> None:
    with Trial(world) as t:
        start = t.start(3, job_id=job_id, attach=True)
        for each in told:
            start.committer.abort([Participant.from_json(p) for p in each])


# -- what is known --------------------------------------------------------------------------------


@_in_two_phases
def outcomes_are_told_by_evidence(t: Trial) -> None:
    """Each is OPEN after its pre-commit, then COMMITTED or ABORTED with what proves it; each for itself."""
    start, other = t.start(), t.start(2, attach=True)
    committed, aborted, left = (
        start.prepare(t.keys(), t.keys()),
        start.prepare(t.keys(), epoch=1),
        other.prepare(t.keys(), epoch=2),
    )
    for asking in (start, other):
        t.outcomes_are(Outcome.OPEN, asking, [*committed, *aborted, *left], "after the pre-commit")
    t.commit(start, committed)
    t.abort(start, aborted)
    for asking in (start, other):
        t.outcomes_are(Outcome.COMMITTED, asking, committed, "after its commit")
        t.outcomes_are(Outcome.ABORTED, asking, aborted, "after its abort")
        t.outcomes_are(Outcome.OPEN, asking, left, "after the others' ends")
    start.committer.abort(left)


@_in_two_phases
def what_is_committed_is_known(t: Trial) -> None:
    """A system that keeps its commits knows each by its handle, and not what was aborted or never was."""
    start, newer = t.start(), t.start(2, attach=True)
    committed, aborted = start.prepare(t.keys()), start.prepare(t.keys(), epoch=1)
    t.commit(start, committed)
    t.abort(start, aborted)
    handles = [p.handle for p in (*committed, *aborted)]
    for asking in (start, newer):
        known = asking.committer.known([*handles, "never-was"])
        if known is not None:
            t.demand(
                set(known) == {p.handle for p in committed},
                f"of {len(committed)} commits that it has made, {len(set(known))} are known",
            )


@_in_two_phases
def what_never_was_is_never_committed(t: Trial) -> None:
    """Of a transaction that the system does not know nothing is guessed, and no commit of it succeeds."""
    start = t.start()
    prepared = start.prepare(t.keys())
    never = [t.world.never_was(p) for p in prepared]
    t.demand(never != prepared, "World.never_was gives a transaction that there is")
    # What shows a shard's end lies with the shard, and both may be away for a while. Another committer may have a
    # ledger that outlives what it tells of, and so prove that nothing was committed.
    by_state = isinstance(start.committer, ShardCommitter)
    for evidence in t.outcomes(start, never).values():
        t.demand(
            evidence.outcome in {Outcome.UNKNOWN} | ({Outcome.ABORTED} if not by_state else set()),
            f"the outcome of a transaction that never was is {evidence.outcome.name} ({evidence.why})"
            + (": a shard that is not there may come back, so `state` must answer UNKNOWN" if by_state else ""),
        )
    with suppress(OnceflowError):  # it may refuse what it does not understand
        replies = t.send_commits(start, never)
        t.demand(Reply.COMMITTED not in replies.values(), "the commit of what never was is answered COMMITTED")
    start.committer.abort(never)
    t.outcomes_are(Outcome.OPEN, start, prepared, "after an abort of what never was")
    start.committer.abort(prepared)


@_in_two_phases
def check_notices_an_abort(t: Trial) -> None:
    """A pre-commit whose transaction was aborted meanwhile does not pass the check."""
    start = t.start()
    prepared = start.prepare(t.keys(), t.keys())
    t.abort(t.start(2, attach=True), prepared[-1:])
    t.demand(_refuses(start, prepared), "check passes a pre-commit whose transaction was aborted")
    start.committer.abort(prepared)


@_in_two_phases
def check_refuses_an_epoch_that_is_too_old(t: Trial) -> None:
    """Where transactions expire, an epoch as old as that is refused with EpochTooLongError before it is decided."""
    start = t.start()
    limit = start.committer.expires_after_s()
    if limit is None:
        raise SkipTest("the sink's transactions never expire")
    prepared = start.prepare(t.keys())
    try:
        start.committer.check(prepared, start.run(), limit)
    except EpochTooLongError:
        start.committer.abort(prepared)
        return
    raise AssertionError(f"check passes an epoch that is {limit:g} s old, as old as its transactions become")


@_in_two_phases
def what_expired_is_not_committed(t: Trial) -> None:
    """A transaction that its system has ended by time-out does not pass the check, and no commit of it succeeds."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    t.world.expire(prepared)
    t.demand(_refuses(start, prepared), "check passes a transaction that has expired")
    replies = t.send_commits(start, prepared)
    t.demand(Reply.COMMITTED not in replies.values(), "the commit of an expired transaction is answered COMMITTED")
    for evidence in t.outcomes(start, prepared).values():
        t.demand(
            evidence.outcome in (Outcome.ABORTED, Outcome.UNKNOWN),
            f"the outcome of an expired transaction is {evidence.outcome.name} ({evidence.why})",
        )
    t.none_visible(keys, "after expiry and a commit")


def _refuses(start: Start, prepared: list[Participant], epoch: int = 0) -> bool:
    try:
        return start.committer.check(prepared, start.run(epoch), 0.0) is not None
    except OnceflowError:
        return True


# -- attempts and starts that died, and those that did not -----------------------------------------


@_in_two_phases
def a_zombie_attempt_stays_invisible(t: Trial) -> None:
    """An earlier attempt that writes on beside its retry never becomes visible; check or the system sees to it."""
    start = t.start()
    for epoch, (attempt, after_commit) in enumerate([(1, False), (1, True), (0, False), (0, True)]):
        wrong, right = t.keys(), t.keys()
        zombie = start.open(0, 0, epoch)
        zombie.write(t.world.rows(wrong[:2]))
        winner = start.seal([start.write(right, 0, attempt, epoch)], epoch)
        if not after_commit:
            _go_on(zombie, t, wrong)
        _decide(t, start, winner, right, epoch)
        if after_commit:
            _go_on(zombie, t, wrong)
        t.none_visible(wrong, f"after attempt {attempt} of the shard was decided and attempt 0 went on")
        zombie.abort()
    newer = t.start(2)
    newer.committer.abort(newer.committer.lingering(2, ()))


@_in_two_phases
def a_late_attempt_is_noticed(t: Trial) -> None:
    """Where a shard is written again under the same names after its pre-commit, check notices or both stand apart."""
    start, first, second, wrong = t.start(), t.keys(), t.keys(), t.keys()
    right = [*first, *second]
    winner = start.prepare(first, second)
    late = start.open(1)
    late.write(t.world.rows(wrong[:2]))
    _go_on(late, t, wrong)
    _decide(t, start, winner, right)
    t.none_visible(wrong, "after the earlier attempt was decided")
    late.abort()


@_in_two_phases
def an_aborted_writer_cannot_go_on(t: Trial) -> None:
    """A writer whose transaction was aborted under its hands never has a part of its rows committed."""
    start, newer = t.start(1), t.start(2)
    for epoch, sweeps in enumerate((False, True, False, True)):
        keys = t.keys(6)
        writer = start.open(epoch=epoch)
        writer.write(t.world.rows(keys[:3]))
        with suppress(SkipTest):  # whoever cannot tell does not wait
            _wait_until_open(t)
        if sweeps:
            newer.committer.abort(newer.committer.lingering(2, ()))
        else:
            start.committer.abort_run(start.run(epoch))
        try:
            writer.write(t.world.rows(keys[3:]))
            transaction = writer.prepare()
        except Exception:  # noqa: BLE001 - which one is the sink's business
            writer.abort()
            t.none_visible(keys, "after its transaction was aborted")
        else:
            _decide(t, start, start.seal([start.report(transaction, keys)], epoch), keys, epoch)


def _go_on(zombie: Writer, t: Trial, keys: list[str]) -> None:
    """What an attempt does that does not know of another; it may be refused at any step."""
    with suppress(Exception):
        zombie.write(t.world.rows(keys[2:]))
        zombie.prepare()


def _decide(t: Trial, start: Start, winner: list[Participant], keys: list[str], epoch: int = 0) -> None:
    """As a driver does: commit what passes the check, abort what does not."""
    if _refuses(start, winner, epoch):
        start.committer.abort(winner)
        start.committer.abort_run(start.run(epoch))
        t.none_visible(keys, "after check has refused it")
    else:
        t.commit(start, winner, "after its check")
        t.all_visible_once(keys, "after its check and commit")


@_in_two_phases
def abort_run_ends_what_no_report_names(t: Trial) -> None:
    """A task that died leaves no report: abort_run ends its transaction, and none of another run's."""
    start, newer, keys = t.start(1), t.start(2), t.keys()
    lost = start.prepare(keys)
    next_epoch = start.prepare(t.keys(), epoch=1)
    next_start = newer.prepare(t.keys())
    start.committer.abort_run(start.run())
    t.ends_aborted(start, lost, "after abort_run")
    t.none_visible(keys, "after abort_run")
    t.outcomes_are(Outcome.OPEN, start, next_epoch, "after abort_run of the epoch before")
    t.outcomes_are(Outcome.OPEN, newer, next_start, "after abort_run of an older incarnation")
    start.committer.abort([*next_epoch])
    newer.committer.abort(next_start)


@_in_two_phases
def lingering_finds_what_older_starts_left(t: Trial) -> None:
    """A newer start finds what older ones left open, but none that is spared, its own or newer; it only looks."""
    older, newer = t.start(1), t.start(2)
    kept = t.keys(), t.keys()
    lost, spared = older.prepare(t.keys()), older.prepare(kept[0], epoch=1)
    own = newer.prepare(kept[1])
    # What is spared is of all sinks of the job: another kind's has other words in it.
    stranger = Participant("another", "another's handle", (), {"of": "another sink"})
    t.demand(not newer.committer.can_finish(stranger), "can_finish takes another sink's transaction")
    found = newer.committer.lingering(2, [stranger, *spared])
    t.outcomes_are(Outcome.OPEN, newer, lost, "after a look for lingering ones")
    newer.committer.abort(found)
    t.ends_aborted(newer, lost, "after lingering ones were aborted")
    t.outcomes_are(Outcome.OPEN, newer, spared, "after lingering ones were aborted, of which it was spared")
    t.outcomes_are(Outcome.OPEN, newer, own, "after lingering ones of older starts were aborted")
    older.committer.abort(older.committer.lingering(1, spared))
    t.outcomes_are(Outcome.OPEN, newer, own, "after an older start aborted what lingers for it")
    t.commit(newer, spared)
    t.commit(newer, own)
    t.all_visible_once([*kept[0], *kept[1]], "after the commit of what was spared, and of the newer start's own")


@_in_two_phases
def what_died_unprepared_is_ended(t: Trial) -> None:
    """A writer that died before its pre-commit is ended by abort_run, and else by the sweep of a newer start."""
    start, newer, keys = t.start(1), t.start(2), t.keys()
    for epoch, sweeps in enumerate((False, True)):
        _write_and_vanish(t, start, keys, epoch)
        for _ in t.patience():
            if sweeps:
                newer.committer.abort(newer.committer.lingering(2, ()))
            else:
                start.committer.abort_run(start.run(epoch))
            left = t.world.open_transactions(t.job_id)
            if not left:
                break
        by = "the sweep of a newer start" if sweeps else "abort_run"
        t.demand(not left, f"{left} transactions of a writer that died are still open after {by}")
        t.none_visible(keys, f"after {by}")


def _write_and_vanish(t: Trial, start: Start, keys: list[str], epoch: int) -> None:
    writer = start.open(epoch=epoch)
    writer.write(t.world.rows(keys))
    _wait_until_open(t)


def _wait_until_open(t: Trial) -> None:
    """A writer may send later than it is told to write, and may have nothing open before its pre-commit."""
    for _ in t.patience():
        if t.world.open_transactions(t.job_id):
            return


@_in_two_phases
def two_jobs_never_mix(t: Trial) -> None:
    """No sweep and no abort_run of one job touches another's transaction, even where its id begins with the first's."""
    first, newer, keys = t.start(1), t.start(2), t.keys()
    other = t.start(1, job_id=t.job_id + "0")
    theirs = other.prepare(keys)
    mine = first.prepare(t.keys())
    newer.committer.abort(newer.committer.lingering(2, ()))
    t.ends_aborted(newer, mine, "after lingering ones of its job were aborted")
    t.outcomes_are(Outcome.OPEN, other, theirs, "after lingering ones of another job were aborted")
    first.committer.abort_run(first.run())
    t.outcomes_are(Outcome.OPEN, other, theirs, "after abort_run of another job")
    t.commit(other, theirs)
    t.all_visible_once(keys, "after its commit")


@_in_two_phases
def a_second_sink_is_another_one(t: Trial) -> None:
    """Of two sinks in one system neither's check touches the other's shards; a sweep finds what both have left."""
    second = t.world.second_sink()
    t.demand(second.name != t.world.sink().name, "World.second_sink has the same name")
    mine, theirs = t.start(), t.start(sink=second)
    keys, others = t.keys(), t.keys()
    prepared, beside = mine.prepare(keys), theirs.prepare(others)
    for who, of, whose in ((mine, prepared, "the first"), (theirs, beside, "the second")):
        problem = who.committer.check(of, who.run(), 0.0)
        t.demand(problem is None, f"the check of {whose} of two sinks refuses a good pre-commit: {problem}")
        t.outcomes_are(Outcome.OPEN, mine, prepared, f"after the check of {whose} of two sinks")
        t.outcomes_are(Outcome.OPEN, theirs, beside, f"after the check of {whose} of two sinks")
    t.commit(mine, prepared)
    t.commit(theirs, beside)
    t.all_visible_once([*keys, *others], "after the commits of both")
    left = theirs.prepare(t.keys(), epoch=1)
    newer = t.start(2)
    newer.committer.abort(newer.committer.lingering(2, ()))
    t.ends_aborted(theirs, left, "after the sweep of a newer start, by the other of two sinks")


# -- the sink and its connections -----------------------------------------------------------------


@_check(*Guarantee)
def a_writer_factory_pickles(t: Trial) -> None:
    """What opens writers reaches Spark's workers as a pickle, and opens them there."""
    start = t.start()
    factory = pickle.loads(pickle.dumps(start.connection.writer_factory()))  # noqa: S301 - our own
    writer = start.open(factory=factory)
    writer.write(t.world.rows(t.keys()))
    writer.abort()


@_in_two_phases
def a_sink_is_only_a_description(t: Trial) -> None:
    """Two connections of one sink object serve two jobs side by side; nothing of them stays in the sink."""
    sink = t.world.sink()
    before = dict(vars(sink))
    first, second = Start(t.world, t.job_id, sink=sink), t.start(job_id=t.job_id + "0", sink=sink)
    try:
        a, b, c = t.keys(), t.keys(), t.keys()
        mine, theirs = first.prepare(a), second.prepare(b)
        t.demand(first.connection.system_id == second.connection.system_id, "one system gives two system_ids")
        t.commit(first, mine)
    finally:
        first.close()
    latest = second.prepare(c, epoch=1)
    t.commit(second, theirs)
    t.commit(second, latest)
    t.all_visible_once([*a, *b, *c], "after the commits of two jobs of one sink")
    after = vars(sink)
    moved = sorted(n for n in before.keys() | after.keys() if before.get(n) is not after.get(n))
    t.demand(not moved, f"connect has changed the sink: {', '.join(moved)}")


@_in_two_phases
def a_committer_keeps_its_connection(t: Trial) -> None:
    """The connection is the committer's as soon as there is one: its close takes nothing away from it."""
    connection = t.world.sink().connect()
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    committer = connection.committer(PREFIX, t.job_id)
    connection.close()
    committer.outcomes(prepared)
    for _ in t.patience():
        if Reply.RETRY not in committer.commit(prepared).values():
            break
    committer.close()
    connection.close()
    t.all_visible_once(keys, "after the commit by a committer whose connection was closed")


@_in_two_phases
def several_threads_may_call(t: Trial) -> None:
    """A commit of one thread, a sweep of another and a mark of a third do not disturb each other."""
    start = t.start(2)
    with ThreadPoolExecutor(3) as threads:
        for epoch in range(4):
            keys = t.keys()
            prepared = start.prepare(keys, epoch=epoch)
            committing = threads.submit(t.commit, start, prepared)
            sweeping = threads.submit(start.committer.lingering, 2, prepared)
            threads.submit(start.committer.write_mark, f"mark {epoch}").result()
            sweeping.result()
            committing.result()
            t.outcomes_are(Outcome.COMMITTED, start, prepared, "after a commit beside a sweep")
            t.all_visible_once(keys, "after a commit beside a sweep")


@_in_two_phases
def a_preflight_leaves_nothing(t: Trial) -> None:
    """The preflight may be repeated; it shows no row, and leaves nothing that a newer start would have to sweep."""
    start = t.start()
    before = len(t.world.visible())
    start.committer.preflight()
    start.committer.preflight()
    t.demand(len(t.world.visible()) == before, "the preflight has shown rows")
    for _ in t.patience():
        left = start.committer.lingering(2, ())
        if not left:
            break
    t.demand(not left, f"the preflight has left {len(left)} transactions open")


@_in_two_phases
def a_mark_is_kept_outside(t: Trial) -> None:
    """Where the system keeps marks, another start reads the newest one of its job; else there is none."""
    start = t.start()
    if not start.committer.keeps_mark:
        t.demand(start.committer.read_mark() is None, "there is a mark, though keeps_mark is false")
        return
    t.demand(start.committer.read_mark() is None, "a new job has a mark")
    for mark in ("first", "second"):
        start.committer.write_mark(mark)
    t.demand(t.start(2).committer.read_mark() == "second", "the mark is not the one that was written last")
    t.demand(t.start(job_id=t.job_id + "0").committer.read_mark() is None, "another job has this one's mark")


@_in_two_phases
def a_name_mark_is_kept_for_the_next_job(t: Trial) -> None:
    """Where the system keeps marks of names, another job of the same prefix and name reads the newest; else none."""
    name, fresh = f"a name, ü% {t.job_id}", t.world.sink().connect()
    try:
        t.demand(fresh.read_name_mark(PREFIX, name) is None, "a name that nobody had has a mark")
        for mark in ("first", "second"):
            t.start().committer.write_name_mark(name, mark)
        other = t.start(job_id=t.job_id + "0").committer
        kept = other.read_name_mark(name)
        told = fresh.read_name_mark(PREFIX, name)
        t.demand(told == kept, f"a connection reads {told!r} where a committer reads {kept!r}")
        t.demand(kept in (None, "second"), "the mark is not the one that was written last")
        t.demand(other.read_name_mark(name + "0") is None, "another name has this one's mark")
        t.demand(fresh.read_name_mark(PREFIX + "0", name) is None, "another prefix has this one's mark")
        other.write_name_mark(name, "")
        t.demand(fresh.read_name_mark(PREFIX, name) is None, "a mark that was removed is there")
    finally:
        fresh.close()


# -- what operators' tools see, where a sink lets them look -------------------------------------------


def _look(start: Start) -> Inspection:
    if not isinstance(start.committer, Inspectable):
        raise SkipTest("its committer is not Inspectable: operators' tools do not look at its system")
    return start.committer.inspection()


def _require_understood(look: Inspection, participants: list[Participant]) -> None:
    if any(look.show(p).handle is None for p in participants):
        raise SkipTest(
            "its inspection does not understand its participants: the tools count all of its sink as decided"
        )


def _seen(t: Trial, look: Inspection, participants: list[Participant], when: str) -> list[Seen]:
    """These, as they are listed."""
    found = {seen.handle: seen for seen in look.transactions(participants).found}
    for p in participants:
        t.demand(p.handle in found, f"{when}, an inspection does not list {p.handle}")
    return [found[p.handle] for p in participants]


@_in_two_phases
def an_inspection_lists_the_jobs_own(t: Trial) -> None:
    """It lists what the job has open, with whose it is, and decided ones that are over; none of another job's."""
    start, other = t.start(), t.start(job_id=t.job_id + "0")
    look = _look(start)
    prepared, theirs = start.prepare(t.keys(), t.keys()), other.prepare(t.keys())
    _require_understood(look, prepared)
    listed = {seen.handle: seen for seen in look.transactions([]).found}
    for p in prepared:
        seen = listed.get(p.handle)
        t.demand(seen is not None and seen.phase is Phase.OPEN, "what is open is not listed as open")
        origin = seen.origin if seen is not None else None
        mine = origin is not None and (origin.sink, origin.incarnation) == (p.sink, start.incarnation)
        t.demand(mine, f"of what the job has open it is said that {origin} began it")
    t.demand(not any(p.handle in listed for p in theirs), "another job's transaction is listed as the job's")
    t.outcomes_are(Outcome.OPEN, start, prepared, "after an inspection")
    t.commit(start, prepared)
    for seen in _seen(t, look, prepared, "after their commit, asked for as decided"):
        t.demand(seen.phase is not Phase.OPEN, "what is committed is listed as open")
    other.committer.abort(theirs)


@_in_two_phases
def an_inspection_shows_exactly_what_is_meant(t: Trial) -> None:
    """A participant is shown by its own handle, its id leads to it and to the job, and no secret is in any of it."""
    start, other = t.start(), t.start(job_id=t.job_id + "0")
    look = _look(start)
    (mine, *_), (theirs, *_) = prepared = start.prepare(t.keys()), other.prepare(t.keys())
    _require_understood(look, [mine])
    shown = look.show(mine)
    t.demand(shown.handle == mine.handle, f"a participant of handle {mine.handle} is shown as {shown.handle}")
    t.demand(look.id_of(mine.handle) == shown.id, f"the id of its handle is {look.id_of(mine.handle)}, not {shown.id}")
    described, origin = look.describe(shown.id), look.origin(shown.id)
    t.demand(described is not None and described.handle == mine.handle, "its id is described as another transaction")
    t.demand(origin is not None and origin.sink == mine.sink, "its id is not told to be the job's")
    t.demand(look.origin(_look(other).show(theirs).id) is None, "another job's id is told to be the job's")
    stranger = Participant("another", "another's handle", (), {"of": "another sink"})
    t.demand(look.show(stranger).handle is None, "another sink's participant is taken for one that is understood")
    words = f"{shown} {described} {origin} {look.transactions([mine, stranger])}"
    t.demand(not any(secret in words for secret in t.world.secrets), "a secret stands in what is shown")
    for of, by in zip(prepared, (start, other), strict=True):
        by.committer.abort(of)


@_in_two_phases
def an_operators_abort_hits_exactly_its_transaction(t: Trial) -> None:
    """What an operator has seen is aborted, and neither a later one of the same shard nor what was committed since."""
    start, first, second = t.start(), t.keys(), t.keys()
    look = _look(start)
    lost = start.prepare(first)
    _require_understood(look, lost)
    seen = _seen(t, look, lost, "while they are open")
    answers = look.abort(seen)
    t.demand(answers.keys() >= {each.handle for each in seen}, "an operator's abort does not answer for each")
    for _ in t.patience():
        left = look.still_open(seen)
        if not left:
            break
    t.demand(not left, f"still open after an operator's abort: {sorted(left)}")
    t.outcomes_are(Outcome.ABORTED, start, lost, "after an operator's abort")
    later = start.prepare(second)
    look.abort(seen)
    t.outcomes_are(Outcome.OPEN, start, later, "after an operator's abort of the one before")
    now = _seen(t, look, later, "while they are open")
    t.demand(look.still_open(now) == {p.handle for p in later}, "what is open is not told to be open")
    t.commit(start, later)
    look.abort(now)
    t.outcomes_are(Outcome.COMMITTED, start, later, "after an operator's abort of what was committed since")
    t.all_visible_once(second, "after an operator's abort of what was committed since")
    t.none_visible(first, "after an operator's abort")


@_check(Guarantee.AT_LEAST_ONCE, Guarantee.IDEMPOTENT_UPSERT, part=False)
def a_plain_prepare_has_written_all(t: Trial) -> None:
    """A sink that takes no part in the decision shows every row when prepare returns, and gives no transaction."""
    start, keys = t.start(), t.keys()
    written = start.write(keys)
    t.demand(written.transaction is None, "prepare gives a transaction, though the sink takes no part in the decision")
    t.all_visible_once(keys, "after prepare")


# -- rows that replace those of their keys -----------------------------------------------------------


_by_key = _check(Guarantee.IDEMPOTENT_UPSERT)


@_by_key
def a_row_written_again_is_there_once(t: Trial) -> None:
    """A task that died behind its pre-commit, and a start that runs the epoch again, leave one row of each key."""
    keys = t.keys()
    t.start().write(keys)
    again = t.start(2)
    again.write(keys, attempt=1)
    t.all_visible_once(keys, "after a second run of the epoch")


@_by_key
def a_newer_row_replaces_the_one_of_its_key(t: Trial) -> None:
    """Of one start the later epoch's row stays; of two the later start's, though its epoch has a lower number."""
    keys, first, resumed = t.keys(), t.start(), t.start(2)
    for start, epoch, word in ((first, 7, "seven"), (first, 8, "eight"), (resumed, 3, "three, of the next start")):
        start.put(keys, word, epoch=epoch)
        t.shown_as(keys, word, f"after epoch {epoch} of start {start.incarnation}")


@_by_key
def a_late_row_replaces_nothing(t: Trial) -> None:
    """What an older epoch or an older start still writes, behind a newer row, does not take that row's place."""
    keys, older, newer = t.keys(), t.start(), t.start(2)
    begun = older.open(epoch=9)
    older.put(keys, "nine", epoch=9)
    older.put(keys, "ten", epoch=10)
    for how, late in (("was open before it", begun), ("was opened behind it", None)):
        with suppress(OnceflowError):  # it may be told that it comes too late
            _put_late(t, late or older.open(epoch=9), keys)
        t.shown_as(keys, "ten", f"after a writer of an older epoch that {how}")
    begun = older.open(epoch=11)
    newer.put(keys, "new", epoch=4)
    for how, late in (("was open before it", begun), ("was opened behind it", None)):
        with suppress(OnceflowError):
            _put_late(t, late or older.open(epoch=11), keys)
        t.shown_as(keys, "new", f"after a writer of an older start that {how}")


def _put_late(t: Trial, writer: Writer, keys: list[str]) -> None:
    writer.write(t.world.rows_saying(keys, "late"))
    writer.prepare()


@_by_key
def of_two_at_once_the_newer_stays(t: Trial) -> None:
    """Where two processes put rows of the same keys at the same time, those of the newer start are there at the end."""
    keys = [t.keys() for _ in range(10)]
    t.start()  # makes what is to be looked at
    with ThreadPoolExecutor(1) as threads:
        older = threads.submit(elsewhere, _put_each, t.world, t.job_id, 1, "nine", keys)
        while not older.done() and keys[-1][0] not in t.world.says():
            time.sleep(_LOOK_EVERY_S)
        _put_each(t.world, t.job_id, 2, "new", keys)
        older.result()
    t.shown_as([key for each in keys for key in each], "new", "after puts of two processes at once")


def _put_each(world: World, job_id: str, incarnation: int, word: str, keys: list[list[str]]) -> None:
    """Put rows of an epoch after the other; of the first start until the second one's are seen, and once more."""
    with Trial(world) as t:
        start, behind = t.start(incarnation, job_id=job_id), incarnation > 1
        deadline = time.monotonic() + _BESIDE_S
        for epoch in count():
            for each in keys:
                with suppress(OnceflowError):  # the older one may be told that it comes too late
                    start.put(each, word, epoch=epoch)
                time.sleep(_LOOK_EVERY_S)  # else a lock would never be free for the other process
            if behind:
                return
            behind = world.says().get(keys[0][0]) != word or time.monotonic() > deadline


_BESIDE_S, _LOOK_EVERY_S = 5.0, 0.01


CHECKS: tuple[Check, ...] = tuple(_found)
"""All checks, in the order in which they are best read."""
