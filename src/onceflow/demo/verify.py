"""The judge: what the alerts must be, recomputed from the payments, against what is there.

Its code shares nothing with the job's: plain Python over what an independent consumer read. Must not know: the
generator's plan beyond its records, Spark, the journal, who was killed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from onceflow.demo.payments import LATE_ON_TIME, LATE_USER, WINDOW_MS, Payment
from onceflow.demo.reader import Record

THRESHOLD = 10
"""An alert is for more payments than this by one user in one window."""

Key = tuple[str, int]
"""User and start of the window in milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert."""

    user_id: str
    window_ms: int
    transactions: int
    total: Decimal

    @property
    def key(self) -> Key:
        """What there may be one alert for."""
        return self.user_id, self.window_ms


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is wrong with the alerts.

    Attributes:
        lost: Windows of users without the alert that they must have.
        duplicated: Alerts beyond the first for the same window and user.
        wrong: Alerts with another number or total than the payments give, or for a user who must have none.
        examples: Some of these, in words.
    """

    lost: int = 0
    duplicated: int = 0
    wrong: int = 0
    examples: tuple[str, ...] = ()


@dataclass(slots=True)
class Totals:
    """Number and sum of the payments of each user in each window."""

    of: dict[Key, tuple[int, Decimal]] = field(default_factory=dict)

    def add(self, payment: Payment) -> None:
        """One more payment."""
        key = (payment.user_id, payment.event_ms // WINDOW_MS * WINDOW_MS)
        count, total = self.of.get(key, (0, Decimal(0)))
        self.of[key] = (count + 1, total + payment.amount)

    def difference(self, other: Totals) -> int:
        """By how many payments these differ from others, at least."""
        nothing = (0, Decimal(0))
        different = 0
        for key in self.of.keys() | other.of.keys():
            mine, theirs = self.of.get(key, nothing), other.of.get(key, nothing)
            if mine != theirs:
                different += max(1, abs(mine[0] - theirs[0]))
        return different

    def alerts(self) -> list[Alert]:
        """The alerts that these payments must give."""
        return [Alert(*key, count, total) for key, (count, total) in self.of.items() if count > THRESHOLD]


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's records, as two readers see them."""

    committed: Sequence[Record]
    uncommitted: Sequence[Record]

    @property
    def aborted(self) -> int:
        """Records that only the read_uncommitted reader sees."""
        return len({_place(r) for r in self.uncommitted} - {_place(r) for r in self.committed})


@dataclass(frozen=True, slots=True)
class Findings:
    """What the judge found.

    Attributes:
        records: Committed payments that the reader found.
        malformed: Committed records that are no payments.
        payments_missing: By how many payments the topic differs from what the producer committed.
        alerts_expected: Alerts that must be there.
        alerts_found: Alerts that a read_committed reader found.
        lost: Alerts that are missing.
        duplicated: Alerts that are there more often than once.
        wrong: Alerts with wrong contents.
        withdrawn: Records that a read_committed consumer saw on the way and that are not there now.
        aborted_payments: Payments in aborted transactions.
        aborted_alerts: Alerts in aborted transactions: work of killed epochs.
        examples: Some of what is wrong, in words.
    """

    records: int
    malformed: int
    payments_missing: int
    alerts_expected: int
    alerts_found: int
    lost: int
    duplicated: int
    wrong: int
    withdrawn: int
    aborted_payments: int
    aborted_alerts: int
    examples: tuple[str, ...] = ()


def judge(payments: Topic, alerts: Topic, seen: Iterable[Record], written: Totals) -> Findings:
    """Recompute every alert from the payments and hold it against those that are there.

    Args:
        payments: The job's input.
        alerts: The job's output.
        seen: What a read_committed consumer of the output saw while things happened.
        written: What the producer committed.
    """
    read = [read_payment(record.value) for record in payments.committed]
    there = [payment for payment in read if payment is not None]
    found, unreadable = [], 0
    for record in alerts.committed:
        try:
            found.append(read_alert(record.value))
        except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
            unreadable += 1
    on_time = [p for p in there if not is_late(p.user_id)]
    late = [p for p in there if is_late(p.user_id)]
    must = expected_alerts(on_time)
    main = compare(must, [a for a in found if not is_late(a.user_id)])
    apart = compare_late(late, [a for a in found if is_late(a.user_id)], LATE_ON_TIME)
    totals = Totals()
    for payment in there:
        totals.add(payment)
    return Findings(
        records=len(there),
        malformed=len(read) - len(there),
        payments_missing=totals.difference(written),
        alerts_expected=len(must) + len(expected_alerts(late)),
        alerts_found=len(alerts.committed),
        lost=main.lost + apart.lost,
        duplicated=main.duplicated + apart.duplicated,
        wrong=main.wrong + apart.wrong + unreadable,
        withdrawn=len(set(seen) - set(alerts.committed)),
        aborted_payments=payments.aborted,
        aborted_alerts=alerts.aborted,
        examples=main.examples + apart.examples,
    )


def expected_alerts(payments: Iterable[Payment]) -> list[Alert]:
    """The alerts that the payments must give, each once. Late users are judged by ``compare_late``."""
    totals = Totals()
    for payment in payments:
        totals.add(payment)
    return totals.alerts()


def compare(expected: Iterable[Alert], found: Iterable[Alert]) -> Comparison:
    """Hold what is there against what must be there, as multisets: an alert that is there twice is one too many."""
    must = {alert.key: alert for alert in expected}
    there = Counter(found)
    by_key: Counter[Key] = Counter()
    for alert, count in there.items():
        by_key[alert.key] += count
    lost = [key for key in must if key not in by_key]
    twice = {key: count - 1 for key, count in by_key.items() if count > 1}
    wrong = {alert: count for alert, count in there.items() if must.get(alert.key) != alert}
    examples = [f"lost: {must[key]}" for key in lost[:3]]
    examples += [f"{more} too many: {key}" for key, more in list(twice.items())[:3]]
    examples += [f"wrong: {alert}, expected {must.get(alert.key)}" for alert in list(wrong)[:3]]
    return Comparison(len(lost), sum(twice.values()), sum(wrong.values()), tuple(examples))


def compare_late(payments: Iterable[Payment], found: Iterable[Alert], on_time: int) -> Comparison:
    """Judge users some of whose payments came after their window had closed.

    Whether Spark still counts such a payment depends on where its epochs end. So each must have one alert, with at
    least the ``on_time`` payments and at most all.
    """
    totals = Totals()
    for payment in payments:
        totals.add(payment)
    found = list(found)
    must = {key for key, (count, _) in totals.of.items() if count > THRESHOLD}
    by_key = Counter(alert.key for alert in found)
    wrong = [
        alert
        for alert in found
        if alert.key not in must
        or not on_time <= alert.transactions <= totals.of[alert.key][0]
        or alert.total > totals.of[alert.key][1]
    ]
    lost = [key for key in must if key not in by_key]
    twice = sum(count - 1 for count in by_key.values())
    examples = [f"lost, late user: {key}" for key in lost[:3]] + [f"wrong, late user: {alert}" for alert in wrong[:3]]
    return Comparison(len(lost), twice, len(wrong), tuple(examples))


def is_late(user_id: str) -> bool:
    """Whether this user's payments may come after their window has closed."""
    return user_id.startswith(LATE_USER)


def read_payment(value: bytes | None) -> Payment | None:
    """The payment in a record's value, or None when it is none."""
    try:
        fields = _object(value)
        amount = fields["amount"]
        if not isinstance(amount, Decimal) or not isinstance(fields["user_id"], str):
            return None
        return Payment(
            int(fields["number"]), fields["user_id"], int(amount.scaleb(2)), _milliseconds(fields["event_time"])
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def read_alert(value: bytes | None) -> Alert:
    """The alert in a record's value.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: It is none.
    """
    fields = _object(value)
    window: Mapping[str, str] = fields["window"]
    return Alert(
        str(fields["user_id"]), _milliseconds(window["start"]), int(fields["transactions"]), Decimal(fields["total"])
    )


def _place(record: Record) -> tuple[int, int]:
    return record.partition, record.offset


def _object(value: bytes | None) -> Mapping[str, Any]:
    fields = json.loads((value or b"").decode(), parse_float=Decimal, parse_int=Decimal)
    if not isinstance(fields, dict):
        raise TypeError("not a JSON object")
    return fields


def _milliseconds(text: str) -> int:
    at = datetime.fromisoformat(text)
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
