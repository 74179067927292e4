"""One job through all that may happen to it: a cluster, a checkpoint on HDFS, savepoints, other code, other partitions.

What must be in the output is recomputed from the payments by plain Python after each step, and the audit has its say.
"""

import json
import random
from collections import Counter

import pytest

from tests.support import elsewhere
from tests.support.harness import JOBS, rows_of, wait_until
from tests.support.hdfs import MiniHdfs, OnHdfs
from tests.support.standalone import Standalone, config, settings

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.clusters]

WAVE = 3_000
USERS = 20
A_MINUTE_MS, LATE_MS, EVERY_MS = 60_000, 10_000, 50
FILE = str(JOBS / "fraud_job.py")


def payment(number: int) -> bytes:
    """The payment of a number: one each 50 ms, of a user by chance, and the same whenever it is asked for."""
    chance = random.Random(number)
    told = {"user": f"u{chance.randrange(USERS)}", "amount": chance.randrange(1, 500), "at_ms": EVERY_MS * number}
    return json.dumps(told).encode()


Alert = tuple[str, int, int, int]
"""User, end of the window, number of payments, their sum."""


def alerts(sent: int, more_than: int, since_ms: int = 0) -> Counter[Alert]:
    """The alerts for windows that ended behind a watermark, and of which no payment can come any more."""
    count: Counter[tuple[str, int]] = Counter()
    total: Counter[tuple[str, int]] = Counter()
    for number in range(sent):
        told = json.loads(payment(number))
        window = told["user"], (told["at_ms"] // A_MINUTE_MS + 1) * A_MINUTE_MS
        count[window] += 1
        total[window] += told["amount"]
    until_ms = EVERY_MS * (sent - 1) - LATE_MS
    return Counter(
        (*window, n, total[window]) for window, n in count.items() if n > more_than and since_ms < window[1] <= until_ms
    )


def watermark_ms(offsets: str | bytes) -> int:
    """Up to where an epoch has closed windows, as Spark wrote it."""
    return int(json.loads(offsets.splitlines()[1])["batchWatermarkMs"])


class Person:
    """Somebody at a shell, with the job."""

    def __init__(self, p: OnHdfs) -> None:
        self.p = p

    def types(self, *words: str, code: int = 0, **environment: str) -> tuple[dict, str]:
        """A command: its object, and what it said."""
        done = self.p.command(*words, "--output", "json", **environment)
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1]), done.stderr

    def moves(self, name: str, **environment: str) -> "Person":
        """The same job file, with another place for its checkpoint."""
        return Person(self.p.moved(name, **environment))

    def sees(self, expected: Counter[Alert]) -> None:
        """These alerts, each as often, and no other."""
        told = ((key, json.loads(value)) for key, value in self.p.read())
        found = Counter((key.decode(), at["end_ms"], at["payments"], at["total"]) for key, at in told)
        assert found == expected, (list((expected - found).items())[:5], list((found - expected).items())[:5])

    def audits(self, *options: str, code: int = 0) -> dict:
        """The audit's report."""
        return self.types("audit", FILE, *options, code=code)[0]

    def is_proven(self, *options: str) -> None:
        """The audit finds each decided row as it was decided, and nothing else that is wrong."""
        report = self.audits(*options)
        assert report["good"], report
        assert report["rows"] == sum(rows_of(d) for d in self.p.decisions()), report
        assert (report["missing"], report["changed"], report["unknown"]) == (0, 0, 0), report


def on_cluster(standalone: Standalone, folder) -> dict[str, str]:
    """What a job's process is told to run there."""
    return {
        "ONCEFLOW_CONFIG": config(folder, settings(standalone.url)),
        "ONCEFLOW_RUNTIME_DIR": str(folder / "run"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@pytest.mark.timeout(600)
def test_a_driver_on_a_cluster_is_killed_and_its_parent_starts_another(cluster, new_topic, tmp_path):
    """With its checkpoint on HDFS, which the parent does not read; each row is there once, and the death is kept."""
    with Standalone(tmp_path / "standalone") as standalone:
        hdfs = MiniHdfs(tmp_path / "hdfs").start()
        try:
            p = OnHdfs(cluster, new_topic(4), new_topic(4), tmp_path / "first", "count", hdfs=hdfs)
            p.environment = on_cluster(standalone, tmp_path)
            p.send(elsewhere.RECORDS)
            elsewhere.a_parent_starts_it_again(p)
        finally:
            hdfs.kill()


@pytest.mark.timeout(900)
def test_the_fraud_job_travels(cluster, new_topic, tmp_path, processes, produce):
    """Through all of it alerts are there twice only where that was said, and exactly those; the audit proves each run.

    Saved while it runs, a worker killed, stopped; gone on from with another threshold in four partitions, its driver
    killed; then from an older epoch as a new job. A receipt that is changed and a record of a stranger are found.
    """
    with Standalone(tmp_path / "standalone") as standalone:
        hdfs = MiniHdfs(tmp_path / "hdfs").start()
        try:
            p = OnHdfs(cluster, new_topic(4), new_topic(4), tmp_path / "first", "fraud", 600, hdfs=hdfs)
            p.environment = {"MORE_THAN": "55", **on_cluster(standalone, tmp_path)}
            first = Person(p)
            of_first, since_ms = _saved_and_stopped(first, standalone, processes)
            second, of_second = _resumed(first, of_first, since_ms)
            third, of_third = _gone_back(second, of_first, of_second)
            for each in (first, second, third):
                each.is_proven("--shared")
                assert each.p.open_transactions() == []
            assert len({each.p.job_id() for each in (first, second, third)}) == 3
            third.sees(of_first + of_second + of_third)
            _tampered(third, (of_first + of_second).total(), produce)
        finally:
            hdfs.kill()


def _saved_and_stopped(first: Person, standalone: Standalone, processes: list) -> tuple[Counter[Alert], int]:
    """A savepoint while it runs, a worker and all on it killed, stopped; its alerts, and since when they are new."""
    p = first.p
    p.send(WAVE, value=payment)
    running = p.start(UNTIL="stopped")
    processes.append(running)
    wait_until(lambda: running.poll() is not None or p.read(), 150, "the first alerts")
    assert running.poll() is None, p.end(running).log
    first.types("savepoint", "create", "fraud", f"{p.uri}-s")
    since_ms = watermark_ms(first.types("savepoint", "show", f"{p.uri}-s")[0]["offsets"])
    p.send(WAVE, value=payment)
    standalone.workers[0].kill()
    standalone.refill()
    expected = alerts(2 * WAVE, 55)
    wait_until(lambda: len(p.read()) >= expected.total(), 150, "the alerts behind the worker's death")
    first.types("stop", "fraud")
    ended = p.end(running)
    assert ended.code == 0, ended.log
    first.sees(expected)
    first.is_proven()
    return expected, since_ms


def _resumed(first: Person, before: Counter[Alert], since_ms: int) -> tuple[Person, Counter[Alert]]:
    """Another threshold, four partitions, and a death with a decision of which nobody was told."""
    p = first.p
    rescaled, _ = first.types("savepoint", "rescale", f"{p.uri}-s", f"{p.uri}-s4", "4")
    assert rescaled["partitions"] == 4
    second = first.moves("second", MORE_THAN="60")
    p.send(WAVE, value=payment)
    resume = ("run", FILE, "--until", "caught-up", "--yes", "-s", f"{p.uri}-s4")
    died = second.p.command(*resume, ONCEFLOW_CRASH="D5")
    assert died.returncode == -9, died.stderr
    assert second.p.mark.exists()
    again = alerts(2 * WAVE, 55, since_ms)
    assert f"sink {p.sink}: {again.total()} rows" in died.stderr
    assert "the job goes on there" in second.types(*resume)[1]
    expected = alerts(3 * WAVE, 60, since_ms)
    second.sees(before + expected)
    assert before & expected, "nothing was to be written twice"
    second.is_proven("--shared")
    kept = second.p.store.below("state").below("0").names()
    assert sorted(filter(str.isdigit, kept)) == list("0123")
    return second, expected


def _gone_back(second: Person, of_first: Counter[Alert], of_second: Counter[Alert]) -> tuple[Person, Counter[Alert]]:
    """An older epoch of the second run, as a third job."""
    p = second.p
    older = p.decisions()[0]["epoch"]
    since_ms = watermark_ms(p.store.below("offsets").read(str(older)))
    third = second.moves("third")
    p.send(WAVE, value=payment)
    _, said = third.types("run", FILE, "--until", "caught-up", "--yes", "-s", f"{p.uri}@{older}")
    again = alerts(3 * WAVE, 60, since_ms)
    assert again.total() > 0
    assert f"sink {p.sink}: {again.total()} rows" in said
    expected = alerts(4 * WAVE, 60, since_ms)
    third.sees(of_first + of_second + expected)
    assert of_second & expected == again, "another alert than was said is there twice"
    return third, expected


def _tampered(third: Person, of_others: int, produce) -> None:
    """What somebody does behind its back: a receipt's number of rows, and a record of another producer's.

    Rows of the runs that it was begun from lie before its own first ones: they are notes.
    """
    p = third.p
    report = third.audits()
    before = [each["rows"] for each in report["findings"] if "before the first receipt" in each["what"]]
    assert (report["foreign"], report["receipts"], sum(before)) == (0, 0, of_others)
    trail = p.store.below("onceflow").below("audit")
    name = min(trail.names())
    held = trail.read(name)
    lines = held.splitlines()
    receipt = json.loads(lines[0])
    receipt["sinks"][p.sink]["rows"] += 1
    trail.replace(name, b"\n".join([json.dumps(receipt).encode(), *lines[1:]]) + b"\n")
    produce(p.sink, ["stranger"])
    found = third.audits(code=1)
    assert found["foreign"] == 1
    assert [each["epoch"] for each in found["findings"] if each["kind"] == "receipt"] == [receipt["epoch"]]
    assert not third.audits("--shared", code=1)["good"], "a changed receipt is a difference, whoever writes there"
    trail.replace(name, held)
    assert third.audits("--shared")["good"]
