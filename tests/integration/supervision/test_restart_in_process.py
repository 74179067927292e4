"""``of.start`` and ``query.stop()`` in one process: stopped in the middle and started again with the same objects."""

import json
import threading
from collections import Counter

import pytest

import onceflow as of
from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.execution import sweeper
from tests.support.harness import read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def checkpoint(tmp_path):
    return tmp_path / "checkpoint"


def values(cluster, topic) -> Counter:
    return Counter(v for _, v in read_topic(cluster, topic))


def open_of(client, checkpoint) -> list[str]:
    """Open transactions of the job on this checkpoint."""
    identity = checkpoint / "onceflow" / "job.json"
    if not identity.exists():
        return []
    return transactions.list_ids(client, f"onceflow-{json.loads(identity.read_text())['job_id']}-")


@pytest.mark.faults
def test_stopped_in_the_middle_of_an_epoch_and_started_again(spark, cluster, new_topic, produce, checkpoint):
    """Four times, each while its transactions are open: in the end every record is there once, and nothing is open."""
    source, sink_topic = new_topic(2), new_topic(2)
    for partition in (0, 1):
        produce(source, [f"{partition}-{i}" for i in range(40_000)], partition=partition)
    frame = of.KafkaSource(cluster, source, value=of.Text(), max_records_per_epoch=25_000).load(spark)
    sink = of.KafkaSink(cluster, sink_topic, value=of.Text())
    checkpointing = of.Checkpointing(str(checkpoint), interval="100 ms")
    with KafkaClient(cluster) as client:
        for _ in range(4):
            query = of.start(frame, sinks=[sink], name="again", checkpointing=checkpointing)
            wait_until(lambda: open_of(client, checkpoint), what="an epoch's transactions")
            query.stop()
        query = of.start(frame, sinks=[sink], name="again", checkpointing=checkpointing, until="caught-up")
        assert query.awaitTermination(120)
        assert open_of(client, checkpoint) == []
    assert values(cluster, sink_topic) == Counter(f"{p}-{i}".encode() for p in (0, 1) for i in range(40_000))


class SlowToLook(of.KafkaSink):
    """A sink whose look for lingering transactions can be held, as by a broker that is slow to answer."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.hold = threading.Event()
        self.held = threading.Event()
        self.go_on = threading.Event()

    def connect(self):
        connection = super().connect()
        make = connection.committer
        connection.committer = lambda prefix, job_id: self.slow(make(prefix, job_id))
        return connection

    def slow(self, made):
        look = made.lingering

        def lingering(incarnation, spared):
            if self.hold.is_set() and threading.current_thread().name == "onceflow-sweep":
                self.held.set()
                assert self.go_on.wait(60)
            return look(incarnation, spared)

        assert isinstance(made, KafkaCommitter)
        made.lingering = lingering
        return made


@pytest.mark.faults
def test_stopped_while_a_sweep_is_under_way_and_started_again(
    spark, cluster, new_topic, produce, checkpoint, monkeypatch
):
    """The first run lets go of its connection only after its sweep; the second run, on the same sink, keeps its own."""
    source, topic = new_topic(1), new_topic(1)
    monkeypatch.setattr(sweeper, "EVERY_S", 0.1)
    frame = of.KafkaSource(cluster, source, value=of.Text()).load(spark)
    sink = SlowToLook(cluster, topic, value=of.Text())
    checkpointing = of.Checkpointing(str(checkpoint), interval="100 ms")
    produce(source, ["a"])
    first = of.start(frame, sinks=[sink], name="first", checkpointing=checkpointing)
    try:
        wait_until(lambda: values(cluster, topic), what="a")
        sink.hold.set()
        assert sink.held.wait(30)
        sink.hold.clear()
        closing = [t for t in threading.enumerate() if t.name == "onceflow-close"]
        first.stop()
        second = of.start(frame, sinks=[sink], name="second", checkpointing=checkpointing)
        for thread in closing:
            thread.join(30)
        assert not any(thread.is_alive() for thread in closing)
        sink.go_on.set()
        produce(source, ["b"])
        wait_until(lambda: not second.isActive or len(values(cluster, topic)) == 2, what="b, or the second run's end")
        assert second.exception() is None
        assert values(cluster, topic) == Counter([b"a", b"b"])
    finally:
        sink.go_on.set()
        for query in spark.streams.active:
            query.stop()
