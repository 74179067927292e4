"""The payments of the demo: what the proof needs of them, from the records alone."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

import onceflow.demo
from onceflow.demo.payments import MALFORMED, START_MS, STEP_MS, WINDOW_MS, Payments
from onceflow.demo.verify import THRESHOLD, Totals, expected_alerts, is_late, read_payment

RECORDS = 20_000


@pytest.fixture(scope="module")
def transactions():
    return list(Payments(RECORDS, seed=7))


def committed(transactions):
    return [payment for t in transactions if t.committed for payment in t.payments]


@pytest.mark.parametrize(("records", "seed"), [(5_000, 1), (20_000, 1), (20_000, 2), (150_000, 3)])
def test_number_of_payments(records, seed):
    """Exactly as many payments are committed as were asked for, each with a number of its own."""
    every = list(Payments(records, seed))
    assert len(committed(every)) == records
    numbers = [payment.number for t in every for payment in t.payments]
    assert len(set(numbers)) == len(numbers)


def test_same_seed_same_payments(transactions):
    """A seed stands for one run; another one for another."""
    assert list(Payments(RECORDS, seed=7)) == transactions
    assert list(Payments(RECORDS, seed=8)) != transactions


def test_too_few():
    """A number that cannot fill the windows is refused."""
    with pytest.raises(ValueError, match="too few"):
        Payments(1_000, 1)


def test_within_the_watermark(transactions):
    """Nobody but late users is more than 6 s behind anything that an epoch may have read before it.

    Partitions of one epoch may differ by the one transaction whose markers are being written, so a transaction's own
    newest event counts as read before its oldest.
    """
    newest = 0
    for transaction in (t for t in transactions if t.committed):
        on_time = [p.event_ms for p in transaction.payments if not is_late(p.user_id)]
        newest = max(newest, *on_time)
        assert newest - min(on_time) < 3 * STEP_MS < 10_000


def test_out_of_order(transactions):
    """Event times do not come sorted."""
    times = [p.event_ms for p in committed(transactions) if not is_late(p.user_id)]
    assert sum(a > b for a, b in pairwise(times)) > len(times) / 4


def test_every_window_closes(transactions):
    """The last transaction moves the watermark past the end of every window with an alert."""
    alerts = expected_alerts(committed(transactions))
    last = max(p.event_ms for p in transactions[-1].payments)
    assert max(alert.window_ms for alert in alerts) + WINDOW_MS + 10_000 < last


def test_aborted_payments_would_change_alerts(transactions):
    """Whoever reads aborted payments gets alerts that are false and totals that are wrong."""
    right = {alert.key: alert for alert in expected_alerts(committed(transactions))}
    fooled = {alert.key: alert for alert in expected_alerts([p for t in transactions for p in t.payments])}
    assert len(fooled.keys() - right.keys()) >= 8
    assert sum(fooled[key] != right[key] for key in right) >= 8


def test_a_single_payment_decides(transactions):
    """In each window there are users with exactly as many payments as make no alert, and with one more."""
    totals = Totals()
    for payment in committed(transactions):
        totals.add(payment)
    by_window = Counter()
    for (_, window), (count, _) in totals.of.items():
        by_window[window, count] += 1
    for window in range(START_MS, START_MS + 8 * WINDOW_MS, WINDOW_MS):
        assert by_window[window, THRESHOLD] >= 1
        assert by_window[window, THRESHOLD + 1] >= 1


def test_skewed(transactions):
    """The busiest user pays a hundred times more often than the median one."""
    counts = sorted(Counter(p.user_id for p in committed(transactions)).values())
    assert counts[-1] > 100 * counts[len(counts) // 2]


def test_late_payments_come_after_their_window_closed(transactions):
    """Late payments are more than a window and the watermark behind, and there are some."""
    newest, late = 0, 0
    for payment in committed(transactions):
        if is_late(payment.user_id) and payment.event_ms // WINDOW_MS < (newest - 10_000) // WINDOW_MS:
            late += 1
        newest = max(newest, payment.event_ms)
    assert late >= 3


def test_malformed_records_are_no_payments(transactions):
    """They are in committed transactions, and no reader takes one for a payment."""
    bad = [value for t in transactions if t.committed for value in t.malformed]
    assert set(bad) == set(MALFORMED)
    assert all(read_payment(value) is None for value in bad)


def test_a_payment_survives_the_wire(transactions):
    """What is written is what is read, to the cent and the millisecond."""
    for payment in transactions[0].payments + transactions[-1].payments:
        assert read_payment(payment.to_json()) == payment


@pytest.mark.parametrize("name", ["fraud.py", "fraud.sql"])
def test_the_demo_runs_the_example(name):
    """The job that the demo runs is the one in examples/, word for word; in Python it is in docs/start.md, too."""
    example = Path(__file__).parents[3] / "examples" / name
    assert (Path(onceflow.demo.__file__).parent / name).read_text() == example.read_text()
