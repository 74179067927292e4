"""What the examples read, made from a seed: for each topic its records in the order of writing.

Pure. Must not know: the jobs, Kafka.

Which event comes too late depends on where epochs end, so nothing here is near that border: events in time are at most
``_APART`` places from their order, seconds where watermarks wait for minutes; those that say ``late`` stand in the last
quarter with times of the beginning, hours behind, and no job may count them where it waits for a watermark. A run has
four epochs or more. The last records of each topic, of the key ``closing``, are two days later: by them all before is
closed. They are told apart since what they belong to stays open itself.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)
CLOSING = "closing"
SPAN = timedelta(hours=12)
_APART = 8


@dataclass(frozen=True, slots=True)
class Record:
    """One record: what it says, and when it is written, by its own clock."""

    value: Mapping[str, Any]
    at: datetime


Topics = dict[str, list[Record]]
Make = Callable[[int, random.Random], Topics]


def said(at: datetime) -> str:
    """A time as JSON."""
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def closers(topic: str, days: int) -> Record:
    """The record that closes what came before, once more for each day."""
    at = START + timedelta(days=days)
    value = {
        "sales": {"id": -days, "category": CLOSING, "store": CLOSING, "amount": 1, "sold_at": said(at)},
        "avro-payments": {"payment_id": CLOSING, "user_id": CLOSING, "amount": 1, "paid_at": said(at)},
        "orders": {"order_id": CLOSING, "amount": 1, "ordered_at": said(at)},
        "payments": {"payment_id": CLOSING, "paid_order": "", "paid_at": said(at)},
        "card-payments": {"payment_id": CLOSING, "card": CLOSING, "amount": 1, "refused": False, "at": said(at)},
        "clicks": {"user_id": CLOSING, "at": said(at)},
        "events": {"id": f"{CLOSING}-{days}", "amount": 1, "at": said(at)},
        "payments-abroad": {"payment_id": CLOSING, "currency": CLOSING, "amount": 1, "paid_at": said(at)},
        "rates": {"of_currency": "none", "rate": 1, "since": said(at)},
        "views": {"page": CLOSING, "at": said(at)},
    }[topic]
    return Record(value, at)


def _times(count: int, chance: random.Random, span: timedelta = SPAN) -> Iterator[datetime]:
    """Rising times, no two alike."""
    step = span / count
    for number in range(count):
        yield START + step * number + step * chance.uniform(0, 0.9)


def _shuffled(records: list[Record], chance: random.Random) -> list[Record]:
    """The order of writing: by time, but for neighbours."""
    records.sort(key=lambda record: record.at)
    places = [(number + chance.uniform(0, _APART), record) for number, record in enumerate(records)]
    return [record for _, record in sorted(places, key=lambda place: place[0])]


def _with_late(records: list[Record], late: Callable[[int, datetime], Mapping[str, Any]], count: int) -> list[Record]:
    """Put events of the beginning into the last quarter."""
    mixed = list(records)
    for number in range(count):
        place = len(mixed) * 3 // 4 + number * len(records) // (5 * count)
        at = START + timedelta(minutes=5, milliseconds=number)
        mixed.insert(place, Record({**late(number, at), "late": True}, mixed[place].at))
    return mixed


def sales(count: int, chance: random.Random, span: timedelta = SPAN) -> Topics:
    """Sales of five categories in four stores."""
    made = [
        Record(
            {
                "id": number,
                "category": f"category-{chance.randrange(5)}",
                "store": f"store-{chance.randrange(4)}",
                "amount": chance.randrange(100, 90_000) / 100,
                "sold_at": said(at),
            },
            at,
        )
        for number, at in enumerate(_times(count, chance, span))
    ]

    def late(number: int, at: datetime) -> dict[str, Any]:
        return {
            "id": count + number,
            "category": f"category-{number % 5}",
            "store": f"store-{number % 4}",
            "amount": 7.5,
            "sold_at": said(at),
        }

    return {"sales": _with_late(_shuffled(made, chance), late, 20)}


def sales_of_days(count: int, chance: random.Random) -> Topics:
    """Sales of three days, of which one is filled again."""
    return sales(count, chance, timedelta(days=3))


def payments_in_avro(count: int, chance: random.Random) -> Topics:
    """Payments of forty users."""

    def payment(number: int, amount: float, at: datetime) -> dict[str, Any]:
        user = f"user-{number * 7919 % 40}"
        return {"payment_id": f"payment-{number}", "user_id": user, "amount": amount, "paid_at": said(at)}

    made = [
        Record(payment(number, chance.randrange(100, 90_000) / 100, at), at)
        for number, at in enumerate(_times(count, chance))
    ]
    late = _with_late(_shuffled(made, chance), lambda number, at: payment(count + number, 7.5, at), 20)
    return {"avro-payments": late}


def orders_and_payments(count: int, chance: random.Random) -> Topics:
    """Orders; of each no payment, one in time, two, or one that comes too late."""
    orders, payments = [], []
    numbers = itertools.count()
    for number, at in enumerate(_times(count // 2, chance)):
        orders.append(Record({"order_id": f"order-{number}", "amount": number % 97 + 0.5, "ordered_at": said(at)}, at))
        kind = chance.random()
        minutes = [chance.uniform(0.1, 14.9)] if kind < 0.65 else [chance.uniform(16, 30)] if kind < 0.8 else []
        minutes += [chance.uniform(0.1, 14.9)] if kind < 0.05 else []
        for after in minutes:
            when = at + timedelta(minutes=after)
            value = {"payment_id": f"payment-{next(numbers)}", "paid_order": f"order-{number}", "paid_at": said(when)}
            payments.append(Record(value, when))

    def late(number: int, at: datetime) -> dict[str, Any]:
        return {"order_id": f"order-late-{number}", "amount": 1, "ordered_at": said(at)}

    return {"orders": _with_late(_shuffled(orders, chance), late, 10), "payments": _shuffled(payments, chance)}


def card_payments(count: int, chance: random.Random) -> Topics:
    """Payments of cards, of which some are refused thrice before a large one: in time, or too slowly."""
    made: list[Record] = []
    numbers = itertools.count()

    def pay(card: str, at: datetime, amount: int, *, refused: bool) -> None:
        value = {"payment_id": f"p-{next(numbers):06d}", "card": card, "amount": amount, "refused": refused}
        made.append(Record({**value, "at": said(at)}, at))

    patterns = list(_times(max(8, count // 40), chance))
    for number, at in enumerate(_times(count - 4 * len(patterns), chance)):
        pay(f"card-{number % 40}", at, chance.randrange(1, 2_000), refused=chance.random() < 0.2)
    for number, at in enumerate(patterns):
        step = timedelta(seconds=60 if number % 2 else 110)  # 60: all four in three minutes; 110: in five and a half
        for each in range(3):
            pay(f"thief-{number % 7}", at + step * each, 20, refused=True)
        pay(f"thief-{number % 7}", at + step * 3, 1_500, refused=False)

    def late(number: int, at: datetime) -> dict[str, Any]:
        # Three that are refused and a large one, of one card: an alert, if anybody took them.
        large = number % 4 == 3
        value = {"payment_id": f"late-{number:03d}", "card": f"late-{number // 4}", "amount": 5_000 if large else 1}
        return {**value, "refused": not large, "at": said(at)}

    return {"card-payments": _with_late(_shuffled(made, chance), late, 12)}


def clicks(count: int, chance: random.Random) -> Topics:
    """Clicks of users in bursts."""
    made = []
    for start in _times(max(10, count // 6), chance):
        user, at = f"user-{chance.randrange(30)}", start
        for _ in range(chance.randrange(1, 12)):
            made.append(Record({"user_id": user, "at": said(at)}, at))
            at += timedelta(seconds=chance.uniform(5, 500))
    return {
        "clicks": _with_late(
            _shuffled(made, chance), lambda number, at: {"user_id": f"user-{number}", "at": said(at)}, 15
        )
    }


def events(count: int, chance: random.Random) -> Topics:
    """Events, some repeated within minutes, some again after six hours, where they count as new."""
    made = []
    for number, at in enumerate(_times(count * 3 // 4, chance)):
        value = {"id": f"event-{number}", "amount": chance.randrange(1_000)}
        repeats = [at]
        if number % 4 == 0:
            repeats.append(at + timedelta(seconds=chance.uniform(1, 300)))
        if number % 12 == 0 and at < START + SPAN / 2:
            repeats.append(at + timedelta(hours=6))
        made += [Record({**value, "at": said(each)}, each) for each in repeats]

    def late(number: int, at: datetime) -> dict[str, Any]:
        return {"id": f"late-{number}", "amount": 1, "at": said(at)}

    return {"events": _with_late(_shuffled(made, chance), late, 15)}


def payments_and_rates(count: int, chance: random.Random) -> Topics:
    """Payments in three currencies, and their rates of each hour."""
    currencies = ("EUR", "GBP", "CHF")
    made = [
        Record(
            {
                "payment_id": f"payment-{number}",
                "currency": chance.choice(currencies),
                "amount": chance.randrange(100, 50_000) / 100,
                "paid_at": said(at),
            },
            at,
        )
        for number, at in enumerate(_times(count, chance))
    ]
    rates = [
        Record(
            {"of_currency": currency, "rate": chance.randrange(9_000, 13_000) / 10_000, "since": said(since)},
            since,
        )
        for since in (START + timedelta(hours=hour) for hour in range(int(SPAN / timedelta(hours=1)) + 1))
        for currency in currencies
    ]

    def late(number: int, at: datetime) -> dict[str, Any]:
        return {"payment_id": f"late-{number}", "currency": "EUR", "amount": 1, "paid_at": said(at)}

    return {"payments-abroad": _with_late(_shuffled(made, chance), late, 10), "rates": rates}


def views(count: int, chance: random.Random) -> Topics:
    """Views of pages."""
    made = [
        Record({"page": f"page-{chance.randrange(9)}", "at": said(at)}, at)
        for at in _times(count, chance, timedelta(hours=3))
    ]
    return {"views": _shuffled(made, chance)}
