"""A database that was put back from its backup, and a checkpoint that was: no row is lost or doubled in silence."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter

import psycopg
import pytest

from tests.integration.harness import JOBS, Pipeline, read_topic, wait_until
from tests.integration.postgres import running
from tests.integration.test_lake_job import tables

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

ALERT = 1_000_000


@pytest.fixture(scope="module")
def server():
    """A real PostgreSQL."""
    with running() as made:
        yield made


class Bank:
    """A database that can be backed up, as a whole, and put back."""

    def __init__(self, server) -> None:
        self.server = server
        server.execute("drop database if exists bank with (force)", "drop database if exists backup with (force)")
        server.execute("create database bank")
        self.url = server.url().replace("/postgres?", "/bank?")

    def back_up(self) -> None:
        self.server.execute("create database backup template bank")

    def put_back(self) -> None:
        """Whoever is connected is thrown out, as with a standby that takes over."""
        self.server.execute("drop database bank with (force)", "create database bank template backup")

    def ids(self, table: str) -> Counter[int]:
        with psycopg.connect(self.url) as connection:
            return Counter(i for (i,) in connection.execute(f"select id from {table}").fetchall())


@pytest.fixture
def bank(server):
    """A database with nothing in it."""
    return Bank(server)


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path, bank):
    """The job with a quiet sink."""
    return Pipeline(
        cluster,
        new_topic(1),
        new_topic(1),
        tmp_path / "checkpoint",
        job="quiet",
        per_epoch=10,
        environment={"DATABASE": bank.url},
    )


def alerts(p: Pipeline, *ids: int) -> None:
    """Records that the quiet sink gets, too."""
    p._transaction([(b"k", json.dumps({"id": i}).encode()) for i in ids], commit=True)


def test_a_database_that_was_put_back_while_its_sink_was_quiet(pipeline, bank):
    """However many epochs had no row for it, and were purged: the start says what is gone; a claim gives that up."""
    alerts(pipeline, ALERT)
    pipeline.run_well()
    bank.back_up()
    alerts(pipeline, ALERT + 1, ALERT + 2)
    pipeline.run_well()
    pipeline.send(100)
    pipeline.run_well()
    assert min(r["record"]["epoch"] for r in pipeline.records() if r["kind"] == "decide") > 4, "nothing was purged"
    bank.put_back()
    alerts(pipeline, ALERT + 3)
    ended = pipeline.run()
    assert ended.code == 1
    assert "1 epochs with 2 rows that it had committed" in ended.log
    assert bank.ids("alerts") == Counter([ALERT])
    claimed = pipeline.run_well(TAKEOVER="claim")
    assert "the claim gives up 1 epochs with 2 rows there" in claimed.log
    pipeline.run_well()
    assert bank.ids("alerts") == Counter([ALERT, ALERT + 3])


def write_again(p: Pipeline, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The operator's command."""
    return subprocess.run(
        [sys.executable, "-m", "onceflow", "txn", "write-again", str(JOBS / f"{p.job}_job.py"), "--yes", *arguments],
        env=os.environ | p.settings(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def audited(p: Pipeline) -> None:
    """What is visible is what was decided, as the audit finds it."""
    command = [sys.executable, "-m", "onceflow", "audit", str(JOBS / f"{p.job}_job.py")]
    told = subprocess.run(command, env=os.environ | p.settings(), capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr


def test_what_a_database_has_lost_is_written_again(pipeline, bank):
    """By the ranges that the receipts keep, into this sink alone; the job goes on, and the audit finds all of it."""
    alerts(pipeline, ALERT)
    pipeline.run_well()
    bank.back_up()
    alerts(pipeline, *range(ALERT + 1, ALERT + 30))  # three epochs
    pipeline.send(60)
    alerts(pipeline, ALERT + 30)
    pipeline.run_well()
    before = read_topic(pipeline.cluster, pipeline.sink)
    bank.put_back()
    assert "`onceflow txn write-again" in pipeline.run().log
    told = write_again(pipeline)
    assert told.returncode == 0, told.stderr
    assert bank.ids("alerts") == Counter(range(ALERT, ALERT + 31))
    alerts(pipeline, ALERT + 31)
    pipeline.run_well()
    assert bank.ids("alerts") == Counter(range(ALERT, ALERT + 32))
    assert len(read_topic(pipeline.cluster, pipeline.sink)) == len(before) + 1
    audited(pipeline)


@pytest.mark.faults
def test_a_database_that_was_put_back_under_the_running_job(pipeline, bank, processes):
    """The running job ends for good at its next epoch, also one without a row for it, and says what is gone."""
    alerts(pipeline, ALERT)
    pipeline.run_well()
    bank.back_up()
    processes.append(pipeline.start(UNTIL="stopped"))
    alerts(pipeline, ALERT + 1, ALERT + 2)
    wait_until(lambda: bank.ids("alerts").total() == 3, what="the alerts")
    bank.put_back()
    pipeline.send(1)
    ended = pipeline.end(processes[0])
    assert ended.code == 1
    assert "1 epochs with 2 rows that it had committed" in ended.log
    assert "CheckpointConflictError" in ended.log
    again = pipeline.run()
    assert again.code == 1
    assert "1 epochs with 2 rows that it had committed" in again.log


def older_copy(p: Pipeline, behind: int) -> None:
    """Put a copy of the checkpoint back that lacks the newest epochs."""
    p.send(30)
    p.run_well()
    copy = p.checkpoint.with_name("copy")
    shutil.copytree(p.checkpoint, copy)
    p.send(10 * behind)  # an epoch each, of ten records at most
    p.run_well()
    shutil.rmtree(p.checkpoint)
    copy.rename(p.checkpoint)


@pytest.mark.parametrize("behind", [1, pytest.param(3, marks=pytest.mark.faults)])
def test_a_claim_of_an_older_copy_writes_again_to_all_sinks_alike(pipeline, bank, behind):
    """Topic and table have the epochs behind the copy twice, as was said, and each record that came later once."""
    pipeline.job = "both"
    older_copy(pipeline, behind)
    before = len(pipeline.sent)
    assert pipeline.run().code == 1
    pipeline.run_well(TAKEOVER="claim")
    pipeline.send(40)
    pipeline.run_well()
    twice = Counter(range(30)) + Counter(list(range(30, before)) * 2) + Counter(range(before, before + 40))
    assert bank.ids("payments") == twice
    assert Counter(json.loads(v)["id"] for _, v in read_topic(pipeline.cluster, pipeline.sink)) == twice


@pytest.mark.faults
@pytest.mark.parametrize("behind", [1, 2])
def test_a_claim_of_an_older_copy_beside_lake_tables(pipeline, tmp_path, behind):
    """The same with Iceberg and Delta, also where the copy is older by one epoch."""
    pipeline.job = "lake"
    pipeline.environment["LAKE"] = str(tmp_path / "lake")
    (tmp_path / "lake").mkdir()
    older_copy(pipeline, behind)
    before = len(pipeline.sent)
    pipeline.run_well(TAKEOVER="claim")
    pipeline.send(40)
    pipeline.run_well()
    twice = Counter(range(30)) + Counter(list(range(30, before)) * 2) + Counter(range(before, before + 40))
    for name, rows, _ in tables(pipeline):
        assert Counter(rows.column("id").to_pylist()) == twice, name
    assert Counter(json.loads(v)["id"] for _, v in read_topic(pipeline.cluster, pipeline.sink)) == twice
