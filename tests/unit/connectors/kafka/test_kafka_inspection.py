"""What operators' tools see of a Kafka cluster, over the fake broker: what the job has there, and its sources."""

import pytest

from onceflow.connectors.inspection import InputRange, LostInput, Phase, PlaceInSystem
from onceflow.connectors.kafka import offsets
from onceflow.connectors.kafka.client import TopicMetadata as KafkaTopic
from onceflow.connectors.kafka.inspection import KafkaInspection
from onceflow.connectors.kafka.offsets import Bounds
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.prepared import Handle, PreparedTransaction, Witness
from onceflow.connectors.kafka.transactional_id import name_transaction
from onceflow.errors import KafkaRightsError
from onceflow.twophase.layout import LayoutSource, Topic
from onceflow.twophase.participants import Participant
from tests.simulation.fake_broker import FakeBroker, FakeClient

JOB = "0123456789ab"
WHERE = Partition("t", 0)


@pytest.fixture
def broker():
    return FakeBroker(lambda: 0.0)


@pytest.fixture
def look(broker):
    return KafkaInspection(FakeClient(broker), "onceflow", JOB)


def named(incarnation, shard=0, epoch=4):
    return name_transaction("onceflow", JOB, incarnation, "out", shard, epoch, 0)


def opened(broker, name):
    _, pid, epoch = broker.init(name, 60.0)
    broker.produce(name, pid, epoch, WHERE, "row")
    return Handle(name, pid, epoch)


def decided(handle):
    prepared = PreparedTransaction(handle, frozenset({WHERE}), Witness(WHERE, 0, "cluster", "t-1"))
    return Participant("out", str(handle), (), prepared.to_json())


def test_the_jobs_own_transactions_are_listed(broker, look):
    """Those that are open under the job's prefix, with what their ids tell; nobody else's, and none that has ended."""
    one, two = opened(broker, named(1, 1)), opened(broker, named(2, 0, epoch=5))
    opened(broker, "somebody-else")
    ended = opened(broker, named(1, 3))
    broker.end(ended.transactional_id, ended.producer_id, ended.producer_epoch, commit=True)
    first, second = look.transactions([]).found
    assert [first.handle, second.handle] == [str(one), str(two)]
    assert (first.origin.sink, first.origin.incarnation, first.origin.shard) == ("out", 1, 1)
    assert (first.origin.epoch, second.origin.epoch) == ("an even-numbered epoch", "an odd-numbered epoch")
    assert (first.phase, first.state, first.places, first.timeout_s) == (
        Phase.OPEN,
        "Ongoing",
        (PlaceInSystem("t", 0),),
        60.0,
    )
    assert first.details == {
        "handle": {"transactional_id": first.id, "producer_id": one.producer_id, "producer_epoch": one.producer_epoch}
    }


def test_a_decided_one_is_listed_in_whatever_state(broker, look):
    """Ended, or under an id that has another transaction by now, which is a second one; or known to nobody."""
    ended, replaced = opened(broker, named(1, 0)), opened(broker, named(1, 1))
    for handle in (ended, replaced):
        broker.end(handle.transactional_id, handle.producer_id, handle.producer_epoch, commit=True)
    newer = opened(broker, replaced.transactional_id)
    gone = Handle(named(1, 2), 77, 0)
    found = look.transactions([decided(h) for h in (ended, replaced, gone)]).found
    assert [(s.handle, s.state, s.phase) for s in found] == [
        (str(ended), "CompleteCommit", Phase.OVER),
        (str(newer), "Ongoing", Phase.OPEN),
        (str(replaced), "unknown", Phase.OVER),
        (str(gone), "unknown", Phase.OVER),
    ]


def test_an_abort_ends_exactly_what_was_seen(broker, look):
    """And tells the broker's answer; of an id that has another transaction by now, nothing is ended."""
    opened(broker, named(1, 0))
    (seen,) = look.transactions([]).found
    assert look.still_open([seen]) == {seen.handle}
    assert look.abort([seen]) == {seen.handle: "NONE (0)"}
    assert look.still_open([seen]) == frozenset()
    younger = opened(broker, seen.id)
    assert look.abort([seen])[seen.handle] != "NONE (0)"
    assert look.still_open([seen]) == frozenset(), "what is open there is another one"
    assert [s.handle for s in look.transactions([]).found] == [str(younger)]


def test_a_handle_tells_its_id(look):
    """Also one whose id holds the sign between the two."""
    assert look.id_of(str(Handle("a@b-1", 5, 0))) == "a@b-1"
    assert look.id_of("of another sink") == ""


# -- sources ----------------------------------------------------------------------------------------------------------


def test_positions_are_read_as_far_as_they_are_kafkas(look):
    """Topics and ranges; a partition without a beginning is new, and begins at 0."""
    sources = look.sources()
    assert sources.names('{"a":{"0":3},"b":{"1":0}}') == {"a", "b"}
    assert sources.names("17") == sources.names("") == frozenset()
    start, end = '{"a":{"0":3,"1":4}}', '{"a":{"0":5,"1":4,"2":7}}'
    assert sources.ranges(start, end) == (
        InputRange(PlaceInSystem("a", 0), 3, 5),
        InputRange(PlaceInSystem("a", 2), 0, 7),
    )
    assert sources.ranges("17", "18") == ()


class Holding(FakeClient):
    """A cluster with topic t, of one partition that holds offsets 5 to 9."""

    admin = None

    def topics(self, names):
        return {name: KafkaTopic(name, "B", {0: 0}) for name in names if name == "t"}


@pytest.mark.parametrize(
    ("position", "topic_id", "lost"),
    [
        ('{"t":{"0":5}}', "B", ()),
        ('{"t":{"0":3}}', "B", (LostInput(PlaceInSystem("t", 0), 3, 8, remade=False),)),
        ('{"t":{"0":6}}', "A", (LostInput(PlaceInSystem("t", 0), 6, 8, remade=True),)),
        ('{"u":{"0":6}}', "B", (LostInput(PlaceInSystem("u", 0), 6, 8, remade=False),)),
        ("", "B", ()),
    ],
    ids=["held", "its beginning is gone", "made again", "deleted", "no position"],
)
def test_what_is_lost_is_told_without_the_source(broker, monkeypatch, position, topic_id, lost):
    """From positions and the layout of before: an operator's tool does not have the job's sources."""
    held = {Partition("t", 0): Bounds(5, 10)}
    monkeypatch.setattr(offsets, "bounds", lambda _, wanted, **__: {p: held[p] for p in wanted if p in held})
    sources = KafkaInspection(Holding(broker), "onceflow", JOB).sources()
    known = LayoutSource(("out",), "cluster", "t", "", (Topic("t", topic_id, 1), Topic("u", topic_id, 1)))
    assert sources.lost(position, '{"t":{"0":8},"u":{"0":8}}', known) == lost


def test_topics_that_may_not_be_described_are_not_present(broker):
    """The tool says so; it does not end there."""

    class Refused(FakeClient):
        def topics(self, names):
            raise KafkaRightsError("no right", action="ask for it")

    assert look_at(FakeClient(broker)) == {"t"}
    assert look_at(Refused(broker)) == frozenset()


def look_at(client):
    return KafkaInspection(client, "onceflow", JOB).sources().present({"t"})
