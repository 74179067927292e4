"""A database as a fake system: SQLite in memory, each transaction a request of the world, and what a system's life has.

Must not know: the two-phase commit, drivers, which faults there are (they are handed in). The committer over it is the
product's own, which gets an engine from here; ``test_fake_database.py`` holds both against the real thing.

Simplified on purpose: a transaction is one moment, its commit another one. Whoever comes in between waits for the lock
of all of it, as SQLite has it; and a commit that is late keeps that lock until it arrives.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Column, Connection, Engine, MetaData, StaticPool, Table, create_engine, event
from sqlalchemy.exc import OperationalError

from onceflow.connectors.contract import Run
from onceflow.connectors.database import tables as own
from onceflow.connectors.database.target import Target

COLUMNS = ("record", "epoch", "part", "run")
TARGET = Target(None, "shown", own.staging_name("shown"), COLUMNS)
_HASH = (1 << 63) - 1
_KEPT = 60

Carry = Callable[[str, Callable[[], Any]], Any]
"""Carries what a process asks: called with its name and what performs it, gives the answer or None."""


class Entry(NamedTuple):
    """A row of the ledger."""

    epoch: int
    rows: int


@dataclass(frozen=True)
class Content:
    """What can be seen in a database.

    Attributes:
        attempts: By id, the start that made it, and its state.
        ledger: By handle.
        rows: Of the target, by their place in it.
    """

    attempts: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    ledger: Mapping[str, Entry] = field(default_factory=dict)
    rows: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class FakeDatabase:
    """The state of one database, with the table of one sink.

    Args:
        sink: The sink's name.
        changed: Told of each transaction that is committed: what was seen before, what is now, and who asked.
        waits: Whether somebody waits for a lock until it is there; else he gives up.
    """

    def __init__(
        self,
        sink: str,
        changed: Callable[[Content, Content, str], None] = lambda *_: None,
        waits: Callable[[], bool] = lambda: True,
    ) -> None:
        self.sink, self.name = sink, f"database-{sink}"
        self.tables = own.tables(None)
        self.engine = _engine()
        self._changed, self._waits = changed, waits
        self._file: sqlite3.Connection = self.engine.raw_connection().driver_connection  # type: ignore[assignment]
        self._file.deserialize(_empty())
        self._made = 0
        self.late: Ending | None = None
        self.content = Content()
        self.past = [self._file.serialize()]
        self.newest: bytes | None = None  # what was there when it was put back

    # -- what a task asks ---------------------------------------------------------------------------------------------

    def open(self, run: Run, shard: int, attempt: int) -> str:
        """Begin an attempt; its id."""
        self._made += 1
        made = f"{self.sink}{self._made:06d}"
        row = (made, run.prefix, run.job_id, run.incarnation, run.epoch, self.sink, shard, attempt, TARGET.staged)
        self._write("insert into onceflow_attempts values (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 'open', null)", [row])
        return made

    def stage(self, attempt: str, rows: Sequence[tuple[int, ...]], state: str) -> bool:
        """Stage rows, and leave the attempt in this state; False where it was ended."""
        hold = "update onceflow_attempts set state = ?, rows = rows + ? where id = ? and state = 'open'"
        held = [(attempt, *row, hashed(row)) for row in rows]
        return self._write(
            f"insert into {TARGET.staged} values (?, ?, ?, ?, ?, ?)", held, hold, (state, len(rows), attempt)
        )

    def _write(self, insert: str, rows: Sequence[tuple[Any, ...]], hold: str = "", held: tuple[Any, ...] = ()) -> bool:
        if self.late is not None:
            self.late()
        with self.engine.connect() as connection, connection.begin() as transaction:
            if hold and connection.exec_driver_sql(hold, held).rowcount != 1:
                transaction.rollback()
                return False
            if rows:
                connection.exec_driver_sql(insert, list(rows))
        self.look("writer")
        return True

    # -- what everybody asks ------------------------------------------------------------------------------------------

    def arrive(self) -> bool | None:
        """Somebody's transaction begins: None where he does not get the lock in time."""
        if self.late is not None:
            if not self._waits():
                return None
            self.late()
        return True

    def look(self, by: str) -> None:
        """See what a transaction has changed."""
        before, self.content = self.content, self.seen()
        if self.content.ledger != before.ledger:
            self.newest = None  # somebody has gone on
        self.past = [*self.past[-_KEPT:], self._file.serialize()]
        self._changed(before, self.content, by)

    def seen(self) -> Content:
        """What is there now."""
        attempts = self._file.execute("select id, incarnation, state from onceflow_attempts")
        ledger = self._file.execute("select handle, epoch, rows from onceflow_ledger")
        rows = self._file.execute(f"select rowid, * from {TARGET.table}")
        return Content(
            {i: (start, state) for i, start, state in attempts},
            {handle: Entry(epoch, count) for handle, epoch, count in ledger},
            {place: tuple(row) for place, *row in rows},
        )

    # -- its life -----------------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """What is not committed is gone: also where the commit was on its way."""
        if self.late is not None:
            self.late.undo()

    def put_back(self, commits: int) -> None:
        """A backup, or a standby that lags: the last so many commits are gone."""
        self.crash()
        del self.past[max(1, len(self.past) - commits) :]
        self.newest = self.newest or self._file.serialize()
        self._become(self.past[-1])

    def bring_newest_back(self) -> None:
        """What was there before it was put back is there again."""
        if self.newest is not None:
            self.crash()
            self._become(self.newest)
            self.newest = None

    def truncate(self) -> None:
        """Somebody empties the ledger."""
        self.crash()
        self.newest = self.newest or self._file.serialize()
        self._file.execute("delete from onceflow_ledger")
        self._become(self._file.serialize())

    def _become(self, content: bytes) -> None:
        self._file.deserialize(content)
        self.past.append(content)
        self.content = self.seen()


class Ending:
    """The commit of a transaction that is open: once, or never."""

    def __init__(self, database: FakeDatabase, connection: Connection, who: str) -> None:
        self._database, self._connection, self._who = database, connection, who
        self.over = False

    def __call__(self) -> bool:
        """The commit arrives."""
        if not self.over:
            self._end()
            self._connection.commit()
            self._connection.close()
            self._database.look(self._who)
        return True

    def undo(self) -> None:
        """It never does."""
        if not self.over:
            self._end()
            self._connection.rollback()
            self._connection.close()

    def _end(self) -> None:
        self.over = True
        if self._database.late is self:
            self._database.late = None


class FakeEngine:
    """One process's access; stands in the place of SQLAlchemy's engine.

    Args:
        database: The database.
        ask: Carries the beginning of a transaction.
        commit: Carries its end, if it has written something.
        is_late: Whether what had no answer will be carried out some time later.
        who: Told to those who watch.
    """

    def __init__(
        self,
        database: FakeDatabase,
        ask: Carry = lambda _, effect: effect(),
        commit: Carry = lambda _, effect: effect(),
        is_late: Callable[[Ending], bool] = lambda _: False,
        who: str = "",
    ) -> None:
        self._database, self._ask, self._commit, self._is_late, self._who = database, ask, commit, is_late, who

    def connect(self) -> Connection:
        """A connection; what is written over it, nobody commits."""
        if self._ask(f"transaction in {self._database.name}", self._database.arrive) is None:
            raise no_answer()
        return self._database.engine.connect()

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        """A connection in a transaction, which is committed at the end."""
        connection = self.connect()
        ending = Ending(self._database, connection, self._who)
        try:
            connection.begin()
            file: Any = connection.connection.driver_connection
            before = file.total_changes
            yield connection
            if file.total_changes == before:
                ending.undo()
                return
            if self._commit(f"end in {self._database.name}", ending) is not None:
                return
            if not ending.over and self._is_late(ending):
                self._database.late = ending
        except BaseException:
            ending.undo()
            raise
        if self._database.late is not ending:
            ending.undo()
        raise no_answer()

    def dispose(self) -> None:
        """There is nothing to let go of."""


def no_answer() -> OperationalError:
    """What SQLAlchemy raises where a connection is lost."""
    return OperationalError("", None, sqlite3.OperationalError("no answer"), connection_invalidated=True)


def hashed(row: Sequence[int]) -> int:
    """A row's hash, as it is staged: the same in each process."""
    return hash(tuple(row)) & _HASH


def _engine() -> Engine:
    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("begin immediate")

    return engine


@functools.cache
def _empty() -> bytes:
    """A database with onceflow's tables, and the sink's."""
    engine = _engine()
    own.make(engine, own.tables(None))
    columns = [(name, BigInteger()) for name in COLUMNS]
    Table(TARGET.table, MetaData(), *(Column(*column) for column in columns)).create(engine)
    own.staging_table(TARGET.staged, None, columns).create(engine)
    file: Any = engine.raw_connection().driver_connection
    content: bytes = file.serialize()
    return content
