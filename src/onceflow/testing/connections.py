"""Checks of the sink and its connections, and of what operators' tools see of it.

Must not know: any particular sink, Spark, the journal.
"""

import pickle
from concurrent.futures import ThreadPoolExecutor
from unittest import SkipTest

from onceflow.connectors.contract import Guarantee, marks_of
from onceflow.connectors.inspection import Inspectable, Inspection, Phase, Seen
from onceflow.testing.check import IN_TWO_PHASES, asks
from onceflow.testing.trial import PREFIX, Start, Trial
from onceflow.twophase.messages import Outcome, Reply
from onceflow.twophase.participants import Participant

# -- the sink and its connections -----------------------------------------------------------------


@asks(*Guarantee)
def a_writer_factory_pickles(t: Trial) -> None:
    """What opens writers reaches Spark's workers as a pickle, and opens them there."""
    start = t.start()
    factory = pickle.loads(pickle.dumps(start.connection.writer_factory()))  # noqa: S301 - our own
    writer = start.open(factory=factory)
    writer.write(t.world.rows(t.keys()))
    writer.abort()


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
def several_threads_may_call(t: Trial) -> None:
    """A commit of one thread, a sweep of another and a mark of a third do not disturb each other."""
    start = t.start(2)
    marks = start.committer.marks()
    with ThreadPoolExecutor(3) as threads:
        for epoch in range(4):
            keys = t.keys()
            prepared = start.prepare(keys, epoch=epoch)
            committing = threads.submit(t.commit, start, prepared)
            sweeping = threads.submit(start.committer.lingering, 2, prepared)
            if marks is not None:
                threads.submit(marks.write, f"mark {epoch}").result()
            sweeping.result()
            committing.result()
            t.outcomes_are(Outcome.COMMITTED, start, prepared, "after a commit beside a sweep")
            t.all_visible_once(keys, "after a commit beside a sweep")


@IN_TWO_PHASES
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


@IN_TWO_PHASES
def a_mark_is_kept_outside(t: Trial) -> None:
    """Where the system keeps marks, another start reads the newest one of its job."""
    marks = t.start().committer.marks()
    if marks is None:
        return
    t.demand(marks.read() is None, "a new job has a mark")
    for mark in ("first", "second"):
        marks.write(mark)
    t.demand(_mark(t.start(2)) == "second", "the mark is not the one that was written last")
    t.demand(_mark(t.start(job_id=t.job_id + "0")) is None, "another job has this one's mark")


def _mark(start: Start) -> str | None:
    marks = start.committer.marks()
    return None if marks is None else marks.read()


@IN_TWO_PHASES
def a_name_mark_is_kept_for_the_next_job(t: Trial) -> None:
    """Where the system keeps marks of names, another job of the same prefix and name reads the newest; else none."""
    name, fresh = f"a name, ü% {t.job_id}", t.world.sink().connect()
    try:
        t.demand(fresh.read_name_mark(PREFIX, name) is None, "a name that nobody had has a mark")
        for mark in ("first", "second"):
            for marks in marks_of([t.start().committer]):
                marks.write_name(name, mark)
        others = t.start(job_id=t.job_id + "0").committer.marks()
        kept = None if others is None else others.read_name(name)
        told = fresh.read_name_mark(PREFIX, name)
        t.demand(told == kept, f"a connection reads {told!r} where a committer reads {kept!r}")
        t.demand(kept in (None, "second"), "the mark is not the one that was written last")
        t.demand(fresh.read_name_mark(PREFIX + "0", name) is None, "another prefix has this one's mark")
        if others is not None:
            t.demand(others.read_name(name + "0") is None, "another name has this one's mark")
            others.write_name(name, "")
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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


@IN_TWO_PHASES
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
