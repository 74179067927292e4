"""RED: what an attack found, on a real broker with real Spark. Scratch: each test FAILS today."""

# ruff: noqa: E741 - scratch

import time
import uuid
from collections import Counter

import pytest
from confluent_kafka import Producer
from kafka.admin import NewTopic

from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import FAST_EXPIRY, DevCluster
from tests.integration.harness import Pipeline, read_messages, wait_until
from tests.integration.test_source_faults import FAST_CLEANER, configure

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture(scope="module")
def client():
    with (
        DevCluster(settings=dict(FAST_EXPIRY) | FAST_CLEANER) as broker,
        KafkaClient(KafkaCluster(broker.bootstrap_servers)) as open_client,
    ):
        yield open_client


@pytest.fixture
def pipeline(client, tmp_path):
    def make(job: str = "copy", **more) -> Pipeline:
        names = [f"red-{uuid.uuid4().hex[:8]}" for _ in range(2)]
        client.admin.create_topics([NewTopic(n, 4, 1) for n in names])
        client.admin.wait_for_topics(names)
        return Pipeline(client.cluster, *names, tmp_path / "checkpoint", job=job, **more)

    return make


def test_red_a_lost_part_that_was_compacted_stops(pipeline, client):
    """One part visible, three expired; compaction takes records of the three: decided rows are lost, exit code 0."""
    p = pipeline(environment={"TIMEOUT": "20 s"})
    producer = Producer(p.cluster.for_librdkafka())
    for i in range(2_000):
        producer.produce(p.source, f"old {i}", f"u{i}", partition=i % 4)
    assert producer.flush(30) == 0
    p.die_at("D6")
    wait_until(lambda: not p.open_transactions(), 90, "expiry")
    decided = p.decisions()[0]["committables"]
    visible = len(p.read())
    assert 0 < visible < 2_000
    origin = next(c["origin"] for c in decided if c["shard"] == 0)
    kept = int(origin.split("[")[0].rpartition("-")[2])
    configure(client, p.source, {"cleanup.policy": "compact", "segment.ms": "100", "max.compaction.lag.ms": "200",
                                 "min.cleanable.dirty.ratio": "0.0001"})  # fmt: skip

    def old_left():
        return [
            m.value()
            for m in read_messages(p.cluster, p.source)
            if m.value().startswith(b"old") and m.partition() != kept
        ]

    deadline = time.monotonic() + 60
    while len(old_left()) == 1_500:
        assert time.monotonic() < deadline
        for i in range(2_000):
            if i % 4 != kept and i % 8 < 4:
                producer.produce(p.source, f"new {i}", f"u{i}", partition=i % 4)
        for partition in range(4):
            producer.produce(p.source, "roll", f"roll-{partition}", partition=partition)
        assert producer.flush(30) == 0
        time.sleep(0.3)
    configure(client, p.source, {"cleanup.policy": "delete"})
    left = len(old_left())
    ended = p.run()
    old = Counter(v for _, v in p.read() if v.startswith(b"old"))
    print("ended with", ended.code, "old rows visible", len(old), "of 2000 decided; left in source", left)
    print("\n".join(l for l in ended.log.splitlines() if "epoch 0" in l))
    assert ended.code != 0 or len(old) == 2_000, f"{2_000 - len(old)} decided rows are lost, exit code 0"


def test_red_a_commit_without_its_offsets(pipeline):
    """Epochs without output; offsets/N is gone and commits/N is there: refused for good, says the page."""
    p = pipeline()
    for _ in range(3):
        p._transaction([(b"k0", b"aborted")] * 10, commit=False)
        p.run_well()
    print(
        sorted(x.name for x in (p.checkpoint / "offsets").iterdir()),
        sorted(x.name for x in (p.checkpoint / "commits").iterdir()),
    )
    newest = max(int(x.name) for x in (p.checkpoint / "commits").iterdir() if x.name.isdigit())
    for name in (f"{newest}", f".{newest}.crc"):
        (p.checkpoint / "offsets" / name).unlink(missing_ok=True)
    said = []
    for _ in range(2):
        p.send(100)
        ended = p.run()
        said.append((ended.code, [l for l in ended.log.splitlines() if "Error" in l][-3:]))
        print(ended.log[-2500:])
    print(said, Counter(p.read()) == Counter(p.sent))
    assert all(code == 1 and "EpochFailedError" not in str(lines) for code, lines in said), said
