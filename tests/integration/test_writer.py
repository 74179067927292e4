"""The transaction's writer against a broker: with librdkafka's batches and record by record, the same comes out."""

import uuid

import pyarrow as pa
import pytest

from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka import writer as kafka_writer
from onceflow.connectors.kafka.batch import open_batch
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.prepared import Handle, read_handle
from onceflow.errors import RowRefusedError
from tests.integration.harness import read_messages

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
