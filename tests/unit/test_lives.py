"""The lives of systems beside a job, on SQLite, Iceberg and Delta: hypothesis chooses what happens, in any order.

``LIVES=2000`` runs longer; the same machine runs on PostgreSQL in tests/integration/test_lives.py.
"""

import os

from hypothesis import HealthCheck, settings

from tests.unit.lakes import DeltaWorld, IcebergWorld
from tests.unit.lives import InFolder, Lives
from tests.unit.test_database import SqliteWorld

MORE = int(os.environ.get("LIVES", "0"))


class OnSqlite(Lives):
    """A database that is a file."""

    system = lambda: InFolder(SqliteWorld)  # noqa: E731


class OnIceberg(Lives):
    """A table whose catalog is a file."""

    system = lambda: InFolder(IcebergWorld)  # noqa: E731


class OnDelta(Lives):
    """A table that is a folder."""

    system = lambda: InFolder(DeltaWorld)  # noqa: E731


def as_test(machine: type[Lives], examples: int):
    """The machine as a test of pytest."""
    test = machine.TestCase
    test.settings = settings(
        max_examples=MORE or examples,
        stateful_step_count=14,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    return test


TestSqlite = as_test(OnSqlite, 15)
TestIceberg = as_test(OnIceberg, 3)
TestDelta = as_test(OnDelta, 3)
