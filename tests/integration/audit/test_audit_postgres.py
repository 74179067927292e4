"""The audit of a table in PostgreSQL: what it holds is what was decided, and an edited row is found."""

import psycopg
import pytest

from tests.support.audited_table import Filled, whats
from tests.support.postgres import running


@pytest.fixture(scope="module")
def url():
    with running() as server:
        yield server.url()


def test_a_table_of_postgresql(url, tmp_path):
    """As decided it is good; with one row edited, and with one deleted, it is told which of the two."""
    filled = Filled(tmp_path, url.replace("postgresql://", "postgresql+psycopg://"), ["a", "bb"], ["ccc"])
    report = filled.audit()
    assert report["findings"] == []
    assert report["rows"] == 3
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("update payments set amount = 9 where key = 'bb'")
    report = filled.audit()
    assert (report["changed"], report["good"]) == (1, False)
    assert "table payments: all 3 rows are there, and not all are those" in whats(report, "changed")[0]
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("delete from payments where key = 'bb'")
    assert filled.audit()["missing"] == 1
