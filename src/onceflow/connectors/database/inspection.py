"""What operators' tools see of a job in a database: what it has staged, and what its ledger says.

Must not know: the journal, jobs beyond their prefix and id, what an operator may do. It looks; only ``abort`` ends
something, by exact attempts.

What was checked for a decision is one thing, under its participant's handle; before that each attempt is one. Readers
wait for nobody: what is staged is in tables of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, func, or_, select
from sqlalchemy.exc import DBAPIError

from onceflow.connectors.database import tables as own
from onceflow.connectors.database.attempts import end
from onceflow.connectors.database.refusals import translated, words
from onceflow.connectors.database.staged import Staged
from onceflow.connectors.inspection import Inspection, Looked, Origin, Phase, PlaceInSystem, Seen, Shown, Waited
from onceflow.connectors.staged import NOT_UNDERSTOOD
from onceflow.twophase.participants import Participant

_COMMITTED, _UNKNOWN = "committed", "unknown"


class DatabaseInspection(Inspection):
    """What one job has staged in one database.

    Args:
        engine: The committer's, which stays its own.
        mine: onceflow's tables.
        system: Their lasting id.
        prefix: The job's prefix.
        job_id: The job's id.
    """

    def __init__(self, engine: Engine, mine: own.Tables, system: str, prefix: str, job_id: str) -> None:
        self._engine = engine
        self._own = mine
        self._system = system
        self._prefix = prefix
        self._job_id = job_id

    def transactions(self, decided: Sequence[Participant]) -> Looked:
        """As the contract says; in the order of starts, sinks and shards."""
        unseen = []
        wanted = dict[str, Participant]()
        for p in decided:
            said, staged = self.show(p), Staged.of(p)
            if staged is None:
                unseen.append(f"sink {p.sink}: its decided transaction {p.handle} is not understood: {said.problem}")
            elif staged.system != self._system:
                unseen.append(
                    f"sink {p.sink}: its decided transaction {p.handle} was staged in other tables than these"
                )
            else:
                wanted[p.handle] = p
        attempts = self._own.attempts
        with self._looking("list what is staged") as connection:
            mine = connection.execute(
                select(func.coalesce(attempts.c.sealed, attempts.c.id))
                .where(
                    attempts.c.job == self._job_id, attempts.c.prefix == self._prefix, attempts.c.state != own.ABORTED
                )
                .order_by(attempts.c.incarnation, attempts.c.sink, attempts.c.epoch, attempts.c.shard)
            ).scalars()
            found = []
            inside = {a.id for a in Staged.attempts_of(wanted.values())} - wanted.keys()
            for handle in dict.fromkeys((*(each for each in mine if each not in inside), *wanted)):
                seen = self._seen(connection, handle)
                if seen is None:
                    seen = Seen(handle, handle, _UNKNOWN, Phase.OVER, _origin_of(wanted[handle]))
                found.append(seen)
        return Looked(tuple(found), tuple(unseen))

    def waited_for(self, names: Collection[str], ours: Sequence[Seen]) -> Waited:  # noqa: ARG002 - the contract's
        """Nobody waits."""
        return Waited(tuple(ours))

    def describe(self, transaction_id: str) -> Seen | None:
        """As the contract says; also of what only the ledger has."""
        with self._looking("look at what is staged") as connection:
            return self._seen(connection, transaction_id, anybodys=True)

    def origin(self, transaction_id: str) -> Origin | None:
        """As the contract says."""
        with self._looking("look at what is staged") as connection:
            seen = self._seen(connection, transaction_id)
        return None if seen is None else seen.origin

    def show(self, participant: Participant) -> Shown:
        """As the contract says."""
        staged = Staged.of(participant)
        if staged is None or staged.sealed is None:
            return Shown("", None, problem=NOT_UNDERSTOOD)
        target = staged.sealed.target
        return Shown(participant.handle, participant.handle, (PlaceInSystem(target.name),), f"{staged.rows} rows")

    def abort(self, seen: Sequence[Seen]) -> Mapping[str, str]:
        """As the contract says: what is not merged is ended, and what it staged is removed."""
        answers = {}
        for each in seen:
            staged = Staged.read(each.transaction)
            ids = [] if staged is None else staged.ids
            try:
                with self._engine.begin() as connection:
                    end(connection, self._own, ids)
                    # It may have waited for a commit, behind which there is nothing to end.
                    known = select(self._own.ledger.c.handle).where(self._own.ledger.c.handle == each.handle)
                    merged = connection.execute(known).first() is not None
                answers[each.handle] = _COMMITTED if merged else own.ABORTED
            except DBAPIError as error:
                answers[each.handle] = words(error)
        return answers

    def still_open(self, seen: Sequence[Seen]) -> frozenset[str]:
        """As the contract says."""
        attempts, left = self._own.attempts, set[str]()
        with self._looking("look at what is staged") as connection:
            for each in seen:
                staged = Staged.read(each.transaction)
                query = select(attempts.c.id).where(
                    attempts.c.id.in_([] if staged is None else staged.ids), attempts.c.state != own.ABORTED
                )
                if connection.execute(query.limit(1)).first() is not None:
                    left.add(each.handle)
        return frozenset(left)

    # -- parts ------------------------------------------------------------------------------------

    def _seen(self, connection: Connection, handle: str, *, anybodys: bool = False) -> Seen | None:
        """What the tables have under a handle or an attempt's id, of this job or of anybody."""
        attempts, ledger = self._own.attempts, self._own.ledger
        wider = connection.execute(select(attempts.c.sealed).where(attempts.c.id == handle)).scalar() or handle
        rows = connection.execute(
            select(attempts).where(or_(attempts.c.id == handle, attempts.c.sealed == wider)).order_by(attempts.c.shard)
        ).all()
        if rows:
            mine = (rows[0].job, rows[0].prefix) == (self._job_id, self._prefix)
            state = own.ABORTED if any(row.state == own.ABORTED for row in rows) else min(row.state for row in rows)
            shard = rows[0].shard if len(rows) == 1 else None
            told: dict[str, Any] = {"epoch": rows[0].epoch, "rows": sum(row.rows for row in rows), "shards": len(rows)}
            origin = Origin(rows[0].sink, rows[0].incarnation, shard, f"epoch {rows[0].epoch}", told)
            seen = Seen(
                id=wider,
                handle=wider,
                state=state,
                phase=Phase.OVER if state == own.ABORTED else Phase.OPEN,
                origin=origin if mine else None,
                writer=f"{len(rows)} {'attempt' if len(rows) == 1 else 'attempts'}, {told['rows']} rows",
                places=tuple(PlaceInSystem(name) for name in sorted({row.staged for row in rows})),
                transaction=Staged.found(self._system, tuple(row.id for row in rows)).to_json(),
            )
            return seen if mine or anybodys else None
        row = connection.execute(select(ledger).where(ledger.c.handle == handle)).first()
        if row is None or (row.job != self._job_id and not anybodys):
            return None
        told = {"epoch": row.epoch, "rows": row.rows}
        origin = Origin(row.sink, row.incarnation, None, f"epoch {row.epoch}", told)
        of_job = origin if row.job == self._job_id else None
        return Seen(handle, handle, _COMMITTED, Phase.OVER, of_job, writer=f"{row.rows} rows")

    @contextmanager
    def _looking(self, what: str) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise translated(error, "the database", what) from None


def _origin_of(participant: Participant) -> Origin | None:
    staged = Staged.of(participant)
    if staged is None or staged.sealed is None:
        return None
    return Origin(participant.sink, staged.sealed.incarnation, None, f"epoch {staged.sealed.epoch}")
