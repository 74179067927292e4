"""Kafka and PostgreSQL in one commit: whatever dies, both hold the same epochs, and each row once."""

from collections import Counter

import psycopg
import pytest

from tests.support.harness import Pipeline, rows_of
from tests.support.postgres import running

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH = 1
RECORDS = 6_000


@pytest.fixture(scope="module")
def database():
    """A real PostgreSQL, by its URL."""
    with running() as server:
        yield server.url()


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path, database):
    """Three epochs' worth of input, and a job that writes it to a topic and a table; the table is new."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("drop schema public cascade")
        connection.execute("create schema public")
    made = Pipeline(
        cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job="both", environment={"DATABASE": database}
    )
    made.send(RECORDS)
    return made


def rows(database: str) -> Counter[int]:
    """How often each id is in the table."""
    with psycopg.connect(database) as connection:
        return Counter(i for (i,) in connection.execute("select id from payments").fetchall())


def ledger(database: str) -> list[int]:
    """Which epochs are in the ledger."""
    with psycopg.connect(database) as connection:
        return [n for (n,) in connection.execute("select epoch from onceflow_ledger order by epoch").fetchall()]


def left(database: str) -> tuple[int, int]:
    """How many rows are staged, and how many attempts are not ended."""
    with psycopg.connect(database) as connection:
        staged = connection.execute("select count(*) from payments_onceflow_staged").fetchone()
        attempts = connection.execute("select count(*) from onceflow_attempts where state <> 'aborted'").fetchone()
        return staged[0], attempts[0]


@pytest.mark.parametrize(
    "point", ["D5", *(pytest.param(each, marks=pytest.mark.faults) for each in ("D2", "D3", "D4", "D6", "D6a", "D7"))]
)
def test_a_death_leaves_each_row_once_in_both(pipeline, database, point):
    """D2 to D7 with both sinks: the next start ends or finishes both, and nothing is left staged."""
    pipeline.die_at(f"{point}@{EPOCH}")
    pipeline.run_well()
    pipeline.check_output()
    assert pipeline.open_transactions() == []
    for sink in ("payments", pipeline.sink):
        assert sum(rows_of(decided, sink) for decided in pipeline.decisions()) == RECORDS
    assert rows(database) == Counter(range(RECORDS))
    assert ledger(database) == [d["epoch"] for d in pipeline.decisions()]
    assert left(database) == (0, 0)


@pytest.mark.faults
def test_a_database_that_was_put_back_is_refused(pipeline, database):
    """It has lost its newest epochs, and Spark has recorded them: nobody would write their rows again."""
    pipeline.run_well()
    newest = ledger(database)[-2:]
    with psycopg.connect(database) as connection:
        lost = connection.execute("delete from onceflow_ledger where epoch >= %s returning rows", newest[:1]).fetchall()
    pipeline.send(100)
    ended = pipeline.run()
    assert ended.code == 1
    rows_lost = sum(int(count) for (count,) in lost)
    assert f"does not know epoch {newest[0]} to {newest[1]} of this job any more: 2 epochs with {rows_lost} rows" in (
        ended.log
    )
    assert 'takeover="claim"' in ended.log
    assert pipeline.run(TAKEOVER="claim").code == 0
