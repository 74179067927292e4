"""``python -m bench.soak HOURS``: two jobs side by side for hours or days, killed at random: what grows without end?

The fraud job of the examples, and a job with three sinks, each under ``onceflow run --supervise``, on payments that
come at a steady rate. Their drivers get SIGKILL at moments from a seed, until two thirds of the time are over: the rest
is one life, long enough to tell whether a process grows. At the end each output is read and compared with the payments,
and each job is audited. ``bench.growth`` judges each series. Must not know: how either is done.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import psycopg
from bench import machine, reading, soak_page
from bench import soak_samples as samples
from bench.growth import judge
from bench.stage import ROOT, SYSTEMS, Stage, stage
from bench.workload import PARTITIONS, Alert, Payments
from confluent_kafka import Producer
from pyiceberg.catalog import load_catalog
from tests.support.postgres import free_port, running

import onceflow as of
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.transactions import list_ids
from onceflow.processes import kill_tree
from onceflow.testing.transactions import OPEN_STATES

RESULTS = Path(__file__).resolve().parent / "results" / "soak.json"
SOURCE, TABLE, LAKE = "transactions", "payments", "bank.large"
LARGE_CENTS = 90_000

_KILLS_UNTIL = 2 / 3
_SAMPLE_EVERY_S = 900.0
_SAMPLES = 48  # of a short run
_KILL_EVERY_S = 7_200.0
_KILLS = 8  # of a short run, at most
_LEAST_KILL_EVERY_S = 100.0  # a start takes half a minute where cores are few
_DAYS = 30  # the payments' time has one month
_STARTS_WITHIN_S = 300.0
_STUCK_S = 180.0
_LOOK_S = 1.0
_BROKER = {
    # So that what the broker keeps of marks and transactions is compacted within hours, not after days.
    "offsets.topic.segment.bytes": "1048576",
    "transaction.state.log.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "5000",
    "transactional.id.expiration.ms": "1800000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "60000",
}
_OF_A_LIFE = ("RSS", "heap", "descriptors", "threads", "state memory")
_NOT_JUDGED = ("output", "epoch", "starts", "lag", "bytes log")
_HAVE_STATES = ("CompleteCommit", "CompleteAbort", "Empty", *OPEN_STATES)


class Job:
    """One job under the product's own supervision: its folder, its parent, when it is killed next.

    Args:
        name: Its name.
        file: Its file.
        folder: Where it runs.
        environment: For it.
        moments: Of the kills.
        kill_every_s: On average.
    """

    def __init__(
        self,
        name: str,
        file: Path,
        folder: Path,
        environment: dict[str, str],
        moments: random.Random,
        kill_every_s: float,
    ) -> None:
        self.name, self.file, self.folder = name, file, folder
        self.port = free_port()
        self.kills = 0
        self.has_run = False
        temporary = folder / "tmp"
        temporary.mkdir(parents=True)
        self._environment = os.environ | {
            **environment,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
            "ONCEFLOW__METRICS__PORT": str(self.port),
            "TMPDIR": str(temporary),
            "SPARK_LOCAL_DIRS": str(temporary),
            "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={temporary}",
        }
        self._moments, self._kill_every_s = moments, kill_every_s
        self._kill_at = 0.0
        self._parent = self._popen("run", str(file), "--supervise", "--log", str(folder / "job.log"))

    def _popen(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "onceflow", *arguments],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if arguments[0] == "audit" else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def checkpoint(self) -> Path:
        """Its checkpoint's folder."""
        return self.folder / "checkpoints" / self.name

    @property
    def ended(self) -> bool:
        """Whether its parent has given up."""
        return self._parent.poll() is not None

    def sample(self) -> dict[str, float]:
        """What is sampled of it, wherever it writes."""
        found = samples.told(self.port)
        self.has_run = self.has_run or "epoch" in found
        return {
            **found,
            **samples.processes(self._parent.pid),
            **samples.checkpoint(self.checkpoint),
            **samples.folder("temporary files", self.folder / "tmp"),
            **samples.files("log", self.folder.glob("job.log*")),
            "kills": self.kills,
        }

    def kill_when_due(self, now: float) -> None:
        """SIGKILL of the driver, if its moment has come."""
        if not self.has_run:
            self.has_run = "epoch" in samples.told(self.port)
            return
        if not self._kill_at:
            self._kill_at = now + self._kill_every_s * self._moments.uniform(0.2, 1.8)
        if now < self._kill_at:
            return
        self._kill_at = 0.0
        drivers = psutil.Process(self._parent.pid).children()
        if drivers:
            drivers[0].kill()
            self.kills += 1

    def stop(self) -> int:
        """End it as an operator does; the parent's exit code."""
        self._parent.terminate()
        return self._parent.wait(60)

    def close(self) -> None:
        """End it now."""
        if not self.ended:
            kill_tree(self._parent.pid)

    def audit(self) -> dict[str, Any]:
        """What ``onceflow audit`` says."""
        process = self._popen("audit", str(self.file), "--output", "json")
        told = json.loads(process.communicate()[0] or "{}")
        told["findings"] = told.get("findings", [])[:20]
        return {"exit_code": process.returncode, **told}


class Source(threading.Thread):
    """Writes the payments at a steady rate; what could not be written in time comes later."""

    def __init__(self, servers: str, payments: Payments, rate: float) -> None:
        super().__init__(name="source", daemon=True)
        self.written = 0
        self.done = threading.Event()
        self._payments, self._rate = payments, rate
        self._producer = Producer(
            {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        )

    def run(self) -> None:
        """Until all are written."""
        began = time.monotonic()
        while self.written < self._payments.records:
            due = min(int((time.monotonic() - began) * self._rate), self._payments.records, self.written + 5_000)
            for partition, key, value in self._payments.rows(self.written, due):
                self._producer.produce(SOURCE, value, key, partition)
            self._producer.flush()
            self.written = due
            self.done.wait(_LOOK_S)
        self.done.set()


def main() -> int:
    """Run it; the figures, as a file and a page. 1 if an output is not what it must be."""
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__)
    parser.add_argument("hours", type=float)
    parser.add_argument("--seed", type=int, default=1, help="of payments and of the kills")
    parser.add_argument("--rate", type=float, default=50.0, help="payments a second")
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    if not 0 < asked.hours <= 24 * _DAYS:
        parser.error(f"HOURS is above 0 and at most {24 * _DAYS}")
    payments = Payments(max(int(asked.hours * 3600 * asked.rate), 1000), asked.seed, int(1_000_000 / asked.rate))
    results: dict[str, Any] = machine.head() | {
        "hours": asked.hours,
        "seed": asked.seed,
        "rate": asked.rate,
        "payments": payments.records,
        "begun": _now(),
    }
    with _set_up(asked.seed, asked.hours) as (here, jobs, more):
        source = Source(here.servers, payments, asked.rate)
        source.start()
        taken = _watch(jobs, more, source, asked.hours * 3600)
        _wait_until_quiet(jobs, more, payments)
        exits = {job.name: job.stop() for job in jobs}
        results |= {
            "ended": _now(),
            "kills": {job.name: job.kills for job in jobs},
            "exit_codes": exits,
            "audits": {job.name: job.audit() for job in jobs},
            "outputs": {name: output(here, payments) for name, output in more.outputs.items()},
        }
    results["series"] = {job: _judged(of_it) for job, of_it in taken.items()}
    results["load_after"] = machine.load()
    asked.results.write_text(json.dumps(results, indent=1) + "\n")
    if asked.results == RESULTS:
        soak_page.write(results)
    for job, series in results["series"].items():
        for name, each in series.items():
            print(f"{job}: {name}: {each['says']}, {each['values'][0]:,.0f} to {each['values'][-1]:,.0f}")
    print(json.dumps({key: results[key] for key in ("kills", "exit_codes", "outputs")}, indent=1))
    good = all(told["exit_code"] == 0 for told in results["audits"].values())
    return 0 if good and not any(sum(wrong.values()) for wrong in results["outputs"].values()) else 1


class Places:
    """Where the jobs write, beside their checkpoints: what of it is sampled, and how it is compared at the end."""

    def __init__(self, here: Stage, database: str, lake: Path) -> None:
        self._here, self._database, self._lake = here, database, lake
        self._properties = {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": str(lake)}
        self.outputs: dict[str, Callable[[Stage, Payments], dict[str, int]]] = {
            "fraud job, Kafka": lambda here, payments: _apart(payments.alerts(), _alerts(here, "alerts")),
            "three sinks, Kafka": lambda here, payments: _apart(payments.alerts(), _alerts(here, "three-alerts")),
            "three sinks, PostgreSQL": lambda _, payments: _apart(_all(payments), self._rows()),
            "three sinks, Iceberg": lambda _, payments: _apart(_all(payments, LARGE_CENTS), self._large()),
        }

    def sample(self) -> dict[str, float]:
        """Of the database, the lake and the broker."""
        found = samples.tables(self._database) | samples.lake(self._properties, LAKE, self._lake)
        data = next((self._here.folder / "kafka").glob("broker-*")) / "data"
        for topic in ("__consumer_offsets", "__transaction_state"):
            segments = samples.files("", data.glob(f"{topic}-*/*.log"))  # indexes have their size from the beginning
            found[f"bytes {topic}"] = segments["bytes "]
        with KafkaClient(of.KafkaCluster(self._here.servers)) as client:
            found["transactional ids"] = len(list_ids(client, "onceflow-", _HAVE_STATES))
        return found

    def written(self) -> int:
        """How many payments are in the table."""
        with psycopg.connect(self._database) as connection:
            told = connection.execute("select to_regclass('payments')").fetchone()
            if not told or told[0] is None:
                return 0
            return int((connection.execute("select count(*) from payments").fetchone() or (0,))[0])

    def alerts(self, topic: str) -> int:
        """How many alerts a topic has."""
        return _alerts(self._here, topic).total()

    def _rows(self) -> Counter[tuple[int, int]]:
        with psycopg.connect(self._database) as connection:
            rows = connection.execute("select id::bigint, (amount * 100)::bigint from payments").fetchall()
        return Counter((number, cents) for number, cents in rows)

    def _large(self) -> Counter[tuple[int, int]]:
        table = load_catalog("lake", **self._properties).load_table(LAKE)
        rows = table.scan(selected_fields=("id", "amount")).to_arrow().to_pylist()
        return Counter((int(row["id"]), int(row["amount"] * 100)) for row in rows)


@contextmanager
def _set_up(seed: int, hours: float) -> Iterator[tuple[Stage, Sequence[Job], Places]]:
    with ExitStack() as stack:
        here = stack.enter_context(stage(settings=_BROKER))
        server = stack.enter_context(running())
        lake = here.folder / "lake"
        lake.mkdir()
        here.topic(SOURCE, PARTITIONS)
        kill_every_s = min(_KILL_EVERY_S, max(_LEAST_KILL_EVERY_S, hours * 3600 * _KILLS_UNTIL / _KILLS))
        jobs = []
        for number, (name, file) in enumerate(
            (("fraud-alerts", ROOT / "examples" / "fraud.py"), ("three-sinks", SYSTEMS / "soak_job.py"))
        ):
            environment = {"KAFKA": here.servers, "DATABASE": server.url(), "LAKE": str(lake)}
            moments = random.Random(f"{seed}-{number}")
            job = Job(name, file, here.folder / name, environment, moments, kill_every_s)
            stack.callback(job.close)
            jobs.append(job)
        yield here, jobs, Places(here, server.url(), lake)


def _watch(
    jobs: Sequence[Job], more: Places, source: Source, seconds: float
) -> dict[str, list[tuple[float, dict[str, float]]]]:
    """Sample and kill, as long as payments come. Of each job, and of the systems: hours, and what was sampled then."""
    began = time.monotonic()
    every = min(_SAMPLE_EVERY_S, seconds / _SAMPLES)
    next_at = began + every
    taken: dict[str, list[tuple[float, dict[str, float]]]] = {"systems": [], **{job.name: [] for job in jobs}}
    while not source.done.wait(_LOOK_S):
        now = time.monotonic()
        _raise_ended(jobs)
        if now >= next_at:
            next_at += every
            at = (now - began) / 3600
            for job in jobs:
                taken[job.name].append((at, job.sample()))
            taken["systems"].append((at, more.sample()))
            told = {job.name: taken[job.name][-1][1] for job in jobs}
            print(f"{at:.2f} h: {source.written:,} payments; {_in_short(told)}", flush=True)
        if now - began < seconds * _KILLS_UNTIL:
            for job in jobs:
                job.kill_when_due(now)
    return taken


def _in_short(told: dict[str, dict[str, float]]) -> str:
    names = ("epoch", "lag", "kills", "RSS driver", "RSS java", "heap java")
    return "; ".join(
        f"{job} " + ", ".join(f"{name} {each[name]:,.0f}" for name in names if name in each)
        for job, each in told.items()
    )


def _wait_until_quiet(jobs: Sequence[Job], more: Places, payments: Payments) -> None:
    """Until all is there; or until nothing has come for some minutes, which the comparison then tells."""
    must = payments.alerts().total()
    seen, since = (-1, -1, -1), time.monotonic()
    while time.monotonic() - since < _STUCK_S:
        _raise_ended(jobs)
        now = more.written(), more.alerts("alerts"), more.alerts("three-alerts")
        if now == (payments.records, must, must):
            return
        if now != seen:
            seen, since = now, time.monotonic()
        time.sleep(_LOOK_S)


def _raise_ended(jobs: Sequence[Job]) -> None:
    for job in jobs:
        if job.ended:
            log = (job.folder / "job.log").read_text(errors="replace").splitlines()[-40:]
            raise RuntimeError(f"{job.name} has ended by itself\n" + "\n".join(log))


def _alerts(here: Stage, topic: str) -> Counter[Alert]:
    return reading.alerts_of(here.servers, topic)


def _all(payments: Payments, least_cents: int = 0) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for first, last in payments.blocks():
        cents = payments.block(first, last)[1].tolist()
        found.update(pair for pair in zip(range(first, last), cents, strict=True) if pair[1] >= least_cents)
    return found


def _apart(must: Counter[Any], found: Counter[Any]) -> dict[str, int]:
    return {
        "lost": (must - found).total(),
        "doubled": sum(count - must[row] for row, count in found.items() if 0 < must[row] < count),
        "strange": sum(count for row, count in found.items() if not must[row]),
    }


def _judged(taken: Sequence[tuple[float, dict[str, float]]]) -> dict[str, Any]:
    """Of each series its samples and what is said of it; what is of a process, of its longest life alone."""
    kills = [each.get("kills", 0.0) for _, each in taken]
    longest = Counter(kills).most_common(1)[0][0] if kills else 0.0
    found = {}
    for name in sorted({name for _, each in taken for name in each} - {"kills"}):
        series = [(at, each[name]) for at, each in taken if name in each]
        of_a_life = name.startswith(_OF_A_LIFE) and name != "RSS parent"
        asked = [(at, each[name]) for at, each in taken if name in each and each.get("kills", 0.0) == longest]
        verdict = judge(asked if of_a_life else series)
        judged = not name.startswith(_NOT_JUDGED)
        found[name] = {
            "says": verdict.says if judged else "not judged",
            "by_the_hour": [float(f"{verdict.first:.3g}"), float(f"{verdict.second:.3g}")],
            "hours": [round(at, 4) for at, _ in series],
            "values": [round(value, 1) for _, value in series],
        } | ({"life": [round(asked[0][0], 4), round(asked[-1][0], 4)]} if of_a_life and asked else {})
    return found


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


if __name__ == "__main__":
    sys.exit(main())
