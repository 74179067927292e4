"""An abort on brokers without EndTxn v5, where a living writer is as quick as can be."""

from types import SimpleNamespace
from typing import Any

import pytest
from kafka.protocol.producer import InitProducerIdRequest

from onceflow.connectors.kafka import transactions
from onceflow.connectors.kafka.codes import Code
from onceflow.connectors.kafka.prepared import Handle
from tests.simulation.fake_broker import FakeBroker, FakeClient, Observer

PLACE = ("topic", 0)


class Seen(Observer):
    """Whether a record was written behind a marker of its own producer epoch."""

    twice = False

    def wrote(self, name: str, pid: int, epoch: int, rows: Any, *, after_marker: bool) -> None:
        self.twice |= after_marker


@pytest.fixture
def seen():
    return Seen()


@pytest.fixture
def broker(seen):
    return FakeBroker(lambda: 0.0, seen, v5=False)


def opened(broker: FakeBroker) -> Handle:
    _, pid, epoch = broker.init("name", 7.0)
    assert broker.produce("name", pid, epoch, PLACE, "row") == (0, 0)
    return Handle("name", pid, epoch)


def restless(broker: FakeBroker, handle: Handle) -> Any:
    """A network on which the writer writes once more before and after each request."""

    def carry(_what: str, effect: Any) -> Any:
        broker.produce(handle.transactional_id, handle.producer_id, handle.producer_epoch, PLACE, "more")
        answer = effect()
        broker.produce(handle.transactional_id, handle.producer_id, handle.producer_epoch, PLACE, "more")
        return answer

    return carry


def test_a_writer_that_writes_between_any_two_requests_gets_no_second_transaction(broker, seen):
    """The abort and the new epoch are one step: nothing is written under the handle behind its marker."""
    handle = opened(broker)
    assert transactions.abort(FakeClient(broker, restless(broker, handle)), [handle]) == {handle: 0}
    assert broker.transactions["name"].state == "CompleteAbort"
    assert broker.transactions["name"].epoch == handle.producer_epoch + 1
    assert not seen.twice
    assert broker.read_committed(PLACE) == []


def test_an_abort_by_v3_and_a_new_epoch_after_it_would_leave_a_gap(broker, seen):
    """What the other way would give: the writer opens a second transaction between the two."""
    handle = opened(broker)
    client = FakeClient(broker, restless(broker, handle))
    transactions._end(client, [handle], commit=False, version={"max_version": 3})
    assert seen.twice


def test_an_abort_is_repeated_until_the_name_has_moved_on(broker):
    """CONCURRENT_TRANSACTIONS may mean that nothing was done: the writer's own request was under way."""
    handle = opened(broker)
    refused = []

    class Busy(FakeClient):
        def _send(self, request: Any) -> Any:
            if isinstance(request, InitProducerIdRequest) and len(refused) < 3:
                refused.append(request)
                return SimpleNamespace(error_code=Code.CONCURRENT_TRANSACTIONS, producer_id=-1, producer_epoch=-1)
            return super()._send(request)

    assert transactions.abort(Busy(broker), [handle]) == {handle: 0}
    assert len(refused) == 3
    assert {r.transaction_timeout_ms for r in refused} == {7_000}, "the time-out is the transaction's own"
    assert broker.transactions["name"].state == "CompleteAbort"


def test_an_abort_does_not_touch_a_younger_transaction_of_the_name(broker):
    """The name has another handle now: nothing is sent, and it stays open."""
    handle = opened(broker)
    _, pid, epoch = broker.init("name")
    broker.produce("name", pid, epoch, PLACE, "younger")
    assert transactions.abort(FakeClient(broker), [handle]) == {handle: Code.PRODUCER_FENCED}
    assert (broker.transactions["name"].state, broker.transactions["name"].epoch) == ("Ongoing", epoch)


def test_an_abort_after_a_commit_leaves_its_rows(broker):
    """Only the epoch moves: what was committed stays visible."""
    handle = opened(broker)
    client = FakeClient(broker)
    assert transactions.commit(client, [handle]) == {handle: 0}
    assert transactions.abort(client, [handle]) == {handle: 0}
    assert broker.read_committed(PLACE) == ["row"]
