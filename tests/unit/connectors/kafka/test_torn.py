"""A decided transaction that is open and of which a partition has lost its part: what can still become known of it."""

import pytest

from onceflow.connectors.contract import Run
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.prepared import Handle, PreparedTransaction, Witness
from onceflow.connectors.kafka.transactional_id import name_transaction
from onceflow.twophase.messages import Outcome
from onceflow.twophase.participants import TaskReport
from tests.simulation.fake_broker import FakeBroker, FakeClient
from tests.support.histories import part

JOB = "abcdefghijkl"
FIRST, LAST = Partition("t", 0), Partition("t", 1)


class Torn:
    """A transaction over two partitions, whose last row is in the second one, and its committer."""

    def __init__(self):
        self.now = 0.0
        self.broker = FakeBroker(lambda: self.now)
        self.committer = KafkaCommitter(FakeClient(self.broker), "out", "t", "onceflow", JOB, 60_000)
        name = name_transaction("onceflow", JOB, 1, "out", 0, 1, 0)
        _, pid, epoch = self.broker.init(name, 60.0)
        self.broker.produce(name, pid, epoch, FIRST, "row 1")
        for n in range(4):
            _, offset = self.broker.produce(name, pid, epoch, LAST, f"row {n}")
        prepared = PreparedTransaction(Handle(name, pid, epoch), frozenset({FIRST, LAST}), Witness(LAST, offset))
        report = TaskReport("out", 0, 0, (part(0, sink="out"),), prepared.to_json())
        (self.decided,) = self.committer.seal([report], Run(JOB, "onceflow", 1, 1))

    def evidence(self):
        (found,) = self.committer.outcomes([self.decided]).values()
        return found

    def expire(self):
        self.now += 61.0
        assert self.broker.expire() == 1


@pytest.fixture
def torn():
    made = Torn()
    assert made.evidence().outcome is Outcome.OPEN
    return made


def test_what_is_lost_beside_the_witness_may_still_be_told(torn):
    """The witness stands, so the end that comes by itself will be told: expired, it is proven aborted.

    That is why such an outcome is said to be passing: a start that comes later writes the rows again, with no choice.
    """
    torn.broker.lose_log(FIRST)
    evidence = torn.evidence()
    assert (evidence.outcome, evidence.passing) == (Outcome.UNKNOWN, True)
    assert "nothing of it is open in t-0" in evidence.why
    torn.expire()
    assert torn.evidence().outcome is Outcome.ABORTED


def test_what_is_lost_with_the_witness_is_never_told(torn):
    """The log is empty where the proof stood: at once it is said for good, and its end proves nothing either."""
    torn.broker.lose_log(LAST)
    evidence = torn.evidence()
    assert (evidence.outcome, evidence.passing) == (Outcome.UNKNOWN, False)
    assert "nothing of it is open in t-1" in evidence.why
    torn.expire()
    evidence = torn.evidence()
    assert (evidence.outcome, evidence.passing) == (Outcome.UNKNOWN, False)
