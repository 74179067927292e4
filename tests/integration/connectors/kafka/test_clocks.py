"""The clock of a job's machine beside the brokers': a start says how far they are from each other."""

import time
from types import SimpleNamespace

import pytest

import onceflow as of
from onceflow.connectors.kafka import canary

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize(
    ("by_s", "told"),
    [(-3_600, "s ahead of this machine's"), (86_400, "s behind this machine's"), (0, "")],
    ids=["an hour back", "a day ahead", "right"],
)
def test_a_start_says_that_its_clock_is_not_the_brokers(cluster, new_topic, monkeypatch, caplog, by_s, told):
    """Its canary tells it, from the time of the transaction that the broker has begun; nothing else changes."""
    clock = SimpleNamespace(time=lambda: time.time() + by_s)
    monkeypatch.setattr(canary, "time", clock)
    connection = of.KafkaSink(cluster, new_topic(1)).connect()
    committer = connection.committer("clocks", "c" * 12)
    committer.preflight()
    committer.close()
    assert ("the brokers' clock is" in caplog.text) == bool(told)
    assert told in caplog.text
