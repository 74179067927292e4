"""Handing rows to librdkafka one by one: what every column needs that a whole batch cannot have (see ``batch``).

Must not know: transactions. Spark's workers load it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

ANY_PARTITION = -1


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
            more["headers"] = [(h["key"], h["value"]) for h in header]
        if time_ms is not None:
            more["timestamp"] = time_ms
        try:
            give(to, value, key, partition, **more)
        except BufferError:
            _when_free(producer, to, value, key, partition, **more)
    return len(values)


def _when_free(producer: Any, *record: Any, **more: Any) -> None:
    while True:
        producer.poll(0.1)
        with contextlib.suppress(BufferError):
            producer.produce(*record, **more)
            return
