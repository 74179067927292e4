"""A job whose checkpoint is on a real HDFS: it dies at every crash point, HDFS dies, and every record is there once."""

import json
import uuid
from collections import Counter

import pytest

from tests.integration import elsewhere
from tests.integration.elsewhere import EPOCH, RECORDS
from tests.integration.harness import rows_of, wait_until
from tests.integration.hdfs import MiniHdfs, OnHdfs

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


def test_what_works_on_it_and_what_is_refused(pipeline, tmp_path):
    """check, txn and checkpoints see the checkpoint; what works on files by itself is refused, and does nothing."""
    p = pipeline("copy")
    elsewhere.operators_see_it(p)
    to = str(tmp_path / "s")
    elsewhere.are_refused(
        p,
        [
            (["run", p.file, "--supervise", "--bounded"], "are refused for a checkpoint on HDFS"),
            (["doctor", p.file], "it is on HDFS"),
            (["savepoint", "create", p.file, to], "are on two kinds of file system"),
            (["savepoint", "create", p.file, "gs://bucket/s"], "a checkpoint at gs:// is refused"),
            (["run", p.file, "-s", f"{p.uri}@1", "--yes"], "the job's checkpoint"),
        ],
    )
    assert not (tmp_path / "s").exists()


def audited(p, *options):
    """What the audit of the pipeline's job says: its exit code, and its report."""
    ran = p.command("audit", p.file, "--output", "json", *options)
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout.splitlines()[-1])


def test_the_audit_of_a_job_there(pipeline, produce):
    """A job that died is proven; a receipt that is changed on HDFS, and a record of a stranger, are found and named.

    What the plan gives when it is run again is compared as well.
    """
    p = pipeline("copy")
    p.die_at(f"D5@{EPOCH}")
    p.run_well()
    code, report = audited(p)
    assert (code, report["findings"], report["epochs"], report["rows"]) == (0, [], 3, RECORDS)
    code, report = audited(p, "--recompute", "1..")
    assert (code, report["findings"], report["epochs"]) == (0, [], 2)

    trail = p.store.below("onceflow").below("audit")
    name = min(trail.names())
    held = trail.read(name)
    first = json.loads(held.splitlines()[0])
    first["sinks"][p.sink]["rows"] += 1
    trail.replace(name, b"\n".join([json.dumps(first).encode(), *held.splitlines()[1:]]) + b"\n")
    produce(p.sink, ["stranger"])
    code, report = audited(p)
    told = {each["kind"]: each["what"] for each in report["findings"]}
    assert (code, sorted(told), report["foreign"]) == (1, ["foreign", "receipt"], 1)
    assert "does not have its hash" in told["receipt"]
    trail.replace(name, held)
    code, report = audited(p, "--shared")
    assert (code, report["receipts"], report["foreign"]) == (0, 0, 1)


def resumed(p, name, *words, **environment):
    """Another run of the pipeline's job, at another place: it, and what was said."""
    q = p.moved(f"{p.checkpoint.name}-{name}", **environment)
    done = q.command("run", q.file, "--bounded", "--yes", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return q, done.stderr


def newest(rows):
    """The newest count of each key."""
    found = {}
    for key, value in rows:
        found[key] = max(json.loads(value)["n"], found.get(key, 0))
    return found


@pytest.mark.parametrize("job", ["count", "tally"])
def test_a_running_job_is_saved_and_a_new_one_goes_on_from_it(pipeline, processes, tmp_path, job):
    """State goes on exactly from a savepoint on HDFS, and again from one with four partitions; the job is not harmed.

    What is written again is what was said. The old checkpoint is deleted in between: nothing of it is read.
    """
    p = pipeline(job, 5_000)
    p.environment = {"ONCEFLOW_RUNTIME_DIR": str(tmp_path / "run")}
    running = p.start(UNTIL="stopped")
    processes.append(running)
    wait_until(lambda: len(p.read()) > 0, 120, "the first rows")
    savepoint = f"{p.uri}-s"
    made = p.command("savepoint", "create", job, savepoint, "--output", "json")
    assert made.returncode == 0, made.stderr
    epoch = json.loads(made.stdout.splitlines()[-1])["epoch"]
    p.send(3_000)
    wait_until(lambda: newest(p.read()) == Counter(key for key, _ in p.sent), 120, "all of it")
    stopped = p.command("stop", job, "--savepoint", f"{p.uri}-s2")
    assert stopped.returncode == 0, stopped.stderr
    assert p.end(running).code == 0
    counts = [(key, json.loads(value)["n"]) for key, value in p.read()]
    assert len(counts) == len(set(counts)), "the job that was saved has written a count twice"
    assert p.command("savepoint", "verify", savepoint).returncode == 0
    listed = p.command("savepoint", "list", p.uri.rpartition("/")[0])
    assert listed.stdout.count(p.job_id()) == 2, listed.stdout
    behind = sum(rows_of(d) for d in p.decisions() if d["epoch"] > epoch)

    before = Counter(p.read())
    q, said = resumed(p, "new", "-s", savepoint)
    assert f"sink {p.sink}: {behind} rows" in said if behind else "no decided row is written again" in said
    written = Counter(p.read()) - before
    assert sum(written.values()) == sum(rows_of(d) for d in q.decisions())
    assert newest(p.read()) == Counter(key for key, _ in p.sent)
    refused = p.command("audit", p.file, "--recompute", "0..")
    assert (refused.returncode, "it is on HDFS" in refused.stderr) == (1, True), refused.stdout + refused.stderr
    deleted = p.command("job", "delete", p.file, "--yes")
    assert deleted.returncode == 0, deleted.stderr
    assert not p.store.exists()

    rescaled = p.command("savepoint", "rescale", f"{p.uri}-s2", f"{p.uri}-s4", "4")
    assert rescaled.returncode == 0, rescaled.stderr
    p.send(1_000)
    before = Counter(p.read())
    r, said = resumed(p, "four", "-s", f"{p.uri}-s4")
    assert newest(Counter(p.read()) - before) == newest(p.read()) == Counter(key for key, _ in p.sent)
    assert sorted(n for n in r.store.below("state").below("0").names() if n.isdigit()) == list("0123")
    assert (q.open_transactions(), r.open_transactions()) == ([], [])


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
