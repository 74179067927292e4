"""The demo's writer of payments, on a real broker: what it tells its judge is what can be read."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from onceflow.demo.board import Board
from onceflow.demo.payments import Payments
from onceflow.demo.producer import PaymentProducer
from onceflow.demo.reader import read_all

pytestmark = pytest.mark.kafka


class Refused:
    """A producer whose first abort is answered as of a transaction that the broker never heard of."""

    def __init__(self, real):
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)

    def abort_transaction(self, _):
        raise KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE, "Failed to end transaction", fatal=True))


def test_an_abort_that_is_refused_does_not_end_it(broker, new_topic):
    """It goes on with another producer: what it counts as committed is there once, and nothing that it has aborted."""
    topic = new_topic(2)
    payments = Payments(2_000, 5)
    made = PaymentProducer(broker.bootstrap_servers, topic, payments, Board())
    refused = Refused(made._producer)
    made._producer = refused
    made.pace = 100.0
    made.start()
    assert made.done.wait(120)
    assert made.failure is None
    assert made._producer is not refused, "nothing was aborted"
    wanted = sum(len(t.payments) + len(t.malformed) for t in payments if t.committed)
    assert len(read_all(broker.bootstrap_servers, topic, "read_committed")) == wanted
