"""``python -m bench.intervals``: what an epoch's interval costs a job with much state, incremental and not.

The state is filled once. Then the same job runs with each interval over a steady trickle of changes, and what it took
is read from its own statistics and from the kernel: how long epochs are, what of the time they take, processor time,
and bytes written. The figures go into bench/results/intervals.json. Must not know: peers.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from bench import machine
from bench.stage import Assignment, Process, Stage, System, stage
from bench.workload import PARTITIONS, send
from confluent_kafka import Producer

from onceflow.checkpoint.place import Place
from onceflow.checkpoint.statistics import EpochStatistics

RESULTS = Path(__file__).resolve().parent / "results" / "intervals.json"
JOB = System("onceflow", "onceflow, exactly-once", "state_job.py")
VALUE_BYTES = 450
RATE = 2_000  # changes a second
_WARMING = 2  # epochs that do not count: workers start in them
_START_S = 120.0
_FILL_S = 240.0
_BLOCK = 20_000
_STEP = 7_919


def main() -> int:
    """Measure one kind of checkpoint, or both, and write the results beside those that are there."""
    parser = argparse.ArgumentParser(prog="python -m bench.intervals", description=__doc__)
    parser.add_argument("--keys", type=int, default=2_200_000, help="of about 450 bytes each: 1 GB")
    parser.add_argument("--incremental", nargs="+", choices=("true", "false"), default=["true", "false"])
    parser.add_argument("--intervals", nargs="+", type=int, default=[1, 5, 30], help="in seconds")
    parser.add_argument("--epochs", type=int, default=3, help="at least so many are measured of each")
    parser.add_argument("--seconds", type=float, default=20.0, help="and at least for so long")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    head = {"machine": machine.machine(), "versions": machine.versions(), "seed": asked.seed, "keys": asked.keys}
    results: dict[str, Any] = head | {"rate": RATE, "value_bytes": VALUE_BYTES, "rows": []}
    if RESULTS.exists():
        found = json.loads(RESULTS.read_text())
        if all(found.get(name) == value for name, value in head.items()):
            results = found
    for incremental in asked.incremental:
        for row in _measured(incremental, asked):
            kept = [each for each in results["rows"] if _case(each) != _case(row)]
            results["rows"] = sorted([*kept, row], key=_case)
            # After each: the next one may not come to its end.
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    print("\n".join(table(results)))
    return 1 if any(row["void"] for row in results["rows"]) else 0


def table(results: dict[str, Any]) -> list[str]:
    """The rows as docs/choosing.md has them; a test holds the two together."""
    lines = [
        "| incremental | interval | an epoch | the longest | of the time | processor s / min | MB written / min |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in results["rows"]:
        if not row["void"]:
            cells = [
                "on" if row["incremental"] else "off",
                f"{row['interval_s']} s",
                f"{row['epoch_ms'] / 1000:.1f} s",
                f"{row['longest_ms'] / 1000:.1f} s",
                f"{row['busy_percent']:.0f} %",
                f"{row['cpu_s_per_min']:.0f}",
                f"{row['written_mb_per_min']:.0f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def _case(row: dict[str, Any]) -> tuple[bool, int]:
    return not row["incremental"], row["interval_s"]


def _measured(incremental: str, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A row for each interval, over one state."""
    environment = {"ONCEFLOW__EXECUTION__CHECKPOINTING__INCREMENTAL": incremental}
    made = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "load_before": machine.load()}
    with stage() as here:
        source = here.topic("changes")
        fill(here.servers, source, asked.keys)
        assignment = here.assignment(JOB, "state", source, per_epoch=200_000)
        began = time.monotonic()
        with here.run(JOB, assignment, environment) as process:
            code = process.wait(_FILL_S)
            if code != 0:
                raise RuntimeError(f"the state was not filled: {process.tail()}")
        filled = {"fill_s": round(time.monotonic() - began, 1), "state_mb": _megabytes(assignment)}
        for interval in asked.intervals:
            told = replace(assignment, bounded=False, interval_ms=interval * 1_000)
            row = {"incremental": incremental == "true", "interval_s": interval, **filled, **made}
            row |= _interval(here, told, environment, asked)
            print(f"  {row}", flush=True)
            yield row


def _interval(here: Stage, told: Assignment, environment: dict[str, str], asked: argparse.Namespace) -> dict[str, Any]:
    place = Place.at(told.checkpoint, 2)
    before = place.journal.history()[0].incarnation
    with _trickle(here.servers, told.source, asked), here.run(JOB, told, environment) as process:
        began = time.monotonic()
        first = _epochs(place, before, 1, process)
        started_s = time.monotonic() - began
        if first is None:
            return {"void": f"no epoch: {process.tail()}"}
        warm = _epochs(place, before, 1 if told.interval_ms > 10_000 else _WARMING, process) or []
        # From the end of an epoch to the end of another: so many whole intervals are between.
        since, (spent, written) = time.monotonic(), _used(process)
        wanted = len(warm) + asked.epochs
        while (found := _epochs(place, before, wanted, process)) and time.monotonic() - since < asked.seconds:
            wanted = len(found) + 1
        wall, (cpu, bytes_) = time.monotonic() - since, _used(process)
        os.kill(process.pid, signal.SIGTERM)
        process.wait(30)
    measured = (found or [])[len(warm) :]
    took = sorted(each.duration_ms or 0 for each in measured)
    if not took:
        return {"void": f"too few epochs: {process.tail()}"}
    return {
        "void": None,
        "start_s": round(started_s, 1),
        "epochs": len(took),
        "epoch_ms": median(took),
        "longest_ms": took[-1],
        "busy_percent": round(100 * sum(took) / 1000 / wall, 1),
        "cpu_s_per_min": round(60 * (cpu - spent) / wall, 1),
        "written_mb_per_min": round(60 * (bytes_ - written) / 1e6 / wall, 1),
        "records": sum(sum(each.records_in.values()) for each in measured),
        "checkpoint_mb": _megabytes(told),
    }


def fill(servers: str, topic: str, keys: int) -> None:
    """One record for each key."""
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 50, "batch.size": 1_000_000, "log_level": 0})
    for first in range(0, keys, _BLOCK):
        send(producer, topic, _rows(range(first, min(first + _BLOCK, keys)), 0))
    if producer.flush(120):
        raise RuntimeError("the topic could not be filled")


def _rows(keys: Sequence[int] | range, number: int) -> list[tuple[int, bytes, bytes]]:
    """Texts that compression does not make much smaller: of each key another one."""
    noise = _noise()
    begins = [(key * _STEP) % (len(noise) - VALUE_BYTES) for key in keys]
    return [
        (key % PARTITIONS, b"%09d" % key, b"%09d" % number + noise[at : at + VALUE_BYTES])
        for key, at in zip(keys, begins, strict=True)
    ]


@functools.cache
def _noise() -> bytes:
    return random.Random(0).randbytes(4_000_000).hex().encode()


@contextmanager
def _trickle(servers: str, topic: str, asked: argparse.Namespace) -> Iterator[None]:
    """Changes of keys at random, as many in each second."""
    ended = threading.Event()

    def run() -> None:
        dice, producer = random.Random(asked.seed), Producer({"bootstrap.servers": servers, "linger.ms": 5})
        began, sent = time.monotonic(), 0
        while not ended.wait(0.05):
            due = int((time.monotonic() - began) * RATE) - sent
            send(producer, topic, _rows([dice.randrange(asked.keys) for _ in range(due)], sent + 1))
            sent += due
        producer.flush(10)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _epochs(place: Place, before: int, wanted: int, process: Process) -> list[EpochStatistics] | None:
    """So many epochs of the start behind this one, when they are there; None where the job ended or took too long."""
    deadline = time.monotonic() + _START_S
    while True:
        read = [each for each in place.statistics.read() if each.incarnation > before and each.status == "COMPLETED"]
        if len(read) >= wanted:
            return read
        if not process.running() or time.monotonic() > deadline:
            return None
        time.sleep(0.05)


def _used(process: Process) -> tuple[float, int]:
    """Processor seconds and bytes written of the job's processes, so far."""
    cpu, written = 0.0, 0
    for pid in process.tree():
        try:
            one = psutil.Process(pid)
            times = one.cpu_times()
            cpu += times.user + times.system
            written += one.io_counters().write_bytes
        except psutil.Error:  # a worker that has just ended
            continue
    return cpu, written


def _megabytes(told: Assignment) -> float:
    files = [path for path in Path(told.checkpoint, "state").rglob("*") if path.is_file()]
    return round(sum(path.stat().st_size for path in files) / 1e6, 1)


if __name__ == "__main__":
    sys.exit(main())
