"""Writes the payments: transactionally, at a pace, some transactions aborted on purpose.

Must not know: the job. It counts as committed only what ``commit_transaction`` answered for; the judge reads the
topic itself.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Producer

from onceflow.demo.board import Board
from onceflow.demo.payments import Payments, Transaction
from onceflow.demo.verify import Totals

log = logging.getLogger(__name__)

TRANSACTIONAL_ID = "demo-payments"
_PER_SECOND = 5.0  # transactions
_TRY_S = 5.0


class PaymentProducer(threading.Thread):
    """Writes all payments of a run once, then ends.

    Args:
        servers: Kafka's address.
        topic: A topic that exists.
        payments: What to write.
        board: Is told of it.
    """

    def __init__(self, servers: str, topic: str, payments: Payments, board: Board) -> None:
        super().__init__(name="producer", daemon=True)
        self.pace = 1.0
        """How much of the full pace is wanted now, in (0, 1]."""
        self.totals = Totals()
        """Of the committed payments."""
        self.failure: BaseException | None = None
        self.done = threading.Event()
        """All is written, or it failed."""
        self._topic, self._payments, self._board = topic, payments, board
        self._stopping = threading.Event()
        self._steps = 0
        self._settings = {
            "bootstrap.servers": servers,
            "transactional.id": TRANSACTIONAL_ID,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "reconnect.backoff.max.ms": 500,
            "logger": log,
            "log_level": 0,
        }
        self._producer = Producer(self._settings)

    @property
    def progress(self) -> float:
        """Which part of the transactions is written, from 0 to 1."""
        return self._steps / len(self._payments)

    def run(self) -> None:
        """Write everything."""
        try:
            self._persist(lambda: self._producer.init_transactions(_TRY_S))
            for transaction in self._payments:
                while not self._write(transaction) and not self._stopping.is_set():
                    self._board.say("a transaction of the producer was aborted by the broker; it is written again")
                if self._stopping.is_set():
                    return
                self._count(transaction)
                if transaction.committed:
                    self._stopping.wait(1 / _PER_SECOND / self.pace)
        except KafkaException as error:
            self.failure = error
        finally:
            self.done.set()

    def close(self) -> None:
        """End the thread, at the latest when a request of it has timed out."""
        self._stopping.set()
        self.join(2 * _TRY_S)

    def _write(self, transaction: Transaction) -> bool:
        """One transaction. False: the broker had it aborted, and it must be written again."""
        try:
            self._producer.begin_transaction()
            for payment in transaction.payments:
                self._produce(payment.user_id, payment.to_json())
            for value in transaction.malformed:
                self._produce(None, value)
            if transaction.committed:
                self._persist(lambda: self._producer.commit_transaction(_TRY_S))
            else:
                # Aborting drops what is still in the queue; it must be in the log for somebody to read by mistake.
                self._producer.flush(_TRY_S)
                self._abort()
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            self._abort()
            return False
        return True

    def _abort(self) -> None:
        try:
            self._persist(lambda: self._producer.abort_transaction(_TRY_S))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.INVALID_TXN_STATE:
                raise
            # librdkafka also asks for the end of a transaction of which a killed broker has never heard, and takes the
            # refusal for its own end (librdkafka issue 4849). Whatever is open is aborted as the next one begins.
            self._producer = Producer(self._settings)
            self._persist(lambda: self._producer.init_transactions(_TRY_S))

    def _produce(self, key: str | None, value: bytes) -> None:
        while not self._stopping.is_set():
            try:
                self._producer.produce(self._topic, value, key)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return

    def _persist(self, call: Callable[[], object]) -> None:
        """Call until there is an answer: the broker may be dead just now."""
        while True:
            try:
                call()
            except KafkaException as error:
                if not error.args[0].retriable() or self._stopping.is_set():
                    raise
            else:
                return

    def _count(self, transaction: Transaction) -> None:
        if not transaction.committed:
            self._board.add(payments_aborted=len(transaction.payments), producer_aborted=1)
            return
        for payment in transaction.payments:
            self.totals.add(payment)
        self._steps += 1
        self._board.add(payments=len(transaction.payments), malformed=len(transaction.malformed), producer_committed=1)
