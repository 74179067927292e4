"""Decided transactions that expire while the job is down: written again from the checkpoint's offsets, or a clear stop.

The broker's clocks are set to seconds; the transactions really expire.
"""

from collections import Counter

import pytest
from kafka import TopicPartition

from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import FAST_EXPIRY, DevCluster
from tests.support.harness import Pipeline, kafka_asked_for, rows_of, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH = 1
TIMEOUT = "30 s"


@pytest.fixture(scope="module")
def short_lived():
    """Its transactions may not live for longer than they are given here, whoever asks."""
    with DevCluster(settings={**FAST_EXPIRY, "transaction.max.timeout.ms": "30000"}, **kafka_asked_for()) as running:
        yield KafkaCluster(running.bootstrap_servers)


@pytest.fixture
def pipeline(short_lived, tmp_path, request):
    """Three epochs' worth of input, a job over it, and topics of its own."""

    def make(job: str) -> Pipeline:
        name = f"{request.node.name.split('[')[0][-40:]}-{job}"
        made = Pipeline(short_lived, f"{name}-in", f"{name}-out", tmp_path / "checkpoint", job=job)
        with KafkaClient(short_lived) as client:
            client.admin.create_topics(
                {topic: {"num_partitions": 4, "replication_factor": 1} for topic in (made.source, made.sink)}
            )
            wait_until(lambda: len(client.topics([made.source, made.sink])) == 2, what="topics")
        made.environment = {"TIMEOUT": TIMEOUT}
        made.send(6_000)
        return made

    return make


def die_and_expire(p: Pipeline, point: str) -> None:
    p.die_at(f"{point}@{EPOCH}")
    assert p.open_transactions(), "there is nothing that could expire"
    wait_until(lambda: not p.open_transactions(), 90, "expiry")


def kinds(p: Pipeline) -> list[str]:
    return [r["kind"] for r in p.records()]


def ids(p: Pipeline) -> Counter:
    """What the random job wrote, without the random part."""
    return Counter(value.partition(b"|")[0] for _, value in p.read())


@pytest.mark.parametrize("job", ["copy", pytest.param("count", marks=pytest.mark.faults)])
def test_all_lost_is_written_again_freely(pipeline, job):
    """E2: nothing of the decided epoch is visible: it is run again, and the new transactions replace the whole set.

    The job names no time-out: it takes the longest that this broker allows, also in the start that writes again.
    """
    p = pipeline(job)
    del p.environment["TIMEOUT"]
    die_and_expire(p, "D5")
    p.run_well()
    replays = [r["record"] for r in p.records() if r["kind"] == "replay"]
    assert [(r["epoch"], r["scope"]) for r in replays] == [(EPOCH, "whole")]
    assert p.aborted() > 0
    check_replayed(p)


@pytest.mark.faults
@pytest.mark.parametrize("job", ["copy", "count"])
def test_part_lost_is_written_again_by_parts(pipeline, job):
    """E2: one transaction was committed before the death: only the others are written again, after a comparison."""
    p = pipeline(job)
    die_and_expire(p, "D6")
    visible = len(p.read())
    p.run_well()
    replays = [r["record"] for r in p.records() if r["kind"] == "replay"]
    assert [(r["epoch"], r["scope"]) for r in replays] == [(EPOCH, "parts")]
    assert visible > 0
    check_replayed(p)


@pytest.mark.faults
def test_a_death_during_a_replay_is_recovered_from(pipeline):
    """The start that follows a half-done replay goes on with it, and aborts what its predecessor had written."""
    p = pipeline("copy")
    die_and_expire(p, "D5")
    p.die_at(f"D4@{EPOCH}")
    assert kinds(p)[-1] == "replay-begin"
    p.run_well()
    check_replayed(p)


@pytest.mark.faults
def test_all_lost_of_a_plan_that_is_not_deterministic_is_written_once(pipeline):
    """E5: nothing is visible, so other rows do not matter: every input is there once."""
    p = pipeline("random")
    die_and_expire(p, "D5")
    p.run_well()
    assert ids(p) == Counter(value for _, value in p.sent)
    assert p.open_transactions() == []


@pytest.mark.faults
def test_part_lost_of_a_plan_that_is_not_deterministic_stops(pipeline):
    """E6: some of the epoch is visible and cannot be made again: stop, say which transactions, write nothing."""
    p = pipeline("random")
    die_and_expire(p, "D6")
    before = Counter(p.read())
    ended = p.run()
    assert ended.code == 1
    assert "gave other rows when it was run again" in ended.log
    assert f"epoch {EPOCH}" in ended.log
    assert Counter(p.read()) == before
    assert p.open_transactions() == []


@pytest.mark.faults
def test_a_loss_that_cannot_be_proven_stops(pipeline, short_lived):
    """E4: the witness's records are gone by retention, then the whole topic is made again: unknown, never "aborted"."""
    p = pipeline("copy")
    die_and_expire(p, "D5")
    with KafkaClient(short_lived) as client:
        client.admin.delete_records({TopicPartition(p.sink, n): -1 for n in range(4)})
        ended = p.run()
        assert ended.code == 1
        assert "nothing proves whether these were committed" in ended.log
        assert "is gone" in ended.log
        client.admin.delete_topics([p.sink])
        wait_until(lambda: not client.topics([p.sink]), what="deletion")
        client.admin.create_topics({p.sink: {"num_partitions": 4, "replication_factor": 1}})
    wait_until(
        lambda: "by Kafka together with the sink's topic, under which it is kept" in p.run().log,
        what="the mark gone with its topic",
    )
    ended = p.run(TAKEOVER="claim")
    assert ended.code == 1
    assert "was made again" in ended.log
    assert kinds(p).count("replay-begin") == 0


def check_replayed(p: Pipeline) -> None:
    """As ``check``, with the replays' participants in the place of those that they replace."""
    effective: dict[int, dict[tuple[str, str], int]] = {}
    for record in p.records():
        body = record["record"]
        if record["kind"] not in ("decide", "replay"):
            continue
        kept = {tuple(who) for who in body.get("kept", [])}
        stays = {who: rows for who, rows in effective.get(body["epoch"], {}).items() if who in kept}
        effective[body["epoch"]] = stays | {
            (p["sink"], p["handle"]): rows_of({"participants": [p]}) for p in body["participants"]
        }
    p.check_output()
    decided = sum(rows for epoch in effective.values() for rows in epoch.values())
    assert decided == len(p.read()), "the decisions do not add up to the output"
    assert p.open_transactions() == []
