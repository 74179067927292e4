"""The Kafka sink's writers: librdkafka inside Spark's Python workers.

Must not know: the journal, other shards, kafka-python. A writer opens one producer, writes one transaction (or none),
and lets the producer go: closing it after the pre-commit would abort the transaction (librdkafka 2.16).
"""

from __future__ import annotations

import contextlib
import json
import logging
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onceflow.connectors.contract import Guarantee, Shard, Writer
from onceflow.connectors.kafka.batch import TopicBatch, open_batch
from onceflow.connectors.kafka.login_refused import of_producer
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.plain_writer import PlainWriter
from onceflow.connectors.kafka.prepared import Handle, PreparedTransaction, Witness
from onceflow.connectors.kafka.produce import ANY_PARTITION, open_producer, produce
from onceflow.connectors.kafka.refusals import (
    answer_of,
    beneath,
    is_refused_login,
    kind_of,
    named_places,
    no_such_topic,
    nowhere,
    of_the_record,
    require_times,
)
from onceflow.connectors.kafka.transactional_id import name_transaction
from onceflow.errors import (
    KafkaRightsError,
    KafkaUnavailableError,
    OnceflowError,
    PreCommitError,
    RowRefusedError,
    WriterFencedError,
)

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

COLUMNS = ("value", "key", "partition", "topic", "headers", "timestamp")
"""What a writer gets of each row: binary, binary, int, string, array (or that as JSON text), ms; each may be null.

All but ``value`` may be missing. Whoever has no use for a column leaves it out: a list column alone made Spark 4.2 take
three times as long to hand the rows over, even where it was null throughout.
"""

# Making statistics costs librdkafka a fifth of a millisecond. A shard of few rows waits for them, so they come often;
# one whose first batch is full already writes for long, and would make hundreds that nobody reads.
_OFTEN_MS, _SELDOM_MS, _MANY_ROWS = 5, 10, 2000
_STATISTICS_WITHIN_S = 30.0
_KNOWN_WITHIN_S = 1.0
_METADATA_WITHIN_S = 5.0
_SILENT = 0.5
"""Share of the transaction's time-out without one more answer after which no answer is to be expected."""


@dataclass(frozen=True, slots=True)
class KafkaWriterFactory:
    """Opens the writers of one Kafka sink. Pickled by Spark for its workers; never written anywhere durable.

    Attributes:
        sink: The sink's name.
        topic: Where rows without a topic of their own go.
        guarantee: Which kind of writer.
        config: librdkafka's settings, secrets included.
        transaction_timeout_ms: How long the broker keeps an undecided transaction.
    """

    sink: str
    topic: str
    guarantee: Guarantee
    config: Mapping[str, Any] = field(repr=False)
    transaction_timeout_ms: int = 900_000

    def __call__(self, shard: Shard) -> Writer:
        """Open the writer of one shard."""
        if self.guarantee is Guarantee.EXACTLY_ONCE:
            run = shard.run
            name = name_transaction(
                run.prefix, run.job_id, run.incarnation, self.sink, shard.number, run.epoch, shard.attempt
            )
            return TransactionWriter(name, self.topic, self.config, self.transaction_timeout_ms)
        return PlainWriter(self.topic, self.config, checked=self.guarantee is not Guarantee.NONE)


class TransactionWriter(Writer):
    """Writes one transaction and proves its pre-commit.

    A delivery that failed does not show in ``flush()`` and not in a commit sent by somebody else, so the proof is:
    flush left nothing; in statistics made after that the transaction is still InTransaction under the producer id
    and epoch that it began with; and the acknowledged records of all partitions are as many as the rows it was given.

    Args:
        transactional_id: The transaction's name.
        topic: Where rows without a topic of their own go.
        config: librdkafka's settings.
        timeout_ms: ``transaction.timeout.ms``.
    """

    def __init__(self, transactional_id: str, topic: str, config: Mapping[str, Any], timeout_ms: int) -> None:
        self._name = transactional_id
        self._topic = topic
        self._config = config
        self._timeout_ms = timeout_ms
        self._timeout_s = timeout_ms / 1000
        self._statistics = ""
        self._statistics_seen = 0
        self._problem = ""
        self._fatal: Any = None  # what librdkafka told its callback when the producer ended for good
        self._login_refused: Any = None  # what it told of a login that a broker refused
        self._silent = False
        self._rows = 0
        self._named: set[tuple[str, int]] = set()
        self._held: pa.RecordBatch | None = None
        self._witness: tuple[str, int, int] | None = None
        self._begun = False
        self._identity: tuple[int, int] | None = None
        self._producer: Any = None
        self._batch: TopicBatch | None = None

    def _begin(self, first_rows: int) -> None:
        """Open the producer and begin the transaction, knowing how many rows come at once."""
        self._producer = open_producer(
            dict(self._config)
            | {
                "transactional.id": self._name,
                "transaction.timeout.ms": self._timeout_ms,
                # The producer id and epoch, and the proof, come by statistics; nothing else says them.
                "statistics.interval.ms": _OFTEN_MS if first_rows < _MANY_ROWS else _SELDOM_MS,
                "stats_cb": self._on_statistics,
                "error_cb": self._on_error,
                # With the default librdkafka waits on a timer for the coordinator's connection: 60 to 510 ms.
                "enable.sparse.connections": False,
            }
        )
        with self._translating("could not begin a transaction"):
            self._wait_for_a_known_broker()
            self._producer.init_transactions(min(60.0, self._timeout_s))
            self._producer.begin_transaction()
            self._begun = True
        self._batch = open_batch(self._producer, self._topic)

    def _wait_for_a_known_broker(self) -> None:
        """Look, for a moment, until librdkafka is connected and has the brokers' numbers.

        ``init_transactions`` before that finds no broker to ask, or is told of a coordinator whose number it does not
        know yet; librdkafka (2.16) then sleeps on a timer of 500 ms. After a refused login it would knock for a minute.

        Raises:
            KafkaRightsError: The login was refused, and no other broker took it.
        """
        deadline = time.monotonic() + _KNOWN_WITHIN_S
        while time.monotonic() < deadline:
            self._producer.poll(0.05)
            if self._is_connected():
                return
        if self._login_refused is not None:
            raise self._refused_login()

    def _is_connected(self) -> bool:
        """Whether there is a broker that took our login, as the newest statistics have it."""
        brokers = json.loads(self._statistics)["brokers"].values() if self._statistics else ()
        return any(broker["nodeid"] >= 0 and broker["state"] == "UP" for broker in brokers)

    def write(self, rows: pa.RecordBatch) -> None:
        """Produce the rows. The last one is held back, so that it can carry the witness's callback."""
        if not len(rows):
            return
        require_times(self._topic, rows)
        self._named |= named_places(self._topic, rows)
        self._rows += len(rows)
        if self._producer is None:
            self._begin(len(rows))
        with self._translating():
            if self._held is not None:
                self._produce(self._held)
            self._produce(rows.slice(0, len(rows) - 1))
            self._held = rows.take([len(rows) - 1])  # a copy: a slice would hold the whole batch in memory
            self._producer.poll(0)

    def _produce(self, rows: pa.RecordBatch) -> None:
        if self._batch is not None and set(rows.schema.names) <= {"value", "key"}:
            self._batch.produce(rows.column("value"), rows.column("key") if "key" in rows.schema.names else None)
        else:
            produce(self._producer, self._topic, rows)

    def prepare(self) -> Mapping[str, Any]:
        """Send everything and prove that it is in the log.

        Raises:
            RowRefusedError: A record is larger than its topic takes, of a time that it does not take, or of a place
                that is not there.
            KafkaUnavailableError: Brokers acknowledged nothing more for half of the transaction's time-out.
            KafkaRightsError: The same, since they refused our login.
            PreCommitError: A record was refused, or the proof does not add up.
            WriterFencedError: The transaction was ended by somebody else.
        """
        with self._translating():
            if self._held is not None:
                produce(self._producer, self._topic, self._held, self._on_witness)
                self._held = None
            self._flush()
            partitions = self._proof()
        if self._witness is None or self._witness[2] < 0:
            raise self._failed(f"the last record's offset is not known: {self._witness}")
        topic, partition, offset = self._witness
        producer_id, producer_epoch = self._identity or (-1, -1)
        self._let_go_of_batch()
        self._producer = None  # no close(): that would abort what has just been prepared
        handle = Handle(self._name, producer_id, producer_epoch)
        return PreparedTransaction(handle, partitions, Witness(Partition(topic, partition), offset)).to_json()

    def _flush(self) -> None:
        """Wait for the brokers' answers, until none is to be expected or the transaction expires."""
        began = moved = time.monotonic()
        fewest = len(self._producer)
        while left := self._producer.flush(1.0):
            self._require_no_error()
            now = time.monotonic()
            if left < fewest:
                fewest, moved = left, now
            if now - moved > self._timeout_s * _SILENT:
                raise self._unwritable() or self._refused_now() or self._unanswered(left, now - moved)
            if now - began > self._timeout_s:
                raise self._failed(f"{left} records were not acknowledged in {self._timeout_s:.0f} s")

    def abort(self) -> None:
        """Abort the transaction by closing the producer; one that was fenced has nothing left to abort.

        Where brokers do not answer, closing would wait for them without an end, and nobody would be told why. The
        producer is let go then; its transaction is aborted by name, by the driver or by the next start.
        """
        self._let_go_of_batch()
        if self._silent and self._producer is not None:
            self._producer.purge()
            self._producer = None
        if self._producer is not None:
            with contextlib.suppress(Exception), warnings.catch_warnings(action="ignore"):
                self._producer.purge()
                self._producer.close()

    def _let_go_of_batch(self) -> None:
        if self._batch is not None:
            self._batch.close()
            self._batch = None

    @contextlib.contextmanager
    def _translating(self, why: str = "librdkafka gave up") -> Iterator[None]:
        """Turn what librdkafka raises into our error.

        A fatal error (fenced by a newer producer, for one) comes out of ``poll`` and ``flush``; when another callback
        was served in the same call, confluent-kafka 2.16 raises SystemError over it.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415 - only in a worker

        try:
            yield
        except (KafkaException, SystemError) as error:
            first = self._what_ended_it() or beneath(error)
            raise self._failed(why, first) from error

    def _what_ended_it(self) -> Exception | None:
        """The first error of a transaction that can only be aborted any more.

        What comes after it is only told that the state is wrong. In that state every call of a transaction, this one
        too, gives the first error back and does nothing (librdkafka 2.16).
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415 - only in a worker

        told: Exception | None = None
        try:
            if self._begun and self._state() in ("AbortableError", "FatalError"):
                self._producer.begin_transaction()
        except (KafkaException, SystemError) as error:
            told = beneath(error)
        # Where confluent-kafka told nothing, or no more than that there was an error, librdkafka's callback knows it.
        if self._fatal is not None and not isinstance(told, KafkaException):
            told = KafkaException(self._fatal)
        return told

    def _state(self) -> str:
        """The transaction's state, as the newest statistics have it; they come every few milliseconds."""
        self._producer.poll(0.05)
        return str(json.loads(self._statistics)["eos"]["txn_state"]) if self._statistics else ""

    def _proof(self) -> frozenset[Partition]:
        """The partitions written, after the statistics have proven that all records are in the log."""
        self._drain()
        statistics = self._new_statistics()
        eos = statistics["eos"]
        if eos["txn_state"] != "InTransaction":
            self._require_no_error()
            raise self._failed(f"the transaction is in state {eos['txn_state']}")
        if (eos["producer_id"], eos["producer_epoch"]) != self._identity:
            raise self._failed(f"the transaction changed from {self._identity} to {eos}")
        acknowledged, partitions = 0, []
        for name, topic in statistics["topics"].items():
            for number, partition in topic["partitions"].items():
                if int(number) >= 0 and partition["txmsgs"] > 0:
                    acknowledged += partition["acked_msgid"]
                    partitions.append(Partition(name, int(number)))
        if acknowledged != self._rows:
            raise self._failed(f"{acknowledged} of {self._rows} records were acknowledged")
        return frozenset(partitions)

    def _require_no_error(self) -> None:
        """Raise what ended the transaction, as soon as it is known that it must be aborted.

        After a record was refused librdkafka keeps the others in its queue: a flush would wait for them until the
        time-out.
        """
        ended = self._what_ended_it()
        if ended is not None:
            raise ended

    def _drain(self) -> None:
        """Take the statistics that were queued before: they may be older than the flush."""
        seen = -1
        while seen != self._statistics_seen:
            seen = self._statistics_seen
            self._producer.poll(0)

    def _new_statistics(self) -> Any:
        """Statistics that were begun after a drain: the first after it may have been begun before."""
        wanted = self._statistics_seen + 2
        deadline = time.monotonic() + _STATISTICS_WITHIN_S
        while self._statistics_seen < wanted or self._identity is None:
            if time.monotonic() > deadline:
                raise self._failed(f"librdkafka gave no statistics for {_STATISTICS_WITHIN_S:.0f} s")
            self._producer.poll(0.05)
        return json.loads(self._statistics)

    def _on_statistics(self, text: str) -> None:
        self._statistics = text
        self._statistics_seen += 1
        if self._begun and self._identity is None:
            # The transaction's identity is what the first statistics after its beginning say; waiting for them here
            # would cost every shard some milliseconds, and the proof waits for newer ones anyway.
            eos = json.loads(text)["eos"]
            if eos["producer_id"] >= 0:
                self._identity = (eos["producer_id"], eos["producer_epoch"])

    def _on_error(self, error: Any) -> None:
        self._problem = self._problem or str(error)
        if is_refused_login(error):
            self._login_refused = error
        if error.fatal():
            self._fatal = self._fatal or error

    def _on_witness(self, error: Any, message: Any) -> None:
        if error is not None:
            self._problem = f"{message.topic()}: {error}"
        else:
            self._witness = (message.topic(), message.partition(), message.offset())

    def _unanswered(self, left: int, silent_s: float) -> KafkaUnavailableError:
        """Why nothing moves: not a time-out that is too short, and a smaller epoch would not help."""
        self._silent = True
        return KafkaUnavailableError(
            f"transaction {self._name} could not be pre-committed: {left} records were not acknowledged, and none more "
            f"in {silent_s:.0f} s, for {', '.join(self._waiting()) or self._topic}",
            harmless="always for the data: nothing of this epoch is visible, and it is run again",
            cause="a broker is down or has no network, or a partition has no leader, or fewer copies in sync than "
            f"min.insync.replicas (transaction_timeout is {self._timeout_s:g} s; half of it is waited)",
            action="look at the brokers, then start the job again",
            topic=self._topic,
            transactional_id=self._name,
        )

    def _refused_now(self) -> KafkaRightsError | None:
        """The error for a login that is refused, where no broker is left that took it."""
        return self._refused_login() if self._login_refused is not None and not self._is_connected() else None

    def _refused_login(self) -> KafkaRightsError:
        self._silent = True
        return of_producer(self._login_refused.str(), self._config)

    def _waiting(self) -> list[str]:
        """The partitions that hold records without an answer, as the newest statistics have it."""
        topics = json.loads(self._statistics)["topics"].items() if self._statistics else ()
        return sorted(
            f"{name}-{number}" if int(number) >= 0 else name
            for name, topic in topics
            for number, partition in topic["partitions"].items()
            if partition["msgq_cnt"] + partition["xmit_msgq_cnt"] > 0
        )

    def _unwritable(self) -> RowRefusedError | None:
        """The error for a row of a topic or a partition that is not there, by the columns that say where rows go.

        A record that librdkafka gives up without a callback tells no code; the brokers are asked where it was to go.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415 - only in a worker

        for name in sorted({name for name, _ in self._named}):
            try:
                found = self._producer.list_topics(name, _METADATA_WITHIN_S).topics[name]
            except (KafkaException, SystemError):
                return None  # they do not answer
            if found.error is not None:
                if found.error.code() in no_such_topic():
                    return nowhere(f"topic {name}", name, found.error)
                continue
            for number in sorted(number for of, number in self._named if of == name):
                if number != ANY_PARTITION and number not in found.partitions:
                    there = f"it has partitions 0 to {len(found.partitions) - 1}"
                    return nowhere(f"partition {number} of topic {name}", name, there)
        return None

    def _failed(self, why: str, error: Exception | None = None) -> OnceflowError:
        kind = kind_of(error)
        self._silent = kind is KafkaUnavailableError
        if kind is KafkaUnavailableError and (login := self._refused_now()) is not None:
            return login
        if kind is PreCommitError:
            refused = of_the_record(self._topic, self._config, error) or self._unwritable()
            if refused is not None:
                return refused
        said = f"; librdkafka said: {self._problem}" if self._problem else ""
        because = f" ({error.args[0]})" if error is not None and error.args else ""
        if kind is WriterFencedError:
            return kind(
                f"transaction {self._name} was ended while it was written: {why}{because}{said}",
                harmless="the job was started again, or an operator's tool took over",
                cause=f"it expired (transaction_timeout is {self._timeout_s:g} s), another start of this job swept it, "
                "or another job has the same transactional id prefix",
                action="nothing of this epoch is visible; start the job again",
                transactional_id=self._name,
            )
        if kind is KafkaRightsError:
            return kind(
                f"transaction {self._name} could not be pre-committed: {why}{because}{said}",
                harmless="for the data: nothing of this epoch is visible",
                cause="a right of this user was taken away: WRITE on the topic, or on the transactional ids",
                action="give it back (see 'Kafka rights' in docs/security.md), then start the job again",
                transactional_id=self._name,
            )
        return kind(
            f"transaction {self._name} could not be pre-committed: {why}{because}{said}",
            harmless="a broker was restarted: the epoch is run again",
            cause="a record that the broker refuses (larger than the topic's max.message.bytes, no such topic), or "
            "brokers that did not answer",
            action="nothing of this epoch is visible; mend the cause and start the job again",
            transactional_id=self._name,
            refusal=answer_of(self._topic, error),
        )
