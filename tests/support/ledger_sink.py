"""An example of a sink: rows staged in a SQLite file, which become visible by one change in its ledger.

Must not know: Spark, the suite that tries it. It needs no server, and any process may open the file.
"""

from __future__ import annotations

import contextlib
import sqlite3
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onceflow import Guarantee
from onceflow.connectors.inspection import (
    Inspectable,
    Inspection,
    Looked,
    Origin,
    Phase,
    PlaceInSystem,
    Seen,
    Shown,
    Waited,
)
from onceflow.errors import EpochTooLongError, WriterFencedError
from onceflow.sinks import (
    Committer,
    Evidence,
    Marks,
    Outcome,
    Participant,
    ParticipantId,
    Reply,
    Run,
    Shard,
    Sink,
    SinkConnection,
    TaskReport,
    Writer,
)

EXPIRES_AFTER_S = 600.0
_TABLES = """
create table if not exists ledger (
    id text primary key, system text, job text, incarnation integer, epoch integer, sink text, shard integer,
    attempt integer, state text
);
create table if not exists staged (id text, key text not null);
create table if not exists marks (job text primary key, mark text);
create table if not exists names (prefix text, name text, mark text, primary key (prefix, name));
create table if not exists identity (id text);
insert into identity select lower(hex(randomblob(8))) where not exists (select * from identity);
"""


@contextlib.contextmanager
def opened(path: str) -> Iterator[sqlite3.Connection]:
    """The file, for one change that happens whole or not at all."""
    with contextlib.closing(sqlite3.connect(path, timeout=30)) as file:
        file.isolation_level = None
        file.execute("begin immediate")
        yield file
        file.execute("commit")


def visible(path: str) -> list[str]:
    """What a reader sees."""
    with opened(path) as file:
        return [key for (key,) in file.execute("select key from staged join ledger using (id) where state='committed'")]


def name_mark(path: str, prefix: str, name: str) -> str | None:
    """What is kept under a job's name."""
    with opened(path) as file:
        found = file.execute("select mark from names where (prefix, name) = (?, ?)", [prefix, name]).fetchone()
    return found[0] or None if found else None


class LedgerWriter(Writer):
    """Stages rows under an id of its own; a later writer of the same shard and attempt ends an earlier one."""

    insert = "insert into staged values (?, ?)"

    def __init__(self, path: str, sink: str, shard: Shard) -> None:
        self._path, self._id, self._rows = path, uuid.uuid4().hex, 0
        run = shard.run
        name = (run.job_id, run.incarnation, run.epoch % 2, sink, shard.number, shard.attempt)
        with opened(path) as file:
            file.execute(
                "update ledger set state='aborted' where state='open' and (job, incarnation, epoch % 2, sink, shard, "
                "attempt) = (?, ?, ?, ?, ?, ?)",
                name,
            )
            row = (self._id, run.prefix, run.job_id, run.incarnation, run.epoch, sink, shard.number, shard.attempt)
            file.execute("insert into ledger values (?, ?, ?, ?, ?, ?, ?, ?, 'open')", row)

    def write(self, rows: Any) -> None:
        with opened(self._path) as file:
            self._require_open(file)
            file.executemany(self.insert, [(self._id, key) for key in self.keys(rows)])
        self._rows += len(rows)

    def keys(self, rows: Any) -> list[str]:
        return rows.column("key").to_pylist()

    def prepare(self) -> Mapping[str, Any]:
        with opened(self._path) as file:
            self._require_open(file)
        return {"id": self._id, "rows": self._rows}

    def abort(self) -> None:
        with opened(self._path) as file:
            file.execute("update ledger set state='aborted' where id=? and state='open'", [self._id])

    def _require_open(self, file: sqlite3.Connection) -> None:
        if file.execute("select state from ledger where id=?", [self._id]).fetchone() != ("open",):
            raise WriterFencedError(f"transaction {self._id} was ended", action="start the job again")


class LedgerInspection(Inspection):
    """What the ledger says of one job's transactions. An id is a handle here, and readers wait for nobody."""

    def __init__(self, path: str, job_id: str) -> None:
        self._path, self._job_id = path, job_id

    def transactions(self, decided: Sequence[Participant]) -> Looked:
        shown = {p.id: self.show(p) for p in decided}
        with opened(self._path) as file:
            found = file.execute("select id from ledger where state='open' and job=?", [self._job_id]).fetchall()
        keys = sorted({key for (key,) in found} | {said.handle for said in shown.values() if said.handle})
        unseen = [f"sink {who[0]}: {who[1]}: {said.problem}" for who, said in shown.items() if said.problem]
        seen = [self._seen(key) for key in keys]
        unseen += [f"{each.id} is not in the ledger" for each in seen if each.origin is None]
        return Looked(tuple(each for each in seen if each.origin is not None), tuple(unseen))

    def waited_for(self, names: Collection[str], ours: Sequence[Seen]) -> Waited:
        return Waited(tuple(ours))

    def describe(self, transaction_id: str) -> Seen | None:
        seen = self._seen(transaction_id)
        return None if seen.state == "unknown" else seen

    def origin(self, transaction_id: str) -> Origin | None:
        return self._seen(transaction_id).origin

    def show(self, participant: Participant) -> Shown:
        key = participant.transaction.get("id")
        if not isinstance(key, str):
            return Shown("", None, problem="it has no id")
        return Shown(key, key, (PlaceInSystem("staged"),), f"{participant.transaction.get('rows')} rows")

    def abort(self, seen: Sequence[Seen]) -> dict[str, str]:
        with opened(self._path) as file:
            for each in seen:
                file.execute("update ledger set state='aborted' where id=? and state='open'", [each.handle])
        return {each.handle: self._seen(each.handle).state for each in seen}

    def still_open(self, seen: Sequence[Seen]) -> frozenset[str]:
        return frozenset(s.handle for s in seen if self._seen(s.handle).phase is Phase.OPEN)

    def _seen(self, key: str) -> Seen:
        with opened(self._path) as file:
            found = file.execute(
                "select job, sink, incarnation, shard, epoch, state from ledger where id=?", [key]
            ).fetchone()
        if found is None:
            return Seen(key, key, "unknown", Phase.OVER, None)
        job, sink, incarnation, shard, epoch, state = found
        origin = Origin(sink, incarnation, shard, f"epoch {epoch}") if job == self._job_id else None
        phase = Phase.OPEN if state == "open" else Phase.OVER
        return Seen(key, key, state, phase, origin, timeout_s=EXPIRES_AFTER_S, places=(PlaceInSystem("staged"),))


class LedgerMarks(Marks):
    """Those of one job, in tables of the file."""

    def __init__(self, path: str, job_id: str, prefix: str) -> None:
        self._path, self._job_id, self._prefix = path, job_id, prefix

    def read(self) -> str | None:
        with opened(self._path) as file:
            found = file.execute("select mark from marks where job=?", [self._job_id]).fetchone()
        return found[0] if found else None

    def write(self, mark: str) -> None:
        with opened(self._path) as file:
            file.execute("insert or replace into marks values (?, ?)", [self._job_id, mark])

    def read_name(self, name: str) -> str | None:
        return name_mark(self._path, self._prefix, name)

    def write_name(self, name: str, mark: str) -> None:
        with opened(self._path) as file:
            file.execute("insert or replace into names values (?, ?, ?)", [self._prefix, name, mark])


class LedgerCommitter(Committer, Inspectable):
    """Ends transactions by their ids."""

    prefix = ""
    keeping: type[LedgerMarks] = LedgerMarks

    def __init__(self, path: str, sink: str, job_id: str) -> None:
        self._path, self._sink, self._job_id = path, sink, job_id

    def inspection(self) -> LedgerInspection:
        return LedgerInspection(self._path, self._job_id)

    def preflight(self) -> None:
        with opened(self._path) as file:
            file.execute("update ledger set state='aborted' where id='the file can be written'")

    def expires_after_s(self) -> float:
        return EXPIRES_AFTER_S

    def marks(self) -> LedgerMarks:
        return self.keeping(self._path, self._job_id, self.prefix)

    def seal(self, reports: Sequence[TaskReport], run: Run) -> list[Participant]:
        return [self.seal_one(report) for report in reports]

    def seal_one(self, report: TaskReport) -> Participant:
        told = {**report.transaction, "sealed": True}
        return Participant(report.sink, told["id"], report.parts, told)

    def check(self, participants: Sequence[Participant], run: Run, age_s: float) -> str | None:
        if age_s >= 0.8 * EXPIRES_AFTER_S:
            raise EpochTooLongError(f"epoch {run.epoch} took {age_s:g} s", action="make it smaller")
        mine = {p.transaction["id"]: p for p in participants}
        with opened(self._path) as file:
            for key, p in mine.items():
                found = self.state(file, key), file.execute("select count(*) from staged where id=?", [key]).fetchone()
                if found != ("open", (p.transaction["rows"],)):
                    return f"{key} is {found[0]} with {found[1][0]} rows"
            self.end_run(file, run, but=mine)
        return None

    def commit(self, participants: Sequence[Participant]) -> dict[ParticipantId, Reply]:
        with opened(self._path) as file:
            return {p.id: self.commit_one(file, p.transaction["id"]) for p in participants}

    def commit_one(self, file: sqlite3.Connection, key: str) -> Reply:
        file.execute("update ledger set state='committed' where id=? and state='open'", [key])
        return Reply.COMMITTED if self.state(file, key) == "committed" else Reply.SUSPECT

    def abort(self, participants: Sequence[Participant]) -> None:
        with opened(self._path) as file:
            for p in participants:
                self.abort_one(file, p.transaction["id"])

    def abort_one(self, file: sqlite3.Connection, key: str) -> None:
        file.execute("update ledger set state='aborted' where id=? and state='open'", [key])

    def abort_run(self, run: Run) -> None:
        with opened(self._path) as file:
            self.end_run(file, run)

    def end_run(self, file: sqlite3.Connection, run: Run, but: Mapping[str, object] = {}) -> None:
        found = file.execute(
            "select id from ledger where state='open' and (job, sink, incarnation, epoch) = (?, ?, ?, ?)",
            [self._job_id, self._sink, run.incarnation, run.epoch],
        ).fetchall()
        for (key,) in found:
            if key not in but:
                self.abort_one(file, key)

    def outcomes(self, participants: Sequence[Participant]) -> dict[ParticipantId, Evidence]:
        with opened(self._path) as file:
            return {p.id: self.outcome(file, p.transaction["id"]) for p in participants}

    def outcome(self, file: sqlite3.Connection, key: str) -> Evidence:
        state = self.state(file, key)
        if state is None:
            return Evidence(Outcome.UNKNOWN, f"{key} is not in the ledger")
        return Evidence(Outcome(state), f"the ledger says of {key} that it is {state}")

    def lingering(self, incarnation: int, spared: Sequence[Participant]) -> list[Participant]:
        keep = {p.transaction.get("id") for p in spared}  # of all sinks of the job: others have no ids
        with opened(self._path) as file:
            found = file.execute(
                "select id from ledger where state='open' and job=? and incarnation<?",
                [self._job_id, incarnation],
            ).fetchall()
        return [Participant(self._sink, key, (), {"id": key}) for (key,) in found if key not in keep]

    def state(self, file: sqlite3.Connection, key: str) -> str | None:
        found = file.execute("select state from ledger where id=?", [key]).fetchone()
        return found[0] if found else None


@dataclass(frozen=True)
class LedgerWriterFactory:
    """Opens writers of one sink."""

    kind: type[LedgerWriter]
    path: str
    sink: str

    def __call__(self, shard: Shard) -> Writer:
        return self.kind(self.path, self.sink, shard)


class LedgerConnection(SinkConnection):
    """A file that is there."""

    def __init__(self, sink: LedgerSink) -> None:
        self.sink = sink
        with contextlib.closing(sqlite3.connect(sink.path, timeout=30)) as file:
            file.executescript(_TABLES)
        with opened(sink.path) as file:
            (self.system_id,) = file.execute("select id from identity").fetchone()

    def writer_factory(self) -> LedgerWriterFactory:
        return LedgerWriterFactory(self.sink.writer, self.sink.path, self.sink.name)

    def committer(self, prefix: str, job_id: str) -> Committer:
        made = self.sink.committer(self.sink.path, self.sink.name, job_id)
        made.prefix = prefix
        return made

    def read_name_mark(self, prefix: str, name: str) -> str | None:
        return name_mark(self.sink.path, prefix, name)

    def close(self) -> None:
        """Nothing is held open."""


class LedgerSink(Sink):
    """Rows with a column ``key`` to a file."""

    guarantee = Guarantee.EXACTLY_ONCE
    writer: type[LedgerWriter] = LedgerWriter
    committer: type[LedgerCommitter] = LedgerCommitter
    connection: type[LedgerConnection] = LedgerConnection

    def __init__(self, path: str, password: str = "") -> None:
        self.name, self.path, self.password = "ledger", path, password

    def connect(self) -> SinkConnection:
        return self.connection(self)

    def columns(self, fields: Any) -> list[Any]:
        from pyspark.sql import functions

        return [functions.col("key")]

    def describe(self) -> str:
        return f"ledger ({self.guarantee})"
