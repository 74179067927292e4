"""Aborting what lingers: transactions of the job that nobody will ever commit.

Must not know: Spark, any particular sink, how a command line looks, or whom it asks.

Why it is safe beside a running job: an open transaction of an older incarnation that no decision names can never be
decided, because the newest start in the journal has taken that power from its writer's driver. One of the newest
incarnation may be decided at any moment; so it is aborted only after a start of the tool's own (``claim``), which ends
that driver's power as well. What is decided is never aborted here: the next start of the job commits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onceflow import crash_points as crash
from onceflow.connectors.inspection import Phase
from onceflow.errors import ConfigurationError
from onceflow.operations.transactions.access import Operator, System
from onceflow.operations.transactions.inventory import JournalVerdict, OwnTransaction, own_transactions

_ENDED_WITHIN_S = 10.0
_LOOK_AGAIN_S = 0.1


@dataclass(frozen=True, slots=True)
class AbortReport:
    """What ``abort`` did.

    Attributes:
        started: The incarnation that the tool appended with ``claim``, or None.
        aborted: The transactions that were aborted and are not open any more.
        still_open: Those that their systems did not abort, with their answers.
    """

    started: int | None
    aborted: tuple[OwnTransaction, ...]
    still_open: tuple[tuple[OwnTransaction, str], ...]


def doomed(operator: Operator, ids: Sequence[str] | None, *, claim: bool) -> list[OwnTransaction]:
    """What ``abort`` would abort now.

    Args:
        operator: The access to the job.
        ids: As they are listed; None for all that linger.
        claim: Count what the newest incarnation left as lingering too.

    Raises:
        ConfigurationError: One of the ids may not be aborted, and why.
    """
    return choose(_all_of_ours(operator), ids, claim=claim)


def abort(operator: Operator, ids: Sequence[str] | None, *, claim: bool) -> AbortReport:
    """Abort lingering transactions of the job, each by its exact handle.

    With ``claim`` a start is appended first: whatever driver still runs on this checkpoint can decide nothing after
    it and ends. Only then is listed what lingers; what that driver has decided is left to the job's next start.

    Args:
        operator: The access to the job.
        ids: As they are listed; None for all that linger.
        claim: Take over from the newest incarnation.

    Raises:
        ConfigurationError: One of the ids may not be aborted, and why; nothing was done.
        CheckpointConflictError: The checkpoint is older than what the job has done; nothing was done.
        FencedError: The job was started while this was under way; nothing was aborted.
    """
    operator.require_not_rewound()
    chosen = doomed(operator, ids, claim=claim)
    started = None
    if claim:
        started = operator.start().incarnation
        lingering = choose(_all_of_ours(operator), None, claim=False)
        chosen = [t for t in lingering if ids is None or t.seen.id in ids]
        if not operator.journal.is_newest():
            raise operator.fenced()
    answers: dict[OwnTransaction, str] = {}
    for system, mine in _by_system(operator, chosen):
        told = system.inspection.abort([t.seen for t in mine])
        answers |= {t: told.get(t.seen.handle, "no answer") for t in mine}
    crash.reach("O3", started or 0)
    left = _still_open(operator, chosen)
    return AbortReport(
        started,
        tuple(t for t in chosen if t not in left),
        tuple((t, answers[t]) for t in chosen if t in left),
    )


def _by_system(operator: Operator, of: Iterable[OwnTransaction]) -> list[tuple[System, list[OwnTransaction]]]:
    """Transactions by the system that showed them; systems without any are left out."""
    held = list(of)
    found = [(system, [t for t in held if t.system is system]) for system in operator.systems]
    return [(system, mine) for system, mine in found if mine]


def _all_of_ours(operator: Operator) -> list[OwnTransaction]:
    history, _ = operator.journal.history()
    return [t for system in operator.systems for t in own_transactions(operator, system, history)[0]]


def _still_open(operator: Operator, chosen: Sequence[OwnTransaction]) -> set[OwnTransaction]:
    """Those that are not over yet, after a moment for their ends to be everywhere."""
    left = set(chosen)
    deadline = operator.now() + _ENDED_WITHIN_S
    while left:
        for system, mine in _by_system(operator, left):
            still_open = system.inspection.still_open([t.seen for t in mine])
            left -= {t for t in mine if t.seen.handle not in still_open}
        if operator.now() > deadline:
            break
        if left:
            operator.sleep(_LOOK_AGAIN_S)
    return left


def choose(ours: Sequence[OwnTransaction], ids: Sequence[str] | None, *, claim: bool) -> list[OwnTransaction]:
    """Those that may be aborted, of the named ones or of all.

    Args:
        ours: All of ours that are open, and those of an undone decision.
        ids: As they are listed; None for all that linger.
        claim: Count those of the newest incarnation as lingering.

    Raises:
        ConfigurationError: One of the ids may not be aborted.
    """
    allowed = {JournalVerdict.LINGERING, JournalVerdict.RUNNING} if claim else {JournalVerdict.LINGERING}
    doomed = [t for t in ours if t.seen.phase is Phase.OPEN and t.standing in allowed]
    if ids is None:
        return doomed
    by_id = {t.seen.id: t for t in doomed}
    for wanted in ids:
        if wanted not in by_id:
            raise _refused(wanted, [t for t in ours if t.seen.id == wanted])
    return [by_id[wanted] for wanted in dict.fromkeys(ids)]


def _refused(transactional_id: str, found: Sequence[OwnTransaction]) -> ConfigurationError:
    standing = found[0].standing if found else None
    match standing:
        case None:
            cause, action = "it is not an open transaction of this job", "see `onceflow txn list`"
        case JournalVerdict.DECIDED if found[0].is_lost:
            cause = f"epoch {found[0].epoch} is decided and names it; it is aborted: it expired, or somebody ended it"
            action = "start the job: it writes these rows again"
        case JournalVerdict.DECIDED:
            cause = f"epoch {found[0].epoch} is decided and names it: aborting it would lose records"
            action = "start the job: it commits what is decided"
        case JournalVerdict.RUNNING:
            cause = "it is of the newest incarnation, whose job may still run and decide it at any moment"
            action = "if that job is dead, or is to end: --claim"
        case JournalVerdict.NEWER:
            cause = "it is of an incarnation that this checkpoint does not know: another copy of it is newer"
            action = "use the newest copy of the checkpoint"
        case _:
            cause, action = f"it is {found[0].seen.state} already", "nothing: it ends by itself"
    return ConfigurationError(
        f"transaction {transactional_id} is not aborted", cause=cause, action=action, transactional_id=transactional_id
    )
