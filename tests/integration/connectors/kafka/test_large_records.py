"""Large records with default settings: what the topics take passes, and what does not fit is refused by name."""

import hashlib
import uuid

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType
from pyspark.errors import StreamingQueryException

import onceflow as of
from onceflow.errors import RowRefusedError
from tests.support.harness import Pipeline, logged_error, read_messages, read_topic
from tests.support.large_records import send

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

MANY, LARGE = 2_500, 700_000
KAFKA_DEFAULT = 1_048_588


def digests(cluster, topic, count):
    """A hash of each of so many records, as a read_committed consumer sees them; not all of them in memory at once."""
    consumer = Consumer(
        cluster.for_librdkafka()
        | {"group.id": f"check-{uuid.uuid4().hex}", "isolation.level": "read_committed", "enable.partition.eof": True}
        | {"queued.max.messages.kbytes": 65_536}
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found = []
    while (message := consumer.poll(60)) is not None and message.error() is None:
        found.append(hashlib.sha256(message.value()).digest())
    consumer.close()
    assert len(found) == count
    return found


def limit(admin, topic, size):
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={"max.message.bytes": str(size)})])


@pytest.fixture(scope="module")
def large(cluster, admin):
    """A topic with more than a gigabyte in one partition."""
    topic = f"large-{uuid.uuid4().hex[:8]}"
    admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
    admin.wait_for_topics([topic])
    send(cluster, topic, (b"%07d" % i * (LARGE // 7) for i in range(MANY)))
    yield topic
    admin.delete_topics([topic])


@pytest.mark.faults
def test_records_of_hundreds_of_kilobytes_pass(cluster, admin, new_topic, large, tmp_path):
    """A task that gets more than a gigabyte hands it to its worker in parts that fit."""
    p = Pipeline(cluster, large, new_topic(1), tmp_path / "checkpoint", per_epoch=MANY)
    p.run_well()
    assert len(p.decisions()) == 1
    assert digests(cluster, p.sink, MANY) == digests(cluster, large, MANY)
    admin.delete_topics([p.sink])


@pytest.mark.parametrize("size", [KAFKA_DEFAULT, pytest.param(8_000_000, marks=pytest.mark.faults)])
def test_a_record_as_large_as_the_topic_takes_passes(cluster, admin, new_topic, tmp_path, size):
    """The largest record that the source topic takes is copied to one that takes as much; and one a little smaller."""
    p = Pipeline(cluster, new_topic(1), new_topic(1), tmp_path / "checkpoint")
    if size != KAFKA_DEFAULT:
        limit(admin, p.source, size)
        limit(admin, p.sink, size)
    for overhead in range(50, 100):
        try:
            send(cluster, p.source, [b"x" * (size - overhead)])
            break
        except KafkaException:
            pass
    smaller = [b"y" * int(size * share) for share in (0.9875, 0.96)]
    send(cluster, p.source, smaller)
    p.run_well()
    assert [value for _, value in read_topic(cluster, p.sink)] == [b"x" * (size - overhead), *smaller]


@pytest.mark.faults
def test_many_records_pass_where_the_topic_takes_small_batches(cluster, admin, new_topic, tmp_path):
    """A topic that takes less at once than a client sends by default still gets every record that it takes."""
    p = Pipeline(cluster, new_topic(1), new_topic(1), tmp_path / "checkpoint")
    limit(admin, p.sink, 20_000)
    p.send(2_000, value=lambda i: b"%04d" % i * 250)
    p.send(1, value=lambda _: b"z" * 19_800)
    p.run_well()
    p.check()


def test_a_record_that_the_client_does_not_take_is_refused_for_good(spark, cluster, new_topic, tmp_path, caplog):
    """Larger than message.max.bytes: the error names it, says that a retry is no use, and nothing is visible."""
    source, sink = new_topic(1), new_topic(1)
    send(cluster, source, [b"a", b"b" * 50_000, b"c"])
    frame = of.KafkaSource(cluster, source, value=of.Raw()).load(spark)
    small = of.KafkaSink(cluster, sink, value=of.Raw(), producer={"message.max.bytes": 40_000})
    query = of.start(
        frame, sinks=[small], name="test", checkpointing=of.Checkpointing(tmp_path / "c"), until="caught-up"
    )
    with pytest.raises(StreamingQueryException, match="RowRefusedError"):
        query.awaitTermination(120)
    error = logged_error(caplog)
    assert isinstance(error, RowRefusedError)
    assert "message.max.bytes of this sink's producer is 40000" in str(error)
    assert not error.retriable
    assert read_messages(cluster, sink) == []
