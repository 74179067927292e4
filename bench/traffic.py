"""Records at a steady rate into one topic, and when each is visible in another: for latency and recovery.

Must not know: what lies between the two topics.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from bench import reading
from bench.workload import PARTITIONS, VALUE_BYTES
from confluent_kafka import Producer

_TICK_S = 0.005
_NUMBER = slice(7, 19)
_SENT = slice(29, 48)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record seen by a read_committed consumer. Times in nanoseconds of this machine's clock."""

    number: int
    sent_ns: int
    seen_ns: int


class Traffic:
    """A producer, and a read_committed consumer of what comes from now on, each in a thread.

    The time of sending is in the record.

    Args:
        servers: Kafka's address.
        source: The topic to write.
        sink: The topic to watch.
        rate: Records a second at first; may be set at any time.
    """

    def __init__(self, servers: str, source: str, sink: str, rate: int) -> None:
        self.rate = rate
        self.sent = 0
        self.arrivals: list[Arrival] = []
        self._servers, self._source = servers, source
        self._reader = reading.consumer(servers, **{"fetch.wait.max.ms": 20})
        reading.assign(self._reader, sink, at_end=True)
        self._stop_sending, self._stop_watching = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=run, daemon=True) for run in (self._send, self._watch)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_sending.set()
        self._stop_watching.set()
        for thread in self._threads:
            thread.join(30)

    def wait_for(self, number: int, seconds: float) -> bool:
        """Wait until so many records were seen."""
        deadline = time.monotonic() + seconds
        while len(self.arrivals) < number:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def wait_for_first(self, running: Callable[[], bool], seconds: float) -> bool:
        """Wait until a record was seen; False when time is over or what should show it has ended."""
        deadline = time.monotonic() + seconds
        while not self.wait_for(1, 0.2):
            if time.monotonic() > deadline or not running():
                return False
        return True

    def finish(self, seconds: float) -> str | None:
        """Stop sending and wait until all is seen; what is wrong with what was seen, or None."""
        self._stop_sending.set()
        self._threads[0].join(60)
        self.wait_for(self.sent, seconds)
        time.sleep(1.0)  # a record that comes twice would come now
        seen = Counter(arrival.number for arrival in self.arrivals)
        lost, doubled = self.sent - len(seen), seen.total() - len(seen)
        return None if not lost and not doubled else f"{lost} of {self.sent} records lost, {doubled} doubled"

    def _send(self) -> None:
        settings = {"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 1, "log_level": 0}
        producer = Producer(settings)
        due, before = 0.0, time.monotonic()
        while not self._stop_sending.wait(_TICK_S):
            now = time.monotonic()
            due += (now - before) * self.rate
            before = now
            while due >= 1:
                due -= 1
                key = f"u{self.sent % 1000:07d}".encode()
                value = f'{{"id":"{self.sent:012d}","sent":"{time.time_ns():019d}"}}'.encode().ljust(VALUE_BYTES)
                producer.produce(self._source, value, key, self.sent % PARTITIONS)
                self.sent += 1
            producer.poll(0)
        producer.flush(30)

    def _watch(self) -> None:
        reader = self._reader
        while not self._stop_watching.is_set():
            first = reader.poll(0.1)
            if first is None:
                continue
            messages = [first, *reader.consume(10_000, 0)]
            now = time.time_ns()
            for message in messages:
                if message.error() is None:
                    value = message.value()
                    self.arrivals.append(Arrival(int(value[_NUMBER]), int(value[_SENT]), now))
        reader.close()
