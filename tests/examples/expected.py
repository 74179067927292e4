"""What the examples must have written, made again from what is in their topics, by plain Python.

Pure. Must not know: the jobs, Spark, how the records were made but for what they say themselves.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

Values = Sequence[Mapping[str, Any]]
Rows = Counter[tuple[Any, ...]]
HOUR, MINUTE = 3_600_000, 60_000


def ms(time: str) -> int:
    """A time as milliseconds since 1970."""
    return round(datetime.fromisoformat(time).timestamp() * 1000)


def in_time(values: Values) -> list[Mapping[str, Any]]:
    """Without those that came too late, and without what closes the rest."""
    return [v for v in values if "late" not in v and "closing" not in map(str, v.values())]


def by_window(values: Values, column: str, time: str, length: int) -> Rows:
    """Count and sum for each key and window."""
    count: Counter[tuple[str, int]] = Counter()
    total: dict[tuple[str, int], Decimal] = defaultdict(Decimal)
    for v in in_time(values):
        group = (v[column], ms(v[time]) // length * length)
        count[group] += 1
        total[group] += Decimal(v.get("amount", 0))
    return Counter({(*group, n, total[group].quantize(Decimal("0.01"))): 1 for group, n in count.items()})


def of_day(rows: Rows, first: int) -> Rows:
    """Those of one day."""
    return Counter({row: n for row, n in rows.items() if first <= row[1] < first + 24 * HOUR})


def paid(orders: Values, payments: Values) -> Rows:
    """Each order with each of its payments in time."""
    amounts = {o["order_id"]: (ms(o["ordered_at"]), Decimal(o["amount"])) for o in in_time(orders)}
    found: Rows = Counter()
    for p in in_time(payments):
        at, amount = amounts[p["paid_order"]]
        if at <= ms(p["paid_at"]) <= at + 15 * MINUTE:
            found[p["paid_order"], p["payment_id"], amount] += 1
    return found


def unpaid(orders: Values, payments: Values) -> Rows:
    """Orders without one."""
    settled = {order for order, _, _ in paid(orders, payments)}
    return Counter((o["order_id"], Decimal(o["amount"])) for o in in_time(orders) if o["order_id"] not in settled)


def late(orders: Values, payments: Values) -> Rows:
    """Payments that came too late."""
    settling = {payment for _, payment, _ in paid(orders, payments)}
    return Counter((p["payment_id"],) for p in in_time(payments) if p["payment_id"] not in settling)


def alerts(payments: Values) -> Rows:
    """Three refused payments of a card and a large one, within five minutes."""
    cards: dict[str, list[tuple[int, str, int, bool]]] = defaultdict(list)
    for p in in_time(payments):
        cards[p["card"]].append((ms(p["at"]), p["payment_id"], p["amount"], p["refused"]))
    found: Rows = Counter()
    for card, theirs in cards.items():
        theirs.sort()
        for number, (at, payment, amount, refused) in enumerate(theirs):
            before = [t for t, _, _, was_refused in theirs[:number] if was_refused and t >= at - 5 * MINUTE]
            if not refused and amount > 1000 and len(before) >= 3:
                found[card, payment, at] += 1
    return found


def sessions(clicks: Values) -> Rows:
    """Clicks of a user with less than ten minutes between them."""
    users: dict[str, list[int]] = defaultdict(list)
    for c in in_time(clicks):
        users[c["user_id"]].append(ms(c["at"]))
    return Counter(
        (user, run[0], run[-1] + 10 * MINUTE, len(run)) for user, times in users.items() for run in _runs(times)
    )


def _runs(times: Iterable[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for at in sorted(times):
        if runs and at - runs[-1][-1] < 10 * MINUTE:
            runs[-1].append(at)
        else:
            runs.append([at])
    return runs


def once(events: Values) -> Rows:
    """Each id once for all that came within three hours: repetitions come within minutes, or after six hours."""
    times: dict[tuple[str, int], list[int]] = defaultdict(list)
    for e in in_time(events):
        if not e["id"].startswith("closing"):
            times[e["id"], e["amount"]].append(ms(e["at"]))
    found: Rows = Counter()
    for (name, amount), theirs in times.items():
        first = None
        for at in sorted(theirs):
            if first is None or at - first > 3 * HOUR:
                first = at
                found[name, amount] += 1
    return found


def in_dollars(payments: Values, rates: Values) -> Rows:
    """Each payment at the rate of its hour."""
    known = {(r["of_currency"], ms(r["since"])): Decimal(r["rate"]) for r in rates}
    found: Rows = Counter()
    for p in in_time(payments):
        rate = known[p["currency"], ms(p["paid_at"]) // HOUR * HOUR]
        dollars = Decimal(p["amount"]) * rate
        found[p["payment_id"], dollars.quantize(Decimal("0.0001"), ROUND_HALF_UP)] += 1
    return found


def copied(sales: Values) -> Rows:
    """Each sale, also those that come late: nothing waits for a watermark."""
    return Counter((s["id"], s["category"], Decimal(s["amount"]).quantize(Decimal("0.01"))) for s in sales)
