"""A start that finds no checkpoint: a new job's says so, and one whose checkpoint was lost is refused."""

import logging
import shutil
from collections import Counter

import pytest

import onceflow as of
from onceflow.checkpoint.identity import read_identity
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.sink_connection import attach
from onceflow.errors import CheckpointConflictError
from onceflow.launch.marked import forget_name
from onceflow.launch.request import StartRequest, place_of
from onceflow.options.checkpointing import Checkpointing
from tests.support.harness import read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def job(spark, cluster, new_topic, produce, tmp_path):
    """A job that copies a topic with three records; ``job.run()`` runs it to the end."""
    source, sink = new_topic(1), new_topic(1)
    produce(source, ["a", "b", "c"])

    def run(checkpoint=tmp_path / "checkpoint", name="hourly sales", sinks=None, frame=None, **more):
        query = of.start(
            of.KafkaSource(cluster, source, value=of.Text()).load(spark) if frame is None else frame,
            sinks=[of.KafkaSink(cluster, sink, value=of.Text())] if sinks is None else sinks,
            name=name,
            checkpointing=of.Checkpointing(checkpoint, interval="100 ms"),
            until="caught-up",
            **more,
        )
        assert query.awaitTermination(120)

    run.source, run.sink, run.checkpoint = source, sink, tmp_path / "checkpoint"
    return run


def values(cluster, topic) -> Counter:
    return Counter(value for _, value in read_topic(cluster, topic))


def once(times=1) -> Counter:
    return Counter({b"a": times, b"b": times, b"c": times})


def names_kept(cluster, topic, name="hourly sales", prefix="onceflow"):
    """The mark of the name; it is written beside the commits, so it may come a moment after them."""
    connection = attach(of.KafkaSink(cluster, topic))
    try:
        wait_until(lambda: connection.read_name_mark(prefix, name), what="the mark of the name")
        return connection.read_name_mark(prefix, name)
    finally:
        connection.close()


def identity_at(checkpoint):
    return read_identity(place_of(StartRequest("x", Checkpointing(checkpoint))).ours)


def test_a_lost_checkpoint_is_refused_until_it_is_said_that_a_new_job_is_meant(cluster, job, tmp_path):
    """Deleted, or looked for in another folder: no record is written twice in silence, and nothing is made there.

    As a new job it writes all again, once, as was said; left in the program, the word is refused, and without it
    the new job goes on.
    """
    job()
    left = identity_at(job.checkpoint).job_id
    names_kept(cluster, job.sink)
    shutil.rmtree(job.checkpoint)
    for place in (job.checkpoint, tmp_path / "another folder" / "checkpoint"):
        with pytest.raises(CheckpointConflictError, match=f"job {left}, whose checkpoint was file://{job.checkpoint}"):
            job(place)
        assert not place.parent.exists() or list(place.parent.glob("checkpoint")) == []
    assert values(cluster, job.sink) == once()
    job(takeover="as-new")
    assert values(cluster, job.sink) == once(2)
    with pytest.raises(CheckpointConflictError, match="it has made this job"):
        job(takeover="as-new")
    job()
    assert values(cluster, job.sink) == once(2)


def test_a_new_job_says_where_it_begins(cluster, job, caplog, monkeypatch, tmp_path):
    """One line, at its first start only: the absolute path, that it is a new job, and from where it reads."""
    caplog.set_level(logging.INFO, "onceflow.launch")
    monkeypatch.chdir(tmp_path)
    job("checkpoint")
    job("checkpoint")
    told = [r.getMessage() for r in caplog.records if "there is no checkpoint" in r.getMessage()]
    folder = tmp_path / "checkpoint"
    said = f"hourly sales is a new job, and reads topic {job.source} from earliest"
    assert told == [f"there is no checkpoint at {folder}: {said}"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "from latest"),
        ({"startingOffsets": "EARLIEST"}, "from earliest"),
        ({"startingTimestamp": "1767225600000"}, "from 2026-01-01 00:00:00+00:00 on"),
        ({"startingOffsets": '{{"{topic}":{{"0":1}}}}'}, "from the offsets given"),
    ],
)
def test_a_plain_source_says_where_it_begins(spark, cluster, job, caplog, options, said):
    """An existing program's source: where Spark's own default is meant, that is what is told."""
    caplog.set_level(logging.INFO, "onceflow.launch")
    told = {name: value.format(topic=job.source) for name, value in options.items()}
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    frame = reader.option("subscribe", job.source).option("kafka.isolation.level", "read_committed").options(**told)
    job(frame=frame.load().selectExpr("value"), sinks=[of.KafkaSink(cluster, job.sink, value=of.Raw())])
    assert f"reads topic {job.source} {said}" in caplog.text


@pytest.mark.faults
def test_whose_loss_is_not_noticed(cluster, job, admin, tmp_path):
    """The limits, as the documentation says them: another name, another prefix, another topic, a forgotten mark."""
    job()
    names_kept(cluster, job.sink)
    shutil.rmtree(job.checkpoint)
    job(tmp_path / "1", name="renamed")
    job(tmp_path / "2", transactional_id_prefix="other")
    with pytest.raises(CheckpointConflictError, match="has written to its sinks before"):
        job()
    names_kept(cluster, job.sink, "renamed")
    with KafkaClient(cluster) as client:
        client.admin.delete_groups(["onceflow-name-hourly%20sales"])
    job()
    assert values(cluster, job.sink) == once(4)


@pytest.mark.faults
def test_two_jobs_of_one_name_do_not_hide_each_other(cluster, job, tmp_path):
    """Told as new once, the second has its own checkpoint; deleted, it is forgotten, and the first is still known."""
    job(tmp_path / "1")
    names_kept(cluster, job.sink)
    with pytest.raises(CheckpointConflictError):
        job(tmp_path / "2")
    job(tmp_path / "2", takeover="as-new")
    one, two = (identity_at(tmp_path / n).job_id for n in "12")
    wait_until(lambda: two in names_kept(cluster, job.sink), what="the second job's mark")
    assert one in names_kept(cluster, job.sink)
    for gone, known in ((two, one), (one, None)):
        committer = attach(of.KafkaSink(cluster, job.sink)).committer("onceflow", gone)
        forget_name([committer], "hourly sales", gone)
        committer.close()
        if known is None:
            job(tmp_path / "3")
        else:
            with pytest.raises(CheckpointConflictError, match=f"job {known}, whose"):
                job(tmp_path / "3")
    assert values(cluster, job.sink) == once(3)


def test_a_copy_that_goes_on_as_new_and_a_checkpoint_that_moved_are_not_lost(cluster, job, tmp_path):
    """They are not empty: what they are is said as before, and the copy's job comes to the others of its name."""
    job()
    shutil.copytree(job.checkpoint, tmp_path / "copy")
    job.checkpoint.rename(tmp_path / "moved")
    job(tmp_path / "moved", takeover="claim")
    job(tmp_path / "copy", takeover="as-new")
    job(tmp_path / "moved")
    job(tmp_path / "copy")
    assert values(cluster, job.sink) == once()
