"""Opening a producer, and handing it rows one by one: what a column needs that a whole batch cannot have (``batch``).

Must not know: transactions. Spark's workers load it.
"""

from __future__ import annotations

import contextlib
import json
from base64 import b64decode
from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Any

from onceflow.errors import PreCommitError

if TYPE_CHECKING:
    import pyarrow as pa

ANY_PARTITION = -1
_FILES = ("ssl.certificate.location", "ssl.key.location", "ssl.ca.location")


def open_producer(config: dict[str, Any]) -> Any:
    """A librdkafka producer.

    Raises:
        PreCommitError: Our certificate and its key cannot be used as they are now.
    """
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 - only in a worker

    try:
        return Producer(config)
    except KafkaException as error:
        said = error.args[0].str()
        if "ssl." not in said:
            raise
        raise PreCommitError(
            f"a producer could not be opened with the certificate, its key or ssl_ca as they are now: {said}",
            harmless="the files are being replaced at this moment: nothing of this epoch is visible, and it is run "
            "again",
            cause=", ".join(f"{name}={config.get(name)}" for name in _FILES) + ", on this worker",
            action="see to it that certificate and key fit, and that the key's password is still the same; then start "
            "the job again",
        ) from error


def produce(producer: Any, topic: str, rows: pa.RecordBatch, callback: Callable[[Any, Any], None] | None = None) -> int:
    """Hand rows to librdkafka, waiting while its queue (our memory) is full; how many they were.

    This loop is the Python share of an epoch's cost, so it does nothing for columns that are not there.
    """
    given = {name: column.to_pylist() for name, column in zip(rows.schema.names, rows.columns, strict=True)}
    values = given.pop("value")
    keys = given.pop("key", None) or repeat(None)
    give = producer.produce
    if not given and callback is None:
        for value, key in zip(values, keys, strict=False):
            try:
                give(topic, value, key)
            except BufferError:
                _when_free(producer, topic, value, key)
        return len(values)
    topics = (topic if own is None else own for own in given.get("topic") or repeat(None))
    partitions = (ANY_PARTITION if own is None else own for own in given.get("partition") or repeat(None))
    headers, times = given.get("headers") or repeat(None), given.get("timestamp") or repeat(None)
    answered = {} if callback is None else {"on_delivery": callback}
    for value, key, to, partition, header, time_ms in zip(
        values, keys, topics, partitions, headers, times, strict=False
    ):
        more: dict[str, Any] = dict(answered)
        if header is not None:
            more["headers"] = (
                _from_text(header) if isinstance(header, str) else [(h["key"], h["value"]) for h in header]
            )
        if time_ms is not None:
            more["timestamp"] = time_ms
        try:
            give(to, value, key, partition, **more)
        except BufferError:
            _when_free(producer, to, value, key, partition, **more)
    return len(values)


def _from_text(headers: str) -> list[tuple[str, bytes | None]]:
    """Headers from Spark's JSON of them: bytes in base64, and no value for null."""
    return [(h["key"], b64decode(h["value"]) if "value" in h else None) for h in json.loads(headers)]


def _when_free(producer: Any, *record: Any, **more: Any) -> None:
    while True:
        producer.poll(0.1)
        with contextlib.suppress(BufferError):
            producer.produce(*record, **more)
            return
