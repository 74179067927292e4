"""Times that are too far ahead of their epoch: the same records are malformed however often the epoch is run."""

import json
import signal
import time
from collections import Counter

import pytest

from tests.support.harness import Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

AHEAD_MS = 25_000
BOUND_MS = 1_000
"""The job's max_ahead."""


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    return Pipeline(cluster, new_topic(), new_topic(), tmp_path / "checkpoint", job="times")


def now_ms():
    return int(time.time() * 1000)


def at(ms, other=None):
    """Records of this time; the first of key k0 that is sent later than the first fifty, of the other."""
    return lambda i: json.dumps({"at": other if other is not None and i == 50 else ms}).encode()


def counts(p):
    """The newest count of each key; each count of a key is there once."""
    seen = [(key, json.loads(value)["n"]) for key, value in p.read()]
    assert max(Counter(seen).values()) == 1
    return {key: max(n for of, n in seen if of == key) for key in {key for key, _ in seen}}


@pytest.mark.parametrize("point", [pytest.param("D4", marks=pytest.mark.faults), "D5"])
@pytest.mark.faults
def test_an_epoch_that_is_run_again_later_finds_the_same_records_malformed(pipeline, processes, point):
    """A record's time has come when the epoch is run again, undecided or for its state; by its epoch's time it has not.

    Spark keeps that time in offsets/N, so ``current_timestamp()`` in the plan is the first run's.
    """
    p = pipeline
    p.send(50, value=at(now_ms()))
    process = p.start(UNTIL="stopped", ONCEFLOW_CRASH=f"{point}@1")
    processes.append(process)
    wait_until(lambda: "epoch 0: 50 in" in process.log.read_text(), 120, "the first epoch")
    ahead = now_ms() + AHEAD_MS
    p.send(10, value=at(now_ms() - 60_000, ahead))
    assert p.end(process).code == -signal.SIGKILL
    planned = json.loads((p.checkpoint / "offsets" / "1").read_text().splitlines()[1])["batchTimestampMs"]
    assert ahead > planned + BOUND_MS, "the machine took so long that the time had come"

    wait_until(lambda: now_ms() > ahead, what="the record's time")
    p.send(40, value=at(now_ms() - 60_000))
    ended = p.run_well()
    assert counts(p) == dict(Counter(key for key, _ in p.sent)) | {b"k0": 1}
    if point == "D4":
        assert "epoch 1: 1 malformed records skipped" in ended.log
        assert f"topic {p.source}, partition 0, offset" in ended.log
        assert "its value: field at is no plausible time: see max_ahead" in ended.log


def test_a_far_future_time_stops_a_job_that_does_not_skip(pipeline):
    """Year 57971, as milliseconds read in a unit too fine would be: told with its field, and nothing is written."""
    p = pipeline
    p.send(3, value=at(now_ms()))
    p.send(1, value=at(now_ms() * 1000))
    ended = p.run(ON_MALFORMED="fail")
    assert ended.code == 1
    assert f"the record at topic {p.source}, partition 0, offset" in ended.log
    assert "cannot be read: its value: field at is no" in ended.log
    assert p.read() == []
