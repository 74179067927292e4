"""A prepared transaction's durable form, and what is done where it is not understood."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.connectors.contract import Run
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.prepared import (
    Handle,
    NotUnderstood,
    PreparedTransaction,
    Witness,
    read,
    read_handle,
)
from onceflow.connectors.kafka.transactional_id import name_transaction
from onceflow.errors import CheckpointConflictError
from onceflow.operations.transactions.inventory import JournalVerdict, standing_of
from onceflow.twophase.messages import Outcome
from onceflow.twophase.participants import TaskReport
from onceflow.twophase.records import Decide, Start
from tests.simulation.fake_broker import FakeBroker, FakeClient
from tests.support.histories import part, read_history

NUMBERS = st.integers(0, 2**63 - 1)
PARTITIONS = st.builds(Partition, st.text(max_size=5), NUMBERS)
PREPARED = st.builds(
    PreparedTransaction,
    st.builds(Handle, st.text(max_size=20), NUMBERS, NUMBERS),
    st.frozensets(PARTITIONS, max_size=4),
    st.builds(Witness, PARTITIONS, NUMBERS, st.text(max_size=5), st.text(max_size=5)),
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
KEYS = st.sampled_from(
    ["version", "transactional_id", "producer_id", "producer_epoch", "partitions", "witness", "topic", "offset"]
)
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=8)
)

JOB = "0123456789ab"
WHERE = Partition("t", 0)


@given(PREPARED)
def test_a_prepared_transaction_comes_back_from_its_json(wanted):
    """``read`` takes back whatever ``to_json`` writes, through text."""
    value = json.loads(json.dumps(wanted.to_json()))
    assert read(value) == wanted
    assert read_handle(value) == wanted.handle
    assert read_handle(json.loads(json.dumps(wanted.handle.to_json()))) == wanted.handle


@given(ANYTHING)
def test_reading_never_raises(value):
    """Whatever stands there becomes a value that can be shown."""
    for found in (read(value), read_handle(value)):
        assert not isinstance(found, NotUnderstood) or found.why


@given(PREPARED, st.data())
def test_one_strange_value_is_noticed(wanted, data):
    """Any value of it taken away, or replaced by one of another kind, and it is not understood; nothing is guessed."""
    value = wanted.to_json()
    within = data.draw(st.sampled_from([value, value["witness"]]))
    key = data.draw(st.sampled_from(sorted(within)))
    if data.draw(st.booleans()):
        del within[key]
    else:
        within[key] = data.draw(st.sampled_from([None, True, 1.0, -1, 1 << 63, {}, [["t"]]]))
    assert isinstance(read(value), NotUnderstood)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "no JSON object"),
        ({"transactional_id": "x", "table": "y"}, "no version"),
        (Handle("x", 1, 0).to_json() | {"version": 2}, "it has version 2, and this onceflow knows version 1"),
        (Handle("x", 1, 0).to_json(), "partitions"),
    ],
)
def test_what_is_not_understood_is_said(value, said):
    """With the name that it gives itself, so that an operator can look for it."""
    found = read(value)
    assert isinstance(found, NotUnderstood)
    assert said in found.why
    assert found.transactional_id == ("" if value is None else "x")


@pytest.fixture
def broker():
    return FakeBroker(lambda: 0.0)


@pytest.fixture
def committer(broker):
    return KafkaCommitter(FakeClient(broker), "out", "t", "onceflow", JOB, 60_000)


@pytest.fixture
def decided(broker, committer):
    """A decided transaction that is open, as a newer version would have written it down."""
    name = name_transaction("onceflow", JOB, 1, "out", 0, 1, 0)
    _, pid, epoch = broker.init(name, 60.0)
    _, offset = broker.produce(name, pid, epoch, WHERE, "row")
    prepared = PreparedTransaction(Handle(name, pid, epoch), frozenset({WHERE}), Witness(WHERE, offset))
    (sealed,) = committer.seal(
        [TaskReport("out", 0, 0, (part(0, sink="out"),), prepared.to_json())], Run(JOB, "onceflow", 1, 1)
    )
    return replace(sealed, transaction=dict(sealed.transaction) | {"version": 2})


def state(broker, one):
    return broker.transactions[one.transaction["transactional_id"]].state


def test_what_is_not_understood_is_unknown_and_never_committed(broker, committer, decided):
    """Its outcome is unknown for good, and a commit of it is refused before anything is sent."""
    (evidence,) = committer.outcomes([decided]).values()
    assert (evidence.outcome, evidence.passing) == (Outcome.UNKNOWN, False)
    assert "it has version 2" in evidence.why
    with pytest.raises(CheckpointConflictError, match="it has version 2"):
        committer.commit([decided])
    assert not committer.can_finish(decided)
    assert state(broker, decided) == "Ongoing"


def test_what_is_not_understood_is_never_aborted(broker, committer, decided):
    """Neither by its name nor by a sweep that was told to spare it; what no decision names is swept."""
    committer.abort([decided])
    assert committer.lingering(2, [decided]) == []
    assert committer.lingering(2, [replace(decided, transaction={"version": 3})]) == []
    assert state(broker, decided) == "Ongoing"
    (swept,) = committer.lingering(2, [])
    committer.abort([swept])
    assert state(broker, decided) == "CompleteAbort"


def test_an_operator_sees_what_is_not_understood(committer, decided):
    """What may be it is listed as decided, so that no command aborts it; and it is said what could not be read."""
    history = read_history([Start(1), Decide(1, 9, "v1\n", ("out",), (decided,)), Start(2)])
    look = committer.inspection()
    (seen,), (said,) = (looked := look.transactions([decided])).found, looked.unseen
    assert standing_of(seen.origin, seen.handle, history, look.show) is JournalVerdict.DECIDED
    assert said.startswith(f"sink out: its decided transaction {decided.handle} ")
    assert "it has version 2" in said
    shown = look.show(decided)
    assert (shown.id, shown.handle, shown.places, shown.witness) == (seen.id, None, (), None)
