"""What a start does with its sinks: topics that it makes, and sinks that were added or removed since the last one."""

import logging
from collections import Counter

import pytest

import onceflow as of
from onceflow.errors import CheckpointConflictError, ConfigurationError
from tests.support.harness import read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def job(spark, cluster, new_topic, produce, tmp_path):
    """A job that copies a topic with three records; ``job(sinks)`` runs it to the end."""
    source = new_topic(1)
    produce(source, ["a", "b", "c"])

    def run(*sinks, topic=source):
        query = of.start(
            of.KafkaSource(cluster, topic, value=of.Text()).load(spark),
            sinks=sinks,
            name="copies",
            checkpointing=of.Checkpointing(tmp_path / "checkpoint", interval="100 ms"),
            until="caught-up",
        )
        assert query.awaitTermination(120)

    run.source = source
    return run


def values(cluster, topic) -> Counter:
    return Counter(value for _, value in read_topic(cluster, topic))


@pytest.mark.faults
def test_a_sinks_topic_is_not_made_for_a_job_whose_source_is_missing(cluster, job, admin, new_topic):
    """Nor for a plan that does not fit the checkpoint: what is refused leaves nothing behind."""
    topic = f"{job.source}-made"
    sink = of.KafkaSink(cluster, topic, value=of.Text(), create_topic=of.NewTopic(partitions=1))
    with pytest.raises(ConfigurationError, match="misspelt"):
        job(sink, topic=f"{job.source}-misspelt")
    assert topic not in admin.list_topics()
    job(sink)
    assert values(cluster, topic) == Counter([b"a", b"b", b"c"])
    new = of.KafkaSink(cluster, f"{topic}-new", value=of.Text(), create_topic=of.NewTopic(partitions=1))
    with pytest.raises(CheckpointConflictError, match="the plan does not fit"):
        job(sink, new, topic=new_topic(1))
    assert f"{topic}-new" not in admin.list_topics()


def test_sinks_that_changed_are_told_in_one_line(cluster, job, new_topic, produce, caplog):
    """Renamed beside another one, added, removed: the line names them, and the epoch from which a new one has rows."""
    kept, gone, new = (of.KafkaSink(cluster, new_topic(1), name=name, value=of.Text()) for name in ("k", "g", "n"))
    caplog.set_level(logging.WARNING, "onceflow.launch")

    def line(*sinks):
        caplog.clear()
        job(*sinks)
        told = [r.getMessage() for r in caplog.records if r.name == "onceflow.launch.settling"]
        assert len(told) <= 1
        return told[0] if told else None

    assert line(kept, gone) is None
    assert line(kept, gone) is None
    produce(job.source, ["d"])
    assert line(kept, new) == "sink g of the checkpoint is gone; sink n is new: it gets epochs from 1 on"
    assert values(cluster, new.topic) == Counter([b"d"])
    assert values(cluster, kept.topic) == Counter([b"a", b"b", b"c", b"d"])
    assert line(kept) == "sink n of the checkpoint is gone"
    assert line(kept, gone) == "sink g is new: it gets epochs from 2 on"


def test_a_sink_that_goes_elsewhere_is_told(cluster, job, new_topic, produce, caplog):
    """Its topic was changed under its name: what is new goes there, what was written stays, and it is said."""
    kept, before = (of.KafkaSink(cluster, new_topic(1), name=name, value=of.Text()) for name in ("k", "m"))
    moved = of.KafkaSink(cluster, new_topic(1), name="m", value=of.Text())
    job(kept, before)
    produce(job.source, ["d"])
    caplog.set_level(logging.WARNING, "onceflow.launch.marked")

    def told():
        return [r.getMessage() for r in caplog.records if r.name == "onceflow.launch.marked"]

    job(kept, moved)
    (line,) = told()
    assert line.startswith("copies: sink m: nothing shows that this job has written to where it goes now")
    assert "from epoch 1 on" in line
    assert (values(cluster, before.topic), values(cluster, moved.topic)) == (
        Counter([b"a", b"b", b"c"]),
        Counter([b"d"]),
    )
    caplog.clear()
    job(kept, moved)
    assert told() == []


def test_a_schema_that_fits_no_record_is_an_error_in_the_log(spark, cluster, new_topic, produce, tmp_path, caplog):
    """Two outputs start from one source, of which every record is left out: each of them is told of once."""
    source = new_topic(1)
    produce(source, ["no number"] * 20)
    read = of.KafkaSource(cluster, source, value=of.Json("n long"), on_malformed="skip").load(spark)
    sinks = [of.KafkaSink(cluster, new_topic(1), name=name, value=of.Json()) for name in ("low", "high")]
    with caplog.at_level(logging.WARNING, "onceflow.execution.progress"):
        query = of.start(
            {sinks[0]: read.where("n < 5"), sinks[1]: read.where("n >= 5")},
            name="parts",
            checkpointing=of.Checkpointing(tmp_path / "checkpoint", interval="100 ms"),
            until="caught-up",
        )
        assert query.awaitTermination(120)
        wait_until(lambda: any(r.levelno == logging.ERROR for r in caplog.records), what="the error in the log")
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert len(errors) == 1, errors
    assert f"every one of the 20 records of topic {source} is malformed" in errors[0]
