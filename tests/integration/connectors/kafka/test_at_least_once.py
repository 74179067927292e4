"""At-least-once sinks under deaths: every record is there, some twice; an exactly-once sink beside them stays exact."""

from collections import Counter

import pytest
from kafka.admin import ConfigResource, ConfigResourceType

from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import FAST_EXPIRY, DevCluster
from tests.support.harness import Pipeline, read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH = 1


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """Three epochs' worth of input and a job with an at-least-once sink."""
    made = Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job="weak")
    made.send(6_000)
    return made


def doubled(p: Pipeline) -> int:
    """How many records the at-least-once sink has more than it should; demands that it lacks none."""
    found, expected = Counter(p.read()), Counter(p.sent)
    assert not expected - found, f"lost: {list((expected - found).items())[:5]}"
    assert set(found) == set(expected)
    return (found - expected).total()


def check_exact(p: Pipeline) -> None:
    """The exactly-once sink beside it has every record once, and left nothing open."""
    assert Counter(read_topic(p.cluster, p.environment["EXACT"])) == Counter(p.sent)
    assert p.open_transactions() == []


@pytest.mark.faults
@pytest.mark.parametrize("point", ["D2", "D3", "D4", "D7", "D8"])
def test_nothing_is_lost_without_a_decision(pipeline, point):
    """D2 to D8 with no exactly-once sink: there is no decision, so an epoch that Spark did not record runs again."""
    pipeline.die_at(f"{point}@{EPOCH}")
    assert pipeline.decisions() == []
    pipeline.run_well()
    twice = doubled(pipeline)
    if point in {"D4", "D7"}:
        assert 0 < twice <= pipeline.per_epoch, "the whole epoch was written before the death"
    if point == "D8":
        assert twice == 0


@pytest.mark.parametrize(
    "point", ["D5", *(pytest.param(p, marks=pytest.mark.faults) for p in ("D2", "D4", "D6", "D7"))]
)
@pytest.mark.faults
def test_beside_an_exactly_once_sink(pipeline, new_topic, point):
    """D2 to D7: the exactly-once sink is exact; the other lacks nothing, and is written again only when undecided."""
    pipeline.environment = {"EXACT": new_topic(4)}
    pipeline.die_at(f"{point}@{EPOCH}")
    pipeline.run_well()
    check_exact(pipeline)
    twice = doubled(pipeline)
    if point == "D4":
        assert twice > 0
    if point in {"D5", "D6", "D7"}:
        assert twice == 0, "a decided epoch was written again"


@pytest.mark.faults
@pytest.mark.parametrize("point", ["D5", "D6"])
def test_a_replay_writes_an_at_least_once_sink_again(tmp_path, point):
    """D5, D6 and expiry: the exactly-once sink is exact after a replay, whole or by parts; the other lacks nothing."""
    with DevCluster(settings=FAST_EXPIRY) as running, KafkaClient(KafkaCluster(running.bootstrap_servers)) as client:
        for topic in ("in", "weak", "exact"):
            client.admin.create_topics({topic: {"num_partitions": 4, "replication_factor": 1}})
        wait_until(lambda: len(client.topics(["in", "weak", "exact"])) == 3, what="topics")
        p = Pipeline(client.cluster, "in", "weak", tmp_path / "checkpoint", job="weak")
        p.environment = {"EXACT": "exact", "TIMEOUT": "30 s"}
        p.send(6_000)
        p.die_at(f"{point}@{EPOCH}")
        assert p.open_transactions()
        wait_until(lambda: not p.open_transactions(), 90, "expiry")
        p.run_well()
        replays = [r["record"]["scope"] for r in p.records() if r["kind"] == "replay"]
        assert replays == [{"D5": "whole", "D6": "parts"}[point]]
        check_exact(p)
        assert 0 < doubled(p) <= p.per_epoch


@pytest.mark.faults
def test_a_refused_record_fails_the_epoch(pipeline, admin):
    """The broker refuses one record: the epoch does not count as done, and the next start writes all of it."""
    resource = ConfigResource(ConfigResourceType.TOPIC, pipeline.sink, configs={"max.message.bytes": "2000"})
    admin.alter_configs([resource])
    pipeline.send(100, value=lambda i: b"x" * (5_000 if i == 6_050 else 100) + str(i).encode())
    ended = pipeline.run()
    assert ended.code == 1
    assert f"a record for topic {pipeline.sink} is larger than" in ended.log
    resource = ConfigResource(ConfigResourceType.TOPIC, pipeline.sink, configs={"max.message.bytes": "1000000"})
    admin.alter_configs([resource])
    pipeline.run_well()
    assert doubled(pipeline) > 0, "what the broker took of the failed epoch is there twice"
