"""New runs from savepoints into tables: what was said is written again, no more; a claim writes nothing twice."""

import dataclasses
import sqlite3
from collections import Counter
from contextlib import closing
from urllib.parse import urlsplit

import psycopg
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from tests.support.commands import onceflow, resume
from tests.support.harness import JOBS, Pipeline, rows_of
from tests.support.postgres import running

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    """A new database, by its URL."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'table.sqlite'}"
    else:
        with running() as server:
            yield server.url()


def asked(database, query):
    """A query's rows."""
    if database.startswith("sqlite"):
        with closing(sqlite3.connect(urlsplit(database).path)) as connection:
            return connection.execute(query).fetchall()
    with psycopg.connect(database) as connection:
        return connection.execute(query).fetchall()


def pipeline(cluster, new_topic, tmp_path, job, **environment):
    """A job that has done some epochs, and the second of them."""
    p = Pipeline(
        cluster,
        new_topic(2),
        new_topic(2),
        tmp_path / "old",
        job,
        per_epoch=100,
        environment={"BY": "old"} | environment,
    )
    p.send(400)
    p.run_well()
    assert len(p.decisions()) >= 3
    return p, p.decisions()[1]["epoch"]


def at(p, name, **environment):
    """The same input and output, and another checkpoint."""
    return dataclasses.replace(
        p, checkpoint=p.checkpoint.parent / name, sent=list(p.sent), environment=p.environment | environment
    )


def behind(p, epoch, sink):
    """How many rows a job has written to a sink behind an epoch."""
    return sum(rows_of(d, sink) for d in p.decisions() if d["epoch"] > epoch)


def test_a_new_job_adds_exactly_what_was_said(cluster, new_topic, tmp_path, database):
    """From an older epoch, into a table without a key: a ledger of its own, and each later row exactly once more.

    Claimed at its newest epoch, the old job adds what is new, and nothing twice.
    """
    p, epoch = pipeline(cluster, new_topic, tmp_path, "both", DATABASE=database)
    again = behind(p, epoch, "payments")
    q = at(p, "new")
    said = resume(q, "-s", f"{p.checkpoint}@{epoch}")
    assert f"sink payments: {again} rows" in said
    ids = Counter(i for (i,) in asked(database, "select id from payments"))
    assert set(ids) == set(range(400))
    assert ids.total() == 400 + again
    assert set(ids.values()) == {1, 2}
    ledgers = Counter(job for (job,) in asked(database, "select job from onceflow_ledger"))
    assert sorted(ledgers.values()) == sorted([len(p.decisions()), len(q.decisions())])

    assert onceflow("savepoint", "create", p.checkpoint, tmp_path / "s")[0] == 0
    claimed = at(p, "claimed")
    claimed.send(100)
    resume(claimed, "-s", tmp_path / "s", "--claim")
    found = Counter(i for (i,) in asked(database, "select id from payments"))
    assert found - ids == Counter(range(400, 500))
    assert ids <= found


def writers(database):
    """How many rows of a table with a key are of each run."""
    return Counter(writer for (writer,) in asked(database, "select writer from payments"))


def test_rows_of_a_new_job_replace_those_of_the_old_one(cluster, new_topic, tmp_path, database):
    """Its epochs, and its starts, begin lower than the old job's: none of its rows is taken for a late one.

    Claimed at its newest epoch, the old job replaces nothing.
    """
    p, epoch = pipeline(cluster, new_topic, tmp_path, "both", DATABASE=database, KEYED="1")
    p.run_well()
    again = behind(p, epoch, "payments")
    q = at(p, "new", BY="new")
    resume(q, "-s", f"{p.checkpoint}@{epoch}")
    assert writers(database) == {"old": 400 - again, "new": again}
    q.send(100)
    q.die_at("D4")
    q.run_well()
    assert writers(database) == {"old": 400 - again, "new": again + 100}

    assert onceflow("savepoint", "create", q.checkpoint, tmp_path / "s")[0] == 0
    claimed = at(q, "claimed", BY="claimed")
    claimed.send(50)
    resume(claimed, "-s", tmp_path / "s", "--claim")
    assert writers(database) == {"old": 400 - again, "new": again + 100, "claimed": 50}


def lake_ids(p):
    """How often each id is in each of the lake's tables."""
    lake = p.environment["LAKE"]
    iceberg = load_catalog("lake", type="sql", uri=f"sqlite:///{lake}/catalog.db").load_table("bank.payments")
    tables = iceberg.scan().to_arrow(), DeltaTable(f"{lake}/delta").to_pyarrow_table()
    return [Counter(table.column("id").to_pylist()) for table in tables]


def test_tables_of_a_lake_get_each_row_of_the_new_job(cluster, new_topic, tmp_path):
    """Iceberg and Delta, from an older epoch: each later row exactly once more; a claim adds what is new alone."""
    (tmp_path / "lake").mkdir()
    p, epoch = pipeline(cluster, new_topic, tmp_path, "lake", LAKE=str(tmp_path / "lake"))
    again = behind(p, epoch, "delta")
    q = at(p, "new")
    said = resume(q, "-s", f"{p.checkpoint}@{epoch}")
    assert f"sink bank.payments: {again} rows" in said
    before = lake_ids(p)
    for ids in before:
        assert set(ids) == set(range(400))
        assert (ids.total(), set(ids.values())) == (400 + again, {1, 2})
    assert onceflow("savepoint", "create", p.checkpoint, tmp_path / "s")[0] == 0
    claimed = at(p, "claimed")
    claimed.send(100)
    resume(claimed, "-s", tmp_path / "s", "--claim")
    for ids, were in zip(lake_ids(p), before, strict=True):
        assert ids - were == Counter(range(400, 500))
        assert were <= ids


def test_a_job_without_an_exactly_once_sink_is_resumed_saved_and_deleted(cluster, new_topic, tmp_path):
    """At-least-once alone: nothing is decided, so what may come again is said; its checkpoint is one as any other."""
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "old", "weak", per_epoch=100)
    p.send(400)
    p.run_well()
    q = at(p, "new")
    said = resume(q, "-s", f"{p.checkpoint}@1")
    assert "that job has done epochs up to" in said
    assert (q.ours / "job.json").exists()
    found = Counter(q.read())
    assert set(found) == set(p.sent)
    assert set(found.values()) == {1, 2}
    code, made, said = onceflow("savepoint", "create", q.checkpoint, tmp_path / "s")
    assert code == 0, said
    third = at(q, "third")
    third.send(50)
    resume(third, "-s", tmp_path / "s")
    assert Counter(q.read()) - found == Counter(third.sent[-50:])
    file = JOBS / "weak_job.py"
    code, told, said = onceflow("audit", file, **third.settings())
    assert code == 0, (told, said)
    code, _, said = onceflow("job", "delete", file, "--yes", **third.settings())
    assert code == 0, said
    assert not third.checkpoint.exists()
    assert made["job_id"] != ""
