"""The client's look at settings: what a broker does not answer is asked again, and never taken for "may not see"."""

from types import SimpleNamespace

import pytest
from kafka import errors as kafka_errors

from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.errors import KafkaUnavailableError
from tests.support.advice import parts_of

ANSWER = {"topic": {"orders": {"cleanup.policy": {"value": "delete"}}}}


class Silent:
    """kafka-python's admin client before a broker that answers from the given time on."""

    def __init__(self, failures):
        self.failures = failures

    def describe_configs(self, resources, config_filter):
        assert resources
        assert config_filter == "all"
        if self.failures:
            self.failures -= 1
            raise kafka_errors.KafkaTimeoutError("no answer")
        return ANSWER


@pytest.fixture
def client():
    """Made without a broker: its clock goes by the pauses that it makes."""
    made = KafkaClient.__new__(KafkaClient)
    made.cluster, made.timeout_s, made.paused = KafkaCluster("localhost:9092"), 30.0, 0

    def pause():
        made.paused += 1

    made.wait_a_little, made.now = pause, lambda: made.paused * 1.0
    return made


def test_settings_are_asked_for_again(client):
    """A broker that was silent for a moment has told nothing: no check is skipped for it."""
    client._admin = Silent(5)
    assert client.topic_configs(["orders"]) == {"orders": {"cleanup.policy": "delete"}}
    assert client.paused == 5


def listing(*answers):
    """Metadata of one answer after the other; the last stays."""
    left = [SimpleNamespace(brokers=[SimpleNamespace(node_id=n) for n in ids]) for ids in answers]
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def test_a_cluster_without_brokers_is_no_answer(client):
    """A broker whose heartbeats were late lists none: nothing is asked of nobody, whose list would be empty."""
    client._metadata = listing([], [], [0])
    assert client.brokers() == [0]
    assert client.paused == 2
    client._metadata = listing([])
    with pytest.raises(KafkaUnavailableError) as raised:
        client.brokers()
    assert raised.value.retriable


def test_a_broker_that_tells_no_settings_ends_the_start(client):
    """By name, and as what passes: a supervisor starts the job again."""
    client._admin = Silent(1_000)
    with pytest.raises(KafkaUnavailableError) as raised:
        client.topic_configs(["orders"])
    error = parts_of(raised.value, KafkaUnavailableError)
    assert "localhost:9092" in error.what
    assert "for 30 s" in error.what
    assert raised.value.retriable
