"""The life of a PostgreSQL server beside a job."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping

import psycopg

from tests.support import postgres
from tests.support.harness import wait_until
from tests.support.lives import Harm, Statements
from tests.support.postgres import PostgresWorld

USER = "lives_job"


ALTER = "alter table payments"


class OnPostgres(Statements):
    """A database of a server of PostgreSQL: its backup is a copy of it, and who is connected is thrown out.

    Args:
        server: Runs. The job's user is not its owner.
    """

    def __init__(self, server: postgres.Postgres) -> None:
        self._server = server
        self._name = f"lives_{uuid.uuid4().hex[:8]}"
        self._server.execute(f"create database {self._name}")
        url, owner = (server.url(user).replace("/postgres?", f"/{self._name}?") for user in (USER, "postgres"))
        self.world = World(url, owner, schema=None)
        self.do(f"grant all on schema public to {USER}", f"grant create on database {self._name} to {USER}")

    def do(self, *statements: str) -> None:
        """As the owner. What waits for a lock of the job is not done; what is undone already is not undone again."""
        with psycopg.connect(self.world.owner, autocommit=True) as connection:
            connection.execute("set lock_timeout = '2s'")
            for each in statements:
                with contextlib.suppress(psycopg.errors.LockNotAvailable, psycopg.errors.ProgrammingError):
                    connection.execute(each)

    def harms(self) -> Mapping[str, Harm]:
        harm = self.harm

        def retyped(kind: str) -> Harm:
            column = "alter column amount type"
            return harm(f"{ALTER} {column} {kind}", f"{ALTER} {column} bigint using amount::bigint")

        skips = "create function skip() returns trigger language plpgsql as 'begin return null;end'"
        return {
            "a column is added": harm(f"{ALTER} add column note text", f"{ALTER} drop column note"),
            "a column must be given": harm(
                f"{ALTER} add column note text not null default 'x'; {ALTER} alter column note drop default",
                f"{ALTER} drop column note",
            ),
            "a column is dropped": harm(f"{ALTER} drop column amount", f"{ALTER} add column amount bigint"),
            "a column is renamed": harm(
                f"{ALTER} rename column amount to amounts", f"{ALTER} rename column amounts to amount"
            ),
            "a column is made an integer": retyped("integer"),
            "a column is made a text": retyped("text"),
            "a column is made a number": retyped("numeric"),
            "a column is made a float": retyped("real using null"),
            "the table is renamed": Harm(
                lambda: self.do(f"{ALTER} rename to payments_old"), self._renamed_back, hides=True
            ),
            "the table is made unlogged": harm(f"{ALTER} set unlogged", f"{ALTER} set logged", volatile=True),
            "the ledger is made unlogged": harm(
                "alter table onceflow_ledger set unlogged", "alter table onceflow_ledger set logged", volatile=True
            ),
            "another table stands in front": harm(
                f"create schema {USER} authorization {USER}; create table {USER}.payments (like public.payments); "
                f"alter table {USER}.payments owner to {USER}",
                f"drop schema {USER} cascade",
            ),
            "rows are secured": harm(
                f"{ALTER} enable row level security; {ALTER} force row level security",
                f"{ALTER} disable row level security; {ALTER} no force row level security",
            ),
            "a right is revoked": harm(f"revoke insert on payments from {USER}", f"grant insert on payments to {USER}"),
            "the ledger's right is revoked": harm(
                f"revoke insert on onceflow_ledger from {USER}", f"grant insert on onceflow_ledger to {USER}"
            ),
            "a trigger skips rows": harm(
                f"{skips}; create trigger skips before insert on payments for each row execute function skip()",
                "drop function skip cascade",
            ),
            "a rule sends rows nowhere": harm(
                "create rule nowhere as on insert to payments do instead nothing", "drop rule nowhere on payments"
            ),
            "a rule sends rows elsewhere": harm(  # and counts them, as if they were in the table
                "create table elsewhere (like payments); "
                f"grant insert on elsewhere to {USER}; "
                "create rule elsewhere as on insert to payments do instead insert into elsewhere values (new.*)",
                "drop rule elsewhere on payments; drop table elsewhere",
            ),
            **self.harms_to_what_is_beside(),
        }

    def _renamed_back(self) -> None:
        with psycopg.connect(self.world.owner, autocommit=True) as connection:
            there = connection.execute("select to_regclass('payments'), to_regclass('payments_old')").fetchone()
            if there and there[0] and there[1]:
                connection.execute("insert into payments select * from payments_old")
                connection.execute("drop table payments_old")
            elif there and there[1]:
                connection.execute("alter table payments_old rename to payments")

    def back_up(self, name: int) -> None:
        wait_until(lambda: self._copied(name), what="the end of sessions that were closed")

    def _copied(self, name: int) -> bool:
        try:
            self._server.execute(f"create database {self._name}_{name} template {self._name}")
        except psycopg.errors.ObjectInUse:
            return False
        return True

    def put_back(self, name: int) -> None:
        self._server.execute(
            f"drop database {self._name} with (force)",
            f"create database {self._name} template {self._name}_{name}",
        )

    def crash(self) -> None:
        self._server.crash()

    def tidy(self) -> None:
        """A database keeps its ledger by itself."""

    def close(self) -> None:
        for (name,) in self._server.execute("select datname from pg_database"):
            if str(name).startswith(self._name):
                self._server.execute(f"drop database {name} with (force)")


class World(PostgresWorld):
    """A table that may not be there yet."""

    def visible(self) -> list[str]:
        with psycopg.connect(self.owner) as connection:
            there = connection.execute("select to_regclass('public.payments')").fetchone()
            return super().visible() if there and there[0] else []

    def whole(self) -> list[dict[str, object]]:
        return super().whole() if self.visible() else []

    def knows(self) -> int:
        """How many epochs its ledger has; -1 while there is none."""
        with psycopg.connect(self.owner) as connection:
            there = connection.execute("select to_regclass('public.onceflow_ledger')").fetchone()
            if not there or not there[0]:
                return -1
            (count,) = connection.execute("select count(*) from onceflow_ledger").fetchone() or (0,)
            return int(count)
