"""A start on a real broker: what is refused before Spark is there, and what its log shows of it and of idle time."""

import contextlib
import re
import signal
import uuid

import pytest
from pyspark.sql.types import StructType

import onceflow as of
from onceflow.checkpoint.place import Place
from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.errors import ConfigurationError, KafkaError
from onceflow.launch.systems import Systems, look_at_systems
from tests.support.advice import parts_of
from tests.support.harness import Pipeline, wait_until


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    return Pipeline(cluster, new_topic(1), new_topic(1), tmp_path / "checkpoint")


def look(folder, sink: of.KafkaSink, source: of.KafkaSource) -> Systems:
    return look_at_systems(
        [sink], [source], Place.at(folder, 100), "onceflow", "test", lambda _: None, taken_over=False
    )


def make(sink: of.KafkaSink) -> None:
    """Make its topic, as a start does that has accepted the plan."""
    with contextlib.closing(sink.connect()) as connection:
        connection.make_output(StructType())


@pytest.mark.kafka
def test_missing_topics_need_no_spark(cluster, new_topic, tmp_path):
    """A source ends it; a sink, where none may be made. One that may be made is not yet: the plan may be refused."""
    gone, there, mine = f"gone-{uuid.uuid4().hex[:8]}", new_topic(1), f"mine-{uuid.uuid4().hex[:8]}"
    made = of.KafkaSink(cluster, mine, create_topic=of.NewTopic(partitions=1))
    with pytest.raises(ConfigurationError, match=f"there is no topic {gone}"):
        look(tmp_path / "a", made, of.KafkaSource(cluster, gone, value=of.Raw()))
    source = of.KafkaSource(cluster, there, value=of.Raw())
    with pytest.raises(ConfigurationError, match=f"topic {gone} of sink {gone} does not exist"):
        look(tmp_path / "b", of.KafkaSink(cluster, gone), source)
    with KafkaClient(cluster) as client:
        assert client.topics([mine]) == {}
        found = look(tmp_path / "c", made, source)
        assert not found.allows([made]), "that it may write there is proven when the topic is made"
        assert found.left([made], [source]) == f"making Kafka topic {mine} (exactly-once)", "and it is told as that"
        other = of.KafkaSink(cluster, there)
        assert found.left([other], [source]) == f"checks of Kafka topic {there} (exactly-once), topic {there}"
        connection = found.connect(made)
        assert client.topics([mine]) == {}
        connection.make_output(StructType())
        connection.close()
        assert list(client.topics([mine])) == [mine]
        assert look(tmp_path / "c", made, source).allows([made])
        assert [name for name in transactions.list_ids(client, "onceflow-") if mine in name] == []


@pytest.mark.kafka
def test_what_a_topic_that_cannot_be_made_advises_works(cluster):
    """More copies than brokers: the error has create_topic as it is, and the corrected one makes the topic."""
    name = f"mine-{uuid.uuid4().hex[:8]}"
    with pytest.raises(KafkaError) as caught:
        make(of.KafkaSink(cluster, name, create_topic=of.NewTopic(partitions=1, replication_factor=7)))
    error = parts_of(caught.value, KafkaError, f"topic {name} of sink {name}", "replication_factor=7")
    assert "correct create_topic" in error.action
    make(of.KafkaSink(cluster, name, create_topic=of.NewTopic(partitions=1)))
    with KafkaClient(cluster) as client:
        assert list(client.topics([name])) == [name]


@pytest.mark.spark
def test_a_start_and_idle_time_are_in_view(pipeline, processes):
    """The log of a job with nothing to read: each phase of its start, that it runs and is idle; then an epoch.

    Spark makes an epoch of an empty topic, and half a minute later it is said that nothing came.
    """
    process = pipeline.start(UNTIL="stopped")
    processes.append(process)
    wait_until(lambda: "copy: idle, epoch 0, lag 0" in process.log.read_text(), 90, what="idle time")
    pipeline.send(10)
    wait_until(lambda: "copy: epoch 1: 10 in, 10 out" in process.log.read_text(), what="an epoch")
    process.send_signal(signal.SIGTERM)
    ended = pipeline.end(process, 30)
    assert ended.code == 128 + signal.SIGTERM, ended.log
    phases = [
        f"the checkpoint {pipeline.checkpoint}",
        f"checks of Kafka topic {pipeline.sink} (exactly-once)",
        "jars",
        "Java and Spark",
        "your function copied",
        "checks of the plan",
        "taking over the checkpoint",
        "the first epoch",
    ]
    assert re.findall(r"copy: start: (.*)", ended.log) == phases
    (told,) = re.findall(r"copy: the job runs, \d+\.\d s after its start began: (.*)", ended.log)
    assert re.sub(r" \d+\.\d s", "", told) == ", ".join(phases)
    assert re.search(r"incarnation 1 of job copy \([0-9a-f]{12}\) on file:", ended.log)
    assert "copy: stopped by SIGTERM" in ended.log


@pytest.mark.spark
@pytest.mark.faults
def test_a_start_with_nothing_to_read_runs_at_once(pipeline, processes, tmp_path):
    """As soon as Spark has looked. Its own word for that comes ten seconds later, and is put off for an hour here."""
    pipeline.send(10)
    pipeline.run_well()
    (tmp_path / "settings.toml").write_text('[spark]\n"spark.sql.streaming.noDataProgressEventInterval" = "3600000"\n')
    process = pipeline.start(UNTIL="stopped", ONCEFLOW_CONFIG=str(tmp_path / "settings.toml"))
    processes.append(process)
    wait_until(lambda: "copy: idle, epoch 0, lag 0" in process.log.read_text(), 90, what="idle time")
    pipeline.send(10)
    wait_until(lambda: "copy: epoch 1: 10 in, 10 out" in process.log.read_text(), what="an epoch")
    process.send_signal(signal.SIGTERM)
    ended = pipeline.end(process, 30)
    assert ended.log.count("copy: the job runs, ") == 1
    assert re.search(r"the first epoch \d+\.\d s\n", ended.log)
