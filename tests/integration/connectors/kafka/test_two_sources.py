"""Two source topics in one epoch: deaths and expiry leave their union, and their join, exact."""

import json
import uuid
from collections import Counter

import pytest
from confluent_kafka import Producer
from kafka.admin import NewTopic

from tests.support.harness import Pipeline, read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]

EPOCH = 1
LEFT, RIGHT = range(6_000), range(2_000, 7_000)


@pytest.fixture
def pipeline(client, tmp_path):
    """Two filled topics and a job over both."""

    def make(shape: str) -> Pipeline:
        names = [f"{what}-{uuid.uuid4().hex[:8]}" for what in ("left", "right", "out")]
        client.admin.create_topics([NewTopic(name, n, 1) for name, n in zip(names, (3, 2, 4), strict=True)])
        client.admin.wait_for_topics(names)
        made = Pipeline(client.cluster, names[0], names[2], tmp_path / "checkpoint", job="two_sources")
        made.environment = {"IN2": names[1], "SHAPE": shape}
        send(made, names[0], LEFT)
        send(made, names[1], RIGHT)
        return made

    return make


def send(p: Pipeline, topic: str, ids: range) -> None:
    producer = Producer(p.cluster.for_librdkafka())
    for i in ids:
        producer.produce(topic, json.dumps({"id": i}).encode(), f"k{i}".encode())
    assert producer.flush(30) == 0


def check(p: Pipeline) -> None:
    """The output is what two plain reads of the sources say, and nothing is open."""
    found = Counter((v["id"], v.get("side")) for v in (json.loads(value) for _, value in p.read()))
    ids = [Counter(json.loads(v)["id"] for _, v in read_topic(p.cluster, t)) for t in (p.source, p.environment["IN2"])]
    if p.environment["SHAPE"] == "union":
        expected = Counter((i, "left") for i in ids[0].elements()) + Counter((i, "right") for i in ids[1].elements())
    else:
        expected = Counter((i, None) for i in (ids[0] & ids[1]).elements())
    assert not expected - found, f"lost: {list((expected - found).items())[:5]}"
    assert not found - expected, f"doubled or strange: {list((found - expected).items())[:5]}"
    assert p.open_transactions() == []


@pytest.mark.parametrize("shape", ["union", "join"])
@pytest.mark.parametrize("point", ["D4", "D5", "D7"])
def test_deaths(pipeline, shape, point):
    """D4, D5, D7: one epoch holds a range of both topics, which is undone or finished as one."""
    p = pipeline(shape)
    p.die_at(f"{point}@{EPOCH}")
    more = range(7_000, 8_000)
    for topic in (p.source, p.environment["IN2"]):
        send(p, topic, more)
    p.run_well()
    check(p)
    if point != "D4":
        assert p.aborted() == 0, "a decided epoch was written again"


@pytest.mark.parametrize("shape", ["union", "join"])
@pytest.mark.parametrize(("point", "scope"), [("D5", "whole"), ("D6", "parts")])
def test_expiry(pipeline, shape, point, scope):
    """D5, D6 and expiry: the epoch's rows from both topics are written again, or those that were lost."""
    p = pipeline(shape)
    p.environment |= {"TIMEOUT": "30 s"}
    p.die_at(f"{point}@{EPOCH}")
    assert p.open_transactions(), "there is nothing that could expire"
    wait_until(lambda: not p.open_transactions(), 90, "expiry")
    p.run_well()
    assert [r["record"]["scope"] for r in p.records() if r["kind"] == "replay"] == [scope]
    check(p)
