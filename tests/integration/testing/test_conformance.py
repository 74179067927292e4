"""KafkaSink keeps the contract of sinks, on a real broker."""

from dataclasses import replace

import pyarrow as pa
import pytest
from examples.own_store import StoreSink
from pyspark.sql.types import StructType

import onceflow as of
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.transactions import list_ids
from onceflow.testing import OpenTransactions, World, conformance
from onceflow.testing.transactions import OPEN_STATES
from onceflow.testing.trial import PREFIX
from tests.support.harness import read_topic, wait_until
from tests.support.ledger_sink import LedgerSink, opened, visible

pytestmark = pytest.mark.kafka

EXPIRES = "what_expired_is_not_committed"
NAME = "only-for-the-broker"
"""It stands for a secret: a setting of the producer that must be told to nobody else."""


class KafkaWorld(World):
    """A topic of a real broker."""

    secrets = (NAME,)

    def __init__(self, cluster: of.KafkaCluster, topic: str, timeout_s: float, guarantee: str) -> None:
        self._cluster, self._topic, self._timeout_s, self._guarantee = cluster, topic, timeout_s, guarantee

    def second_sink(self):
        return self.sink("second")

    def sink(self, name="tried"):
        return of.KafkaSink(
            self._cluster,
            self._topic,
            name=name,
            guarantee=self._guarantee,
            transaction_timeout=self._timeout_s,
            create_topic=of.NewTopic(partitions=2),
            # The broker is to refuse what is too large, not the client.
            producer={"client.id": NAME, "message.max.bytes": 4_000_000},
        )

    def output(self):
        return StructType()  # the topic is made where this is looked at

    def rows(self, keys):
        return pa.RecordBatch.from_pydict({"value": pa.array([key.encode() for key in keys], pa.binary())})

    def refused(self, keys):
        values = [*(key.encode() for key in keys), b"x" * 2_000_000, b"behind it"]
        return pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})

    def visible(self):
        return [value.decode() for _, value in read_topic(self._cluster, self._topic)]

    def open_transactions(self, job_id):
        with OpenTransactions(self._cluster, f"{PREFIX}-{job_id}-") as found:
            return found.count()

    def expire(self, participants):
        with KafkaClient(self._cluster) as client:
            names = [p.transaction["transactional_id"] for p in participants]
            wait_until(lambda: not any(client_lists(client, name) for name in names), what="their expiry")

    def never_was(self, participant):
        told = dict(participant.transaction)
        told["transactional_id"] += "-never"
        told["producer_id"] += 1_000_000
        return replace(participant, handle=f"{participant.handle}-never", transaction=told)


def client_lists(client: KafkaClient, name: str) -> list[str]:
    """What is open under a name, or about to end."""
    return list_ids(client, name, OPEN_STATES)


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_kafka_sink_keeps_the_contract(check, short_lived):
    """An exactly-once KafkaSink holds every check."""
    timeout_s = 1.5 if check.name == EXPIRES else 60
    check(KafkaWorld(short_lived, f"tried-{check.name}"[:100], timeout_s, "exactly-once"))


@pytest.mark.parametrize("guarantee", ["at-least-once", "none"])
def test_a_plain_kafka_sink_keeps_its_part(guarantee, short_lived):
    """Of a KafkaSink that takes no part in the decision, what it is asked holds, and the rest is skipped by name."""
    report = conformance.run(KafkaWorld(short_lived, f"tried-{guarantee}", 60, guarantee))
    assert report.broken == ()
    assert all(f"this is {guarantee}" in skipped.why for skipped in report.skipped)


@pytest.mark.spark
def test_a_sink_of_ones_own_shares_the_decision(spark, cluster, new_topic, produce, tmp_path):
    """A ledger, a store without transactions and Kafka in one epoch: each has every row once; nothing stays open."""
    source, topic = new_topic(2), new_topic(2)
    sent = [[f"{partition}-{n}" for n in range(100)] for partition in (0, 1)]
    for partition, values in enumerate(sent):
        produce(source, values, partition=partition)
    ledger, store = LedgerSink(str(tmp_path / "ledger.sqlite")), StoreSink(str(tmp_path / "pairs.db"), "key")
    query = of.start(
        of.KafkaSource(cluster, source, value=of.Text())
        .load(spark)
        .selectExpr("value as key", "length(value) as size"),
        sinks=[ledger, store, of.KafkaSink(cluster, topic, value=of.Text(), value_columns=["key"])],
        name="two systems",
        checkpointing=of.Checkpointing(tmp_path / "checkpoint"),
        until="caught-up",
    )
    assert query.awaitTermination(120)
    expected = sorted(sent[0] + sent[1])
    assert sorted(visible(ledger.path)) == expected
    with opened(store.path) as file:
        pairs = dict(file.execute("select key, value from pairs").fetchall())
    assert pairs == {key: f'{{"size":{len(key)}}}' for key in expected}
    assert sorted(value.decode() for _, value in read_topic(cluster, topic)) == expected
    with opened(ledger.path) as file:
        assert file.execute("select count(*) from ledger where state='open'").fetchone() == (0,)
