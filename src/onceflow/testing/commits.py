"""Checks of the pre-commit, of commits and aborts, and of those who die in the middle of one.

Must not know: any particular sink, Spark, the journal.
"""

import json
import os
import signal
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

from onceflow.connectors.contract import Writer, WriterFactory
from onceflow.connectors.shards import ShardCommitter
from onceflow.errors import OnceflowError
from onceflow.testing.check import IN_TWO_PHASES
from onceflow.testing.trial import Start, Trial, World, each_line, elsewhere, forked, through_json
from onceflow.twophase.messages import Outcome, Reply
from onceflow.twophase.participants import Participant, TaskReport, parts_of, uncovered

# -- the pre-commit -------------------------------------------------------------------------------


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
def a_precommit_survives_its_writer(t: Trial) -> None:
    """When the writer is gone, another connection commits from the participant alone."""
    keys = t.keys()
    prepared = t.start().prepare(keys)
    later = t.start(2, attach=True)
    t.outcomes_are(Outcome.OPEN, later, prepared, "after its writer is gone")
    t.commit(later, prepared)
    t.all_visible_once(keys, "after the commit")


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
def nothing_is_no_error(t: Trial) -> None:
    """An epoch may have no row for a sink: its committer is called all the same, and passes over what is not there."""
    start = t.start()
    t.demand(not start.seal([]), "seal makes something of nothing")
    t.demand(start.committer.check([], start.run(), 0.0) is None, "check refuses nothing")
    t.demand(not start.committer.commit([]), "commit answers for nothing")
    t.demand(not start.committer.outcomes([]), "outcomes answers for nothing")
    start.committer.abort([])
    start.committer.abort_run(start.run())


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
def a_commit_again_changes_nothing(t: Trial) -> None:
    """A commit may be repeated, by the same start and by another: each row stays visible once."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    t.commit(start, prepared)
    t.commit(start, prepared, "at its second commit")
    t.commit(t.start(2, attach=True), prepared, "at its third commit, by another start")
    t.all_visible_once(keys, "after three commits")


@IN_TWO_PHASES
def an_abort_leaves_nothing_visible(t: Trial) -> None:
    """After an abort no row can be seen, and the outcome is ABORTED for every start that asks."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    t.abort(start, prepared)
    t.outcomes_are(Outcome.ABORTED, t.start(2, attach=True), prepared, "after its abort, for another start")
    t.none_visible(keys, "after the abort")


@IN_TWO_PHASES
def an_abort_again_changes_nothing(t: Trial) -> None:
    """An abort may be repeated, by the same start and by another."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    t.abort(start, prepared)
    t.abort(start, prepared, "after its second abort")
    t.abort(t.start(2, attach=True), prepared, "after its third abort, by another start")
    t.none_visible(keys, "after three aborts")


@IN_TWO_PHASES
def a_commit_after_the_abort_says_so(t: Trial) -> None:
    """A commit of what was aborted is never answered with COMMITTED, shows nothing, and leaves the outcome ABORTED."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    t.abort(start, prepared)
    replies = t.send_commits(start, prepared)
    t.demand(Reply.COMMITTED not in replies.values(), "the commit of an aborted transaction is answered COMMITTED")
    t.outcomes_are(Outcome.ABORTED, start, prepared, "after an abort and a commit")
    t.none_visible(keys, "after an abort and a commit")


@IN_TWO_PHASES
def an_abort_after_the_commit_changes_nothing(t: Trial) -> None:
    """An abort of what was committed hides no row, and the outcome stays COMMITTED."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    t.commit(start, prepared)
    t.all_visible_once(keys, "after the commit")
    start.committer.abort(prepared)
    t.outcomes_are(Outcome.COMMITTED, start, prepared, "after a commit and an abort")
    t.all_visible_once(keys, "after a commit and an abort")


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
def a_reader_inside_of_a_commit_sees_it_once(t: Trial) -> None:
    """Who reads inside of a commit sees no row twice and none that goes away, and of a ShardCommitter's shard all."""
    start, keys = t.start(), t.keys()
    prepared = start.prepare(keys)
    reader = _Reader(t, keys, whole=isinstance(start.committer, ShardCommitter))
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


@IN_TWO_PHASES
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
