"""A job whose checkpoint is in S3: it dies, its store dies, and every record is there once."""

import uuid

import pytest

from tests.support import elsewhere
from tests.support.elsewhere import RECORDS
from tests.support.harness import wait_until
from tests.support.s3 import InS3, a_server, between

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with a_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def pipeline(cluster, server, new_topic, tmp_path):
    """Three epochs' worth of input and a job over it."""

    def make(job: str, records: int = RECORDS) -> InS3:
        made = InS3(cluster, new_topic(4), new_topic(4), tmp_path / uuid.uuid4().hex / "checkpoint", job, s3=server)
        made.send(records)
        return made

    return make


@pytest.mark.parametrize("job", ["copy", "count"])
@pytest.mark.parametrize("point", ["D1", "D4", "D5", "D7", "D8"])
def test_a_death_at_a_crash_point(pipeline, job, point):
    """Wherever the driver dies, the next start finishes or undoes it; what is decided is written once."""
    elsewhere.a_death_is_survived(pipeline(job), point)


def test_a_death_with_the_offsets_lost(pipeline):
    """D7o: offsets/N is gone; the decision restores it byte for byte."""
    elsewhere.lost_offsets_are_restored(pipeline("count"))


def test_a_second_start_takes_over(pipeline, processes):
    """A second start on the checkpoint ends the first one's power, and every record is there once."""
    elsewhere.a_second_start_takes_over(pipeline("copy"), processes)


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


def test_a_supervised_job_dies_and_its_parent_starts_another(pipeline):
    """What the first process has died by is among the job's failures in S3."""
    elsewhere.a_parent_starts_it_again(pipeline("count"))


def test_what_works_on_it_and_what_is_refused(pipeline, tmp_path):
    """check, txn and checkpoints see the checkpoint; what works on files by itself is refused, and does nothing."""
    p = pipeline("copy")
    elsewhere.operators_see_it(p)
    to = str(tmp_path / "savepoint")
    elsewhere.are_refused(
        p,
        [
            (["run", p.file, "-s", to, "--yes"], "is no savepoint"),
        ],
    )


def test_spark_must_reach_the_same_place(pipeline, tmp_path_factory):
    """A session that is told of another service is refused before anything is written, with both sides' settings."""
    p = pipeline("copy")
    with a_server(tmp_path_factory.mktemp("other")) as other:
        its_own = f"spark.hadoop.fs.s3a.endpoint={other.endpoint}"
        refused = p.command("run", p.file, "--until", "caught-up", "-D", its_own)
    assert refused.returncode == 1, refused.stderr
    assert f"Spark does not reach the checkpoint {p.uri}" in refused.stderr
    assert not p.store.exists()


def test_what_a_job_leaves_there(pipeline):
    """A job that ends well leaves Spark's files and ours in S3, a receipt for each epoch, nothing half written."""
    p = pipeline("count")
    elsewhere.all_is_there_when_it_ended(p)
    assert [n for n in p.store.below("offsets").names() if "tmp" in n] == []
    assert p.store.count("state/0/*/*") > 0
