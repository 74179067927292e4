"""The Kafka sink's writer without a transaction: at-least-once, or with no guarantee.

Must not know: the journal, other shards, kafka-python. Spark's workers load it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onceflow.connectors.contract import Writer
from onceflow.connectors.kafka.login_refused import of_producer
from onceflow.connectors.kafka.produce import open_producer, produce
from onceflow.connectors.kafka.refusals import answer_of, is_refused_login, of_no_place, of_the_record, require_times
from onceflow.errors import PreCommitError

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger(__name__)

_ANSWERED_WITHIN_S = 300.0
_LOGIN_WITHIN_S = 5.0  # one broker may refuse what another takes


class PlainWriter(Writer):
    """Writes without a transaction: at-least-once when ``checked``, otherwise with no guarantee.

    Args:
        topic: Where rows without a topic of their own go.
        config: librdkafka's settings.
        checked: Whether a record that the broker refused fails the epoch.
    """

    def __init__(self, topic: str, config: Mapping[str, Any], *, checked: bool) -> None:
        self._topic = topic
        self._config = config
        self._checked = checked
        self._refused = 0
        self._first: tuple[str, Any] | None = None  # of what was refused: its topic, and the error
        self._count = 0
        self._login_refused: Any = None
        # One callback for all records, and only failures are reported: while all goes well it is never called.
        more = {"enable.idempotence": checked, "delivery.report.only.error": True, "on_delivery": self._on_refused}
        self._producer = open_producer(dict(config) | more | {"error_cb": self._on_error})

    def write(self, rows: pa.RecordBatch) -> None:
        """Produce the rows."""
        from confluent_kafka import KafkaException  # noqa: PLC0415 - only in a worker

        require_times(self._topic, rows)
        try:
            self._count += produce(self._producer, self._topic, rows)
        except KafkaException as error:
            refused = of_the_record(self._topic, self._config, error)
            raise refused or of_no_place(self._topic, self._topic, error.args[0]) or error from error
        self._producer.poll(0)

    def prepare(self) -> None:
        """Wait for the brokers' answers.

        Raises:
            RowRefusedError: A record is larger than its topic takes, of a time that it does not take, or of a place
                that is not there, and the sink is at-least-once.
            PreCommitError: A record was refused or not answered, and the sink is at-least-once.
            KafkaRightsError: Brokers refused our login and took no record, and the sink is at-least-once.
        """
        from confluent_kafka import KafkaException  # noqa: PLC0415 - only in a worker

        left = self._flush()
        topic, error = self._first or (self._topic, None)
        if self._checked and error is not None:
            refused = of_the_record(topic, self._config, KafkaException(error))
            refused = refused or of_no_place(topic, self._topic, error)
            if refused is not None:
                raise refused
        if self._checked and (left or self._refused):
            raise PreCommitError(
                f"{self._refused + left} of {self._count} records were not written: {topic}: {error or 'no answer'}",
                harmless="a broker was restarted: the epoch is run again",
                cause="a record that the broker refuses, or brokers that did not answer",
                action="mend the cause and start the job again; records of this epoch may be written twice "
                "(guarantee='at-least-once')",
                refusal=answer_of(topic, KafkaException(error)) if error is not None else "",
            )
        if left or self._refused:
            log.warning(
                "%d of %d records were not written: %s: %s (guarantee='none')",
                self._refused + left,
                self._count,
                topic,
                error or "no answer",
            )

    def _flush(self) -> int:
        """Wait for the brokers' answers; how many are missing."""
        began = time.monotonic()
        while (left := self._producer.flush(1.0)) and (waited := time.monotonic() - began) < _ANSWERED_WITHIN_S:
            refused = self._login_refused if waited > _LOGIN_WITHIN_S and left >= self._count else None
            if self._checked and refused is not None:
                raise of_producer(refused.str(), self._config)
        return int(left)

    def abort(self) -> None:
        """Nothing can be undone."""

    def _on_error(self, error: Any) -> None:
        if is_refused_login(error):
            self._login_refused = error

    def _on_refused(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused += 1
            self._first = self._first or (message.topic(), error)
