"""The example sink, committing as a database does: one participant for all tasks of an epoch, shown by one change.

Must not know: Spark, the suite that tries it.
"""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Mapping, Sequence

from onceflow.sinks import Evidence, Outcome, Participant, ParticipantId, Reply, Run, TaskReport
from tests.support.ledger_sink import LedgerCommitter, LedgerSink, opened


class GroupedCommitter(LedgerCommitter):
    """Ends what all tasks of an epoch have staged, together."""

    def seal(self, reports: Sequence[TaskReport], run: Run) -> list[Participant]:
        if not reports:
            return []
        parts = tuple(part for report in reports for part in report.parts)
        members = [dict(report.transaction or {}) for report in reports]
        return [Participant(self._sink, uuid.uuid4().hex, parts, {"members": members})]

    def check(self, participants: Sequence[Participant], run: Run, age_s: float) -> str | None:
        return super().check([each for p in participants for each in self.members(p)], run, age_s)

    def members(self, participant: Participant) -> list[Participant]:
        """What its tasks have staged; what lingers is of one task."""
        held = participant.transaction.get("members", [participant.transaction])
        return [Participant(participant.sink, each["id"], (), each) for each in held if "id" in each]

    def commit(self, participants: Sequence[Participant]) -> dict[ParticipantId, Reply]:
        with opened(self._path) as file:
            return {p.id: self.commit_all(file, [m.handle for m in self.members(p)]) for p in participants}

    def commit_all(self, file: sqlite3.Connection, keys: Sequence[str]) -> Reply:
        """All that are open, or none: one transaction of the database."""
        if {self.state(file, key) for key in keys} == {"open"}:
            for key in keys:
                self.commit_one(file, key)
        return Reply.COMMITTED if {self.state(file, key) for key in keys} == {"committed"} else Reply.SUSPECT

    def abort(self, participants: Sequence[Participant]) -> None:
        super().abort([each for p in participants for each in self.members(p)])

    def outcomes(self, participants: Sequence[Participant]) -> dict[ParticipantId, Evidence]:
        told = super().outcomes([each for p in participants for each in self.members(p)])
        return {p.id: self.of_all([told[each.id] for each in self.members(p)]) for p in participants}

    def of_all(self, told: Sequence[Evidence]) -> Evidence:
        """Shown with one are all, and with one that is gone nobody is shown."""
        order = (Outcome.COMMITTED, Outcome.ABORTED, Outcome.UNKNOWN, Outcome.OPEN)
        return min(told, key=lambda evidence: order.index(evidence.outcome))

    def lingering(self, incarnation: int, spared: Sequence[Participant]) -> list[Participant]:
        return super().lingering(incarnation, [each for p in spared for each in self.members(p)])


class GroupedSink(LedgerSink):
    """Rows with a column ``key`` to a file, those of an epoch together."""

    committer = GroupedCommitter


def staged_ids(transaction: Mapping[str, object]) -> list[str]:
    """The ids in the ledger that a participant's transaction is about."""
    held = transaction.get("members", [transaction])
    assert isinstance(held, list)
    return [each["id"] for each in held]
