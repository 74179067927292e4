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
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from unittest import SkipTest

from onceflow.connectors.contract import Guarantee, Writer, WriterFactory
from onceflow.errors import EpochTooLongError, OnceflowError
from onceflow.testing.trial import PREFIX, Start, Trial, World, elsewhere, through_json
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
    """

    name: str
    proves: str
    of: frozenset[Guarantee]
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
            guarantee = world.sink().guarantee
            if guarantee not in self.of:
                raise SkipTest(f"it is asked of sinks that are {' or '.join(sorted(self.of))}; this is {guarantee}")
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


def _check(*of: Guarantee) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    def add(body: Callable[[Trial], None]) -> Callable[[Trial], None]:
        _found.append(Check(body.__name__, (body.__doc__ or "").strip(), frozenset(of), body))
        return body

    return add


_in_two_phases = _check(Guarantee.EXACTLY_ONCE)


# -- the pre-commit -------------------------------------------------------------------------------


@_in_two_phases
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


# -- what is known --------------------------------------------------------------------------------


@_in_two_phases
def outcomes_are_told_by_evidence(t: Trial) -> None:
    """Each is OPEN after its pre-commit, then COMMITTED or ABORTED with what proves it; each for itself."""
    start, other = t.start(), t.start(2, attach=True)
    committed, aborted, left = (
        start.prepare(t.keys(), t.keys()),
        start.prepare(t.keys(), epoch=1),
        other.prepare(t.keys()),
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
def what_never_was_is_never_committed(t: Trial) -> None:
    """Of a transaction that the system does not know nothing is guessed, and no commit of it succeeds."""
    start = t.start()
    prepared = start.prepare(t.keys())
    never = [t.world.never_was(p) for p in prepared]
    t.demand(never != prepared, "World.never_was gives a transaction that there is")
    for evidence in t.outcomes(start, never).values():
        t.demand(
            evidence.outcome in (Outcome.UNKNOWN, Outcome.ABORTED),
            f"the outcome of a transaction that never was is {evidence.outcome.name} ({evidence.why})",
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


# -- the sink and its connections -----------------------------------------------------------------


@_check(Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE, Guarantee.NONE)
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


@_check(Guarantee.AT_LEAST_ONCE)
def a_plain_prepare_has_written_all(t: Trial) -> None:
    """A sink that takes no part in the decision shows every row when prepare returns, and gives no transaction."""
    start, keys = t.start(), t.keys()
    written = start.write(keys)
    t.demand(written.transaction is None, "prepare gives a transaction, though the sink takes no part in the decision")
    t.all_visible_once(keys, "after prepare")


CHECKS: tuple[Check, ...] = tuple(_found)
"""All checks, in the order in which they are best read."""
