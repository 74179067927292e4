"""A Kafka in memory: transactions by handle, logs with markers, and a client that stands where ours stands.

Must not know: the two-phase commit, drivers, the simulation's clock and faults (they are handed in). It must not share
our beliefs either: ``tests/integration/connectors/kafka/test_contract.py`` holds it against a real broker, path by
path.

Simplified on purpose: one broker, every batch holds one record (an offset is an index), and markers are written at once
unless ``slow`` says otherwise.
"""

from __future__ import annotations

import functools
import itertools
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kafka.protocol.admin import DescribeProducersRequest, DescribeTransactionsRequest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from onceflow.connectors.kafka.client import TopicMetadata

NONE, OUT_OF_RANGE = 0, 1
INVALID_EPOCH, INVALID_STATE, INVALID_MAPPING, CONCURRENT, FENCED, NOT_FOUND = 47, 48, 49, 51, 90, 105
UNKNOWN_TOPIC_ID = 100
EMPTY, ONGOING = "Empty", "Ongoing"
PREPARE = {True: "PrepareCommit", False: "PrepareAbort"}
COMPLETE = {True: "CompleteCommit", False: "CompleteAbort"}
_NEVER = 32766
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


@dataclass(slots=True)
class Transaction:
    """What the coordinator keeps of a transactional id."""

    name: str
    pid: int
    epoch: int = 0
    state: str = EMPTY
    partitions: set[tuple[str, int]] = field(default_factory=set)
    began: float = -1.0
    touched: float = 0.0
    timeout: float = 60.0


@dataclass(slots=True)
class Batch:
    """One record, or one marker. ``rows`` is whatever the producer said that the record is."""

    base_offset: int
    producer_id: int
    producer_epoch: int
    verdict: bool | None = None
    rows: Any = None
    gone: bool = False

    @property
    def next_offset(self) -> int:
        return self.base_offset + 1

    @property
    def is_control_batch(self) -> bool:
        return self.verdict is not None

    def to_bytes(self) -> bytes:
        """As a broker hands it out: a batch of version 2 with one record, whose key is a marker's verdict or null."""
        key = b"\x01" if self.verdict is None else b"\x08" + struct.pack(">hh", 0, int(self.verdict))
        record = b"\0\0\0" + key + b"\x01\0"  # attributes, both deltas, the key, no value, no headers
        record = bytes([2 * len(record)]) + record
        attributes = _TRANSACTIONAL | (_CONTROL if self.is_control_batch else 0)
        behind = struct.pack(
            ">hiqqqhii", attributes, 0, 0, 0, self.producer_id, self.producer_epoch, 0, 1
        )  # the last delta, two times, a sequence number, one record
        after_length = struct.pack(">ibI", 0, 2, 0) + behind + record  # nobody compares the checksum
        return struct.pack(">qi", self.base_offset, len(after_length)) + after_length


class Observer:
    """Who wants to know what the broker does. The default does not."""

    def wrote(self, name: str, pid: int, epoch: int, rows: Any, *, after_marker: bool) -> None:
        """A record was appended; ``after_marker``: behind a marker of the same producer epoch."""

    def ending(self, transaction: Transaction, *, commit: bool, by: str) -> None:
        """An Ongoing transaction is about to end."""

    def visible(self, pid: int, batches: list[Batch]) -> None:
        """A durable COMMIT makes these records visible to read_committed."""


class FakeBroker:
    """The state of one cluster.

    Args:
        now: The clock, in seconds.
        observer: Told of what happens.
        v5: Whether EndTxn v5 is known (transaction.version=2).
        max_epoch: The last producer epoch before the producer id rotates.
    """

    def __init__(
        self, now: Callable[[], float], observer: Observer | None = None, *, v5: bool = True, max_epoch: int = _NEVER
    ) -> None:
        self.now = now
        self.v5 = v5
        self.slow = False
        self.transactions: dict[str, Transaction] = {}
        self.logs: dict[tuple[str, int], list[Batch]] = {}
        self._observer = observer or Observer()
        self._pids = itertools.count(1000)
        self._max_epoch = max_epoch
        self._undecided: dict[tuple[int, str, int], list[Batch]] = {}
        self._ended: set[tuple[int, int, str, int]] = set()

    # -- what a producer asks -----------------------------------------------------------------------------------

    def init(
        self, name: str, timeout: float = 60.0, by: str = "writer", expected: tuple[int, int] | None = None
    ) -> tuple[int, int, int]:
        """InitProducerId: (error code, producer id, epoch). Aborts what is open, whatever epoch was expected.

        Simplified: without an expected (producer id, epoch) it is answered at once where a broker says "ask again".
        """
        found = self.transactions.get(name)
        if found is None:
            self.transactions[name] = made = Transaction(name, next(self._pids), timeout=timeout)
            made.touched = self.now()
            return NONE, made.pid, made.epoch
        if found.state in PREPARE.values():
            return CONCURRENT, -1, -1
        if expected is not None and expected[0] != found.pid:
            return FENCED, -1, -1
        if found.state == ONGOING:
            self._finish(found, commit=False, bump=True, by=by)
            if expected is not None or found.state in PREPARE.values():
                return CONCURRENT, -1, -1
        if expected is not None and expected[1] != found.epoch:
            return FENCED, -1, -1
        if found.epoch >= self._max_epoch:
            found.pid, found.epoch = next(self._pids), 0
        else:
            found.epoch += 1
        found.state, found.timeout, found.touched = EMPTY, timeout, self.now()
        return NONE, found.pid, found.epoch

    def produce(self, name: str, pid: int, epoch: int, partition: tuple[str, int], rows: Any) -> tuple[int, int]:
        """Add the partition to the transaction and append a record: (error code, offset)."""
        code = self.add(name, pid, epoch, partition)
        if code != NONE:
            return code, -1
        log = self.logs.setdefault(partition, [])
        batch = Batch(len(log), pid, epoch, rows=rows)
        log.append(batch)
        self._undecided.setdefault((pid, *partition), []).append(batch)
        again = (pid, epoch, *partition) in self._ended or any(e[:2] == (pid, epoch) for e in self._ended)
        self._observer.wrote(name, pid, epoch, rows, after_marker=again)
        return NONE, batch.base_offset

    def add(self, name: str, pid: int, epoch: int, partition: tuple[str, int]) -> int:
        """AddPartitionsToTxn: begins the transaction, or joins it. A late duplicate may begin another one."""
        found = self.transactions.get(name)
        if found is None or found.pid != pid:
            return INVALID_MAPPING
        if found.epoch != epoch:
            return FENCED
        if found.state in PREPARE.values():
            return CONCURRENT
        if found.state != ONGOING:
            found.state, found.partitions, found.began = ONGOING, set(), self.now()
        found.partitions.add(partition)
        found.touched = self.now()
        return NONE

    # -- what anybody may ask -----------------------------------------------------------------------------------

    def end(self, name: str, pid: int, epoch: int, *, commit: bool, v5: bool = False, by: str = "") -> int:
        """EndTxn; v5 moves the producer epoch, v3 leaves it."""
        found = self.transactions.get(name)
        if found is None or found.pid != pid:
            return INVALID_MAPPING
        retried = v5 and epoch == found.epoch - 1 and found.state not in (EMPTY, ONGOING)
        if epoch != found.epoch and not retried:
            return FENCED
        if found.state == ONGOING:
            self._finish(found, commit=commit, bump=v5, by=by)
            return NONE
        if found.state in PREPARE.values():
            return CONCURRENT if found.state == PREPARE[commit] else INVALID_STATE
        if not v5 or retried:
            return NONE if found.state == COMPLETE[commit] else INVALID_STATE
        if commit:
            return INVALID_STATE
        # A v5 abort of what is not open is an abort of an empty transaction: the epoch moves, no record is touched.
        found.epoch, found.state, found.touched = epoch + 1, COMPLETE[False], self.now()
        return NONE

    def _finish(self, transaction: Transaction, *, commit: bool, bump: bool, by: str) -> None:
        self._observer.ending(transaction, commit=commit, by=by)
        self._ended |= {(transaction.pid, transaction.epoch, *p) for p in transaction.partitions}
        if commit:  # the verdict is durable; the markers follow
            shown = [b for p in sorted(transaction.partitions) for b in self._undecided.get((transaction.pid, *p), ())]
            self._observer.visible(transaction.pid, shown)
        transaction.epoch += bump
        transaction.state, transaction.touched = PREPARE[commit], self.now()
        if not self.slow:
            self.complete(transaction)

    def complete(self, transaction: Transaction) -> None:
        """Write the markers of a transaction whose verdict is durable."""
        commit = transaction.state == PREPARE[True]
        for partition in sorted(transaction.partitions):
            self.mark(transaction.pid, transaction.epoch, partition, commit=commit)
        transaction.state, transaction.touched = COMPLETE[commit], self.now()

    def mark(self, pid: int, epoch: int, partition: tuple[str, int], *, commit: bool) -> None:
        """Write one marker; an operator's tool can do that, too."""
        log = self.logs.setdefault(partition, [])
        log.append(Batch(len(log), pid, epoch, verdict=commit))
        self._undecided.pop((pid, *partition), None)

    def complete_all(self) -> None:
        """Write all markers that are missing."""
        for transaction in self.transactions.values():
            if transaction.state in PREPARE.values():
                self.complete(transaction)

    def expire(self) -> int:
        """Abort what is open for longer than its time-out; how many. The coordinator moves the epoch."""
        old = [t for t in self.transactions.values() if t.state == ONGOING and self.now() - t.began > t.timeout]
        for transaction in old:
            self._finish(transaction, commit=False, bump=True, by="expiry")
        return len(old)

    def forget(self, name: str) -> None:
        """transactional.id.expiration.ms is over for an id that is not in use."""
        if self.transactions[name].state not in (ONGOING, *PREPARE.values()):
            del self.transactions[name]

    def lose_log(self, partition: tuple[str, int]) -> None:
        """The disk with the partition's only copy is gone; it has a leader again, whose log is empty."""
        self.logs.pop(partition, None)
        for key in [key for key in self._undecided if key[1:] == partition]:
            del self._undecided[key]

    def fetch(self, partition: tuple[str, int], offset: int) -> list[Batch]:
        """Records from an offset on, uncommitted ones too; what compaction or retention took is left out."""
        return [b for b in self.logs.get(partition, [])[offset:] if not b.gone]

    def producers(self, partition: tuple[str, int]) -> list[tuple[int, int, int]]:
        """Open transactions in a partition: (producer id, epoch, offset of the first record)."""
        undecided = [bs for (_, *p), bs in self._undecided.items() if tuple(p) == partition]
        return [(bs[0].producer_id, bs[0].producer_epoch, bs[0].base_offset) for bs in undecided]

    def read_committed(self, partition: tuple[str, int]) -> list[Any]:
        """What a read_committed consumer sees: rows up to the LSO."""
        log = self.logs.get(partition, [])
        undecided = [b.base_offset for (_, *p), bs in self._undecided.items() if tuple(p) == partition for b in bs]
        lso, seen = min(undecided, default=len(log)), []
        for batch in log[:lso]:
            if not batch.is_control_batch and not batch.gone:
                behind = (b for b in log[batch.next_offset :] if b.producer_id == batch.producer_id)
                if next(b.verdict for b in behind if b.is_control_batch):
                    seen.append(batch.rows)
        return seen


Network = Callable[[str, Callable[[], Any]], Any]


class FakeClient:
    """Stands in the place of ``KafkaClient``.

    Args:
        broker: The cluster.
        network: Carries a request: called with its name and what performs it, gives the answer or None.
        who: Told to the broker's observer as the one who asked.
        pause: What ``wait_a_little`` does.
    """

    cluster_id = "cluster"
    timeout_s = 0.0  # a partition without a leader is asked once: the world's clock is none that a wait moves

    def __init__(
        self,
        broker: FakeBroker,
        network: Network = lambda _, effect: effect(),
        who: str = "",
        pause: Any = lambda: None,
    ) -> None:
        self.broker = broker
        self.ask = network
        self.who = who
        self.wait_a_little = pause
        self.now = broker.now

    def close(self) -> None:
        """There is no connection."""

    def supports(self, request: Any, version: int) -> bool:
        return self.broker.v5 if request is EndTxnRequest else version <= 2

    def brokers(self) -> list[int]:
        return [0]

    def coordinators(self, _kind: int, keys: Any) -> dict[str, int]:
        return dict.fromkeys(keys, 0)

    def forget_coordinator(self, _kind: int, _key: str) -> None:
        """There is one broker."""

    def topics(self, names: Any) -> dict[str, TopicMetadata]:
        return {n: TopicMetadata(n, _id_of(n), dict.fromkeys(range(8), 0)) for n in names}

    def send_to_coordinators(self, _kind: int, keys: Any, request: Any, _code: Any) -> dict[str, Any]:
        return {key: self._send(request(key)) for key in keys}

    def send_all(self, requests: Any) -> list[Any]:
        return [self._send(request) for request, _ in requests]

    def _send(self, request: Any) -> Any:
        if isinstance(request, EndTxnRequest):
            return self._end(request)
        if isinstance(request, InitProducerIdRequest):
            return self.ask(f"init {request.transactional_id}", lambda: self._init(request))
        if isinstance(request, AddPartitionsToTxnRequest):
            return self.ask(f"add to {request.v3_and_below_transactional_id}", lambda: self._add(request))
        if isinstance(request, DescribeTransactionsRequest):
            names = list(request.transactional_ids)
            return self.ask(f"describe {len(names)}", lambda: self._describe(names))
        if isinstance(request, DescribeProducersRequest):
            return self.ask("describe producers", lambda: self._describe_producers(request))
        if isinstance(request, FetchRequest):
            return self._fetch(request)
        return self.ask("list", lambda: self._list(request))

    def _describe_producers(self, request: Any) -> Any:
        def row(topic: str, partition: int) -> Any:
            found = self.broker.producers((topic, partition))
            producers = [
                SimpleNamespace(producer_id=pid, producer_epoch=epoch, current_txn_start_offset=start)
                for pid, epoch, start in found
            ]
            return SimpleNamespace(error_code=NONE, partition_index=partition, active_producers=producers)

        topics = [
            SimpleNamespace(name=t.name, partitions=[row(t.name, n) for n in t.partition_indexes])
            for t in request.topics
        ]
        return SimpleNamespace(topics=topics)

    def _fetch(self, request: Any) -> Any:
        (topic,) = request.topics
        (partition,) = topic.partitions
        where, offset = (topic.topic, partition.partition), partition.fetch_offset

        def effect() -> Any:
            log = self.broker.logs.get(where, [])
            page = SimpleNamespace(error_code=NONE, log_start_offset=0, high_watermark=len(log), records=b"")
            if str(topic.topic_id) != self.topics([topic.topic])[topic.topic].topic_id:
                page.error_code = UNKNOWN_TOPIC_ID
            elif offset > len(log):
                page.error_code = OUT_OF_RANGE
            else:
                page.records = b"".join(batch.to_bytes() for batch in self.broker.fetch(where, offset))
            return SimpleNamespace(error_code=NONE, responses=[SimpleNamespace(partitions=[page])])

        return self.ask(f"fetch {where[0]}-{where[1]} at {offset}", effect)

    def _end(self, request: Any) -> Any:
        name, pid, epoch = request.transactional_id, request.producer_id, request.producer_epoch
        commit, v5 = bool(request.committed), (request._min_version or 0) >= 5
        what = f"{'commit' if commit else 'abort'} v{5 if v5 else 3} {name} {pid}/{epoch}"

        def effect() -> Any:
            return SimpleNamespace(error_code=self.broker.end(name, pid, epoch, commit=commit, v5=v5, by=self.who))

        return self.ask(what, effect)

    def _init(self, request: Any) -> Any:
        timeout = request.transaction_timeout_ms / 1000
        expected = (request.producer_id, request.producer_epoch) if request.producer_id >= 0 else None
        code, pid, epoch = self.broker.init(request.transactional_id, timeout, by=self.who, expected=expected)
        return SimpleNamespace(error_code=code, producer_id=pid, producer_epoch=epoch)

    def _add(self, request: Any) -> Any:
        name, pid = request.v3_and_below_transactional_id, request.v3_and_below_producer_id
        (topic,) = request.v3_and_below_topics
        code = self.broker.add(name, pid, request.v3_and_below_producer_epoch, (topic.name, topic.partitions[0]))
        row = SimpleNamespace(partition_error_code=code)
        return SimpleNamespace(results_by_topic_v3_and_below=[SimpleNamespace(results_by_partition=[row])])

    def _list(self, request: Any) -> Any:
        pattern = (request.transactional_id_pattern or ".*").removesuffix(".*").replace("\\", "")
        wanted = set(request.state_filters)
        return SimpleNamespace(
            error_code=NONE,
            transaction_states=[
                SimpleNamespace(transactional_id=t.name)
                for t in self.broker.transactions.values()
                if t.state in wanted and t.name.startswith(pattern)
            ],
        )

    def _describe(self, names: list[str]) -> Any:
        rows = []
        for name in names:
            t = self.broker.transactions.get(name)
            if t is None:
                rows.append(SimpleNamespace(transactional_id=name, error_code=NOT_FOUND))
                continue
            open_now = t.partitions if t.state in (ONGOING, *PREPARE.values()) else ()
            topics = {topic: [p for n, p in open_now if n == topic] for topic, _ in open_now}
            rows.append(
                SimpleNamespace(
                    transactional_id=name,
                    error_code=NONE,
                    transaction_state=t.state,
                    producer_id=t.pid,
                    producer_epoch=t.epoch,
                    transaction_timeout_ms=int(t.timeout * 1000),
                    transaction_start_time_ms=int(t.began * 1000),
                    topics=[SimpleNamespace(topic=name, partitions=ps) for name, ps in topics.items()],
                )
            )
        return SimpleNamespace(transaction_states=rows)


@functools.cache
def _id_of(topic: str) -> str:
    """A topic's id; nobody makes one again here."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, topic))
