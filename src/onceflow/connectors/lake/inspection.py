"""What operators' tools see of a job beside a lake table: its attempts, and how decided ones stand.

Must not know: the journal, what an operator may do, any particular format.

Before an epoch is decided each task's attempt is a transaction of its own; what is decided is one for all tasks.
Readers never wait: what is not committed is named by nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from onceflow.connectors.inspection import Inspection, Looked, Origin, Phase, PlaceInSystem, Seen, Shown, Waited
from onceflow.connectors.lake.staged import AttemptName, LakeStaged
from onceflow.connectors.lake.table import LakeTable
from onceflow.connectors.staged import NOT_UNDERSTOOD
from onceflow.twophase.messages import Evidence, Outcome
from onceflow.twophase.participants import Participant

_WRITTEN, _ENDED = "written", "ended"


class _End(Protocol):
    def __call__(self, staged: LakeStaged, *, decided: bool) -> None: ...


class LakeInspection(Inspection):
    """What one job has written beside one table.

    Args:
        table: The committer's, which stays its own.
        job_id: The job's id.
        outcome: What became of a participant.
        end: Ends what was written, unless it is committed.
    """

    def __init__(self, table: LakeTable, job_id: str, outcome: Callable[[Participant], Evidence], end: _End) -> None:
        self._table = table
        self._job_id = job_id
        self._outcome = outcome
        self._end = end

    def transactions(self, decided: Sequence[Participant]) -> Looked:
        """As the contract says; in the order of starts and epochs."""
        view, unseen, found = self._table.look(), list[str](), list[Seen]()
        table = "" if view is None else view.table_id
        inside = set[AttemptName]()
        for p in decided:
            staged = LakeStaged.of(p)
            if staged is None or staged.sealed is None:
                unseen.append(f"sink {p.sink}: its decided transaction {p.handle} is not understood")
            elif staged.system != table:
                unseen.append(f"sink {p.sink}: its decided transaction {p.handle} was written for another table")
            else:
                inside |= {a.name for a in staged.attempts}
                evidence = self._outcome(p)
                phase = Phase.OPEN if evidence.outcome is Outcome.OPEN else Phase.OVER
                name = staged.attempts[0].name
                told = {"epoch": staged.sealed.moment.epoch, "rows": staged.rows, "shards": len(staged.attempts)}
                found.append(self._seen(p.handle, evidence.outcome.value, phase, name, staged, told))
        found += [self._open(table, name) for name in self._attempts() if name not in inside]
        return Looked(tuple(found), tuple(unseen))

    def waited_for(self, names: Collection[str], ours: Sequence[Seen]) -> Waited:  # noqa: ARG002 - the contract's
        """Nobody waits."""
        return Waited(tuple(ours))

    def describe(self, transaction_id: str) -> Seen | None:
        """As the contract says."""
        name = next((name for name in self._attempts() if name.id == transaction_id), None)
        view = self._table.look()
        return None if name is None else self._open("" if view is None else view.table_id, name)

    def origin(self, transaction_id: str) -> Origin | None:
        """As the contract says."""
        seen = self.describe(transaction_id)
        return None if seen is None else seen.origin

    def show(self, participant: Participant) -> Shown:
        """As the contract says."""
        staged = LakeStaged.of(participant)
        if staged is None or staged.sealed is None:
            return Shown("", None, problem=NOT_UNDERSTOOD)
        place = PlaceInSystem(self._table.where)
        return Shown(participant.handle, participant.handle, (place,), f"{staged.rows} rows")

    def abort(self, seen: Sequence[Seen]) -> Mapping[str, str]:
        """As the contract says: what is not committed never will be, and its files are removed."""
        answers = {}
        for each in seen:
            staged = LakeStaged.read(each.transaction)
            try:
                if staged is not None:
                    self._end(staged, decided=True)
                answers[each.handle] = _ENDED
            except Exception as error:  # noqa: BLE001 - whatever it was is the answer
                answers[each.handle] = self._table.words(error)
        return answers

    def still_open(self, seen: Sequence[Seen]) -> frozenset[str]:
        """As the contract says."""
        there = set(self._attempts())
        left = set()
        for each in seen:
            staged = LakeStaged.read(each.transaction)
            if staged is not None and there.intersection(a.name for a in staged.attempts):
                left.add(each.handle)
        return frozenset(left)

    def _attempts(self) -> list[AttemptName]:
        return self._table.staging.attempts(self._job_id)

    def _open(self, table: str, name: AttemptName) -> Seen:
        told = {"epoch": name.moment.epoch, "shards": 1}
        return self._seen(name.id, _WRITTEN, Phase.OPEN, name, LakeStaged.found(table, [name]), told)

    def _seen(
        self, handle: str, state: str, phase: Phase, name: AttemptName, staged: LakeStaged, told: Mapping[str, Any]
    ) -> Seen:
        shard = name.shard if len(staged.attempts) == 1 else None
        count = len(staged.attempts)
        return Seen(
            id=handle,
            handle=handle,
            state=state,
            phase=phase,
            origin=Origin(name.sink, name.moment.incarnation, shard, f"epoch {name.moment.epoch}", told),
            writer=f"{count} {'attempt' if count == 1 else 'attempts'}",
            places=(PlaceInSystem(self._table.where),),
            transaction=staged.to_json(),
            details=told,
        )
