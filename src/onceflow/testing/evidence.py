"""Checks of what is known of a transaction, and of attempts and starts that died, or did not.

Must not know: any particular sink, Spark, the journal.
"""

from contextlib import suppress
from unittest import SkipTest

from onceflow.connectors.contract import Writer
from onceflow.connectors.shards import ShardCommitter
from onceflow.errors import EpochTooLongError, OnceflowError
from onceflow.testing.check import IN_TWO_PHASES
from onceflow.testing.trial import Start, Trial
from onceflow.twophase.messages import Outcome, Reply
from onceflow.twophase.participants import Participant

# -- what is known --------------------------------------------------------------------------------


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
def check_notices_an_abort(t: Trial) -> None:
    """A pre-commit whose transaction was aborted meanwhile does not pass the check."""
    start = t.start()
    prepared = start.prepare(t.keys(), t.keys())
    t.abort(t.start(2, attach=True), prepared[-1:])
    t.demand(_refuses(start, prepared), "check passes a pre-commit whose transaction was aborted")
    start.committer.abort(prepared)


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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
