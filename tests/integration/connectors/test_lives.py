"""The lives of a server beside a job: the machine of tests/support/lives.py on PostgreSQL and on MariaDB.

A server may crash as well; a PostgreSQL may have standbys that lag, of which one is promoted.

``LIVES=2000 pytest -m faults tests/integration/connectors/test_lives.py`` runs longer.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Mapping

import pymysql
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from onceflow.connectors.database.sink import DatabaseSink
from tests.support import postgres
from tests.support.lives import MOMENTS, Harm, Lives, Statements
from tests.support.lives_postgres import ALTER, USER, OnPostgres
from tests.support.mariadb import HOST, MariaDb, MariaDbWorld, running_mariadb
from tests.support.standby import Primary, Standby

MORE = int(os.environ.get("LIVES", "0"))


class OnStandbys(OnPostgres):
    """A server of its own: its backup is a standby that gets nothing more, and is promoted when the server dies."""

    def __init__(self) -> None:
        self._primary = Primary()
        self._primary.start()
        self._primary.execute(f"create role {USER} login")
        self._standbys: list[Standby] = []
        super().__init__(self._primary)

    def back_up(self, name: int) -> None:
        standby = self._primary.standby(f"standby-{name}")
        standby.detach()
        self._standbys.append(standby)

    def put_back(self, name: int) -> None:
        self._primary.fail_over(self._standbys[name])

    def close(self) -> None:
        self._primary.stop()


class OnMariaDb(Statements):
    """A database of a server of MariaDB: its backup is a copy of its tables.

    Args:
        server: Runs.
    """

    def __init__(self, server: MariaDb) -> None:
        self._name = f"lives_{uuid.uuid4().hex[:8]}"
        self._port = server.port
        self._made = [self._name]
        self._make(self._name)
        self.world = MariaWorld(server.port, self._name)

    def _make(self, name: str) -> None:
        with pymysql.connect(host=HOST, port=self._port, user="root") as connection:
            connection.cursor().execute(f"create database {name} character set utf8mb4")

    def do(self, *statements: str) -> None:
        """What waits for a lock of the job is not done; what is undone already is not undone again."""
        with pymysql.connect(host=HOST, port=self._port, user="root") as connection:
            cursor = connection.cursor()
            cursor.execute(f"use {self._name}")
            cursor.execute("set lock_wait_timeout = 2, innodb_lock_wait_timeout = 2")
            for each in statements:
                with contextlib.suppress(pymysql.err.OperationalError, pymysql.err.ProgrammingError):
                    cursor.execute(each)
            connection.commit()

    def harms(self) -> Mapping[str, Harm]:
        harm = self.harm

        return {
            "a column is added": harm(f"{ALTER} add column note text", f"{ALTER} drop column note"),
            "a column must be given": harm(f"{ALTER} add column note int not null", f"{ALTER} drop column note"),
            "a column is dropped": harm(f"{ALTER} drop column amount", f"{ALTER} add column amount bigint"),
            "a column is renamed": harm(
                f"{ALTER} rename column amount to amounts", f"{ALTER} rename column amounts to amount"
            ),
            "a column is made an integer": harm(f"{ALTER} modify amount int", f"{ALTER} modify amount bigint"),
            "a column is made a text": harm(f"{ALTER} modify amount longtext", f"{ALTER} modify amount bigint"),
            "the table is renamed": Harm(
                lambda: self.do(f"{ALTER} rename to payments_old"), self._renamed_back, hides=True
            ),
            "the table has no transactions": harm(f"{ALTER} engine=MyISAM", f"{ALTER} engine=InnoDB"),
            "the ledger has no transactions": harm(
                "alter table onceflow_ledger engine=Aria", "alter table onceflow_ledger engine=InnoDB"
            ),
            "the ledger has no transactions, and merges fail": harm(
                f"alter table onceflow_ledger engine=Aria; {ALTER} add column note int not null",
                f"alter table onceflow_ledger engine=InnoDB; {ALTER} drop column note",
            ),
            "a trigger writes to what has no transactions": harm(
                "create table log (n int) engine=MyISAM; create trigger logs after insert on payments for each row "
                "insert into log values (1)",
                "drop trigger logs",
            ),
            **self.harms_to_what_is_beside(),
        }

    def _renamed_back(self) -> None:
        names = {name for (name,) in self.world.ask("show tables")}
        if {"payments", "payments_old"} <= names:
            self.do("insert into payments select * from payments_old", "drop table payments_old")
        elif "payments_old" in names:
            self.do("alter table payments_old rename to payments")

    def back_up(self, name: int) -> None:
        copy = f"{self._name}_{name}"
        self._make(copy)
        self._made.append(copy)
        self._copy(self._name, copy)

    def put_back(self, name: int) -> None:
        self.do(f"drop database {self._name}")
        self._make(self._name)
        self._copy(f"{self._name}_{name}", self._name)

    def _copy(self, of: str, to: str) -> None:
        with pymysql.connect(host=HOST, port=self._port, user="root", database=of) as connection:
            cursor = connection.cursor()
            cursor.execute("show tables")
            for (table,) in cursor.fetchall():
                cursor.execute(f"create table {to}.{table} like {of}.{table}")
                cursor.execute(f"insert into {to}.{table} select * from {of}.{table}")
            connection.commit()

    def tidy(self) -> None:
        """A database keeps its ledger by itself."""

    def close(self) -> None:
        with pymysql.connect(host=HOST, port=self._port, user="root") as connection:
            for name in self._made:
                connection.cursor().execute(f"drop database if exists {name}")


class MariaWorld(MariaDbWorld):
    """A table of a database of its own, which may not be there yet.

    Args:
        port: The server's.
        name: The database's.
    """

    def __init__(self, port: int, name: str) -> None:
        super().__init__(port)
        self._name = name

    def sink(self) -> DatabaseSink:
        return DatabaseSink(f"mariadb://root@{HOST}:{self.port}/{self._name}", **self.more)

    def ask(self, query: str, *values: object) -> list[tuple[object, ...]]:
        with pymysql.connect(host=HOST, port=self.port, user="root", database=self._name) as connection:
            cursor = connection.cursor()
            cursor.execute(query, values)
            connection.commit()
            return list(cursor.fetchall())

    def visible(self) -> list[str]:
        there = ("payments",) in self.ask("show tables")
        return super().visible() if there else []

    def whole(self) -> list[dict[str, object]]:
        return super().whole() if self.visible() else []


@pytest.fixture(scope="module")
def server():
    """A real PostgreSQL, with a user for the job."""
    with postgres.running() as made:
        made.execute(f"create role {USER} login")
        yield made


@pytest.fixture(scope="module")
def mariadb():
    """A real MariaDB."""
    with running_mariadb() as made:
        yield made


class CrashingLives(Lives):
    """The server may crash, too."""

    @precondition(lambda self: self._may_go_on() and not (self.harm and self.undone))
    @rule(moment=st.sampled_from(("between", "check", *MOMENTS)))
    def crash(self, moment: str) -> None:
        """The server is killed and started again: between two lives, or in the middle of one that goes on."""
        if moment == "between" or self.harm is not None or self.undone:
            self._crash_between()
            return
        self.arrive(1, loud=True)
        self.job.meanwhile[moment] = self._system.crash
        error = self.job.run()
        assert not self.job.meanwhile, "it came there"
        if error is not None:
            assert error.retriable, error
            error = self.job.run()
        assert error is None, error
        self._went_on()

    def suffer(self, harm: Harm) -> None:
        """The server crashes where that empties what was harmed."""
        if harm.volatile and not self.undone:
            self._crash_between()

    def _crash_between(self) -> None:
        shown, known = self.job.table(), self._system.world.knows()
        self._system.crash()
        emptied, self.forgotten = shown - self.job.table(), self.forgotten or self._system.world.knows() < known
        if emptied or self.forgotten:
            assert self.harm is not None
            assert self.harm.volatile
            assert not emptied - self.before, "nothing was committed to what a crash empties"
            self.table -= emptied
            self.oldest_backup = self.backups


def lives(on, machine: type[Lives] = Lives) -> None:
    """The machine, on systems that are made so."""

    class OnServer(machine):
        system = on

    run_state_machine_as_test(
        OnServer,
        settings=settings(
            max_examples=MORE or 3,
            stateful_step_count=14,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


@pytest.mark.faults
def test_the_lives_of_a_postgresql(server):
    """Deaths, what is put back, claims, savepoints, an owner's changes: what was decided is shown, once, or refused."""
    lives(lambda: OnPostgres(server), CrashingLives)


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_the_lives_of_a_postgresql_with_standbys():
    """What is put back is a standby that lags: the server dies, and it is promoted at the server's address."""
    lives(OnStandbys, CrashingLives)


@pytest.mark.faults
def test_the_lives_of_a_mariadb(mariadb):
    """The same on MariaDB."""
    lives(lambda: OnMariaDb(mariadb))
