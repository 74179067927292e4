"""A job whose checkpoint is in S3: it dies, its store dies, and every record is there once."""

import json
import os
import subprocess
import sys
import uuid

import pytest

from tests.integration.harness import JOBS, wait_until
from tests.integration.s3 import InS3, a_server, between

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]

EPOCH = 1
RECORDS = 6_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with a_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def pipeline(cluster, server, new_topic, tmp_path):
    """Three epochs' worth of input and a job over it."""

    def make(job: str, records: int = RECORDS) -> InS3:
        made = InS3(cluster, new_topic(4), new_topic(4), tmp_path / uuid.uuid4().hex / "checkpoint", job=job)
        made.s3 = server
        made.send(records)
        return made

    return make


@pytest.mark.parametrize("job", ["copy", "count"])
@pytest.mark.parametrize("point", ["D1", "D4", "D5", "D7", "D8"])
def test_a_death_at_a_crash_point(pipeline, job, point):
    """Wherever the driver dies, the next start finishes or undoes it; what is decided is written once."""
    p = pipeline(job)
    p.die_at(f"{point}@{EPOCH}")
    decided = [0, EPOCH] if point >= "D5" else [0]
    assert [d["epoch"] for d in p.decisions()] == decided
    p.run_well()
    p.check()
    assert point < "D5" or p.aborted() == 0, "a decided epoch was written again"
    assert not p.checkpoint.exists(), "something of the checkpoint is on this machine's own files"


def test_a_death_with_the_offsets_lost(pipeline):
    """D7o: offsets/N is gone; the decision restores it byte for byte."""
    p = pipeline("count")
    p.die_at(f"D7@{EPOCH}")
    offsets = p.store.below("offsets")
    before = offsets.read(str(EPOCH))
    offsets.remove(str(EPOCH))
    p.run_well()
    assert offsets.read(str(EPOCH)) == before
    p.check()


def test_a_second_start_takes_over(pipeline, processes):
    """A second start on the checkpoint ends the first one's power, and every record is there once."""
    p = pipeline("copy")
    first = p.start(UNTIL="stopped")
    processes.append(first)
    wait_until(lambda: len(p.read()) > 0, what="the first rows")
    p.run_well()
    p.send(RECORDS)
    ended = p.end(first, 90)
    assert ended.code == 1, ended.log
    assert f"a newer start of this job has taken over the checkpoint {p.uri}" in ended.log, ended.log
    p.run_well()
    p.check()


def test_the_store_dies_and_comes_back(pipeline, server, processes):
    """Nothing is created any more: the job ends with 75 and says why; when it is again, the next start goes on."""
    p = pipeline("copy", 0)
    fails = False
    with between(server, lambda request: None if fails else request.forward()) as badly:
        p.s3 = badly
        running = p.start(UNTIL="stopped")
        processes.append(running)
        wait_until(lambda: any(r["kind"] == "start" for r in p.records()), what="the start")
        fails = True
        p.send(RECORDS)
        ended = p.end(running, 200)
        assert ended.code == 75, ended.log
        assert p.uri in ended.log
        assert server.environment["AWS_SECRET_ACCESS_KEY"] not in ended.log
        fails = False
        p.run_well()
        p.check()


def command(p, *words):
    """An ``onceflow`` command on the pipeline's job."""
    return subprocess.run(
        [sys.executable, "-m", "onceflow", *words],
        env=os.environ | p.settings(),
        capture_output=True,
        text=True,
        check=False,
        timeout=150,
    )


def test_what_works_on_it_and_what_is_refused(pipeline, tmp_path):
    """check, txn and checkpoints see the checkpoint; what works on files by itself is refused, and does nothing."""
    p = pipeline("copy")
    file = str(JOBS / "copy_job.py")
    looked = command(p, "check", file)
    assert looked.returncode == 0, looked.stderr
    assert not p.store.exists(), "a check has left something"
    p.die_at(f"D5@{EPOCH}")
    listed = command(p, "txn", "list", file)
    assert listed.returncode == 0, listed.stderr
    assert f"onceflow-{p.job_id()}" in listed.stdout
    p.run_well()
    shown = command(p, "checkpoints", p.uri)
    assert shown.returncode == 0, shown.stderr
    assert p.uri in shown.stdout
    assert "COMPLETED" in shown.stdout
    for words, told in (
        (["savepoint", "create", file, str(tmp_path / "savepoint")], "are on two kinds of file system"),
        (["run", file, "--supervise", "--bounded"], "are refused for a checkpoint in S3"),
        (["doctor", file], "it is in S3"),
    ):
        refused = command(p, *words)
        assert refused.returncode == 1, (words, refused.stdout, refused.stderr)
        assert told in refused.stdout + refused.stderr, (words, refused.stdout, refused.stderr)
    p.check()


def test_spark_must_reach_the_same_place(pipeline, tmp_path_factory):
    """A session that is told of another service is refused before anything is written, with both sides' settings."""
    p = pipeline("copy")
    with a_server(tmp_path_factory.mktemp("other")) as other:
        elsewhere = f"spark.hadoop.fs.s3a.endpoint={other.endpoint}"
        refused = command(p, "run", str(JOBS / "copy_job.py"), "--bounded", "-D", elsewhere)
    assert refused.returncode == 1, refused.stderr
    assert f"Spark does not reach the checkpoint {p.uri}" in refused.stderr
    assert not p.store.exists()


def test_what_a_job_leaves_there(pipeline):
    """A job that ends well leaves Spark's files and ours in S3, a receipt for each epoch, nothing half written."""
    p = pipeline("count")
    p.run_well()
    trail = p.store.below("onceflow").below("audit")
    receipts = [json.loads(line) for name in trail.names() for line in trail.read(name).splitlines()]
    assert [receipt["epoch"] for receipt in receipts] == [0, 1, 2]
    assert sorted(n for n in p.store.below("commits").names() if n.isdigit()) == ["0", "1", "2"]
    assert [n for n in p.store.below("offsets").names() if "tmp" in n] == []
    assert p.store.count("state/0/*/*") > 0
