"""What a run of an epoch's plan gave: is it whole, sound, and what was decided?

Must not know: how a plan runs, Spark, Kafka, files, time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from onceflow.twophase.layout import remade
from onceflow.twophase.memory import Memory, Mode, Reading, decided_parts, failing, open_business
from onceflow.twophase.messages import Checked, FailureKind, Ran, RunFailed, Sealed
from onceflow.twophase.participants import (
    Part,
    come_again,
    differing_rows,
    differing_sinks,
    find_again,
    find_by_origin,
    parts_of,
    uncovered,
    unreported,
    with_origins,
)
from onceflow.twophase.state import Input, State


def read_ran(state: State, m: Memory, event: Ran, sinks: Collection[str]) -> Reading:
    """What a run's tasks report: to be sealed, or to be compared with what was decided."""
    wrong = unreported(event.reports, event.sinks, event.tasks, len(event.origins))
    if wrong is not None:
        return Input.RUN_FAILED, failing(m, FailureKind.UNREPORTED, detail=wrong)
    reports = tuple(with_origins(report, event.origins) for report in event.reports if report.sink in sinks)
    ran = parts_of(reports)
    m = replace(m, reports=reports, ran=ran, took_ms=event.took_ms)
    if state is State.REBUILDING:
        return _compare_rebuilt(m, ran)
    if state is State.MATCHING:
        return _match(m, ran, event.origins)
    return Input.RAN, m


def read_sealed(m: Memory, event: Sealed) -> Reading:
    """What is to be decided of it: each part that has rows in one participant, and no other rows than decided ones."""
    m = replace(m, written=event.participants)
    wrong = uncovered(m.ran, m.written, m.silent) or come_again(m.written, open_business(m.undone))
    if wrong is not None:
        return Input.RUN_FAILED, failing(m, FailureKind.MISSEALED, detail=wrong)
    if m.mode is Mode.FRESH:
        return (Input.PREPARED if m.written else Input.NOTHING_TO_COMMIT), m
    if m.mode is Mode.WHOLE and not (m.undone and m.undone.state_accepted):
        # Nothing is visible, so other rows would do no harm; fewer rows are records that the source has lost
        # without a gap in its offsets (compaction), or a start that nobody knows any more.
        other = differing_rows(decided_parts(m.undone), m.ran)
        if other:
            return Input.NOT_DETERMINISTIC, failing(m, FailureKind.NOT_DETERMINISTIC, detail=_counts(other))
    if m.mode is Mode.PARTS:
        different = _different_parts(m.matched, m.ran)
        if different and not (m.undone and m.undone.state_accepted):
            return Input.NOT_DETERMINISTIC, failing(m, FailureKind.NOT_DETERMINISTIC, detail=different)
    return Input.PREPARED, m


def _compare_rebuilt(m: Memory, rebuilt: tuple[Part, ...]) -> Reading:
    different = differing_sinks(decided_parts(m.undone), rebuilt)
    if different and not (m.undone and m.undone.state_accepted):
        return Input.NOT_DETERMINISTIC, failing(m, FailureKind.NOT_DETERMINISTIC, detail=_counts(different))
    return Input.SAME_ROWS, m


def _match(m: Memory, found: tuple[Part, ...], origins: Sequence[str]) -> Reading:
    holders = [p for p in open_business(m.undone) if p.id in m.visible]
    visible = [part for part in parts_of(holders) if part.rows]
    same = find_by_origin(visible, origins)
    # What reads the same must give the same. That another part has these rows is chance: held silent, its own are lost.
    silent = find_again(visible, found if same is None else [part for part in found if part.id in same])
    accepted = m.undone is not None and m.undone.state_accepted
    if silent is None and accepted:
        # The operator takes other rows for the lost ones. What the visible ones had read tells which parts of this
        # run hold it again; a part's number does not, since partitions are numbered otherwise in every process.
        silent = same
        if silent is None and m.undone and m.undone.numbers_accepted and not any(part.origin for part in visible):
            # Nothing better is known, and the operator was told how many rows that may cost.
            silent = frozenset(part.id for part in visible)
    if silent is None:
        who = tuple(p.id for p in holders)
        # Accepted already, and by what they had read they were not found: to accept once more changes nothing.
        told = accepted and any(part.origin for part in visible)
        kind = FailureKind.NOT_FOUND_AGAIN if told else FailureKind.NOT_DETERMINISTIC
        return Input.NOT_DETERMINISTIC, failing(m, kind, who)
    # What is visible comes again as it is, but of what is lost there is more or less than was decided: compaction takes
    # records of just those keys, and the epoch would be done with rows missing in silence. And where nobody knows what
    # was read, other rows of the lost ones say that the plan varies: the visible ones may be found by chance.
    differing = differing_sinks if same is None else differing_rows
    other = differing(decided_parts(m.undone), found)
    if other and not accepted:
        return Input.NOT_DETERMINISTIC, failing(m, FailureKind.NOT_DETERMINISTIC, detail=_counts(other))
    return Input.MATCHED, replace(m, silent=silent, matched=found)


def read_run_failed(state: State, m: Memory, event: RunFailed) -> Reading:
    """It failed."""
    again = state in (State.REBUILDING, State.MATCHING)
    kind = FailureKind.REBUILD_FAILED if again else FailureKind.RUN_FAILED
    m, kind = _too_long(m, event.limit, kind)
    return Input.RUN_FAILED, failing(m, kind, detail=event.reason)


def _too_long(m: Memory, limit: int | None, otherwise: FailureKind) -> tuple[Memory, FailureKind]:
    """An undecided epoch that outlived its transactions is cut smaller; a decided one never."""
    if limit is None or m.mode is not Mode.FRESH:
        return m, otherwise
    return replace(m, limit=limit), FailureKind.TOO_LONG


def read_checked(m: Memory, event: Checked) -> Reading:
    """What was found when all was written, before the decision."""
    if event.problem is not None:
        m, kind = _too_long(m, event.limit, FailureKind.UNSOUND)
        replaces = event.conflict and m.mode in (Mode.WHOLE, Mode.PARTS)
        return (Input.CONFLICTING if replaces else Input.UNSOUND), failing(m, kind, detail=event.problem)
    if event.layout is None or event.layout == m.layout:
        return (Input.SOUND if m.written else Input.SOUND_NOTHING), m
    strange = next(remade(m.layout, event.layout), None)
    if strange is not None:
        # The positions count records of the topic before: all that the new one has below them would be passed over.
        said = f"topic {strange.topic}: its id was {strange.was} and is {strange.now}"
        return Input.UNSOUND, failing(m, FailureKind.SOURCE_REMADE, detail=said)
    # Recorded before the decision: after it, a death would leave a topic that was read and whose id nobody kept.
    return Input.GROWN, replace(m, layout=event.layout)


def _counts(different: Mapping[str, tuple[int, int]]) -> str:
    return "; ".join(f"sink {s}: {then} rows decided, {now} now" for s, (then, now) in different.items())


def _different_parts(matched: Iterable[Part], ran: Iterable[Part]) -> str:
    """Parts that differ between two runs in one process, where upstream partitions are numbered alike; "" for none."""
    before = {part.id: (part.rows, part.digest) for part in matched}
    after = {part.id: (part.rows, part.digest) for part in ran}
    different = sorted(p for p in before.keys() | after.keys() if before.get(p) != after.get(p))
    return ", ".join(f"sink {sink} part {number}" for sink, number in different)
