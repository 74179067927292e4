"""What a canary's flight says where the broker is slow to answer."""

from onceflow.connectors.kafka import canary, transactions
from tests.simulation.fake_broker import FakeBroker, FakeClient


def test_a_coordinator_that_does_not_answer_is_no_missing_right(monkeypatch):
    """As one that has just begun, or is busy: a job was told that it lacks DESCRIBE, and nobody started it again."""
    client, describe, asked = FakeClient(FakeBroker(lambda: 0.0)), transactions.describe, []

    def silent_at_first(client, names):
        asked.append(names)
        return {} if len(asked) == 1 else describe(client, names)

    monkeypatch.setattr(transactions, "describe", silent_at_first)
    canary.fly(client, "onceflow-canary", "t", 60_000, "onceflow-")
    assert len(asked) == 2
