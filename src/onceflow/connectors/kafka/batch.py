"""Many records to librdkafka in one call, straight from Arrow's buffers.

confluent-kafka's ``produce()`` takes one record, its ``produce_batch()`` one dict for each, and those calls were the
largest part of what a copy costs in a worker. librdkafka's own ``rd_kafka_produce_batch()`` takes an array of structs
with pointers, which numpy fills without a loop. confluent-kafka does not hand out its ``rd_kafka_t``, so it is read
from where it lies in the producer's object, and only with versions of which that is known; with others the writer
takes ``produce()``, and the driver says so once.

Must not know: transactions, Spark, what a record means.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import logging
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

log = logging.getLogger(__name__)

KNOWN = frozenset({"2.16.1"})
"""Versions of confluent-kafka whose objects begin with Python's head and then the ``rd_kafka_t *`` (``Handle`` in its
``confluent_kafka.h``)."""

_ANY_PARTITION = -1
_COPY = 0x2  # RD_KAFKA_MSG_F_COPY: the buffers are free when the call returns
_QUEUE_FULL = -184  # RD_KAFKA_RESP_ERR__QUEUE_FULL
_FIELDS = (  # rd_kafka_message_t, which its library promises to keep
    ("err", "i4"),
    ("rkt", "u8"),
    ("partition", "i4"),
    ("payload", "u8"),
    ("len", "u8"),
    ("key", "u8"),
    ("key_len", "u8"),
    ("offset", "i8"),
    ("private", "u8"),
)


class TopicBatch:
    """Produces batches to one topic, in the order of their rows.

    Args:
        producer: confluent-kafka's Producer; it must outlive this object's last ``produce``.
        topic: The topic.
    """

    def __init__(self, producer: Any, topic: str) -> None:
        from confluent_kafka import cimpl  # noqa: PLC0415 - only in a worker

        self._producer = producer
        self._c = ctypes.CDLL(cimpl.__file__)  # also finds what it is linked with: its own librdkafka
        self._c.rd_kafka_topic_new.restype = ctypes.c_void_p
        self._c.rd_kafka_topic_new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self._c.rd_kafka_topic_destroy.argtypes = (ctypes.c_void_p,)
        self._c.rd_kafka_produce_batch.argtypes = (
            ctypes.c_void_p,
            ctypes.c_int32,
            ctypes.c_int,
            ctypes.c_void_p,
            ctypes.c_int,
        )
        handle = ctypes.c_void_p.from_address(id(producer) + object.__basicsize__).value
        self._topic = self._c.rd_kafka_topic_new(handle, topic.encode(), None) if handle else None
        if not self._topic:
            raise ValueError(f"librdkafka takes no topic named {topic!r}")

    def produce(self, values: pa.Array, keys: pa.Array | None) -> None:
        """Copy the records into librdkafka's queue, waiting while it is full.

        Args:
            values: binary or large_binary; null is a tombstone.
            keys: As values; null is no key.

        Raises:
            KafkaException: A record was refused; others may be in the queue.
            TypeError: The arrays hold something else.
        """
        from confluent_kafka import KafkaError, KafkaException  # noqa: PLC0415 - only in a worker

        messages = _messages(values, keys)
        done = 0
        while done < len(messages):
            rest = messages[done:]
            taken = self._c.rd_kafka_produce_batch(self._topic, _ANY_PARTITION, _COPY, rest.ctypes.data, len(rest))
            refused = set(rest["err"][rest["err"] != 0].tolist()) if taken < len(rest) else set()
            if refused - {_QUEUE_FULL}:
                raise KafkaException(KafkaError(min(refused - {_QUEUE_FULL})))
            done += taken
            if refused:
                self._producer.poll(0.1)

    def close(self) -> None:
        """Let the topic go; the records in the queue stay."""
        if self._topic:
            self._c.rd_kafka_topic_destroy(self._topic)
            self._topic = None


@functools.cache
def warn_where_unknown() -> None:
    """Say in this process's log, once, that the writers take the slow way. For the driver: nobody reads a worker's."""
    found = version("confluent-kafka")
    if found not in KNOWN:
        log.warning(
            "confluent-kafka is %s, whose inside is not known: writers hand it records one by one, which is slow; "
            "%s is known",
            found,
            ", ".join(sorted(KNOWN)),
        )


def open_batch(producer: Any, topic: str) -> TopicBatch | None:
    """What produces batches to a topic, or None where it is not known how."""
    import confluent_kafka  # noqa: PLC0415 - only in a worker

    if confluent_kafka.__version__ not in KNOWN or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    with contextlib.suppress(OSError, AttributeError):  # a build that hides librdkafka's symbols
        return TopicBatch(producer, topic)
    return None


def _messages(values: pa.Array, keys: pa.Array | None) -> np.ndarray:
    """An array of ``rd_kafka_message_t`` that point into the arrays' buffers."""
    import numpy as np  # noqa: PLC0415 - only in a worker

    messages = np.zeros(len(values), np.dtype(list(_FIELDS), align=True))
    messages["payload"], messages["len"] = _pointers(values)
    if keys is not None:
        messages["key"], messages["key_len"] = _pointers(keys)
    return messages


def _pointers(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Where each element begins and how long it is; null is 0 and 0."""
    import numpy as np  # noqa: PLC0415 - only in a worker
    import pyarrow as pa  # noqa: PLC0415 - only in a worker

    if not (pa.types.is_binary(array.type) or pa.types.is_large_binary(array.type)):
        raise TypeError(f"records are bytes, not {array.type}")
    _, offsets, data = array.buffers()
    width = np.dtype("i8" if pa.types.is_large_binary(array.type) else "i4")
    ends = np.frombuffer(offsets, width, len(array) + 1, array.offset * width.itemsize)
    starts = ends[:-1].astype("u8") + np.uint64(data.address if data is not None and data.address else 1)
    lengths = np.diff(ends).astype("u8")
    if array.null_count:
        there = array.is_valid().to_numpy(zero_copy_only=False)
        starts, lengths = starts * there, lengths * there
    return starts, lengths
