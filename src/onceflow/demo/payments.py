"""The payments of the demo, made from a seed: which transactions, with which records, in which order.

Pure. Must not know: Kafka, the job.

The clock of event times moves by ``STEP_MS`` with each transaction, and no payment is more than two steps behind it.
Spark moves its watermark to the newest event time that it has seen less ten seconds, and what it has seen at an
epoch's end may differ between partitions by the transaction whose markers are being written. So: an event is at most
three steps (6 s) behind anything that was read before it, which leaves two transactions of room. It must be so,
because Spark drops a late event or not depending on where an epoch ends, and then no one could say what is right.
Only users named ``late-…`` are truly late; they are checked apart.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

WINDOW_MS = 60_000
STEP_MS = 2_000
START_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1000
LATE_USER = "late-"
CLOSING_USER = "closing"

_STEPS_PER_WINDOW = WINDOW_MS // STEP_MS
_WATERMARK_MS = 10_000
_CLOSING_STEPS = _WATERMARK_MS // STEP_MS + 2
_SPECIAL_USERS = 5  # fraudulent ones, and as many that stay just below, in each window
LATE_ON_TIME = 12  # payments of a late user that come in time
_LATE_TOO_LATE = 3
_ABORTED_EVERY = 8  # transactions, on average
_MALFORMED_EVERY = 20

MALFORMED = (
    b'{"user_id": "cut-off", "amount": 1.',
    b"no JSON at all",
    b"\xff\xfe\xfd",
    b'{"user_id": "wrong-type", "amount": "much", "event_time": "2026-01-01T00:00:00.000Z"}',
    b"",
)
"""Records that no reader can take for a payment."""


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment. ``event_ms``: milliseconds since 1970, UTC."""

    number: int
    user_id: str
    cents: int
    event_ms: int

    @property
    def amount(self) -> Decimal:
        """The amount, with two digits behind the point."""
        return Decimal(self.cents).scaleb(-2)

    def to_json(self) -> bytes:
        """The record's value."""
        at = datetime.fromtimestamp(self.event_ms / 1000, UTC).isoformat(timespec="milliseconds")
        fields = {"number": self.number, "user_id": self.user_id, "event_time": at.replace("+00:00", "Z")}
        # The amount goes in as it is written: a float would not be exact.
        return f'{json.dumps(fields)[:-1]}, "amount": {self.amount}}}'.encode()


@dataclass(frozen=True, slots=True)
class Transaction:
    """What is written in one transaction of the producer.

    Attributes:
        payments: In the order of writing.
        malformed: Values that are no payments.
        committed: False: it is aborted on purpose.
    """

    payments: tuple[Payment, ...]
    malformed: tuple[bytes, ...] = ()
    committed: bool = True


class Payments:
    """All transactions of one run.

    Args:
        records: How many payments are committed, late and closing ones included.
        seed: The same seed makes the same run.
    """

    def __init__(self, records: int, seed: int) -> None:
        self.windows = min(12, max(8, records // 10_000))
        self.steps = self.windows * _STEPS_PER_WINDOW
        self._random = random.Random(seed)  # noqa: S311 - the same seed must make the same payments
        self._numbers = itertools.count()
        self._late_windows = range(0, self.windows - 3, 3)
        self._special = [self._special_of(window) for window in range(self.windows)]
        special = sum(len(of_step) for window in self._special for of_step in window.values())
        self._too_late = len(self._late_windows) * _LATE_TOO_LATE
        self._normal = records - special - self._too_late - _CLOSING_STEPS
        if self._normal < self.steps:
            raise ValueError(f"{records} payments are too few for {self.windows} windows")
        users = max(100, self._normal // self.windows // 2)
        self._users = [f"user-{n}" for n in range(users)]
        self._weights = list(itertools.accumulate(1 / (n + 1) for n in range(users)))

    def __len__(self) -> int:
        """The number of steps, that is of transactions that are meant to commit."""
        return self.steps + _CLOSING_STEPS

    def __iter__(self) -> Iterator[Transaction]:
        """The transactions, in order; once."""
        # Where a payment of step s goes: into this transaction or one of the next two.
        ahead: list[list[Payment]] = [[], [], []]
        for step in range(self.steps):
            for payment in self._payments_of(step):
                ahead[self._random.randrange(3)].append(payment)
            yield self._transaction(ahead.pop(0), self._too_late_at(step), step)
            ahead.append([])
            if self._aborts_after(step):
                yield self._aborted(step)
        for step in range(self.steps, self.steps + _CLOSING_STEPS):
            closing = self._payment(CLOSING_USER, START_MS + step * STEP_MS + STEP_MS // 2)
            yield Transaction((*ahead.pop(0), closing))
            ahead.append([])

    def _transaction(self, on_time: list[Payment], late: list[Payment], step: int) -> Transaction:
        payments = on_time + late
        self._random.shuffle(payments)
        bad = step % _MALFORMED_EVERY == 1
        malformed = (MALFORMED[step // _MALFORMED_EVERY % len(MALFORMED)],) if bad else ()
        return Transaction(tuple(payments), malformed)

    def _payments_of(self, step: int) -> Iterator[Payment]:
        window, step_in_window = divmod(step, _STEPS_PER_WINDOW)
        yield from (self._payment(user, self._time_in(step)) for user in self._special[window].get(step_in_window, ()))
        count = self._normal * (step + 1) // self.steps - self._normal * step // self.steps
        for user in self._random.choices(self._users, cum_weights=self._weights, k=count):
            yield self._payment(user, self._time_in(step))

    def _special_of(self, window: int) -> dict[int, list[str]]:
        """Users whose number of payments in a window is chosen, by the step of each payment."""
        counts = {f"fraud-{window}-{n}": 11 + n * 5 for n in range(_SPECIAL_USERS)}
        counts |= {_honest(window, n): 10 for n in range(_SPECIAL_USERS)}
        if window in self._late_windows:
            counts[f"{LATE_USER}{window}"] = LATE_ON_TIME
        steps: dict[int, list[str]] = {}
        for user, count in counts.items():
            for _ in range(count):
                steps.setdefault(self._random.randrange(_STEPS_PER_WINDOW), []).append(user)
        return steps

    def _too_late_at(self, step: int) -> list[Payment]:
        """Payments for a window that closed more than a minute ago."""
        window, step_in_window = divmod(step, _STEPS_PER_WINDOW)
        of = window - 3
        if of not in self._late_windows or step_in_window >= _LATE_TOO_LATE:
            return []
        return [self._payment(f"{LATE_USER}{of}", START_MS + of * WINDOW_MS + WINDOW_MS // 2)]

    def _aborts_after(self, step: int) -> bool:
        return step == _ABORTED_EVERY or self._random.random() < 1 / _ABORTED_EVERY

    def _aborted(self, step: int) -> Transaction:
        """Payments that would make false alerts, and wrong totals in true ones, if anyone read them."""
        window = step // _STEPS_PER_WINDOW
        users = [_honest(window, n) for n in range(_SPECIAL_USERS)]
        users += [f"fraud-{window}-{n}" for n in range(_SPECIAL_USERS)] + self._users[:10]
        return Transaction(tuple(self._payment(user, self._time_in(step)) for user in users), committed=False)

    def _payment(self, user: str, event_ms: int) -> Payment:
        return Payment(next(self._numbers), user, self._random.randrange(100, 50_000), event_ms)

    def _time_in(self, step: int) -> int:
        return START_MS + step * STEP_MS + self._random.randrange(STEP_MS)


def _honest(window: int, number: int) -> str:
    """A user with exactly ten payments in a window: one more would be an alert."""
    return f"honest-{window}-{number}"
