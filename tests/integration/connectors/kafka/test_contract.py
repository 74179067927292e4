"""What a broker answers: the same story told to the real broker and to the simulation's fake, with the same ending.

The simulation's proofs rest on the fake, and the fake was written by those who wrote the protocol. Each story begins
transactions, ends them in one of the ways that the protocol knows, and writes down every answer: Kafka's error codes,
what DescribeTransactions shows (the producer epoch as the distance from the one that wrote), what a read_committed
consumer sees, and what the oracle says. Where the two differ, the real broker is right.

The oldest Kafka that is tested is told the same stories: before 4.0 there is no ``EndTxn`` v5, and an abort is
``InitProducerId``.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from kafka.admin import NewTopic
from kafka.protocol.producer import EndTxnRequest

from onceflow.connectors.kafka import canary, oracle, transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.codes import Code
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.prepared import Handle, PreparedTransaction, Witness, read
from onceflow.connectors.kafka.writer import COLUMNS, TransactionWriter
from onceflow.local.devcluster import FAST_EXPIRY, DevCluster
from tests.simulation.fake_broker import FakeBroker, FakeClient
from tests.support.harness import OLDEST_KAFKA, kafka_asked_for

pytestmark = pytest.mark.kafka

LONG_MS, SHORT_MS = 60_000, 1_500
ROWS = ("a", "b")


@dataclass
class Written:
    """A prepared transaction: rows "a" and "b" in the partitions 0 and 1 of a topic."""

    handle: Handle
    witness: Witness


class Real:
    """The real broker, through the code of the product."""

    def __init__(self, cluster: KafkaCluster, client: KafkaClient) -> None:
        self._cluster = cluster
        self.client = client

    def topic(self) -> str:
        name = f"contract-{uuid.uuid4().hex[:8]}"
        self.client.admin.create_topics([NewTopic(name, len(ROWS), 1)])
        self.client.admin.wait_for_topics([name])
        return name

    def write(self, name: str, topic: str, timeout_ms: int) -> Written:
        writer = TransactionWriter(name, topic, self._cluster.for_librdkafka(), timeout_ms)
        columns = {
            "topic": pa.array([topic] * 2),
            "partition": pa.array([0, 1], pa.int32()),
            "key": pa.array([None] * 2, pa.binary()),
            "value": pa.array([row.encode() for row in ROWS], pa.binary()),
            "headers": pa.array([None] * 2, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            "timestamp": pa.array([None] * 2, pa.int64()),
        }
        writer.write(pa.RecordBatch.from_pydict({c: columns[c] for c in COLUMNS}))
        prepared = read(writer.prepare())
        assert isinstance(prepared, PreparedTransaction)
        assert prepared.handle.transactional_id == name
        assert prepared.partitions == {Partition(topic, 0), Partition(topic, 1)}
        sealed = prepared.sealed(self.client.cluster_id, self.client.topics([topic])[topic].topic_id)
        return Written(sealed.handle, sealed.witness)

    def visible(self, topic: str) -> list[str]:
        settings = self._cluster.for_librdkafka() | {
            "group.id": "contract",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
        consumer = Consumer(settings)
        try:
            consumer.assign([TopicPartition(topic, n, 0) for n in range(len(ROWS))])
            rows, ends, deadline = [], set(), time.monotonic() + 30
            while len(ends) < len(ROWS):
                assert time.monotonic() < deadline, f"no end of {topic} within 30 s"
                message = consumer.poll(1.0)
                if message is None:
                    continue
                if message.error() is None:
                    rows.append(message.value().decode())
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    ends.add(message.partition())
            return sorted(rows)
        finally:
            consumer.close()

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 40
        while not holds():
            assert time.monotonic() < deadline, "it did not happen within 40 s"
            time.sleep(0.1)

    def let_expire(self, name: str) -> None:
        """The broker's own clock does it."""

    let_forget = let_expire


class Fake:
    """The simulation's broker, through the same code of the product."""

    def __init__(self, *, v5: bool) -> None:
        self._now = 0.0
        self._broker = FakeBroker(lambda: self._now, v5=v5)
        self.client: Any = FakeClient(self._broker)

    def topic(self) -> str:
        return "topic"

    def write(self, name: str, topic: str, timeout_ms: int) -> Written:
        code, pid, epoch = self._broker.init(name, timeout_ms / 1000)
        assert code == 0
        offset = -1
        for partition, row in enumerate(ROWS):
            code, offset = self._broker.produce(name, pid, epoch, (topic, partition), row)
            assert code == 0
        topic_id = self.client.topics([topic])[topic].topic_id
        return Written(Handle(name, pid, epoch), Witness(Partition(topic, 1), offset, self.client.cluster_id, topic_id))

    def visible(self, topic: str) -> list[str]:
        return sorted(row for n in range(len(ROWS)) for row in self._broker.read_committed((topic, n)))

    def until(self, holds: Callable[[], bool]) -> None:
        assert holds()

    def let_expire(self, name: str) -> None:
        self._now += 5
        assert self._broker.expire() > 0

    def let_forget(self, name: str) -> None:
        self._broker.forget(name)


@dataclass
class Story:
    """Performs steps on one side, and writes down what is answered."""

    side: Real | Fake
    name: str = field(default_factory=lambda: f"contract-{uuid.uuid4().hex[:8]}")
    said: list[tuple[Any, ...]] = field(default_factory=list)

    def write(self, timeout_ms: int = LONG_MS, name: str = "") -> Written:
        if not hasattr(self, "topic"):
            self.topic = self.side.topic()
        written = self.side.write(name or self.name, self.topic, timeout_ms)
        if not name:
            self.written = written
        return written

    @property
    def handle(self) -> Handle:
        return self.written.handle

    def commit(self, handle: Handle | None = None) -> None:
        self._end("commit v3", handle, lambda h: transactions.commit(self.side.client, [h]))

    def abort(self, handle: Handle | None = None) -> None:
        self._end("abort", handle, lambda h: transactions.abort(self.side.client, [h]))

    def abort_v3(self, handle: Handle | None = None) -> None:
        version = {"max_version": 3}
        self._end("abort v3", handle, lambda h: transactions._end(self.side.client, [h], commit=False, version=version))

    def _end(self, what: str, handle: Handle | None, send: Callable[[Handle], dict[Handle, int]]) -> None:
        handle = handle or self.handle
        code = Code.CONCURRENT_TRANSACTIONS
        deadline = time.monotonic() + 20
        while code in (
            Code.CONCURRENT_TRANSACTIONS,
            Code.NO_ANSWER,
        ):  # the markers of the step before are being written
            (code,) = send(handle).values()
            assert time.monotonic() < deadline
        self.said.append((what, code))

    def init(self) -> None:
        found = []
        self.side.until(lambda: bool(found.append(canary._begin(self.side.client, self.name, LONG_MS)) or found[-1]))
        self.said.append(("init", found[-1].producer_id == self.handle.producer_id))

    def add(self) -> None:
        """A writer that goes on, or a late duplicate of its first request."""
        self.said.append(("add", canary._add(self.side.client, self.handle, self.topic)))

    def look(self) -> None:
        """Everything that can be seen of the transaction, once no marker is missing."""
        found: list[Any] = []

        def settled() -> bool:
            found.append(transactions.describe(self.side.client, [self.name]).get(self.name, "no answer"))
            return found[-1] is None or (found[-1] != "no answer" and not found[-1].state.startswith("Prepare"))

        self.side.until(settled)
        seen = found[-1]
        if seen is None:
            self.said.append(("describe", None))
        else:
            same = seen.handle.producer_id == self.handle.producer_id
            behind = seen.handle.producer_epoch - self.handle.producer_epoch
            self.said.append(("describe", seen.state, same, behind, len(seen.partitions)))
        self.said.append(("visible", self.side.visible(self.topic)))
        self.ask(self.written)

    def ask(self, written: Written) -> None:
        evidence = oracle.ask(self.side.client, written.handle, written.witness)
        self.said.append(("oracle", evidence.outcome.name, evidence.passing))

    def expire(self) -> None:
        self.side.let_expire(self.name)
        self.side.until(lambda: self._state() == "CompleteAbort")

    def forget(self) -> None:
        self.side.let_forget(self.name)
        self.side.until(lambda: self._state() is None)

    def _state(self) -> str | None:
        seen = transactions.describe(self.side.client, [self.name]).get(self.name)
        return None if seen is None else seen.state

    def listed(self) -> None:
        self.said.append(("listed", self.name in transactions.list_ids(self.side.client, self.name)))


def prepared(s: Story) -> None:
    """Prepared: Ongoing at its own handle, nothing visible, no verdict yet."""
    s.write()
    s.look()
    s.listed()


def commit_again(s: Story) -> None:
    """A commit is idempotent."""
    s.write()
    s.commit()
    s.look()
    s.commit()
    s.look()
    s.listed()


def commit_after_abort_v3(s: Story) -> None:
    """A v3 abort leaves the epoch; a commit after it is an invalid state."""
    s.write()
    s.abort_v3()
    s.look()
    s.commit()
    s.look()


def go_on_after_abort_v3(s: Story) -> None:
    """A v3 abort alone lets the writer open a second transaction under the same handle."""
    s.write()
    s.abort_v3()
    s.look()
    s.add()
    s.listed()
    s.commit()
    s.look()


def commit_after_abort(s: Story) -> None:
    """Our abort moves the epoch: the commit is fenced, and the writer cannot go on."""
    s.write()
    s.abort()
    s.look()
    s.commit()
    s.add()
    s.abort()
    s.look()


def abort_after_commit(s: Story) -> None:
    """An abort after a commit answers NONE (v5: and shows CompleteAbort), and every row stays: only the log knows."""
    s.write()
    s.commit()
    s.look()
    s.abort()
    s.look()
    s.commit()
    s.abort()
    s.look()


def abort_v3_after_commit(s: Story) -> None:
    """A v3 abort after a commit is refused."""
    s.write()
    s.commit()
    s.look()
    s.abort_v3()
    s.look()


def commit_after_expiry(s: Story) -> None:
    """The coordinator aborts at the time-out and moves the epoch."""
    s.write(SHORT_MS)
    s.expire()
    s.look()
    s.commit()
    s.abort()
    s.look()


def init_over_an_open_one(s: Story) -> None:
    """InitProducerId aborts what is open under the name; its commit is fenced then."""
    s.write()
    s.init()
    s.commit()
    s.abort()
    s.look()


def init_after_a_commit(s: Story) -> None:
    """A commit repeated after another InitProducerId is fenced, though it was committed."""
    s.write()
    s.commit()
    s.look()
    s.init()
    s.commit()
    s.look()


def the_next_transaction(s: Story) -> None:
    """The same name again: another epoch; what ends the first cannot touch the second."""
    first = s.write()
    s.commit()
    s.look()
    s.write()
    s.commit(first.handle)
    s.abort(first.handle)
    s.look()
    s.commit()
    s.look()
    s.ask(first)


def unknown(s: Story) -> None:
    """A name that the coordinator does not know."""
    s.write()
    never = Handle(f"{s.name}-never", s.handle.producer_id, 0)
    s.commit(never)
    s.abort(never)
    s.abort_v3(never)


def another_handle(s: Story) -> None:
    """Another producer id, an older and a newer epoch: none of them touches the transaction."""
    s.write()
    s.commit()
    s.look()
    s.write()
    name, pid, epoch = s.handle.transactional_id, s.handle.producer_id, s.handle.producer_epoch
    for other in (Handle(name, pid + 1, epoch), Handle(name, pid, epoch - 1), Handle(name, pid, epoch + 1)):
        s.commit(other)
        s.abort(other)
        s.abort_v3(other)
    s.look()


def late_duplicate(s: Story) -> None:
    """A late AddPartitionsToTxn after the commit opens the handle again; at its time-out it reads as aborted."""
    s.write(SHORT_MS)
    s.commit()
    s.look()
    s.add()
    s.listed()
    s.expire()
    s.commit()
    s.look()


def commit_what_was_reopened(s: Story) -> None:
    """A commit repeated after such a duplicate commits an empty transaction."""
    s.write()
    s.commit()
    s.look()
    s.add()
    s.commit()
    s.look()


def end_an_empty_one(s: Story) -> None:
    """After InitProducerId alone there is nothing to commit; our abort moves the epoch all the same."""
    s.write()
    s.commit()
    s.look()
    s.init()
    empty = Handle(s.name, s.handle.producer_id, s.handle.producer_epoch + 1)
    s.commit(empty)
    s.abort_v3(empty)
    s.abort(empty)
    s.look()


def behind_an_open_one(s: Story) -> None:
    """Somebody else's open transaction hides a committed one from read_committed, but not from the oracle."""
    other = s.write(name=f"{s.name}-other")
    s.write()
    s.commit()
    s.look()
    s.commit(other.handle)
    s.look()


def forgotten(s: Story) -> None:
    """The coordinator forgets an idle name: its commit is a mapping error, and the log still knows."""
    s.write()
    s.commit()
    s.look()
    s.forget()
    s.commit()
    s.abort()
    s.look()


STORIES = (
    prepared,
    commit_again,
    commit_after_abort_v3,
    go_on_after_abort_v3,
    commit_after_abort,
    abort_after_commit,
    abort_v3_after_commit,
    commit_after_expiry,
    init_over_an_open_one,
    init_after_a_commit,
    the_next_transaction,
    unknown,
    another_handle,
    late_duplicate,
    commit_what_was_reopened,
    end_an_empty_one,
    behind_an_open_one,
    forgotten,
)


ON = (
    [kafka_asked_for()]
    if kafka_asked_for()
    else [{}, pytest.param({"version": OLDEST_KAFKA}, marks=pytest.mark.faults)]
)


@pytest.fixture(scope="module", params=ON, ids=lambda asked: asked.get("version", "newest"))
def real(request: pytest.FixtureRequest) -> Iterator[Real]:
    """A broker of its own: transactions expire, and names are forgotten, within seconds."""
    with DevCluster(settings=FAST_EXPIRY, **request.param) as running:
        cluster = KafkaCluster(running.bootstrap_servers)
        with KafkaClient(cluster) as client:
            yield Real(cluster, client)


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.__name__)
def test_the_fake_answers_as_the_real_broker_does(real, story):
    """The same steps get the same answers, step by step, from Kafka and from the simulation's broker."""
    of_real, of_fake = Story(real), Story(Fake(v5=real.client.supports(EndTxnRequest, 5)))
    story(of_real)
    story(of_fake)
    assert of_fake.said == of_real.said


def committed(said: list[tuple[Any, ...]]) -> list[str]:
    return next(s[1] for s in reversed(said) if s[0] == "visible")


def test_the_reply_table(real):
    """The table of the protocol, from the real broker: each answer to a commit is what it says."""
    codes = {}
    for story in (commit_again, commit_after_abort_v3, commit_after_expiry, init_after_a_commit, unknown, forgotten):
        told = Story(real)
        story(told)
        codes[story.__name__] = [s[1] for s in told.said if s[0] == "commit v3"][-1]
        if story is init_after_a_commit:
            assert committed(told.said) == ["a", "b"], "fenced, and committed all the same"
    assert codes == {
        "commit_again": 0,
        "commit_after_abort_v3": 48,
        "commit_after_expiry": 90,
        "init_after_a_commit": 90,
        "unknown": 49,
        "forgotten": 49,
    }
    assert {c: transactions.reply_of(c).name for c in (0, 48, 49, 90, 51, 53, Code.NO_ANSWER, 35)} == {
        0: "COMMITTED",
        48: "SUSPECT",
        49: "SUSPECT",
        90: "SUSPECT",
        51: "RETRY",
        53: "REFUSED",
        Code.NO_ANSWER: "RETRY",
        35: "RETRY",
    }
