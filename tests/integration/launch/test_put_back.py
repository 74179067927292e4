"""A database that was put back from its backup, and a checkpoint that was: no row is lost or doubled in silence."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import psycopg
import pytest

from tests.corpus.world import World
from tests.support.harness import JOBS, Pipeline, read_topic, wait_until
from tests.support.lake_job import tables
from tests.support.postgres import running
from tests.support.quiet_job import ALERT, alerts, audited, onceflow, quiet_job, write_again

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


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
    return quiet_job(cluster, new_topic, tmp_path, bank.url)


@pytest.mark.faults  # tests/unit/connectors/test_older.py has it on each system, without Spark
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
def test_what_a_claim_has_given_up_is_not_written_again(pipeline, bank):
    """Somebody may have written it by other means: of a database that is put back twice the second loss alone."""
    alerts(pipeline, ALERT)
    pipeline.run_well()
    bank.back_up()
    alerts(pipeline, ALERT + 1)
    pipeline.run_well()
    alerts(pipeline, ALERT + 2)
    pipeline.run_well()
    bank.put_back()
    pipeline.run_well(TAKEOVER="claim")
    alerts(pipeline, ALERT + 3)
    pipeline.run_well()
    bank.put_back()
    assert "1 epochs with 1 rows that it had committed" in pipeline.run().log
    told = write_again(pipeline)
    assert told.returncode == 0, told.stderr
    assert bank.ids("alerts") == Counter([ALERT, ALERT + 3])


@pytest.fixture
def all_sinks(pipeline, bank, tmp_path):
    """The job with every kind of sink that keeps its commits, and a way to put all of them back at once."""
    lake, backup = tmp_path / "lake", tmp_path / "backup"
    lake.mkdir()
    pipeline.job = "fan"
    pipeline.environment |= {"LAKE": str(lake), "POSTGRES": bank.url}
    pipeline.send(20)
    pipeline.run_well()
    bank.back_up()
    shutil.copytree(lake, backup)
    pipeline.send(30)
    pipeline.run_well()

    def put_back() -> None:
        bank.put_back()
        shutil.rmtree(lake)
        shutil.copytree(backup, lake)

    return put_back


@pytest.mark.faults
@pytest.mark.parametrize("point", ["O1", "O4@4", "O5@4", "O5@6"])
def test_what_all_sinks_have_lost_is_written_again_by_one_that_died(pipeline, all_sinks, point):
    """Seven sinks of five kinds: whoever dies while he writes, the next one goes on, and nothing is there twice."""
    all_sinks()
    died = write_again(pipeline, ONCEFLOW_CRASH=point)
    assert pipeline.mark.exists(), died.stderr
    assert pipeline.run().code == 1
    told = write_again(pipeline)
    assert told.returncode == 0, told.stderr
    pipeline.send(10)
    pipeline.run_well()
    expected = Counter(range(60))
    assert World.shown(pipeline) == dict.fromkeys(World.shown(pipeline), expected)
    assert Counter(json.loads(v)["id"] for _, v in read_topic(pipeline.cluster, pipeline.sink)) == expected
    audited(pipeline)


@pytest.mark.faults
def test_rows_that_were_not_decided_are_not_written_again(pipeline, all_sinks, tmp_path, monkeypatch):
    """The file was edited since: nothing is written, and the number of rows is told that cannot come back so."""
    all_sinks()
    edited = (JOBS / "fan_job.py").read_text().replace("as bigint) as id", "as bigint) + 1 as id")
    (tmp_path / "fan_job.py").write_text(edited)
    before = World.shown(pipeline)
    told = write_again(pipeline, file=tmp_path / "fan_job.py")
    assert told.returncode == 1
    assert "18 of 18 lost epochs, with 180 rows, cannot be written again" in told.stderr
    assert World.shown(pipeline) == before


@pytest.mark.faults
@pytest.mark.parametrize("retained", [True, False])
def test_what_a_plan_with_state_wrote_is_written_again_where_its_state_is(pipeline, bank, retained):
    """Of what the checkpoint retains; of what is older it is refused, with the rows and the ways that are left."""
    pipeline.job, pipeline.environment["RETAIN"] = "counts", "10" if retained else "2"
    pipeline.send(20)
    pipeline.run_well()
    bank.back_up()
    pipeline.send(40)
    pipeline.run_well()
    bank.put_back()
    told = write_again(pipeline)
    if not retained:
        assert told.returncode == 1
        assert "cannot be written again (sink counts: 4 epochs with 40 rows): the plan keeps state" in told.stderr
        return
    assert told.returncode == 0, told.stderr
    with psycopg.connect(bank.url) as connection:
        counted = dict(connection.execute("select key, n from counts").fetchall())
    assert counted == {key.decode(): n for key, n in Counter(key for key, _ in pipeline.sent).items()}
    pipeline.send(10)
    pipeline.run_well()
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


@pytest.mark.faults
@pytest.mark.parametrize("behind", [1, 3])
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


@pytest.mark.faults
def test_what_a_resumed_job_and_the_one_before_it_have_lost_is_written_again(pipeline, bank, tmp_path):
    """An upgrade by a savepoint, then a backup of before both: the older job's rows come first, with its checkpoint."""
    alerts(pipeline, ALERT)
    pipeline.run_well()
    bank.back_up()
    alerts(pipeline, ALERT + 1, ALERT + 2)
    pipeline.run_well()
    saved = onceflow(pipeline, "savepoint", "create", JOBS / "quiet_job.py", tmp_path / "s")
    assert saved.returncode == 0, saved.stderr
    newer = replace(pipeline, checkpoint=tmp_path / "newer")
    alerts(pipeline, ALERT + 3)
    resumed = onceflow(newer, "run", JOBS / "quiet_job.py", "--until", "caught-up", "-s", tmp_path / "s", "--yes")
    assert resumed.returncode == 0, resumed.stderr
    assert bank.ids("alerts") == Counter(range(ALERT, ALERT + 4))
    bank.put_back()
    assert newer.run().code == 1
    told = write_again(newer)
    assert told.returncode == 1
    assert f"of job {pipeline.job_id()} any more, from which this one was begun: 1 epochs with 2 rows" in told.stderr
    for each in (pipeline, newer):
        told = write_again(each)
        assert told.returncode == 0, told.stderr
    alerts(pipeline, ALERT + 4)
    newer.run_well()
    assert bank.ids("alerts") == Counter(range(ALERT, ALERT + 5))
    audited(newer, "--shared")  # the older job's rows are in the table, too
