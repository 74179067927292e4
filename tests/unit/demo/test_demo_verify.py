"""The judge must be able to say no: lost, doubled, wrong, withdrawn, and a proof that proves nothing."""

from dataclasses import replace
from decimal import Decimal

import pytest

from onceflow.demo.chaos import Kill
from onceflow.demo.payments import LATE_ON_TIME, START_MS, WINDOW_MS, Payment, Payments
from onceflow.demo.reader import Record
from onceflow.demo.report import Report
from onceflow.demo.verify import (
    Alert,
    Topic,
    Totals,
    compare,
    compare_late,
    expected_alerts,
    is_late,
    judge,
    read_alert,
)

ONE = Alert("u1", START_MS, 11, Decimal("110.00"))
TWO = Alert("u2", START_MS, 12, Decimal("0.12"))
KILLS = [Kill("job", "", 9.0), Kill("broker", "", 5.0), Kill("job", "", 9.0)]


def counts(comparison):
    return comparison.lost, comparison.duplicated, comparison.wrong


def value(alert):
    """An alert as the job's sink writes it."""
    start = f"2026-01-01T00:{(alert.window_ms - START_MS) // WINDOW_MS:02}:00.000Z"
    window = f'{{"start":"{start}","end":"x"}}'
    return (
        f'{{"window":{window},"user_id":"{alert.user_id}","transactions":{alert.transactions},"total":{alert.total}}}'
    ).encode()


def records(values):
    return [Record(0, offset, value) for offset, value in enumerate(values)]


class TestCompare:
    def test_right(self):
        """What must be there, each once, in any order, is right."""
        assert counts(compare([ONE, TWO], [TWO, ONE])) == (0, 0, 0)

    def test_lost(self):
        """A missing alert is lost."""
        assert counts(compare([ONE, TWO], [TWO])) == (1, 0, 0)

    def test_doubled(self):
        """An equal alert twice is one too many; three times, two."""
        assert counts(compare([ONE, TWO], [ONE, ONE, TWO])) == (0, 1, 0)
        assert counts(compare([ONE, TWO], [ONE, ONE, ONE, TWO])) == (0, 2, 0)

    def test_wrong_number(self):
        """A count that a doubled or lost payment makes is wrong, and the alert is not lost as well."""
        assert counts(compare([ONE], [replace(ONE, transactions=12)])) == (0, 0, 1)

    def test_wrong_total(self):
        """One cent is enough."""
        assert counts(compare([ONE], [replace(ONE, total=Decimal("110.01"))])) == (0, 0, 1)

    def test_nobody_asked(self):
        """An alert for a user or a window that must have none is wrong."""
        assert counts(compare([ONE], [ONE, TWO])) == (0, 0, 1)
        assert counts(compare([ONE], [ONE, replace(ONE, window_ms=START_MS + WINDOW_MS)])) == (0, 0, 1)

    def test_twice_with_different_contents(self):
        """A right and a wrong alert for the same user and window are one too many and one wrong."""
        assert counts(compare([ONE], [ONE, replace(ONE, transactions=12)])) == (0, 1, 1)

    def test_lost_and_doubled_do_not_cancel_out(self):
        """Equal numbers of alerts prove nothing."""
        assert counts(compare([ONE, TWO], [ONE, ONE])) == (1, 1, 0)


class TestLateUsers:
    def late(self, *counts_found):
        payments = [Payment(n, "late-0", 100, START_MS + n) for n in range(15)]
        found = [Alert("late-0", START_MS, n, Decimal(n)) for n in counts_found]
        return counts(compare_late(payments, found, on_time=12))

    @pytest.mark.parametrize("count", [12, 13, 15])
    def test_late_payments_may_count_or_not(self, count):
        """Whether Spark takes a late payment is open, from none of them to all."""
        assert self.late(count) == (0, 0, 0)

    def test_no(self):
        """But the alert must be there, once, with what was on time, and with no more than there is."""
        assert self.late() == (1, 0, 0)
        assert self.late(12, 12) == (0, 1, 0)
        assert self.late(11) == (0, 0, 1)
        assert self.late(16) == (0, 0, 1)


class TestExpected:
    def test_threshold_and_windows(self):
        """More than ten in one window; ten, or eleven over two windows, are none."""
        ten = [Payment(n, "ten", 1, START_MS + n) for n in range(10)]
        split = [Payment(n, "split", 1, START_MS + WINDOW_MS - 5 + n) for n in range(11)]
        eleven = [Payment(n, "eleven", 1, START_MS + WINDOW_MS - 11 + n) for n in range(11)]
        assert expected_alerts(ten + split + eleven) == [Alert("eleven", START_MS, 11, Decimal("0.11"))]

    def test_totals_tell_a_missing_payment(self):
        """If the topic does not hold what the producer committed, the difference shows."""
        some, more = Totals(), Totals()
        for payment in (Payment(1, "u", 100, START_MS), Payment(2, "v", 100, START_MS)):
            some.add(payment)
            more.add(payment)
        assert some.difference(more) == 0
        more.add(Payment(3, "u", 100, START_MS))
        assert (some.difference(more), more.difference(some)) == (1, 1)

    @pytest.mark.parametrize("text", ["2026-01-01T00:00:00.000Z", "2026-01-01T02:00:00.000+02:00"])
    def test_read_alert(self, text):
        """What the job writes is read exactly, whatever zone its session has."""
        wire = f'{{"window":{{"start":"{text}","end":"x"}},"user_id":"u1","transactions":11,"total":110.00}}'
        assert read_alert(wire.encode()) == ONE


class TestJudge:
    @pytest.fixture(scope="class")
    @classmethod
    def input_topic(cls):
        """A whole run's input: the topic as both readers see it, what was written, and the right output."""
        every = list(Payments(5_000, seed=1))
        committed = [p for t in every if t.committed for p in t.payments]
        values = [v for t in every if t.committed for v in (*(p.to_json() for p in t.payments), *t.malformed)]
        aborted = [p.to_json() for t in every if not t.committed for p in t.payments]
        written = Totals()
        for payment in committed:
            written.add(payment)
        right = expected_alerts([p for p in committed if not is_late(p.user_id)])
        late = [p for p in committed if is_late(p.user_id)]
        right += [replace(alert, transactions=LATE_ON_TIME, total=Decimal(1)) for alert in expected_alerts(late)]
        return Topic(records(values), records(values + aborted)), written, right

    def judged(self, input_topic, found, seen=(), uncommitted=()):
        payments, written, _ = input_topic
        alerts = records([value(alert) for alert in found])
        return judge(payments, Topic(alerts, [*alerts, *uncommitted]), seen, written)

    def test_right(self, input_topic):
        """The right output of a whole run is right, and what was aborted is counted."""
        found = self.judged(input_topic, input_topic[2], uncommitted=[Record(3, 0, b"x")])
        assert (found.lost, found.duplicated, found.wrong, found.withdrawn, found.payments_missing) == (0, 0, 0, 0, 0)
        assert found.records == 5_000
        assert found.alerts_expected == found.alerts_found == len(input_topic[2])
        assert found.malformed > 0
        assert found.aborted_payments > 0
        assert found.aborted_alerts == 1

    def test_each_alert_counts(self, input_topic):
        """Whichever alert is missing or doubled, late users' too, it is found."""
        right = input_topic[2]
        for n in (0, len(right) // 2, len(right) - 1):
            assert self.judged(input_topic, right[:n] + right[n + 1 :]).lost == 1
            assert self.judged(input_topic, [*right, right[n]]).duplicated == 1

    def test_a_job_that_reads_aborted_payments(self, input_topic):
        """A job that reads uncommitted is found out."""
        every = [p for t in Payments(5_000, seed=1) for p in t.payments]
        found = self.judged(input_topic, expected_alerts(every))
        assert found.wrong > 10

    def test_unreadable_alert(self, input_topic):
        """A record that is no alert is wrong."""
        payments, written, right = input_topic
        alerts = records([*(value(alert) for alert in right), b"{}", None])
        assert judge(payments, Topic(alerts, alerts), (), written).wrong == 2

    def test_seen_and_gone(self, input_topic):
        """What a read_committed consumer has seen must still be there."""
        assert self.judged(input_topic, input_topic[2], seen=[Record(1, 99, b"x")]).withdrawn == 1


class TestVerdict:
    @pytest.fixture
    def good(self):
        findings = judge(
            Topic(records([Payment(n, "u1", 1000, START_MS).to_json() for n in range(11)]), records([b"x"] * 12)),
            Topic(records([value(ONE)]), records([value(ONE)])),
            (),
            self.totals(),
        )
        return Report(1, True, findings, 0, KILLS, 3, 0, 143, 100.0)

    def totals(self):
        totals = Totals()
        for n in range(11):
            totals.add(Payment(n, "u1", 1000, START_MS))
        return totals

    def test_pass(self, good):
        """Nothing wrong, three kills recovered from, aborted records seen: PASS."""
        assert good.verdict == "PASS"
        assert good.as_json()["verdict"] == "PASS"
        assert good.as_text().splitlines()[-1] == "verdict: PASS"

    @pytest.mark.parametrize("field", ["lost", "duplicated", "wrong", "withdrawn"])
    def test_fail(self, good, field):
        """A single one fails."""
        bad = replace(good, findings=replace(good.findings, **{field: 1}))
        assert bad.verdict == "FAIL"
        assert "FAIL" in bad.as_text()

    def test_open_transaction_fails(self, good):
        """A transaction of the job that stays open fails: it blocks every reader behind it."""
        assert replace(good, open_transactions=1).verdict == "FAIL"

    def test_failure_beats_a_gap(self, good):
        """Something wrong is FAIL even if the proof is empty."""
        assert replace(good, kills=[], findings=replace(good.findings, lost=1)).verdict == "FAIL"

    @pytest.mark.parametrize("field", ["alerts_expected", "aborted_payments"])
    def test_empty_proof(self, good, field):
        """Without alerts or without aborted payments nothing was proven."""
        assert replace(good, findings=replace(good.findings, **{field: 0})).verdict == "UNKNOWN"

    def test_input_is_not_what_was_written(self, good):
        """If the producer's own payments are not there, the expectation is worth nothing."""
        assert replace(good, findings=replace(good.findings, payments_missing=1)).verdict == "UNKNOWN"

    def test_kills_must_have_happened(self, good):
        """Two kills, or one without recovery, prove less than was asked for; --no-chaos asks for none."""
        assert replace(good, kills=KILLS[:2]).verdict == "UNKNOWN"
        assert replace(good, kills=[*KILLS[:2], Kill("job", "", None)]).verdict == "UNKNOWN"
        assert replace(good, kills=[], chaos=False).verdict == "PASS"

    def test_json(self, good):
        """The fields that programs rely on."""
        told = good.as_json()
        wanted = "records alerts_expected alerts_found lost duplicated wrong aborted_seen_uncommitted kills verdict"
        assert set(wanted.split()) <= told.keys()
        assert told["kills"] == 3
        assert told["aborted_seen_uncommitted"] == 1
        assert [kill["seconds_to_recover"] for kill in told["killed"]] == [9.0, 5.0, 9.0]
