"""RED: what an attack found, second part: rows that no start can write. Scratch: each test FAILS today."""

# ruff: noqa: E501, E741, PLW0108, N818, PT012 - scratch

import uuid

import pyarrow as pa
import pytest

from onceflow.local.devcluster import FAST_EXPIRY, DevCluster
from onceflow.errors import OnceflowError
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka import writer as kafka_writer

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(scope="module")
def client():
    with (
        DevCluster(settings=dict(FAST_EXPIRY)) as broker,
        KafkaClient(KafkaCluster(broker.bootstrap_servers)) as open_client,
    ):
        yield open_client


def made(client, partitions=2, **config):
    name = f"red-{uuid.uuid4().hex[:8]}"
    client.admin.create_topics({name: {"num_partitions": partitions, "replication_factor": 1, "configs": config}})
    client.admin.wait_for_topics([name])
    return name


@pytest.mark.parametrize("what", ["partition", "topic", "key", "negative"])
def test_red_a_row_that_no_start_can_write_is_not_retriable(client, what):
    """A partition that is not there, a topic that is not there, no key for a compacted topic: the same at every start."""
    topic = made(client, **({"cleanup.policy": "compact"} if what == "key" else {}))
    columns = {"value": pa.array([b"a", b"b"], pa.binary())}
    if what in ("partition", "negative"):
        columns["partition"] = pa.array([0, 99 if what == "partition" else -7], pa.int32())
    if what == "topic":
        columns["topic"] = pa.array([None, "no-such-topic"], pa.string())
    config = client.cluster.for_librdkafka() | {"acks": "all", "partitioner": "murmur2_random"}
    writer = kafka_writer.TransactionWriter(f"red-{uuid.uuid4().hex}", topic, config, 20_000)
    with pytest.raises(OnceflowError) as caught:
        try:
            writer.write(pa.RecordBatch.from_pydict(columns))
            print(what, "prepared", writer.prepare())
        finally:
            writer.abort()
    print(what, type(caught.value).__name__, caught.value.retriable, str(caught.value)[:400])
    assert not caught.value.retriable
