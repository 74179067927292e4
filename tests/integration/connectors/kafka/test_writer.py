"""The transaction's writer against a broker: with librdkafka's batches and record by record, the same comes out."""

import uuid

import pyarrow as pa
import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka import writer as kafka_writer
from onceflow.connectors.kafka.batch import open_batch
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.plain_writer import PlainWriter
from onceflow.connectors.kafka.prepared import Handle, read_handle
from onceflow.errors import KafkaUnavailableError, PreCommitError, RowRefusedError
from onceflow.local.devcluster import DevCluster
from tests.support.harness import read_messages, wait_until

pytestmark = pytest.mark.kafka

ROWS = 5_000


@pytest.fixture(params=["batches", "records"])
def write(request, monkeypatch, cluster):
    """What writes key and value columns in one transaction and prepares it."""
    used = []

    def open_or_not(producer, topic):
        used.append(open_batch(producer, topic) if request.param == "batches" else None)
        return used[-1]

    monkeypatch.setattr(kafka_writer, "open_batch", open_or_not)

    def write(topic, *batches, **config):
        name = f"onceflow-{uuid.uuid4().hex[:8]}"
        given = cluster.for_librdkafka() | {"acks": "all", "partitioner": "murmur2_random"} | config
        writer = kafka_writer.TransactionWriter(name, topic, given, 60_000)
        try:
            for batch in batches:
                writer.write(batch)
            assert [one is not None for one in used] == [request.param == "batches"]
            return writer.prepare()
        except BaseException:
            writer.abort()
            raise

    return write


def batch(numbers):
    """Rows with and without keys and values, in the middle of longer arrays."""
    keys = [None if n % 7 == 0 else b"key-%d" % (n % 50) for n in numbers]
    values = [None if n % 11 == 1 else b"" if n % 11 == 2 else b"value-%d" % n for n in numbers]
    whole = pa.RecordBatch.from_pydict(
        {"value": pa.array([b"no", *values, b"no"], pa.binary()), "key": pa.array([b"no", *keys, b"no"], pa.binary())}
    )
    return whole.slice(1, len(numbers))


def test_what_is_written_is_what_is_read(write, cluster, new_topic):
    """Every row once, byte for byte, in the order of its key, and all of it proven before the commit."""
    topic = new_topic(partitions=3)
    given = [batch(range(ROWS)), batch(range(ROWS, ROWS + 1)), batch(range(ROWS + 1, 2 * ROWS))]
    prepared = write(topic, *given, **{"queue.buffering.max.messages": 1_000})
    assert read_messages(cluster, topic) == []
    with KafkaClient(cluster) as client:
        handle = read_handle(prepared)
        assert isinstance(handle, Handle)
        assert transactions.commit(client, [handle]) == {handle: 0}
    expected, found = {}, {}
    for rows in given:
        for key, value in zip(rows["key"].to_pylist(), rows["value"].to_pylist(), strict=True):
            expected.setdefault(key, []).append(value)
    # A commit is answered when it is decided; readers see it when each partition has its marker.
    wait_until(lambda: len(read_messages(cluster, topic)) == 2 * ROWS, what="the markers")
    read = read_messages(cluster, topic)
    for message in read:
        found.setdefault(message.key(), []).append(message.value())
    assert sorted(found.pop(None), key=repr) == sorted(expected.pop(None), key=repr)
    assert found == expected
    places = {(message.key(), message.partition()) for message in read if message.key() is not None}
    assert len(places) == len(expected)


def test_a_record_that_is_refused_ends_the_transaction(write, cluster, new_topic):
    """Too large for librdkafka: the rows before and behind it are not to be seen either."""
    topic = new_topic()
    values = pa.array([b"a", b"b" * 2_000_000, b"c", b"d"], pa.binary())
    with pytest.raises(RowRefusedError, match=r"larger than its producer \(1000000 bytes\)"):
        write(topic, pa.RecordBatch.from_arrays([values], ["value"]))
    assert read_messages(cluster, topic) == []


# -- rows that no start can write -------------------------------------------------------------------------------------


def write_all(writer, rows):
    writer.write(rows)
    writer.prepare()


@pytest.fixture(params=["transaction", "plain"])
def refuse(request, cluster):
    """The error by which a writer of either guarantee refuses rows."""

    def refuse(topic, columns):
        given = cluster.for_librdkafka() | {"acks": "all", "partitioner": "murmur2_random"}
        if request.param == "transaction":
            writer = kafka_writer.TransactionWriter(f"onceflow-{uuid.uuid4().hex[:8]}", topic, given, 8_000)
        else:
            soon = {"topic.metadata.propagation.max.ms": 1_000}
            writer = PlainWriter(topic, given | soon, checked=True)
        rows = {"value": pa.array([b"a", b"b"], pa.binary()), **columns}
        try:
            with pytest.raises(RowRefusedError) as caught:
                write_all(writer, pa.RecordBatch.from_pydict(rows))
        finally:
            writer.abort()
        assert not caught.value.retriable
        assert caught.value.cause
        assert caught.value.action
        return caught.value

    return refuse


@pytest.mark.parametrize("numbers", [[0, 99], [99, 0], [0, -7], [-7, 0]])
def test_a_row_for_a_partition_that_is_not_there_is_refused(refuse, new_topic, numbers):
    """Every start would meet it again, wherever it stands in its batch: nobody is told to try again."""
    error = refuse(new_topic(partitions=2), {"partition": pa.array(numbers, pa.int32())})
    assert "partition" in error.what


@pytest.mark.parametrize("topics", [[None, "no-such-topic"], ["no-such-topic", None], [None, "no topic!"]])
def test_a_row_for_a_topic_that_is_not_there_is_refused(refuse, admin, new_topic, topics):
    """By name, and as soon as nothing moves any more."""
    error = refuse(new_topic(), {"topic": pa.array(topics, pa.string())})
    assert next(filter(None, topics)) in error.what


def test_a_row_without_a_key_for_a_compacted_topic_is_refused(refuse, admin, new_topic):
    """The broker takes no such record; the message names the setting."""
    topic = new_topic()
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={"cleanup.policy": "compact"})])
    error = refuse(topic, {})
    assert "cleanup.policy" in error.cause


def test_rows_that_name_their_places_are_written_there(write, cluster, new_topic):
    """A topic and a partition of their own, or null for the sink's: all of it is proven, and nothing refused."""
    topic, other = new_topic(partitions=2), new_topic(partitions=3)
    rows = {
        "value": pa.array([b"a", b"b", b"c"], pa.binary()),
        "topic": pa.array([None, other, other], pa.string()),
        "partition": pa.array([1, 2, None], pa.int32()),
    }
    prepared = write(topic, pa.RecordBatch.from_pydict(rows))
    with KafkaClient(cluster) as client:
        handle = read_handle(prepared)
        assert transactions.commit(client, [handle]) == {handle: 0}
    assert [(m.partition(), m.value()) for m in read_messages(cluster, topic)] == [(1, b"a")]
    assert sorted(m.value() for m in read_messages(cluster, other)) == [b"b", b"c"]


# -- brokers that do not answer ---------------------------------------------------------------------------------------


def test_brokers_that_stop_answering_are_no_time_out_that_is_too_short():
    """An outage is told as one, by topic, before the transaction expires: its epoch is not cut smaller for it."""
    with DevCluster() as broker:
        cluster = KafkaCluster(broker.bootstrap_servers)
        topic = f"out-{uuid.uuid4().hex[:8]}"
        with KafkaClient(cluster) as client:
            client.admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
            client.admin.wait_for_topics([topic])
        given = cluster.for_librdkafka() | {"acks": "all"}
        writer = kafka_writer.TransactionWriter(f"onceflow-{uuid.uuid4().hex[:8]}", topic, given, 8_000)
        writer.write(pa.RecordBatch.from_pydict({"value": pa.array([b"a"] * 10, pa.binary())}))
        broker.pause()
        try:
            with pytest.raises(KafkaUnavailableError, match=f"{topic}.*") as caught:
                writer.prepare()
            writer.abort()
        finally:
            broker.resume()
    assert caught.value.retriable
    assert not isinstance(caught.value, PreCommitError)
