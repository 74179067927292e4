"""The oracle against a log that works against it: what compaction took is unknown, never "aborted"."""

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import AbortTransactionSpec

from onceflow.connectors.contract import Run
from onceflow.connectors.kafka import oracle, transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.connectors.kafka.prepared import Handle, PreparedTransaction, read, read_handle
from onceflow.connectors.kafka.writer import TransactionWriter
from onceflow.errors import WriterFencedError
from onceflow.local.devcluster import FAST_EXPIRY, DevCluster
from onceflow.twophase.messages import Outcome
from onceflow.twophase.participants import Part, TaskReport
from tests.support.advice import parts_of
from tests.support.harness import kafka_asked_for, read_topic, wait_until

pytestmark = pytest.mark.kafka

TOPIC = "compacted"
CLEANER = {"log.cleaner.backoff.ms": "100"}
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "100"}


@pytest.fixture(scope="module")
def cleaning():
    """A broker whose log cleaner is always at work, with one compacted topic."""
    with DevCluster(settings=FAST_EXPIRY | CLEANER, **kafka_asked_for()) as running:
        cluster = KafkaCluster(running.bootstrap_servers)
        with KafkaClient(cluster) as client:
            client.admin.create_topics({TOPIC: {"num_partitions": 1, "replication_factor": 1, "configs": CONFIG}})
            wait_until(lambda: client.topics([TOPIC]), what="the topic")
        yield cluster


def one_row(key: bytes, value: bytes) -> pa.RecordBatch:
    """What a writer gets of one row."""
    return pa.RecordBatch.from_pydict(
        {
            "topic": [TOPIC],
            "partition": pa.array([0], pa.int32()),
            "key": pa.array([key]),
            "value": pa.array([value]),
            "headers": pa.array([None], pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            "timestamp": pa.array([None], pa.int64()),
        }
    )


def test_a_commit_whose_witness_was_compacted_away_is_unknown(cleaning):
    """Absence behind the last stable offset proves nothing: the transaction was committed, and its record is gone."""
    writer = TransactionWriter(
        "onceflow-abcdefgh-1-s-0-0-0", TOPIC, cleaning.for_librdkafka() | {"acks": "all"}, 60_000
    )
    writer.write(one_row(b"key", b"first"))
    report = TaskReport("s", 0, 0, (Part("s", 0, 1, 0),), writer.prepare())
    with KafkaClient(cleaning) as client:
        committer = KafkaCommitter(client, "s", TOPIC, "onceflow", "abcdefgh", 60_000)
        (sealed,) = committer.seal([report], Run("abcdefgh", "onceflow", 1, 0))
        transaction = read(sealed.transaction)
        assert isinstance(transaction, PreparedTransaction)
        handle, witness = transaction.handle, transaction.witness
        assert transactions.commit(client, [handle]) == {handle: 0}
        wait_until(lambda: oracle.ask(client, handle, witness).outcome is Outcome.COMMITTED, what="the marker")

        producer = Producer(cleaning.for_librdkafka())

        def asked_while_compacting() -> oracle.Evidence:
            producer.produce(TOPIC, b"newer", b"key")
            assert producer.flush(10) == 0
            evidence = oracle.ask(client, handle, witness)
            assert evidence.outcome is not Outcome.ABORTED
            return evidence

        # Kafka keeps a producer's last batch, without its records, for as long as it remembers the producer; until
        # then the verdict can still be read.
        wait_until(lambda: asked_while_compacting().outcome is Outcome.UNKNOWN, 90, "compaction of the witness")
        assert b"first" not in [value for _, value in read_topic(cleaning, TOPIC, committed=False)]
        assert "is gone or is not ours" in oracle.ask(client, handle, witness).why


def test_an_aborted_writer_cannot_go_on(cleaning):
    """Our abort moves the producer epoch: a writer that lives on cannot open a second transaction under its handle.

    After a v3 abort it could: its later rows would pass every check, and 300 of 400 rows would become visible. Its
    error says to start the job again, and the next start's writer writes.
    """
    writer = TransactionWriter(
        "onceflow-abcdefgh-1-s-1-0-0", TOPIC, cleaning.for_librdkafka() | {"acks": "all"}, 60_000
    )
    with KafkaClient(cleaning) as client:
        for value in (b"one", b"two"):  # the last row is held back, so "one" is on its way
            writer.write(one_row(b"abort", value))
        name = "onceflow-abcdefgh-1-s-1-0-0"

        def state() -> str:
            found = transactions.describe(client, [name]).get(name)
            return "" if found is None else found.state

        wait_until(lambda: state() == "Ongoing", what="the open transaction")
        transactions.abort(client, [transactions.describe(client, [name])[name].handle])
        # Until the marker is in the log its partition still takes records; they lie before it, and are aborted.
        wait_until(lambda: state() == "CompleteAbort", what="the marker")
        with pytest.raises(WriterFencedError, match="was ended while it was written") as caught:
            writer.prepare()
        writer.abort()
        assert state() == "CompleteAbort"
        error = parts_of(caught.value, WriterFencedError, name, "transaction_timeout is 60 s")
        assert error.action.endswith("start the job again")
        again = TransactionWriter(name.replace("-1-", "-2-", 1), TOPIC, cleaning.for_librdkafka(), 60_000)
        again.write(one_row(b"abort", b"three"))
        handle = read_handle(again.prepare())
        assert transactions.commit(client, [handle]) == {handle: 0}, "the next start writes it"
    seen = [value for _, value in read_topic(cleaning, TOPIC)]
    assert (b"two" in seen, b"three" in seen) == (False, True)


def test_an_abort_by_partition_takes_its_rows_and_the_commit_is_answered_with_success(cleaning):
    """Kafka's own tool (WriteTxnMarkers) leaves the coordinator Ongoing: why operators use `onceflow txn`."""
    writer = TransactionWriter(
        "onceflow-abcdefgh-1-s-2-0-0", TOPIC, cleaning.for_librdkafka() | {"acks": "all"}, 60_000
    )
    writer.write(one_row(b"partition", b"taken"))
    handle = read_handle(writer.prepare())
    assert isinstance(handle, Handle)
    with KafkaClient(cleaning) as client:
        spec = AbortTransactionSpec(TopicPartition(TOPIC, 0), handle.producer_id, handle.producer_epoch)
        client.admin.abort_transaction(spec)
        described = transactions.describe(client, [handle.transactional_id])[handle.transactional_id]
        assert (described.state, described.handle) == ("Ongoing", handle)
        assert transactions.commit(client, [handle]) == {handle: 0}
    assert b"taken" not in [value for _, value in read_topic(cleaning, TOPIC)]
