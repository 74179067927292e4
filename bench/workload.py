"""The input of every run: payments made from a seed, the digest that a copy must have, and the alerts that are right.

Must not know: any system under test, the cluster's life. A payment is a key of 8 bytes and a JSON value of 110 bytes;
records of one user are in one partition, because a system without a shuffle of its own needs that. Where only the
length of a record counts, the input is numbers, padded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

import numpy as np
from confluent_kafka import Producer
from numpy.typing import NDArray

VALUE_BYTES = 110
KEY_BYTES = 8
PARTITIONS = 4
START_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1000
WINDOW_MS = 60_000
ALERT_ABOVE = 10  # payments of one user in one window

_BLOCK = 100_000
_BLOCK_BYTES = 64_000_000  # of records that are larger than payments
_USERS_PER_PAYMENT = 3  # payments of a user in a window, on average
_HOT_USERS_PER_PAYMENT = 300  # fewer users, who make one payment in twenty, and so the alerts
_CLOSING_USER = 99_000
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MASK = 0xFFFFFFFFFFFFFFFF

Alert = tuple[str, str, int, int]
"""User, start of the window (2026-01-01T00:00:00, UTC), payments, total in cents."""


class Records(Protocol):
    """What a topic is filled with."""

    @property
    def records(self) -> int:
        """How many."""

    @property
    def value_bytes(self) -> int:
        """Bytes of each value."""

    def blocks(self) -> Iterator[tuple[int, int]]:
        """The borders of the blocks that together are all of them."""

    def rows(self, first: int, last: int) -> list[tuple[int, bytes, bytes]]:
        """Partition, key and value of the records ``first`` to ``last - 1``."""


@dataclass(frozen=True)
class Numbers:
    """So many numbered records with values of one length.

    Attributes:
        records: How many.
        value_bytes: Bytes of each value, at least 12.
    """

    records: int
    value_bytes: int

    def blocks(self) -> Iterator[tuple[int, int]]:
        """The borders of the blocks that together are all records."""
        return _blocks(self.records, min(_BLOCK, _BLOCK_BYTES // self.value_bytes))

    def rows(self, first: int, last: int) -> list[tuple[int, bytes, bytes]]:
        """Partition, key and value of the records ``first`` to ``last - 1``."""
        return [
            (number % PARTITIONS, f"u{number % 1_000:07d}".encode(), f"{number:012d}".encode().ljust(self.value_bytes))
            for number in range(first, last)
        ]


@dataclass(frozen=True)
class Payments:
    """So many payments, ``step_us`` microseconds of event time apart, and a few that close the last windows.

    Attributes:
        records: All records, the closing ones included.
        seed: The same seed makes the same payments.
        step_us: Event time between two payments.
    """

    records: int
    seed: int = 1
    step_us: int = 1_000  # 1,000 payments a second: 60,000 in a window, of some 20,000 users

    def block(self, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Users' numbers, amounts in cents and event times in ms of the payments ``first`` to ``last - 1``."""
        number = np.arange(first, last, dtype=np.uint64)
        dice = _mixed(number + np.uint64(self.seed * int(_GOLDEN) & _MASK))
        hot = dice % np.uint64(20) == 0
        dice >>= np.uint64(8)
        in_window = WINDOW_MS * 1_000 // self.step_us
        hot_users, users = np.uint64(in_window // _HOT_USERS_PER_PAYMENT), np.uint64(in_window // _USERS_PER_PAYMENT)
        drawn = np.where(hot, dice % hot_users, hot_users + dice % users)
        cents = np.uint64(100) + (dice >> np.uint64(20)) % np.uint64(90_000)
        at = np.uint64(START_MS) + number * np.uint64(self.step_us) // np.uint64(1_000)
        user, event = drawn.astype(np.int64), at.astype(np.int64)
        closing = np.arange(first, last) >= self.records - PARTITIONS
        # One for each partition, three windows later: they close every window that holds a payment.
        user[closing] = _CLOSING_USER + np.arange(first, last)[closing] % PARTITIONS
        event[closing] = self.last_event_ms + 3 * WINDOW_MS
        return user, cents.astype(np.int64), event

    @property
    def last_event_ms(self) -> int:
        """The event time of the last payment that is no closing one."""
        return START_MS + (self.records - PARTITIONS - 1) * self.step_us // 1_000

    @property
    def value_bytes(self) -> int:
        """Bytes of each value."""
        return VALUE_BYTES

    def blocks(self) -> Iterator[tuple[int, int]]:
        """The borders of the blocks that together are all payments."""
        return _blocks(self.records, _BLOCK)

    def rows(self, first: int, last: int) -> list[tuple[int, bytes, bytes]]:
        """Partition, key and value of the payments ``first`` to ``last - 1``."""
        rows = []
        for number, user, cents, event in zip(
            range(first, last), *(array.tolist() for array in self.block(first, last)), strict=True
        ):
            seconds, ms = divmod(event - START_MS, 1000)
            minutes, second = divmod(seconds, 60)
            hours, minute = divmod(minutes, 60)
            day, hour = divmod(hours, 24)
            key = f"u{user:07d}"
            value = (
                f'{{"id":"{number:012d}","user_id":"{key}","amount":{cents // 100}.{cents % 100:02d},'
                f'"event_time":"2026-01-{day + 1:02d}T{hour:02d}:{minute:02d}:{second:02d}.{ms:03d}Z"}}'
            )
            rows.append((user % PARTITIONS, key.encode(), value.encode().ljust(VALUE_BYTES)))
        return rows

    def alerts(self) -> Counter[Alert]:
        """The alerts that are right, recomputed without any stream engine."""
        parts = [self.block(first, last) for first, last in self.blocks()]
        user, cents, event = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        group = (event - START_MS) // WINDOW_MS * 1_000_000 + user
        groups, where, counts = np.unique(group, return_inverse=True, return_counts=True)
        totals = np.zeros(len(groups), dtype=np.int64)
        np.add.at(totals, where, cents)
        found: Counter[Alert] = Counter()
        for index in np.flatnonzero(counts > ALERT_ABOVE).tolist():
            window, user_number = divmod(int(groups[index]), 1_000_000)
            start = datetime.fromtimestamp(START_MS / 1000 + window * 60, UTC)
            at = start.strftime("%Y-%m-%dT%H:%M:%S")
            found[f"u{user_number:07d}", at, int(counts[index]), int(totals[index])] += 1
        return found


class Digest:
    """Count and hash of a multiset of records: order does not matter, and a record twice or never does.

    Args:
        value_bytes: Of every record.
    """

    def __init__(self, value_bytes: int = VALUE_BYTES) -> None:
        self.count = 0
        self.hash = 0
        self._width = value_bytes + KEY_BYTES
        self._weights = _mixed(np.arange(1, self._width + 1, dtype=np.uint64)) | np.uint64(1)

    def add(self, keys: Sequence[bytes], values: Sequence[bytes]) -> None:
        """Count these records in. One of another length than the input's counts, and spoils the hash."""
        if not keys:
            return
        rows = [key + value for key, value in zip(keys, values, strict=True)]
        self.count += len(rows)
        if any(len(row) != self._width for row in rows):
            self.hash = -1
        if self.hash < 0:
            return
        for first, last in _blocks(len(rows), max(1, _BLOCK_BYTES // self._width)):
            part = rows[first:last]
            table = np.frombuffer(b"".join(part), dtype=np.uint8).reshape(len(part), self._width).astype(np.uint64)
            self.hash = (self.hash + int(_mixed(table @ self._weights).sum())) & 0xFFFFFFFFFFFFFFFF

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Digest) and (self.count, self.hash) == (other.count, other.hash)

    def __hash__(self) -> int:
        return hash((self.count, self.hash))


def _blocks(records: int, size: int) -> Iterator[tuple[int, int]]:
    for first in range(0, records, size):
        yield first, min(first + size, records)


def fill(servers: str, topic: str, records: Records) -> Digest:
    """Write all records to a topic, and return the digest of what was written."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 50,
            "batch.num.messages": 20_000,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
            "log_level": 0,  # it would tell of every topic that is deleted
        }
    )
    digest = Digest(records.value_bytes)
    for first, last in records.blocks():
        rows = records.rows(first, last)
        digest.add([key for _, key, _ in rows], [value for _, _, value in rows])
        send(producer, topic, rows)
    if producer.flush(120):
        raise RuntimeError(f"{topic} could not be filled")
    return digest


def send(producer: Producer, topic: str, rows: Sequence[tuple[int, bytes, bytes]]) -> None:
    """Produce rows of (partition, key, value), waiting while the queue is full."""
    for partition, key, value in rows:
        while True:
            try:
                producer.produce(topic, value, key, partition)
                break
            except BufferError:
                producer.poll(0.1)
    producer.poll(0)


def _mixed(number: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Splitmix64: spreads numbers over 64 bits; overflow is meant."""
    number = number + _GOLDEN
    number = (number ^ (number >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = number ^ (number >> np.uint64(31))
    return mixed
