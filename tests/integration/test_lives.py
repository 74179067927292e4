"""The lives of a server beside a job: the machine of tests/unit/lives.py on PostgreSQL.

``LIVES=2000 pytest -m faults tests/integration/test_lives.py`` runs longer.
"""

from __future__ import annotations

import os
import uuid

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.integration import postgres
from tests.integration.postgres import PostgresWorld
from tests.unit.lives import Lives

MORE = int(os.environ.get("LIVES", "0"))


class OnServer:
    """A database of a server of PostgreSQL: its backup is a copy of it, and who is connected is thrown out.

    Args:
        server: Runs.
    """

    def __init__(self, server: postgres.Postgres) -> None:
        self._server = server
        self._name = f"lives_{uuid.uuid4().hex[:8]}"
        self._server.execute(f"create database {self._name}")
        self.world = World(server.url().replace("/postgres?", f"/{self._name}?"))

    def back_up(self, name: int) -> None:
        self._server.execute(f"create database {self._name}_{name} template {self._name}")

    def put_back(self, name: int) -> None:
        self._server.execute(
            f"drop database {self._name} with (force)",
            f"create database {self._name} template {self._name}_{name}",
        )

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


@pytest.fixture(scope="module")
def server():
    """A real PostgreSQL."""
    with postgres.running() as made:
        yield made


@pytest.mark.faults
def test_the_lives_of_a_postgresql(server):
    """Deaths, backups and checkpoints that are put back, claims: what is shown is what was decided, or refused."""

    class OnPostgres(Lives):
        system = lambda: OnServer(server)  # noqa: E731

    run_state_machine_as_test(
        OnPostgres,
        settings=settings(
            max_examples=MORE or 3,
            stateful_step_count=14,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )
