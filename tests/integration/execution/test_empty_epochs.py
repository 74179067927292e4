"""Epochs that write nothing, and epochs that only a watermark brings: deaths around them lose and double nothing.

One partition and two events an epoch, so that every epoch's content is known: the windows of a minute come out in the
epoch whose watermark, ten seconds behind the newest event of all epochs before, has passed them.
"""

import json
from collections import Counter

import pytest
from confluent_kafka import Producer

from tests.support.harness import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]

TIMES = [10, 30, 600, 601, 602, 603, 1_200, 1_201]
"""Seconds of the events: epoch 0 has the first two, and so on; epoch 4 has none."""
WRITING = [2, 4]
"""Epoch 2 knows of second 601 and writes the first minute; epoch 4, without events, the eleventh."""


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """All events and a job over them."""
    made = Pipeline(cluster, new_topic(1), new_topic(2), tmp_path / "checkpoint", job="window", per_epoch=2)
    send(made, TIMES)
    return made


def send(p: Pipeline, times: list[int]) -> None:
    producer = Producer(p.cluster.for_librdkafka())
    for at in times:
        producer.produce(p.source, json.dumps({"user": f"u{at % 2}", "at": at}).encode(), partition=0)
    assert producer.flush(30) == 0


def check(p: Pipeline, times: list[int]) -> None:
    """Each closed window is there once with its count, and nothing is open."""
    watermark = max(times) - 10
    counts = Counter((f"u{at % 2}", at // 60 * 60 + 60) for at in times)
    expected = {(user, end, n): 1 for (user, end), n in counts.items() if end <= watermark}
    found = Counter((v["user"], v["end"], v["n"]) for v in (json.loads(value) for _, value in p.read()))
    assert found == expected
    assert p.open_transactions() == []


def decided(p: Pipeline) -> list[int]:
    return [d["epoch"] for d in p.decisions()]


def test_an_epoch_that_writes_nothing_writes_no_decision(pipeline):
    """The plan of this file is true: five epochs, of which those decide that write; then deaths around both kinds."""
    for point in ("D7@1", "D5@2", "D5@4"):
        pipeline.die_at(point)
    pipeline.run_well()
    check(pipeline, TIMES)
    assert decided(pipeline) == WRITING
    assert pipeline.aborted() == 0


@pytest.mark.parametrize(
    "points",
    [
        ("D1@0", "D7@0", "D8@0", "D1@1", "D8@1"),
        ("D1@2", "D4@2", "D7@2", "D8@2", "D7@3"),
        ("D8@3", "D1@4", "D3@4", "D6@4", "D7@4"),
    ],
    ids=lambda points: points[0],
)
def test_deaths_around_empty_epochs(pipeline, points):
    """One death after another, in epochs with and without output: each window is there once, in the end."""
    for point in points:
        pipeline.die_at(point)
    pipeline.run_well()
    check(pipeline, TIMES)
    assert decided(pipeline) == WRITING


@pytest.mark.parametrize("point", ["D5@4", "D7@4"])
def test_records_that_come_while_an_epoch_without_events_is_undone(pipeline, point):
    """D5, D7 in the epoch that only the watermark brought: new events wait for the next one."""
    pipeline.die_at(point)
    more = [1_202, 1_800, 1_801]
    send(pipeline, more)
    pipeline.run_well()
    check(pipeline, TIMES + more)
