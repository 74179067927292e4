"""A job whose checkpoint is on a real HDFS: it dies at every crash point, HDFS dies, and every record is there once."""

import json
import uuid
from collections import Counter

import pytest

from tests.support import elsewhere
from tests.support.elsewhere import EPOCH, RECORDS, resumed
from tests.support.harness import wait_until
from tests.support.hdfs import MiniHdfs, OnHdfs

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]


@pytest.fixture
def pipeline(cluster, hdfs, new_topic, tmp_path):
    """Three epochs' worth of input and a job over it."""

    def make(job: str, records: int = RECORDS) -> OnHdfs:
        made = OnHdfs(cluster, new_topic(4), new_topic(4), tmp_path / uuid.uuid4().hex / "checkpoint", job, hdfs=hdfs)
        made.send(records)
        return made

    return make


@pytest.mark.parametrize("job", ["copy", "count"])
@pytest.mark.parametrize("point", ["D1", "D2", "D3", "D4", "D5", "D6", "D6a", "D7", "D8"])
def test_a_death_at_each_crash_point(pipeline, job, point):
    """Wherever the driver dies, the next start on HDFS finishes or undoes it; what is decided is written once."""
    elsewhere.a_death_is_survived(pipeline(job), point)


def test_a_death_with_the_offsets_lost(pipeline):
    """D7o: offsets/N is gone; the decision restores it byte for byte."""
    elsewhere.lost_offsets_are_restored(pipeline("count"))


def test_hdfs_dies_and_comes_back(cluster, new_topic, tmp_path, processes):
    """NameNode and DataNodes are killed under a job that runs: it ends with 75 and says why, or waits; nothing is lost.

    Each start while they are gone ends the same way, and the first one after they are back goes on.
    """
    own = MiniHdfs(tmp_path / "hdfs").start()
    p = OnHdfs(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", "count", hdfs=own)
    p.send(RECORDS)
    try:
        running = p.start(UNTIL="stopped")
        processes.append(running)
        wait_until(lambda: len(p.read()) > 0, 120, "the first rows")
        own.kill()
        p.send(RECORDS)
        ended = p.end(running, 180)
        assert ended.code == 75, ended.log
        assert p.hdfs.root in ended.log
        while_gone = p.run()
        assert while_gone.code == 75, while_gone.log
        assert "could not" in while_gone.log
        assert p.uri in while_gone.log
        own.start()
        p.run_well()
        p.check()
    finally:
        own.kill()


def test_a_second_start_takes_over(pipeline, processes):
    """A second start on the checkpoint ends the first one's power, and every record is there once."""
    elsewhere.a_second_start_takes_over(pipeline("copy"), processes)


def test_a_supervised_job_dies_and_its_parent_starts_another(pipeline):
    """The parent loads no Java; what the first process has died by is among the job's failures on HDFS."""
    elsewhere.a_parent_starts_it_again(pipeline("count"))


def test_what_works_on_it_and_what_is_refused(pipeline, tmp_path):
    """check, txn and checkpoints see the checkpoint; what works on files by itself is refused, and does nothing."""
    p = pipeline("copy")
    elsewhere.operators_see_it(p)
    to = str(tmp_path / "s")
    elsewhere.are_refused(
        p,
        [
            (["run", p.file, "-s", to, "--yes"], "is no savepoint"),
            (["savepoint", "create", p.file, "gs://bucket/s"], "a checkpoint at gs:// is refused"),
            (["run", p.file, "-s", f"{p.uri}@1", "--yes"], "the job's checkpoint"),
        ],
    )
    assert not (tmp_path / "s").exists()


def test_the_audit_of_a_job_there(pipeline, produce):
    """A job that died is proven; a receipt that is changed on HDFS, and a record of a stranger, are found and named.

    What the plan gives when it is run again is compared as well.
    """
    elsewhere.an_audit_finds_tampering(pipeline("copy"), produce)


@pytest.mark.parametrize("job", ["count", "tally"])
def test_a_running_job_is_saved_and_a_new_one_goes_on_from_it(pipeline, processes, tmp_path, job):
    """State goes on exactly from a savepoint on HDFS, from one with four partitions, and on a disk.

    The job is not harmed. What is written again is what was said. The old checkpoint is deleted in between: nothing of
    it is read.
    """
    p = pipeline(job, 5_000)
    p.environment = {"ONCEFLOW_RUNTIME_DIR": str(tmp_path / "run")}
    q = elsewhere.a_new_job_goes_on_from_a_savepoint(p, processes)
    assert q.open_transactions() == []
    deleted = p.command("job", "delete", p.file, "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert not p.store.exists()
    elsewhere.it_goes_on_in_four_partitions(p)
    elsewhere.it_goes_on_on_a_disk(p, tmp_path)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("job", ["count", "tally"])
def test_snapshots_of_the_state_come_along(pipeline, processes, tmp_path, job):
    """Those that Spark's maintenance writes to HDFS: behind a death, in a savepoint, in other partitions, on a disk."""
    p = pipeline(job, 3_000)
    p.environment = {"ONCEFLOW_RUNTIME_DIR": str(tmp_path / "run")}
    elsewhere.snapshots_come_along(p, processes, tmp_path)


def test_a_claim_goes_on_there_and_the_old_place_does_not(pipeline):
    """A savepoint of the newest epoch is claimed: no row twice; the old checkpoint is refused from then on."""
    p = pipeline("copy")
    p.run_well()
    made = p.command("savepoint", "create", p.uri, f"{p.uri}-s")
    assert made.returncode == 0, made.stderr
    p.send(RECORDS)
    q, said = resumed(p, "claimed", "-s", f"{p.uri}-s", "--claim")
    assert f"job {p.job_id()} goes on here" in said
    assert q.job_id() == p.job_id()
    q.check_output()
    ended = p.run()
    assert ended.code == 1, ended.log
    q.check_output()


def test_a_job_is_deleted_there(pipeline, processes, tmp_path):
    """Told first and then done, with what a death left open; what is visible stays, and a new job of its name begins.

    One that is not to be kept is deleted when it is cancelled.
    """
    p = pipeline("copy")
    p.die_at(f"D4@{EPOCH}")
    assert p.open_transactions() != []
    job_id = p.job_id()
    told = p.command("job", "delete", p.file)
    assert (told.returncode, "would be deleted" in told.stdout) == (0, True), told.stderr
    assert p.job_id() == job_id
    visible = Counter(p.read())
    done = p.command("job", "delete", p.file, "--yes", "--output", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["job_id"], found["deleted"], found["files"] > 10, found["bytes"] > 1_000) == (
        job_id,
        True,
        True,
        True,
    )
    assert not p.store.exists()
    assert Counter(p.read()) == visible
    p.environment = {
        "ONCEFLOW_RUNTIME_DIR": str(tmp_path / "run"),
        "ONCEFLOW__EXECUTION__CHECKPOINTING__EXTERNALIZED_CHECKPOINT_RETENTION": "DELETE_ON_CANCELLATION",
    }
    running = p.start(UNTIL="stopped")
    processes.append(running)
    wait_until(lambda: len(p.read()) == visible.total() + RECORDS, 120, "all of it")
    assert p.job_id() != job_id
    cancelled = p.command("cancel", "copy")
    assert cancelled.returncode == 0, cancelled.stderr
    ended = p.end(running)
    assert "is deleted, as it was to be" in ended.log
    assert not p.store.exists()


def test_what_a_job_leaves_there(pipeline):
    """A job that ends well leaves Spark's files and ours on HDFS, a receipt for each epoch, nothing half written."""
    p = pipeline("copy")
    elsewhere.all_is_there_when_it_ended(p)
    assert [n for n in p.store.below("offsets").names() if n.endswith(".crc")] == []
