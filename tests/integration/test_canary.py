"""The canary on a real broker: starts of one job at the same moment, and a sweep beside them."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.errors import KafkaUnavailableError
from tests.integration.harness import wait_until

pytestmark = pytest.mark.kafka

JOB = "0123456789ab"


def committer(client: KafkaClient, topic: str) -> KafkaCommitter:
    return KafkaCommitter(client, "out", topic, "onceflow", JOB, 60_000)


def test_starts_at_the_same_moment_and_a_sweep_do_not_end_each_others_canary(cluster, new_topic):
    """No flight sees a missing right, whatever other starts and a running job's sweep do beside it."""
    topic, ended, aborted = new_topic(1), threading.Event(), []

    def fly(_: int) -> None:
        with KafkaClient(cluster) as client:
            for _ in range(15):
                committer(client, topic).preflight()

    def sweep() -> None:
        with KafkaClient(cluster) as client:
            while not ended.is_set():
                with contextlib.suppress(KafkaUnavailableError):  # the broker is loading its first transactions
                    found = committer(client, topic).lingering(1, [])
                    aborted.extend(found)
                    committer(client, topic).abort(found)

    sweeper = threading.Thread(target=sweep)
    sweeper.start()
    try:
        with ThreadPoolExecutor(4) as starts:
            list(starts.map(fly, range(4)))
    finally:
        ended.set()
        sweeper.join()
    assert aborted, "the sweep met no canary, so nothing was tried"


def test_a_canary_that_was_left_open_is_swept(cluster, new_topic, monkeypatch):
    """A start that dies in its flight leaves a transaction that any later start knows as its own and aborts."""
    topic = new_topic(1)
    with KafkaClient(cluster) as client, monkeypatch.context() as dying:
        dying.setattr(transactions, "abort", lambda *_: {})
        committer(client, topic).preflight()
    with KafkaClient(cluster) as client:
        found = committer(client, topic).lingering(1, [])
        assert [(c.sink, c.shard) for c in found] == [("out", 0)]
        committer(client, topic).abort(found)
        wait_until(lambda: not committer(client, topic).lingering(1, []), 30, "the end of the canary")
